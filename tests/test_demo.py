"""The demo config, shortened, end to end on the CPU: twice the same, then nothing left to do."""

import json
import shlex
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from itertools import pairwise
from pathlib import Path

import pytest
from huggingface_hub import metadata_load

from benchmarks.analysis.inspect import SENTENCES
from benchmarks.results.results import RESULTS, read_results
from electrify.cli import main
from electrify.stage.folder import read_manifest
from tests.test_docs import COMMANDS

SHORT = (
    "pretrain.num_steps=6",
    "pretrain.batch_size=4",
    "pretrain.warmup_steps=2",
    "pretrain.valid_every_steps=6",
    "pretrain.num_valid_batches=2",
    "pretrain.checkpoint_every_steps=3",
    "pretrain.log_every_steps=3",
    "evaluate.seeds=[0, 1]",
    "evaluate.num_epochs=1",
    "evaluate.min_steps=1",
    "evaluate.max_train_examples=32",
)


def run_demo(folder: Path, *extra: str) -> int:
    words = ["run", "configs/demo.toml", "--set", f"output_dir='{folder}'", *extra]
    for override in SHORT:
        words += ["--set", override]
    return main(words)


@pytest.fixture(scope="module", autouse=True)
def few_sentences_and_fits() -> Iterator[None]:
    """Mistakes are planted in few sentences, and TF-IDF chooses on one fold."""
    with pytest.MonkeyPatch.context() as patch:
        for script, sentences in SENTENCES.items():
            patch.setitem(SENTENCES, script, sentences[:8])
        patch.setattr("benchmarks.training.bag_of_words._ENOUGH_HELD_OUT", 1)
        yield


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The run's folder, and what it printed."""
    folder, printed = tmp_path_factory.mktemp("demo") / "first", StringIO()
    with redirect_stdout(printed):
        assert run_demo(folder) == 0
    return folder, printed.getvalue()


@pytest.fixture(scope="module")
def demo(first: tuple[Path, str]) -> Path:
    return first[0]


def test_the_start_is_shown_before_and_the_encoder_after(first: tuple[Path, str]):
    before, after = first[1].split("\nafter, ")
    assert "before, model/shipped/ko-modern/discriminator:" in before
    for part in (before, after):
        assert "wrong forms of particles are marked" in part
    for word in ("encoder: ", "from_pretrained", "electrify inspect", "electrify init", "report: "):
        assert word in after


@pytest.mark.slow
def test_a_second_run_makes_the_same_bytes(demo: Path, tmp_path: Path):
    assert run_demo(tmp_path / "second") == 0
    for stage in ("clean", "vocab", "shards", "pretrain", "export"):
        first, second = read_manifest(demo / stage), read_manifest(tmp_path / "second" / stage)
        assert first["digest"] == second["digest"], stage
    runs = [read_results(run / "evaluate" / RESULTS) for run in (demo, tmp_path / "second")]
    scores = [[(of.task, of.role, of.seed, of.value) for of in results] for results in runs]
    assert scores[0] == scores[1]
    assert {role for _, role, _, _ in scores[0]} == {"pretrained", "random-init", "bag-of-words"}


def test_run_again_does_nothing(demo: Path, capsys: pytest.CaptureFixture[str]):
    before = {p: p.stat().st_mtime_ns for p in demo.rglob("manifest.json")}
    assert len(before) == 6
    assert run_demo(demo) == 0
    assert {p: p.stat().st_mtime_ns for p in demo.rglob("manifest.json")} == before
    out, log = capsys.readouterr()
    assert "report:" in out
    assert log.count("over random initialisation (") == 1  # the verdict
    assert out.count("wrong forms of particles are marked") == 1  # before is told once, at first
    assert "from_pretrained" in out


def test_model_cards_and_report_name_the_run(demo: Path):
    path = demo / "export" / "discriminator" / "README.md"
    card = path.read_text(encoding="utf-8")
    assert "sample-life" in card
    assert "6 steps of 4 sequences, 3,072 tokens" in card
    report = (demo / "report.md").read_text(encoding="utf-8")
    assert "random" in report
    # the share-alike licence of the shipped weights, which the sample's does not hinder
    metadata = metadata_load(str(path))
    assert metadata["license"] == "cc-by-sa-4.0"
    for text in (card, report, (demo / "report.html").read_text(encoding="utf-8")):
        assert "sample-headlines (made up)" in text
        assert "klue" not in text.lower()  # nor a published score of it
    recommended = json.loads((path.parent / "finetuning.json").read_text(encoding="utf-8"))
    assert (recommended["learning_rate"], recommended["pooling"]) == (1e-3, "parts")  # the start's


def test_the_readmes_commands_and_the_examples_of_help_go_on_with_the_run(
    demo: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """All are of one run: a command that changed its settings would be refused here, as it is
    refused after `make demo`."""
    # ours stands before the README's own `--set`: the last one wins
    extra = [f"--set={override}" for override in [*SHORT, f"output_dir='{demo}'"]]
    commands = [shlex.split(c.replace("out/demo", str(demo)))[1:] for c in COMMANDS]
    commands = [words for words in commands if "configs/demo.toml" in words and words[0] != "run"]
    assert commands
    for verb in ("clean", "train-vocab", "encode", "pretrain", "export", "evaluate"):
        assert main([verb, "--help"]) == 0
        commands.append(capsys.readouterr().out.rpartition("Example: electrify ")[2].split())
    for words in map(list, dict.fromkeys(map(tuple, commands))):
        # the shorter run has other checkpoints
        words = ["3" if before == "--step" else word for before, word in pairwise(["", *words])]
        assert main([words[0], *extra, *words[1:]]) == 0, (words, capsys.readouterr().err)
    assert main(["report", str(demo)]) == 0
    assert (demo / "report.html").exists()
