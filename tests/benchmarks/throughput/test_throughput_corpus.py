"""The command on a little corpus: its figures equal a count by brute force of what was written."""

import itertools
import json
import random
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest

from benchmarks.throughput import corpus, corpus_peer
from benchmarks.throughput.__main__ import main
from benchmarks.throughput.copies import Outcome
from benchmarks.throughput.corpus import (
    OURS,
    GraphRun,
    Settings,
    compare_near,
    write_config,
)
from benchmarks.throughput.cost import Cost
from benchmarks.throughput.texts import Corpus, Prepared, find_corpora, prepare
from electrify.config.clean import NearDedupConfig
from electrify.config.load import load_config

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
            "--workers",
            "1",
            "--json",
            str(folder / "all.json"),
        ]
    )
    assert status == 0
    prepared = prepare(folder / "again", find_corpora(folder / "data", ("ko", "en")), 5, 2, seed=3)
    figures = json.loads((folder / "all.json").read_text(encoding="utf-8"))["tables"]
    return SimpleNamespace(folder=folder, prepared=prepared, figures=figures)


def _rows(folder: Path, prefix: str) -> list[dict[str, str]]:
    return [row for p in sorted(folder.glob(f"{prefix}-*")) for row in pq.read_table(p).to_pylist()]


def _components(edges: list[tuple[str, str]]) -> dict[str, set[str]]:
    component: dict[str, set[str]] = {}
    for one, other in edges:
        joined = component.get(one, {one}) | component.get(other, {other})
        component |= dict.fromkeys(joined, joined)
    return component


def test_recall_and_precision_equal_brute_force(done) -> None:
    clean = done.folder / "work" / "near" / "out" / "clean"
    removed = [r for r in _rows(clean, "removed") if r["reason"].endswith("duplicate")]
    component = _components([(r["id"], r["detail"].split()[1].rstrip(",")) for r in removed])
    kept = {row["id"]: row["text"] for row in _rows(clean, "documents")}
    rows = done.figures["recall"]
    assert [row["band"] for row in rows] == sorted({pair.band for pair in done.prepared.pairs})
    for row in rows:
        pairs = [p for p in done.prepared.pairs if p.band == row["band"]]
        together = sum(p.original in component.get(p.copy, ()) for p in pairs)
        assert (row["pairs"], row["together"]) == (len(pairs), together)
        assert row["recall"] == together / len(pairs)
    similar = [_jaccard(r["text"], _kept_text(component[r["id"]], kept)) for r in removed]
    found = done.figures["precision"][0]
    assert found["number"] == len(removed) > 5
    assert found["at_least_70"] == pytest.approx(sum(j >= 0.7 for j in similar) / len(similar))
    assert found["at_least_80"] == pytest.approx(sum(j >= 0.8 for j in similar) / len(similar))


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
    found = {r["band"]: r["recall"] for r in done.figures["recall"]}
    assert (found[1.0], found[0.95], found[0.5]) == (1.0, 1.0, 0.0)
    (near,) = done.figures["near"]
    assert near["documents"] == done.prepared.num_documents
    assert near["megabytes"] == pytest.approx(done.prepared.num_bytes / 1e6)
    assert 0.5 < near["cpu_seconds"] < 60
    assert 50 < near["peak_mb"] < 2000


def test_a_peer_that_fails_is_said_and_the_rest_goes_on(tmp_path: Path, monkeypatch) -> None:
    def refuse(work: Path, languages: set[str]) -> Path:
        raise ValueError(f"cannot be installed below {work}")

    done = GraphRun(Cost(1.0, 1.0, 1.0, 1.0), tmp_path)
    monkeypatch.setattr(corpus, "install_peer", refuse)
    monkeypatch.setattr(corpus, "run_graph", lambda *_, **__: done)
    monkeypatch.setattr(corpus, "read_outcome", lambda _: Outcome({}, frozenset()))
    prepared = Prepared(tmp_path, (), 5, 1000, ())
    settings = Settings(tmp_path, tmp_path, ("ko",), 0, 0, 0, True, num_workers=1)
    notes: list[str] = []
    found = compare_near(prepared, settings, notes)
    assert [row["name"] for row in found.costs] == [OURS]
    (note,) = notes
    assert "could not be installed or failed" in note
    assert str(tmp_path) not in note


