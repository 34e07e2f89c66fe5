"""Scores from files of predictions alone, damaged files, and files for leaderboards."""

import shutil
from pathlib import Path

import pytest

from benchmarks.results.predictions import read_predictions, rescore, write_predictions
from electrify.cli import main
from tests.benchmarks.records import YNAT, sets


@pytest.fixture(scope="module")
def finished(tmp_path_factory, request):
    """A finished evaluation of two seeds."""
    folder = tmp_path_factory.mktemp("run")
    model_folder = request.getfixturevalue("model_folder")
    ynat_folder = request.getfixturevalue("ynat_folder")
    where = ["--model", str(model_folder), "--data-dir", str(ynat_folder), "--task", "klue-ynat"]
    options = sets(
        f"output_dir='{folder}'",
        "evaluate.seeds=[0, 1]",
        "evaluate.num_epochs=3.0",
        "evaluate.random_init_control=false",
        "evaluate.bag_of_words=false",
        "evaluate.max_sequence_length=16",
        "evaluate.device='cpu'",
    )
    assert main(["evaluate", "configs/demo.toml", *where, *options]) == 0
    return folder


def prediction_files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("predictions/klue-ynat/*.jsonl"))


@pytest.fixture
def copied(finished, tmp_path):
    """A copy of it, to be damaged."""
    return shutil.copytree(finished, tmp_path / "copy")


def test_all_scores_follow_from_the_lines(finished, capsys):
    assert main(["rescore", str(finished)]) == 0
    assert capsys.readouterr().out == "4 agree, 0 differ\n"
    (folder,) = finished.glob("evaluate-*")
    assert rescore(folder) == 0


def test_a_changed_line_or_record_is_found(copied, capsys):
    path = prediction_files(copied)[0]
    header, lines = read_predictions(path)
    wrong = next(name for name in YNAT.labels if name != lines[0]["prediction"])
    lines[0]["prediction"] = wrong
    write_predictions(path, header, lines)
    assert main(["rescore", str(copied)]) == 1
    out = capsys.readouterr().out
    assert "/discriminator, seed 0: accuracy" in out
    assert out.endswith("2 agree, 2 differ\n")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: text.rpartition('{"id"')[0], "its checksum differs, and examples may be"),
        (lambda text: text.replace('"dev-3"', '"dev-4"'), "its checksum differs"),
        (lambda text: text.partition("\n")[2], "does not begin with a header"),
        (lambda text: text[20:], "line 1 is damaged"),
        (lambda text: text.replace('"seed": 0', '"seed": 7'), "has seed 7, its result has 0"),
    ],
)
def test_predictions_that_are_not_whole_are_refused(copied, damage, message):
    path = prediction_files(copied)[0]
    path.write_text(damage(path.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        rescore(copied)
