"""The synthetic corpus is the one of its seed, with copies as told; each pass has its figures."""

import json
from pathlib import Path

import pytest

import pipeline.clean
import pipeline.shuffle
from benchmarks.throughput.__main__ import main
from benchmarks.throughput.corpus import scale, scale_clean
from benchmarks.throughput.corpus.corpora import jaccard, read_lines
from benchmarks.throughput.corpus.synthetic import (
    EXACT,
    MOST_CHANGED,
    NEAR,
    Synthetic,
    write_corpus,
)
from benchmarks.throughput.cost import Cost


def test_a_longer_corpus_begins_with_the_shorter(tmp_path: Path) -> None:
    short, long = (write_corpus(tmp_path / str(n), n, seed=3) for n in (50, 80))
    texts = [
        [row["text"] for path in sorted(p.folder.glob("00/*.jsonl")) for row in read_lines(path)]
        for p in (short, long)
    ]
    assert [len(of) for of in texts] == [50, 80]
    assert texts[1][:50] == texts[0] == [Synthetic(3).text(i) for i in range(50)]
    assert texts[0] != [Synthetic(4).text(i) for i in range(50)]
    assert set(short.pairs) <= set(long.pairs)
    assert all(pair.copy > pair.original for pair in long.pairs)


def test_copies_are_as_like_as_they_are_told_to_be() -> None:
    corpus = Synthetic(0)
    copies = {number: corpus.copy_of(number) for number in range(600)}
    exact = {n: of for n, (of, changed) in copies.items() if changed == 0}
    near = {n: (of, changed) for n, (of, changed) in copies.items() if changed}
    assert len(exact) == pytest.approx(600 * EXACT, rel=0.4)
    assert len(near) == pytest.approx(600 * NEAR, rel=0.4)
    assert all(corpus.text(n) == corpus.text(of) for n, of in exact.items())
    for number, (original, changed) in near.items():
        text, copy = corpus.text(original), corpus.text(number)
        num_words = len(text.split())
        num_changed = sum(a != b for a, b in zip(text.split(), copy.split(), strict=True))
        assert num_changed <= 1 + changed * num_words <= 1 + MOST_CHANGED * num_words
        assert copies[original] == (original, None)
    assert jaccard(corpus.text(0), corpus.text(max(near))) < 0.1


@pytest.fixture
def run_here(monkeypatch):
    """The child's work in this process, whose functions get their own back afterwards."""
    for function in scale_clean.PASSES.values():
        monkeypatch.setattr(pipeline.clean, function, getattr(pipeline.clean, function))
    monkeypatch.setattr(pipeline.shuffle, "_find", pipeline.shuffle._find)

    def run(command, log, cwd) -> Cost:
        assert command[1:3] == ["-m", scale_clean.__name__]
        scale_clean.run(*command[3:])
        return Cost(2.0, 100.0, 50.0)

    monkeypatch.setattr(scale, "run_measured", run)


def test_every_pass_is_metered(tmp_path: Path, run_here) -> None:
    places = ["--work", str(tmp_path), "--json", str(tmp_path / "all.json")]
    assert main(["scale", "--documents", "200", "--no-rules", *places]) == 0
    tables = json.loads((tmp_path / "all.json").read_text(encoding="utf-8"))["tables"]
    passes = {row["pass"]: row for row in tables["passes"]}
    assert passes.keys() >= {"clean", "compare", "sketch", "write", "Beam, start, report"}
    assert passes["find duplicates"]["bytes_a_document"] == 24
    assert passes["star edges"]["calls"] == 25
    assert passes["star edges"]["largest_key_mb"] == passes["star edges"]["shuffled_mb"] / 25
    assert sum(row["cpu_seconds"] for row in passes.values()) == pytest.approx(100)
    found = {row["jaccard_from"]: row["recall"] for row in tables["truth"]}
    assert found[1.0] == 1
    assert all(share == 0 for tenth, share in found.items() if tenth < 0.6)


def test_hashes_alone_find_what_is_planted(tmp_path: Path) -> None:
    path = tmp_path / "all.json"
    assert main(["scale", "--documents", "4000", "--hashes-only", "--json", str(path)]) == 0
    rows = json.loads(path.read_text(encoding="utf-8"))["tables"]["hashes"]
    assert [row["pass"] for row in rows[:2]] == ["equal texts", "equal bands"]
    assert rows[0]["bytes_a_document"] == 24
    assert rows[1]["bytes_a_document"] == pytest.approx(25 * 12 * (1 - EXACT), rel=0.05)
    edges = [row["edges"] for row in rows if row["pass"].endswith("star")]
    assert edges == sorted(edges, reverse=True)