def test_the_peer_is_compared_by_its_own_clocks(tmp_path: Path, monkeypatch) -> None:
    ours = GraphRun(Cost(2.0, 4.0, 1.0, 1.0), tmp_path)
    peers = iter([Cost(5.0, 36.0, 1.0, 1.0), Cost(1.0, 2.0, 1.0, 1.0), Cost(2.0, 4.0, 1.0, 1.0)])

    def run(*_: object) -> corpus_peer.PeerRun:
        return corpus_peer.PeerRun(next(peers), {"signatures": 1.25}, ())

    monkeypatch.setattr(corpus, "install_peer", lambda *_: Path("python"))
    monkeypatch.setattr(corpus, "run_graph", lambda *_, **__: ours)
    monkeypatch.setattr(corpus, "run_peer", run)
    monkeypatch.setattr(corpus, "read_outcome", lambda _: Outcome({}, frozenset()))
    prepared = Prepared(tmp_path, (), 5, 1000, ())
    settings = Settings(tmp_path, tmp_path, ("ko",), 0, 0, 0, True, num_workers=1)
    found = compare_near(prepared, settings, [])
    assert [row.get("ratio_of_cpu_seconds") for row in found.costs] == [None, 9.0, 0.5, 1.0]
    assert [row.get("ratio_of_wall_seconds") for row in found.costs] == [None, 2.5, 0.5, 1.0]
    assert found.peers[0]["step_seconds"] == "signatures 1.2"
    settings_of = corpus_peer.PEER_SETTINGS
    assert [row["meaning"] for row in found.peers] == [of.meaning for of in settings_of]


def test_the_peer_has_our_bands_and_words_by_language_beside_its_example(
    tmp_path: Path, monkeypatch
) -> None:
    corpora = tuple(
        Corpus(of, name, tmp_path) for of, name in (("ko", "a"), ("en", "b"), ("ko", "c"))
    )
    prepared = Prepared(tmp_path / "input", corpora, 3, 1000, ())
    for index in range(3):
        (tmp_path / "input" / f"{index:02d}").mkdir(parents=True)
        (tmp_path / "input" / f"{index:02d}" / "00000.jsonl").touch()
    tasks = []

    def run(command: list[str], _: Path) -> Cost:
        path = Path(command[-1])
        tasks.append(json.loads(path.read_text(encoding="utf-8")))
        path.with_name("seconds.json").write_text("{}", encoding="utf-8")
        return Cost(1.0, 1.0, 1.0, 1.0)

    monkeypatch.setattr(corpus_peer, "run_measured", run)
    for settings in corpus_peer.PEER_SETTINGS:
        corpus_peer.run_peer(Path("python"), prepared, settings, tmp_path / "peer", 1)
    bands = [(task["num_bands"], task["rows_per_band"]) for task in tasks]
    ours = NearDedupConfig()
    assert bands == [(14, 8), *[(ours.num_bands, ours.rows_per_band)] * 2]
    files = [{part["words"]: part["files"] for part in task["parts"]} for task in tasks]
    every = [f"{index:02d}/00000.jsonl" for index in range(3)]
    assert files == [
        {"en": every},
        {"ko": [every[0], every[2]], "en": [every[1]]},
        {"plain": every},
    ]


def test_what_is_off_is_off_in_the_config(tmp_path: Path) -> None:
    prepared = Prepared(tmp_path, (Corpus("ko", "cpp-docs", tmp_path),), 1, 1, ())
    off = load_config(write_config(prepared, tmp_path, is_whole=False)).clean
    assert (off.exact_dedup, off.line_dedup.enabled, off.near_dedup.enabled) == (False, False, True)
    assert not any((off.remove_html, off.mask_pii, off.repair_mojibake, off.max_repeats))
    assert (off.min_characters, off.min_language_fraction) == (0, 0.0)
    whole = load_config(write_config(prepared, tmp_path, is_whole=True)).clean
    assert whole.exact_dedup
    assert whole.near_dedup.enabled
    assert whole.remove_html
