"""The vocabulary benchmark on little texts: its jobs in this process, their cost made up."""

import itertools
import json
import random
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest
from tokenizers import Tokenizer

from benchmarks.throughput import vocab_jobs, vocab_run
from benchmarks.throughput.__main__ import main
from benchmarks.throughput.corpus import find_corpora
from benchmarks.throughput.figures import Step
from benchmarks.throughput.measure import Cost
from benchmarks.throughput.vocab_figures import (
    ALONE,
    END_TO_END,
    OURS,
    PEER,
    Point,
    Trained,
    VocabFigures,
    judge,
)
from benchmarks.throughput.vocab_text import clean_lightly, prepare_documents
from vocab.shards.files import TokenShards

_SYLLABLES = [a + b for a in ("가", "노", "드", "리", "모") for b in ("람", "숲", "별", "강", "길")]
_LETTERS = [a + b for a in ("st", "br", "m", "k", "pl") for b in ("and", "ore", "ilt", "une", "ay")]


def _write_corpora(data: Path) -> None:
    rng = random.Random(11)
    for language, stock in (("ko", _SYLLABLES), ("en", _LETTERS)):
        words = ["".join(pair) for pair in itertools.product(stock, stock)]
        folder = data / "corpora" / language
        folder.mkdir(parents=True)
        with (folder / "plain.jsonl").open("w", encoding="utf-8") as file:
            for _ in range(300):
                sentences = (" ".join(rng.choices(words, k=8)) + "." for _ in range(4))
                file.write(json.dumps({"text": "\n".join(sentences)}) + "\n")
    (data / "klue").mkdir()
    text = "노숲가람 드별리강"
    answer = {"text": "드별", "answer_start": 5}
    paragraph = {"context": text, "qas": [{"answers": [answer], "is_impossible": False}]}
    content = {"data": [{"paragraphs": [paragraph]}]}
    (data / "klue" / "klue-mrc-dev.json").write_text(json.dumps(content), encoding="utf-8")


@pytest.fixture(scope="module")
def done(tmp_path_factory) -> SimpleNamespace:
    """A run of the command; jobs run here, so that Beam is imported once."""
    folder = tmp_path_factory.mktemp("vocab")
    _write_corpora(folder / "data")
    jobs = []

    def run_here(command, log, cwd) -> Cost:
        job, path = command[-2:]
        task = json.loads(Path(path).read_text(encoding="utf-8"))
        if task.get("beam_options"):  # no other processes in a test
            task["beam_options"] = []
            Path(path).write_text(json.dumps(task), encoding="utf-8")
        vocab_jobs.main([job, path])
        jobs.append(job)
        return Cost(2.0, 3.0, 50.0, 60.0)

    patch = pytest.MonkeyPatch()
    patch.setattr(vocab_run, "run_measured", run_here)
    status = main(
        [
            "vocab",
            "--peer",
            "--no-kiwi",
            "--sizes",
            "0.03,100",
            "--vocab-size",
            "150",
            "--data-dir",
            str(folder / "data"),
            "--work",
            str(folder / "work"),
            "--json",
            str(folder / "all.json"),
            "--report",
            str(folder / "report"),
        ]
    )
    patch.undo()
    assert status == 0
    figures = json.loads((folder / "all.json").read_text(encoding="utf-8"))
    return SimpleNamespace(folder=folder, figures=figures, jobs=jobs)


def _texts(folder: Path) -> list[str]:
    paths = sorted((folder / "clean").glob("*.parquet"))
    return [text for path in paths for text in pq.read_table(path)["text"].to_pylist()]


def test_every_text_is_trained_on_by_both(done) -> None:
    assert done.jobs == [
        *["train", "train_peer"] * 3,
        "encode_alone",
        "encode",
        "encode",
        "measure_spans",
    ]
    rows = done.figures["training"]
    assert [row["text"] for row in rows] == ["ko"] * 4 + ["all languages"] * 2
    assert [row["step"]["name"] for row in rows] == [OURS, PEER] * 3
    for row, folder in zip(rows[::2], ("ko-0.03", "ko", "all"), strict=True):
        texts = _texts(done.folder / "work" / folder)
        assert row["step"]["documents"] == len(texts)
        assert row["step"]["megabytes"] == sum(len(text.encode()) for text in texts) / 1e6
        assert row["step"]["mb_per_second"] == row["step"]["megabytes"] / 2
        for vocab in ("vocab", "vocab-peer"):
            path = done.folder / "work" / folder / vocab / "tokenizer.json"
            assert Tokenizer.from_file(str(path)).get_vocab_size() == 150


