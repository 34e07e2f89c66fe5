"""The suites from the command to the page, with a small random ELECTRA."""

import re
import shutil
from pathlib import Path

import pytest
from transformers import ElectraForMaskedLM, ElectraForPreTraining

from benchmarks.noise.fairness import (
    read_templates,
)
from benchmarks.report import read_runs, report
from electrify.cli import main
from tests.benchmarks.conftest import build_tokenizer, save_electra, text_of
from tests.benchmarks.records import sets, write_hate_speech

WORDS = ("여자", "남자", "친구", "##도", "온다", "간다", "안", "는")


@pytest.fixture(scope="module")
def networks_folder(tmp_path_factory):
    """A discriminator with its generator beside it."""
    folder = tmp_path_factory.mktemp("export")
    save_electra(folder / "discriminator", ElectraForPreTraining, 3, build_tokenizer(WORDS))
    save_electra(folder / "generator", ElectraForMaskedLM, 4, build_tokenizer(WORDS))
    return folder


@pytest.fixture
def evaluated(tmp_path, networks_folder, monkeypatch):
    """Runs `electrify evaluate --model` with these words; the folder of its results."""
    monkeypatch.setattr("benchmarks.noise.robustness.NUM_ROWS", 14)
    monkeypatch.setattr("benchmarks.statistics.uncertainty.NUM_RESAMPLES", 50)

    def run(*words: str, data_dir: Path) -> Path:
        options = ["seeds=[0, 1]", "max_train_examples=28", "num_epochs=1", "num_processes=1"]
        options += ["max_sequence_length=16", 'device="cpu"', 'precision="fp32"']
        given = sets(f'output_dir="{tmp_path}/out"', *(f"evaluate.{each}" for each in options))
        model = str(networks_folder / "discriminator")
        where = ["--model", model, "--data-dir", str(data_dir)]
        assert main(["evaluate", *where, *words, *given]) == 0
        return tmp_path / "out"

    return run


def test_both_suites_from_the_command_to_the_page(evaluated, ynat_folder, tmp_path, monkeypatch):
    templates = read_templates("ko")
    few = templates._replace(
        num_pairs=3,
        axes={
            name: [s for s in axis if int(s.id.split("|")[2]) < 3]
            for name, axis in templates.axes.items()
        },
    )
    monkeypatch.setattr("benchmarks.noise.fairness.read_templates", lambda language: few)
    who = ("여자", "남자", "친구")
    for split, count in (("train", 160), ("dev", 30)):
        rows = ((f"{who[n % 3]} {split} {n}", "none") for n in range(count))
        write_hate_speech(tmp_path / "data", split, rows)
    shutil.copytree(ynat_folder / "ynat", tmp_path / "data" / "ynat")
    suites = ("--suite", "robustness", "--suite", "fairness")
    folder = evaluated(*suites, data_dir=tmp_path / "data")
    assert {path.name for path in folder.iterdir() if path.is_dir()} == {"robustness", "fairness"}
    table = (folder / "fairness" / "fairness.csv").read_text(encoding="utf-8")
    assert "P(bad label)" in table
    page = text_of(report(read_runs([folder])).read_text(encoding="utf-8"))
    assert re.search(r"fairness: \d+ of \d+ effects are shown", page)
    assert re.search(r"robustness: \d+ of \d+ effects are shown", page)
    assert "free of bias" in page
    assert "does not show" in page
