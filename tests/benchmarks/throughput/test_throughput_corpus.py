"""The command on a little corpus: its figures equal a count by brute force of what was written."""

import itertools
import json
import random
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest

from benchmarks.throughput.__main__ import main
from benchmarks.throughput.corpus import Pair, find_corpora, prepare
from benchmarks.throughput.recall import Outcome, measure_precision, measure_recall

_SYLLABLES = [a + b for a in ("가", "노", "드", "리", "모") for b in ("람", "숲", "별", "강", "길")]
_LETTERS = [a + b for a in ("st", "br", "m", "k", "pl") for b in ("and", "ore", "ilt", "une", "ay")]
_OPTIONS = ["--exact", "5", "--near", "2", "--seed", "3"]


def _write_corpora(data: Path) -> None:
    rng = random.Random(11)
    for language, stock in (("ko", _SYLLABLES), ("en", _LETTERS)):
        words = ["".join(pair) for pair in itertools.product(stock, stock)]
        folder = data / "corpora" / language
        folder.mkdir(parents=True)
        with (folder / "plain.jsonl").open("w", encoding="utf-8") as file:
            for _ in range(150):
                sentences = (" ".join(rng.choices(words, k=12)) + "." for _ in range(25))
                file.write(json.dumps({"text": "\n".join(sentences)}) + "\n")


@pytest.fixture(scope="module")
def done(tmp_path_factory) -> SimpleNamespace:
    folder = tmp_path_factory.mktemp("throughput")
    _write_corpora(folder / "data")
    status = main(
        [
            "corpus",
            "--data-dir",
            str(folder / "data"),
            "--work",
            str(folder / "work"),
            *_OPTIONS,
            "--no-steps",
            "--scale",
            "none",
            "--workers",
            "1",
            "--json",
            str(folder / "all.json"),
            "--report",
            str(folder / "report"),
        ]
    )
    assert status == 0
    prepared = prepare(folder / "again", find_corpora(folder / "data", ("ko", "en")), 5, 2, seed=3)
    figures = json.loads((folder / "all.json").read_text(encoding="utf-8"))
    return SimpleNamespace(folder=folder, prepared=prepared, figures=figures)


def _rows(folder: Path, prefix: str) -> list[dict[str, str]]:
    return [row for p in sorted(folder.glob(f"{prefix}-*")) for row in pq.read_table(p).to_pylist()]


def _components(edges: list[tuple[str, str]]) -> dict[str, set[str]]:
    component: dict[str, set[str]] = {}
    for one, other in edges:
        joined = component.get(one, {one}) | component.get(other, {other})
        component |= dict.fromkeys(joined, joined)
    return component


@pytest.mark.parametrize(
    ("run", "system"), [("near", "electrify"), ("whole", "electrify, whole graph")]
)
def test_recall_and_precision_equal_brute_force(done, run: str, system: str) -> None:
    clean = done.folder / "work" / run / "out" / "clean"
    removed = [r for r in _rows(clean, "removed") if r["reason"].endswith("duplicate")]
    component = _components([(r["id"], r["detail"].split()[1].rstrip(",")) for r in removed])
    kept = {row["id"]: row["text"] for row in _rows(clean, "documents")}
    texts = kept | {row["id"]: row["text"] for row in removed}
    by_band: dict[tuple[str, float], list[tuple[str, str]]] = {}
    for pair in done.prepared.pairs:
        if run == "near":
            key = pair.kind, pair.band
        else:
            key = "cleaned", _band(_jaccard(texts[pair.copy], texts[pair.original]))
        by_band.setdefault(key, []).append((pair.copy, pair.original))
    rows = done.figures["recall" if run == "near" else "cleaned_recall"]
    assert {(row["kind"], row["band"]) for row in rows} == set(by_band)
    for row in rows:
        pairs = by_band[row["kind"], row["band"]]
        assert row["pairs"] == len(pairs)
        assert row["together"] == sum(b in component.get(a, ()) for a, b in pairs)
        assert row["resolved"] == sum(a not in kept or b not in kept for a, b in pairs)
    similar = [_jaccard(r["text"], _kept_text(component[r["id"]], kept)) for r in removed]
    found = [p for p in done.figures["precision"] if p["system"] == system]
    assert found[0]["number"] == len(removed) > 5
    assert found[0]["at_least_70"] == pytest.approx(sum(j >= 0.7 for j in similar) / len(similar))
    assert found[0]["at_least_80"] == pytest.approx(sum(j >= 0.8 for j in similar) / len(similar))