def test_shards_hold_the_documents(done) -> None:
    shards = TokenShards(done.folder / "work" / "ko" / "shards-1")
    tokens = sum(shards.stream(split).num_tokens for split in ("train", "valid"))
    tokenizer = Tokenizer.from_file(str(done.folder / "work" / "ko" / "vocab" / "tokenizer.json"))
    texts = _texts(done.folder / "work" / "ko")
    encoded = tokenizer.encode_batch(texts, add_special_tokens=False)
    assert tokens == sum(len(encoding.ids) + 1 for encoding in encoded)


def test_the_report_holds_goals_curve_and_no_path(done) -> None:
    report = done.folder / "report"
    assert json.loads((report / "report.json").read_text()) == done.figures
    for name in ("report.md", "report.html", "report.json"):
        text = (report / name).read_text(encoding="utf-8")
        assert PEER in text
        assert "klue-mrc-dev.json" in text
        assert str(done.folder) not in text
    assert {point["name"] for point in done.figures["curve"]} == {PEER, "whitespace"}


def test_goals_are_judged_by_the_largest_korean_text() -> None:
    def step(name, megabytes, wall, cpu=1.0, peak=1.0) -> Step:
        return Step(name, 1, megabytes, cpu, wall, peak, peak)

    def point(name, fertility, ceiling) -> Point:
        return Point(name, "mrc", 32_000, fertility, ceiling, 1.0, ceiling, 10)

    figures = VocabFigures(
        {},
        training=[
            Trained("ko", step(OURS, 10, 9.0, 9.0, 900.0)),
            Trained("ko", step(PEER, 10, 1.0)),
            Trained("ko", step(OURS, 90, 8.0, 10.0, 200.0)),
            Trained("ko", step(PEER, 90, 10.0, 8.0, 700.0)),
            Trained("all languages", step(OURS, 200, 99.0)),
        ],
        encoding=[step(ALONE, 90, 10.0), step(END_TO_END, 90, 9.0), step("other", 90, 99.0)],
        curve=[point("whitespace", 2.0, 0.8), point("nominal", 2.2, 0.99), point("all", 2.5, 1.0)],
    )
    found = [(goal.value, goal.met) for goal in judge(figures)]
    assert found == [
        (3.5, True),
        (0.8, True),
        (1.25, False),
        (pytest.approx(10 / 9), True),
        (0.99, True),
        (pytest.approx(1.1), False),
    ]
    assert {goal.met for goal in judge(VocabFigures({}))} == {None}


def test_documents_are_a_share_of_the_corpora_cleaned_lightly(tmp_path) -> None:
    _write_corpora(tmp_path)
    corpora = find_corpora(tmp_path, None)
    whole = prepare_documents(tmp_path / "whole", corpora)
    part = prepare_documents(tmp_path / "part", corpora, 0.4)
    assert 0.3 < part.num_documents / whole.num_documents < 0.5
    assert set(_texts(part.folder)) < set(_texts(whole.folder))
    assert whole.num_bytes == sum(len(text.encode()) for text in _texts(whole.folder))
    with pytest.raises(ValueError, match="no document in 0 of plain"):
        prepare_documents(tmp_path / "none", corpora, 0.0)
    assert clean_lightly(" e\u0301 \t b\r\n\n\u3000\n가 ") == "é b\n가"


@pytest.mark.parametrize("sizes", ["", "1,x", "0", "-3", "nan", "inf"])
def test_sizes_that_are_none_are_refused(sizes, capsys) -> None:
    assert main(["vocab", "--sizes", sizes]) == 1
    assert "give sizes in MB above 0" in capsys.readouterr().err
