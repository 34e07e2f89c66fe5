"""The suites from the command to the page, with a small random ELECTRA."""

import re
import shutil

from benchmarks.noise.fairness import read_templates
from benchmarks.report import read_runs, report
from electrify.cli import main
from tests.benchmarks.conftest import text_of
from tests.benchmarks.records import sets, write_hate_speech


def test_both_suites_from_the_command_to_the_page(model_folder, ynat_folder, tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.noise.robustness.NUM_ROWS", 14)
    monkeypatch.setattr("benchmarks.statistics.uncertainty.NUM_RESAMPLES", 50)
    axes = read_templates("ko").items()
    few = {name: [of for of in axis if int(of.id.split("|")[2]) < 1] for name, axis in axes}
    monkeypatch.setattr("benchmarks.noise.fairness.read_templates", lambda language: few)
    who = ("여자", "남자", "친구")
    for split, count in (("train", 160), ("dev", 30)):
        rows = ((f"{who[n % 3]} {split} {n}", "none") for n in range(count))
        write_hate_speech(tmp_path / "data", split, rows)
    shutil.copytree(ynat_folder / "ynat", tmp_path / "data" / "ynat")
    options = ["seeds=[0, 1]", "max_train_examples=28", "num_epochs=1", "num_processes=1"]
    options += ["max_sequence_length=16", 'device="cpu"', 'precision="fp32"']
    words = ["--model", str(model_folder), "--data-dir", str(tmp_path / "data")]
    words += ["--suite", "robustness", "--suite", "fairness", "--set", f"output_dir={tmp_path}/out"]
    assert main(["evaluate", *words, *sets(*(f"evaluate.{each}" for each in options))]) == 0
    folder = tmp_path / "out"
    assert {path.name for path in folder.iterdir() if path.is_dir()} == {"robustness", "fairness"}
    table = (folder / "fairness" / "fairness.csv").read_text(encoding="utf-8")
    assert "P(bad label)" in table
    report(read_runs([folder]))
    page = text_of((folder / "report.md").read_text(encoding="utf-8"))
    assert re.search(r"fairness: \d+ of \d+ effects are shown", page)
    assert re.search(r"robustness: \d+ of \d+ effects are shown", page)
    assert "free of bias" in page