def _band(jaccard: float) -> float:
    return max(b for b in (0, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1) if b <= jaccard)


def _kept_text(component: set[str], kept: dict[str, str]) -> str:
    (found,) = (kept[i] for i in component if i in kept)
    return found


def _jaccard(one: str, other: str) -> float:
    sets = []
    for text in (one, other):
        words = text.replace(".", "").split()
        sets.append({tuple(words[i : i + 5]) for i in range(len(words) - 4)})
    return len(sets[0] & sets[1]) / len(sets[0] | sets[1])


def test_copies_that_are_plain_are_found_and_costs_are_measured(done) -> None:
    found = {
        (r["kind"], r["band"]): r["recall"]
        for r in done.figures["recall"]
        if r["system"] == "electrify"
    }
    assert found["exact", 1.0] == found["words", 0.95] == found["block", 0.95] == 1.0
    assert found["words", 0.5] == found["block", 0.5] == 0.0
    (near,) = done.figures["near"]
    assert near["documents"] == done.prepared.num_documents
    assert near["megabytes"] == pytest.approx(done.prepared.num_bytes / 1e6)
    assert 0.5 < near["cpu_seconds"] < 60
    assert 50 < near["peak_mb"] < 2000


def test_the_report_judges_and_names_no_path(done) -> None:
    report = (done.folder / "report" / "report.md").read_text(encoding="utf-8")
    assert "| recall of exact copies | ≥ 1 | 1 | met |" in report
    assert "ours / datatrove at its fastest setting | ≥ 8 | – | not measured |" in report
    for name in ("report.md", "report.json", "report.html"):
        assert str(done.folder) not in (done.folder / "report" / name).read_text(encoding="utf-8")


def test_no_data_is_refused(tmp_path: Path, capsys) -> None:
    assert main(["corpus", "--data-dir", str(tmp_path / "none"), "--work", str(tmp_path)]) == 1
    assert "give --data-dir DIR" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [(["--scale", "10,many"], "--scale '10,many'"), (["--workers", "0"], "--workers 0: at least")],
)
def test_options_that_make_no_sense_are_named(words, said, capsys) -> None:
    assert main(["corpus", *words]) == 1
    assert said in capsys.readouterr().err


def test_what_another_rule_took_does_not_count() -> None:
    pairs = [Pair("a2", "a", "words", 0.8, 0.81), Pair("b2", "b", "words", 0.8, 0.81)]
    # a2 -> c <- a: a third stands for both; b2 was dropped by a rule
    outcome = Outcome({"a": "c", "a2": "a"}, frozenset({"b", "c"}))
    (band,) = measure_recall("x", pairs, outcome)
    assert (band.pairs, band.together, band.resolved, band.recall) == (1, 1, 1, 1.0)


def test_precision_looks_at_the_document_that_is_left() -> None:
    words = [f"w{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(104)]
    texts = {
        "kept": " ".join(words),
        "equal": " ".join(words),
        "chained": " ".join(["x"] * 10 + words[10:]),
    }
    outcome = Outcome({"chained": "equal", "equal": "kept"}, frozenset({"kept"}))
    both, unequal = measure_precision("x", outcome, texts)
    # 90 of 100 shingles are common; of the copy's others "x x x x x" stands once, and 4 reach over
    assert (both.number, unequal.number) == (2, 1)
    assert (both.at_least_80, unequal.at_least_80) == (1.0, 1.0)
    texts["chained"] = " ".join(words[:40] + ["x"] * 64)
    both, unequal = measure_precision("x", outcome, texts)
    assert (both.at_least_50, unequal.at_least_50) == (0.5, 0.0)
