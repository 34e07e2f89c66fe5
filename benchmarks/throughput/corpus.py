"""The corpus stage beside datatrove: costs, planted copies found, removals against what was kept.

Every run of `electrify clean` is a process of its own, with parts of the graph switched off.
"""

import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import electrify
from benchmarks.throughput.copies import (
    Outcome,
    measure_precision,
    measure_recall,
    named_ids,
    read_outcome,
    read_peer_outcome,
)
from benchmarks.throughput.corpus_peer import NAME, PEER_SETTINGS, install_peer, run_peer
from benchmarks.throughput.cost import Cost, cost_row, run_measured
from benchmarks.throughput.report import Report, Row
from benchmarks.throughput.texts import Prepared, find_corpora, prepare
from electrify.config.clean import CleanRules
from electrify.system.progress import log, warn

PACKAGES = ("apache-beam", "numpy", "scipy", "pyarrow", "xxhash", "orjson", "ftfy")
OURS, WHOLE_GRAPH = "electrify", "electrify, whole graph"
_NEAR = """
All runs read the same files and write what is left and what was removed; no other part of the graph
is on, so that exact copies are found by MinHash too. electrify: defaults of [clean.near_dedup],
words are runs of letters and digits. CPU seconds are those of all processes with their start;
memory is the largest sum of proportional set sizes, sampled ten times a second. Ratios: how many
times as fast ours is, by processor time and by the clock.
"""
_PEERS = (
    "How datatrove is set, what a comparison with it says, and seconds of its steps by the clock."
)
_RECALL = """
A planted copy has the stated Jaccard of word 5-grams, or up to 0.02 more. Together: in the end one
document stands for both; recall: the share of such pairs. Below the similarity of the config, 0.7
by default, electrify means to keep both.
"""
_PRECISION = """
True Jaccard of word 5-grams between each removed document and the one that was kept for it, natural
duplicates included: shares of the removals that have at least so much.
"""
_WHOLE = """
The whole graph has every rule, exact, line and near deduplication on, no Kiwi and no
decontamination.
"""


@dataclass(frozen=True)
class Settings:
    """What the command was asked for."""

    data_dir: Path
    work: Path
    languages: tuple[str, ...] | None  # None: all that are there
    num_exact: int
    num_near: int  # of each band
    seed: int
    with_peer: bool
    num_workers: int


@dataclass(frozen=True)
class Compared:
    """Near-duplicate removal alone, by ours and by the peer in each of its settings."""

    costs: list[dict[str, Any]]
    peers: list[Row]
    outcomes: dict[str, Outcome]


@dataclass(frozen=True)
class GraphRun:
    """A finished run and the `clean` folder it wrote."""

    cost: Cost
    folder: Path


def measure(settings: Settings) -> Report:
    """Run everything asked for; `ValueError` if there are no data or a run fails."""
    corpora = find_corpora(settings.data_dir, settings.languages)
    log(f"preparing {len(corpora)} corpora and the planted copies")
    folder = _fresh(settings.work / "input")
    prepared = prepare(folder, corpora, settings.num_exact, settings.num_near, settings.seed)
    report = Report("The corpus stage", PACKAGES, _describe(prepared, settings))
    compared = compare_near(prepared, settings, report.notes)
    recall, precision = _judge_removals(prepared, compared.outcomes)
    title = "Near-duplicate removal alone, on the same documents"
    report.add("near", title, _NEAR, compared.costs)
    report.add("peers", "The peer", _PEERS, compared.peers)
    report.add("recall", "Planted pairs that were found", _RECALL, recall)
    title = "What was removed, against what was kept"
    report.add("precision", title, _PRECISION, precision)
    report.add("whole", "The whole graph", _WHOLE, _measure_whole(prepared, settings))
    return report


