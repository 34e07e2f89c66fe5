"""The command from a model folder to tables, and its place in a run's report."""

import json
from pathlib import Path

import pytest

from benchmarks.knowledge import __main__ as knowledge
from benchmarks.proofreading import __main__ as proofreading
from benchmarks.proofreading.__main__ import main
from benchmarks.report import report
from tests.benchmarks.conftest import text_of

LINES = [
    "오늘 학생은 학교에서 새 책을 읽었다.",
    "내일 국회에서 큰 회의가 다시 있다.",
    "여행을 가서 친구와 사진을 찍었다.",
    "첫 경찰은 집으로 가지 않고 기다렸다.",
]


@pytest.fixture
def text(tmp_path: Path) -> str:
    path = tmp_path / "held-out.txt"
    path.write_text("\n".join(LINES), encoding="utf-8")
    return str(path)


def test_figures_of_a_discriminator_and_counts(model_folder: Path, text: str, tmp_path: Path):
    out = tmp_path / "out"
    words = [str(model_folder), "--text", text, "--corpus", text, "--output", str(out)]
    assert main(words) == 0
    record = json.loads((out / "proofreading.json").read_text(encoding="utf-8"))
    assert record["detectors"] == ["discriminator", "bigram", "rarity"]
    assert {row["kind"] for row in record["rows"]} >= {"particle-form", "homophone", "keyboard"}
    assert all(
        row["value"] is None or 0 <= row["value"] <= 1 or "-" in row["detector"]
        for row in record["rows"]
    )
    page = text_of((out / "proofreading.html").read_text(encoding="utf-8"))
    lines = (out / "proofreading.md").read_text(encoding="utf-8")
    for place in (page, lines):
        assert "wrong form of a particle" in place
        assert "Differences in AUC" in place


def test_the_report_of_a_run_has_both_folds(model_folder: Path, text: str, tmp_path: Path):
    run = tmp_path / "run"
    (run / "export").mkdir(parents=True)
    (run / "pretrain.partial").mkdir()
    (run / "export" / "discriminator").symlink_to(model_folder)
    assert "Which planted mistakes" not in text_of(report([run]).read_text(encoding="utf-8"))
    assert main([str(run), "--text", text]) == 0
    assert (run / "proofreading" / "proofreading.json").is_file()
    page = text_of(report([run]).read_text(encoding="utf-8"))
    assert "Which planted mistakes it finds" in page
    assert "What the network knows" not in page
    (run / "proofreading" / "proofreading.json").write_text("[]")
    with pytest.raises(ValueError, match=r"proofreading\.json holds a list"):
        report([run])


def test_the_commands_of_the_docs_parse():
    docs = Path("docs/knowledge.md").read_text(encoding="utf-8").replace("\\\n", " ")
    commands = [line.split(" #")[0] for line in docs.splitlines() if "python -m bench" in line]
    parsers = {"proofreading": proofreading._parser(), "knowledge": knowledge._parser()}
    found = set()
    for command in commands:
        _, _, room, *words = command.split()
        parsers[room.removeprefix("benchmarks.")].parse_args(words)
        found.add(room)
    assert found == {"benchmarks.proofreading", "benchmarks.knowledge"}


def test_what_is_refused(model_folder: Path, text: str, tmp_path: Path, capsys):
    assert main([str(model_folder), "--text", text]) == 1
    assert "--output" in capsys.readouterr().err
    english = tmp_path / "english.txt"
    english.write_text("this is no Korean text at all\n")
    out = ["--output", str(tmp_path / "out")]
    assert main([str(model_folder), "--text", str(english), *out]) == 1
    assert "no Korean sentence" in capsys.readouterr().err
    assert main([str(model_folder), "--text", text, "--corpus", "none.parquet", *out]) == 1
    assert "no corpus file none.parquet" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
