"""What each pass of the corpus stage costs on a synthetic corpus of any size, see docs/scale.md."""

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import electrify
from benchmarks.throughput.corpus.corpora import Prepared
from benchmarks.throughput.corpus.corpus import (
    PACKAGES,
    read_removals,
    recall_rows,
    rules_off,
    write_config,
)
from benchmarks.throughput.corpus.synthetic import EXACT, NEAR, write_corpus
from benchmarks.throughput.cost import Cost, cost_row, run_measured
from benchmarks.throughput.report import Report, Row
from electrify.system.progress import log
from pipeline.dedup.components import (
    Edges,
    ends_by_shard,
    join_edges,
    large_star,
    open_edges,
    pack_bands,
    small_star,
    star_edges,
    unpack_edges,
)
from pipeline.dedup.exact import find_duplicates, pack_hashes
from pipeline.dedup.minhash import Keys, splitmix64
from pipeline.dedup.records import num_shards
from pipeline.shuffle import STAR_ROUNDS

_PASSES = """
One process. clean, compare, sketch and write go over groups of files, the others over shards; their
bytes came through a shuffle. CPU seconds are inside the pass; those of Beam, the start and the
report are the rest. Largest key: what one worker must sort at once. Peak: resident memory of the
process while the pass runs, with what the runner holds.
"""
_WHOLE = """
CPU seconds are those of all processes with their start; memory is the largest sum of proportional
set sizes.
"""
_TRUTH = """
Planted copies by the Jaccard of word 5-grams to their original, from the stated one on; below 0.7
both are to stay.
"""
_HASHES = """
The passes that see hashes alone, without texts and without Beam, on drawn hashes: 10 % exact
copies, 20 % near copies of Jaccard 0.7 to 1. The largest key is that of one shard; edges are those
that a step hands on.
"""
_NUM_BANDS, _ROWS = 25, 5
_DOCUMENT_BYTES = 1000
_GROUP_DOCUMENTS = 1 << 15


@dataclass(frozen=True)
class Settings:
    """What the command was asked for."""

    num_documents: int
    work: Path
    seed: int
    with_rules: bool
    hashes_only: bool
    with_peer: bool = False  # there is none


def measure(settings: Settings) -> Report:
    """Run everything asked for; `ValueError` if a run fails."""
    conditions = {
        "documents": settings.num_documents,
        "share_of_exact_copies": EXACT,
        "share_of_near_copies": NEAR,
        "seed": settings.seed,
    }
    report = Report("The corpus stage by size", PACKAGES, conditions)
    if settings.hashes_only:
        rows = measure_hashes(settings.num_documents, settings.seed)
        report.add("hashes", "Passes over hashes", _HASHES, rows)
        return report
    log("making the corpus")
    prepared = write_corpus(settings.work / "input", settings.num_documents, settings.seed)
    conditions |= {"megabytes": prepared.num_bytes / 1e6, "rules": settings.with_rules}
    cost, meters, clean = _run(prepared, settings)
    name = "electrify clean, one process"
    whole = cost_row(name, prepared.num_documents, prepared.num_bytes, cost)
    report.add("whole", "The whole command", _WHOLE, [whole])
    report.add("passes", "By pass", _PASSES, pass_rows(meters, cost, settings.num_documents))
    truth = recall_rows("electrify", prepared.pairs, read_removals(clean))
    report.add("truth", "Planted copies", _TRUTH, truth)
    return report


def _run(prepared: Prepared, settings: Settings) -> tuple[Cost, dict[str, Row], Path]:
    work = settings.work / "run"
    config = write_config(prepared, work, {} if settings.with_rules else rules_off())
    meters = work / "meters.json"
    module = "benchmarks.throughput.corpus.scale_clean"
    command = [sys.executable, "-m", module, str(config), str(meters)]
    cost = run_measured(command, work / "clean.log", Path(electrify.__file__).parents[1])
    return cost, json.loads(meters.read_text(encoding="utf-8")), work / "out" / "clean"


def pass_rows(meters: dict[str, Row], cost: Cost, num_documents: int) -> list[Row]:
    """The meters by pass, and what is left of the whole cost."""
    rows: list[Row] = []
    for name, meter in sorted(meters.items(), key=lambda item: -item[1]["cpu_seconds"]):
        size = meter["shuffled_bytes"] or None  # None: nothing came through a shuffle
        rows.append(
            {
                "pass": name.replace("_", " "),
                "calls": meter["calls"],
                "cpu_seconds": meter["cpu_seconds"],
                "cpu_us_a_document": 1e6 * meter["cpu_seconds"] / num_documents,
                "shuffled_mb": size and size / 1e6,
                "bytes_a_document": size and size / num_documents,
                "largest_key_mb": size and meter["largest_bytes"] / 1e6,
                "peak_mb": meter["peak_mb"],
            }
        )
    rest = cost.cpu_seconds - sum(row["cpu_seconds"] for row in rows)
    left = {"cpu_seconds": rest, "cpu_us_a_document": 1e6 * rest / num_documents}
    return [*rows, {"pass": "Beam, start, report", **left}]


# Passes over hashes alone.