def compare_near(prepared: Prepared, settings: Settings, notes: list[str]) -> Compared:
    """Both on the texts as they are; a peer that fails leaves a note, and the rest goes on."""
    size = prepared.num_documents, prepared.num_bytes
    log("near-duplicate removal alone")
    run = run_graph(prepared, settings.work / "near", is_whole=False)
    ours = cost_row(OURS, *size, run.cost, "one process")
    compared = Compared([ours], [], {OURS: read_outcome(run.folder)})
    if not settings.with_peer:
        return compared
    with _noted(NAME, notes):
        python = install_peer(settings.work, {corpus.language for corpus in prepared.corpora})
        for peer in PEER_SETTINGS:
            log(f"the same by {peer.name}")
            with _noted(peer.name, notes):
                work = settings.work / "peer"
                found = run_peer(python, prepared, peer, work, settings.num_workers)
                compared.outcomes[peer.name] = read_peer_outcome(found.folders)
                row = cost_row(peer.name, *size, found.cost, f"{settings.num_workers} workers")
                row["ratio_of_cpu_seconds"] = row["cpu_seconds"] / ours["cpu_seconds"]
                row["ratio_of_wall_seconds"] = row["wall_seconds"] / ours["wall_seconds"]
                compared.costs.append(row)
                steps = ", ".join(f"{name} {s:.1f}" for name, s in found.step_seconds.items())
                meaning = {"peer": peer.name, "meaning": peer.meaning, "step_seconds": steps}
                compared.peers.append(meaning)
    return compared


@contextmanager
def _noted(name: str, notes: list[str]) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        warn(str(error))
        # its words may hold paths of this machine, which a report should not
        notes.append(f"{name} could not be installed or failed: not measured.")


def _judge_removals(
    prepared: Prepared, outcomes: dict[str, Outcome]
) -> tuple[list[Row], list[Row]]:
    """Recall, the systems of one Jaccard beside each other, and precision."""
    texts = prepared.texts(set().union(*(named_ids(outcome) for outcome in outcomes.values())))
    recall: list[Row] = []
    precision: list[Row] = []
    for name, outcome in outcomes.items():
        recall += measure_recall(name, prepared.pairs, outcome)
        precision += measure_precision(name, outcome, texts)
    return sorted(recall, key=lambda row: float(row["band"])), precision


def _measure_whole(prepared: Prepared, settings: Settings) -> list[Row]:
    """Every part of the graph on, in one process and on the workers."""
    costs: list[Row] = []
    for workers in sorted({1, settings.num_workers}):
        log(f"whole graph, {workers} process(es)")
        run = run_graph(prepared, settings.work / "whole", True, workers)
        note = f"{workers} processes" if workers > 1 else "one process"
        size = prepared.num_documents, prepared.num_bytes
        costs.append(cost_row(WHOLE_GRAPH, *size, run.cost, note))
    return costs


def _describe(prepared: Prepared, settings: Settings) -> dict[str, Any]:
    return {
        "languages": sorted({c.language for c in prepared.corpora}),
        "documents": prepared.num_documents,
        "megabytes": prepared.num_bytes / 1e6,
        "planted_exact": settings.num_exact,
        "planted_near": len(prepared.pairs) - settings.num_exact,
        "seed": settings.seed,
    }


def _fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def run_graph(prepared: Prepared, work: Path, is_whole: bool, num_workers: int = 1) -> GraphRun:
    """Clean the documents by the whole graph, or by near-duplicate removal alone; `ValueError` if
    the command fails."""
    config = write_config(prepared, _fresh(work), is_whole)
    mode = "multi_processing" if num_workers > 1 else "in_memory"
    command = [
        sys.executable,
        "-m",
        "electrify",
        "clean",
        str(config),
        "--",
        f"--direct_running_mode={mode}",
        f"--direct_num_workers={num_workers}",
    ]
    cost = run_measured(command, work / "log.txt", Path(electrify.__file__).parents[1])
    return GraphRun(cost, work / "out" / "clean")


def write_config(prepared: Prepared, work: Path, is_whole: bool) -> Path:
    """The TOML of a run into the folder `work`."""
    clean = {
        "exact_dedup": is_whole,
        "line_dedup.enabled": is_whole,
        "near_dedup.enabled": True,
        **({} if is_whole else _rules_off()),
    }
    sources = [
        f'    {{ kind = "jsonl", language = {json.dumps(corpus.language)}, profile = "none", '
        f"path = {json.dumps(prepared.pattern(index))}, name = {json.dumps(corpus.name)} }}"
        for index, corpus in enumerate(prepared.corpora)
    ]
    lines = [
        'name = "throughput"',
        f"output_dir = {json.dumps(str(work / 'out'))}",
        "[clean]",
        "sources = [",
        ",\n".join(sources),
        "]",
        *(f"{key} = {json.dumps(value)}" for key, value in clean.items()),
        "[encode]",
        "[pretrain]",
    ]
    path = work / "config.toml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _rules_off() -> dict[str, Any]:
    """Every rule of `[clean]` at the value that does nothing: false, 0, or its default name."""
    return {
        name: type(field.default)(0)
        for name, field in CleanRules.model_fields.items()
        if isinstance(field.default, bool | int | float)
    }
