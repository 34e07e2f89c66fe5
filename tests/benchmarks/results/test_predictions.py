"""Scores from files of predictions alone, damaged files, and files for leaderboards."""

import shutil
import zipfile
from pathlib import Path

import pytest

from benchmarks.evaluate import evaluate
from benchmarks.results.predictions import read_predictions, rescore, write_predictions
from benchmarks.results.results import read_results
from electrify.cli import main
from tests.benchmarks.records import MNLI, YNAT, write


@pytest.fixture(scope="module")
def finished(tmp_path_factory, request):
    """A finished evaluation of two seeds."""
    folder = tmp_path_factory.mktemp("run")
    model_folder = request.getfixturevalue("model_folder")
    ynat_folder = request.getfixturevalue("ynat_folder")
    words = [
        "evaluate",
        "configs/demo.toml",
        "--model",
        str(model_folder),
        "--task",
        "klue-ynat",
        "--data-dir",
        str(ynat_folder),
    ]
    for override in (
        f"output_dir='{folder}'",
        "evaluate.seeds=[0, 1]",
        "evaluate.num_epochs=3.0",
        "evaluate.random_init_control=false",
        "evaluate.bag_of_words=false",
        "evaluate.max_sequence_length=16",
        "evaluate.device='cpu'",
    ):
        words += ["--set", override]
    assert main(words) == 0
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
        (lambda text: text.rpartition('{"id"')[0], r"41 predictions for 42 examples"),
        (lambda text: text.replace('"dev-3"', '"dev-4"'), r"41 predictions for 42 examples"),
        (lambda text: text.replace('"dev-3"', '"dev-x"'), "its ids are not those of its header"),
        (lambda text: text[:-20], "line 43 is damaged"),
        (lambda text: text.partition("\n")[2], "does not begin with a header"),
        (lambda text: text.replace('"seed": 0', '"seed": 7'), "has seed 7, its result has 0"),
    ],
)
def test_predictions_that_are_not_whole_are_refused(copied, damage, message):
    path = prediction_files(copied)[0]
    path.write_text(damage(path.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        rescore(copied)


def test_test_files_are_predicted_and_written(make_config, model_folder, tmp_path):
    """From the official files to the zip, AX and both sets of MNLI by one model."""
    data = tmp_path / "data"
    pairs = [
        ("국회 오늘", "국회", "entailment"),
        ("증시 새", "오늘", "neutral"),
        ("경찰", "증시 첫", "contradiction"),
    ] * 4
    labelled = "".join(f"{a}\t{b}\t{label}\n" for a, b, label in pairs)
    unlabelled = "".join(f"{n}\t{a}\t{b}\n" for n, (a, b, _) in enumerate(pairs))
    for name in ("train", "dev_matched", "dev_mismatched"):
        write(data / f"MNLI/{name}.tsv", "sentence1\tsentence2\tgold_label\n" + labelled)
    for name in ("MNLI/test_matched", "MNLI/test_mismatched", "diagnostic/diagnostic"):
        write(data / f"{name}.tsv", "index\tsentence1\tsentence2\n" + unlabelled)
    sentences = "".join(f"x\t{n % 2}\t\t국회 오늘\n" for n in range(8))
    write(data / "CoLA/train.tsv", sentences)
    write(data / "CoLA/dev.tsv", sentences)
    write(data / "CoLA/test.tsv", "index\tsentence\n0\t국회\n1\t오늘 증시\n")
    config = make_config(tasks=["glue-mnli", "glue-cola"], data_dir=str(data), num_epochs=1)
    evaluate(config, str(model_folder), overwrite=False)
    (folder,) = Path(config.output_dir).glob("evaluate-*")
    mnli, cola = read_results(folder / "results.jsonl")
    assert set(mnli.metrics) == {"accuracy", "dev_mismatched_accuracy"}
    assert mnli.metrics["accuracy"] == mnli.metrics["dev_mismatched_accuracy"]
    assert set(cola.metrics) == {"mcc", "accuracy"}
    with zipfile.ZipFile(folder / "submission/pretrained-0/glue.zip") as archive:
        names = {"CoLA.tsv", "MNLI-m.tsv", "MNLI-mm.tsv", "AX.tsv"}
        assert set(archive.namelist()) == names
        assert len(archive.read("AX.tsv").decode().splitlines()) == 13
        assert archive.read("CoLA.tsv").decode().splitlines()[0] == "index\tprediction"
        values = {row.split("\t")[1] for row in archive.read("AX.tsv").decode().splitlines()[1:]}
        assert values <= set(MNLI.labels)
    assert rescore(folder) == 0
    path = folder / "predictions/glue-mnli/pretrained-0.ax.jsonl"
    assert [line["gold"] for line in read_predictions(path)[1]] == [None] * 12