@dataclass
class _Step:
    """What one step over shards took."""

    name: str
    cpu_seconds: float = 0.0
    shuffled: int = 0
    largest: int = 0
    num_shards: int = 0
    num_edges: int = 0

    def run(
        self, shards: Iterable[list[tuple[int, bytes]]], find: Callable[..., Any]
    ) -> Iterator[Any]:
        for pairs in shards:
            size = sum(len(packed) for _, packed in pairs)
            self.num_shards += 1
            self.shuffled += size
            self.largest = max(self.largest, size)
            started = time.process_time()
            found = find(pairs)
            self.cpu_seconds += time.process_time() - started
            yield found

    def row(self, num_documents: int) -> Row:
        return {
            "pass": self.name,
            "shards": self.num_shards,
            "cpu_seconds": self.cpu_seconds,
            "cpu_us_a_document": 1e6 * self.cpu_seconds / num_documents,
            "bytes_a_document": self.shuffled / num_documents,
            "largest_key_mb": self.largest / 1e6,
            "edges": self.num_edges or None,
        }


def measure_hashes(num_documents: int, seed: int) -> list[Row]:
    """Exact duplicates, stars of equal bands, and components on shards, shard by shard."""
    rng = np.random.default_rng(seed)
    numbers = np.arange(num_documents, dtype=np.uint64)
    kind = rng.random(num_documents)
    original = np.minimum((rng.random(num_documents) * numbers).astype(np.uint64), numbers)
    original[kind >= EXACT + NEAR] = numbers[kind >= EXACT + NEAR]
    is_near = (kind >= EXACT) & (kind < EXACT + NEAR)
    agrees = np.where(is_near, rng.uniform(0.7, 1, num_documents) ** _ROWS, 0)
    shards = num_shards(_DOCUMENT_BYTES * num_documents)
    steps = [_Step("equal texts")]
    same = np.where(is_near, numbers, original)
    texts = _gather(_texts(same, shards.texts), shards.texts)
    for _ in steps[-1].run(texts, find_duplicates):
        pass
    steps.append(_Step("equal bands"))
    stars: list[Edges] = []
    exact = kind < EXACT  # gone before the bands are compared
    for band in range(_NUM_BANDS):
        like = np.where(rng.random(num_documents) < agrees, original, numbers)[~exact]
        gathered = _gather(_bands(like, numbers[~exact], band, shards.bands), shards.bands)
        for found in steps[-1].run(gathered, star_edges):
            stars += [unpack_edges(packed) for packed in found]
    steps[-1].num_edges = sum(map(len, stars))
    steps += _components(stars, max(2, shards.components))
    return [step.row(num_documents) for step in steps]


def _components(edges: list[Edges], shards: int) -> list[_Step]:
    steps = []
    finds = [("large star", large_star, True), ("small star", small_star, False)]
    for name, find, both in finds * STAR_ROUNDS:
        steps.append(step := _Step(name))
        edges = [*step.run(_gather(_ends(edges, shards, both), shards), find)]
        step.num_edges = sum(map(len, edges))
    steps.append(step := _Step("leaves"))
    split = [*step.run(_gather(_ends(edges, shards, True), shards), open_edges)]
    step.num_edges = sum(len(others) for _, others in split)
    steps.append(step := _Step("one worker"))
    step.num_edges = step.shuffled = 0
    for joined in step.run([[(0, others.tobytes()) for _, others in split]], _join):
        step.num_edges = len(joined)
    return steps


def _join(pairs: list[tuple[int, bytes]]) -> Edges:
    return join_edges([unpack_edges(packed) for _, packed in pairs])


def _texts(same: Keys, shards: int) -> Iterator[tuple[int, dict[int, bytes]]]:
    halves = [splitmix64(same + np.uint64(salt)) for salt in (1, 1 << 40)]
    hashes: npt.NDArray[Any] = np.stack(halves, axis=1).astype(">u8")
    for group, start in enumerate(range(0, len(same), _GROUP_DOCUMENTS)):
        rows = slice(start, start + _GROUP_DOCUMENTS)
        ranks = range(start, start + len(hashes[rows]))
        yield group, pack_hashes(hashes[rows].tobytes(), ranks, shards)


def _bands(
    like: Keys, numbers: Keys, band: int, shards: int
) -> Iterator[tuple[int, dict[int, bytes]]]:
    keys = splitmix64(like * np.uint64(_NUM_BANDS) + np.uint64(band))[:, None]
    groups = numbers // np.uint64(_GROUP_DOCUMENTS)
    edges = np.searchsorted(groups, np.arange(int(groups[-1]) + 2))
    for group in range(len(edges) - 1):
        rows = slice(edges[group], edges[group + 1])
        in_group = (numbers[rows] % np.uint64(_GROUP_DOCUMENTS)).astype(np.int64)
        is_small = np.zeros(len(in_group), dtype=bool)
        yield group, pack_bands(keys[rows], in_group, is_small, shards)


def _ends(edges: list[Edges], shards: int, both: bool) -> Iterator[tuple[int, dict[int, bytes]]]:
    for one in edges:
        yield 0, ends_by_shard(one, shards, both)


def _gather(
    packed: Iterable[tuple[int, dict[int, bytes]]], shards: int
) -> Iterator[list[tuple[int, bytes]]]:
    """What each shard gets of all groups."""
    gathered: list[list[tuple[int, bytes]]] = [[] for _ in range(shards)]
    for group, by_shard in packed:
        for shard, of_shard in by_shard.items():
            gathered[shard].append((group, of_shard))
    while gathered:
        if pairs := gathered.pop():
            yield pairs
