"""The benchmark of the corpus stage: prepare, run both systems, judge."""

import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import electrify
from benchmarks.throughput.corpus import Prepared, find_corpora, prepare
from benchmarks.throughput.figures import Comparison, Figures, Step, added_step, step_of
from benchmarks.throughput.goals import OURS, WHOLE_GRAPH, judge
from benchmarks.throughput.graph import WHOLE, Parts, profile_words, run_graph, write_config
from benchmarks.throughput.measure import run_measured
from benchmarks.throughput.peer import NAME, PEER_SETTINGS, install_peer, run_peer
from benchmarks.throughput.recall import (
    Outcome,
    measure_cleaned_recall,
    measure_precision,
    measure_recall,
    named_ids,
    read_outcome,
    read_peer_outcome,
    read_texts,
)
from electrify.system.progress import log, warn


@dataclass(frozen=True)
class Settings:
    """What the command was asked for."""

    data_dir: Path
    work: Path
    languages: tuple[str, ...] | None  # None: all that are there
    num_exact: int
    num_near: int  # of each kind and band
    seed: int
    with_peer: bool
    with_steps: bool
    scale_mb: tuple[float, ...]  # sizes below the whole; empty: no run on all languages
    num_workers: int


def measure_corpus_stage(settings: Settings) -> Figures:
    """Run everything asked for; `ValueError` if there are no data or a run fails."""
    corpora = find_corpora(settings.data_dir, settings.languages)
    if settings.scale_mb:
        find_corpora(settings.data_dir, None)  # say now what would fail later
    log(f"preparing {len(corpora)} corpora and the planted copies")
    folder = _fresh(settings.work / "input")
    prepared = prepare(folder, corpora, settings.num_exact, settings.num_near, settings.seed)
    figures = Figures(_describe(prepared, settings))
    _measure_near(prepared, settings, figures)
    _measure_whole(prepared, settings, figures)
    if settings.with_steps or settings.scale_mb:
        figures.start_cpu_seconds = _start_seconds(settings.work)
    if settings.with_steps:
        figures.steps = _measure_steps(prepared, settings, figures)
    if settings.scale_mb:
        shutil.rmtree(folder)
        figures.scale = _measure_scale(settings)
    figures.goals = judge(figures)
    return figures


def _measure_near(prepared: Prepared, settings: Settings, figures: Figures) -> None:
    """Near-duplicate removal alone on the texts as they are, by ours and by the peer."""
    size = prepared.num_documents, prepared.num_bytes
    log("near-duplicate removal alone")
    run = run_graph(prepared, Parts(near=True), settings.work / "near")
    figures.near.append(step_of(OURS, *size, run.cost, "one process"))
    outcomes = {OURS: read_outcome(run.folder)}
    if settings.with_peer:
        outcomes |= _measure_peer(prepared, settings, figures)
    ids = set().union(*(named_ids(outcome) for outcome in outcomes.values()))
    texts = prepared.texts(ids)
    for name, outcome in outcomes.items():
        figures.recall += measure_recall(name, prepared.pairs, outcome)
        figures.precision += measure_precision(name, outcome, texts)


def _measure_peer(prepared: Prepared, settings: Settings, figures: Figures) -> dict[str, Outcome]:
    """The same by the peer in each of its settings; what failed is noted."""
    size = prepared.num_documents, prepared.num_bytes
    outcomes = {}
    work = settings.work / "peer"
    with _noted(NAME, figures):
        python = install_peer(settings.work, {corpus.language for corpus in prepared.corpora})
        for peer in PEER_SETTINGS:
            log(f"the same by {peer.name}")
            with _noted(peer.name, figures):
                run = run_peer(python, prepared, peer, work, settings.num_workers)
                outcomes[peer.name] = read_peer_outcome(run.folders)
                note = f"{settings.num_workers} workers"
                figures.near.append(step_of(peer.name, *size, run.cost, note))
                figures.peers.append(Comparison(peer.name, peer.meaning, run.step_seconds))
    return outcomes


@contextmanager
def _noted(name: str, figures: Figures) -> Iterator[None]:
    """What goes wrong with the peer is noted: the rest of the benchmark does not need it."""
    try:
        yield
    except ValueError as error:
        warn(str(error))
        # its words may hold paths of this machine, which a report should not
        figures.notes.append(f"{name} could not be installed or failed: not measured.")


def _measure_whole(prepared: Prepared, settings: Settings, figures: Figures) -> None:
    """Every part of the graph on, in one process and on the workers."""
    size = prepared.num_documents, prepared.num_bytes
    for workers in sorted({1, settings.num_workers}):
        log(f"whole graph, {workers} process(es)")
        run = run_graph(prepared, WHOLE, settings.work / "whole", workers)
        note = f"{workers} processes" if workers > 1 else "one process"
        figures.whole.append(step_of("whole graph", *size, run.cost, note))
    outcome = read_outcome(run.folder)
    planted = {i for pair in prepared.pairs for i in (pair.copy, pair.original)}
    texts = read_texts(run.folder, named_ids(outcome) | planted)
    figures.cleaned_recall = measure_cleaned_recall(WHOLE_GRAPH, prepared.pairs, outcome, texts)
    figures.precision += measure_precision(WHOLE_GRAPH, outcome, texts)


def _measure_steps(prepared: Prepared, settings: Settings, figures: Figures) -> list[Step]:
    """One part at a time on top of reading and writing, all in one process."""
    size = prepared.num_documents, prepared.num_bytes
    runs: dict[str, Step] = {}
    for name, parts in (
        ("read and write", Parts()),
        ("text rules", Parts(rules=True)),
        ("exact duplicates", Parts(exact=True)),
        ("repeated lines", Parts(lines=True)),
    ):
        log(f"step: {name}")
        run = run_graph(prepared, parts, settings.work / "step")
        runs[name] = step_of(name, *size, run.cost)
    base = runs.pop("read and write")
    runs["near duplicates"] = figures.near[0]
    assert figures.start_cpu_seconds is not None
    start = Step("start", 0, 0.0, figures.start_cpu_seconds, note="imports, empty graph")
    read_and_write = Step(
        "read and write",
        base.documents,
        base.megabytes,
        max(0.0, base.cpu_seconds - start.cpu_seconds),
        base.wall_seconds,
        base.peak_mb,
        base.peak_rss_mb,
        "two passes over Parquet; CPU without the start",
    )
    added = [added_step(n, run, base, "on top of reading, writing") for n, run in runs.items()]
    return [start, read_and_write, *added, *_direct_steps(prepared, settings.work / "direct")]


def _direct_steps(prepared: Prepared, work: Path) -> list[Step]:
    """The pure functions by themselves."""
    log("step: the functions alone")
    config = write_config(prepared, WHOLE, _fresh(work))
    output = work / "seconds.json"
    command = [sys.executable, "-m", "benchmarks.throughput.direct", str(config), str(output)]
    run_measured(command, work / "log.txt", Path(electrify.__file__).parents[1])
    seconds = json.loads(output.read_text(encoding="utf-8"))
    names = {"read": "read", "rules": "text rules", "signatures": "MinHash signatures"}
    size = prepared.num_documents, prepared.num_bytes / 1e6
    return [
        Step(f"{names[key]}, function alone", *size, value, note="CPU by the clock of the process")
        for key, value in seconds.items()
    ]


def _measure_scale(settings: Settings) -> list[Step]:
    """The whole graph on shares of all languages, evenly spread, and on all of them."""
    corpora = find_corpora(settings.data_dir, None)
    folder = settings.work / "input"
    steps: list[Step] = []
    for size in [None, *sorted(settings.scale_mb, reverse=True)]:  # None: the whole
        share = 1.0 if size is None else size / steps[0].megabytes
        if share > 1 or (size is not None and share == 1):
            continue
        part = prepare(_fresh(folder), corpora, share=share)
        name = f"{part.num_bytes / 1e6:,.0f} MB"
        log(f"scale: {name} of all languages")
        run = run_graph(part, WHOLE, settings.work / "scale")
        steps.append(step_of(name, part.num_documents, part.num_bytes, run.cost, "one process"))
    return steps[::-1]


def _start_seconds(work: Path) -> float:
    """Processor seconds of a run on one short document."""
    folder = _fresh(work / "one")
    (folder / "corpora" / "en").mkdir(parents=True)
    line = json.dumps({"text": "One short document of a few words and nothing else at all."})
    (folder / "corpora" / "en" / "one.jsonl").write_text(line + "\n", encoding="utf-8")
    prepared = prepare(folder / "input", find_corpora(folder, None))
    return run_graph(prepared, WHOLE, work / "step").cost.cpu_seconds


def _describe(prepared: Prepared, settings: Settings) -> dict[str, object]:
    return {
        "languages": sorted({c.language for c in prepared.corpora}),
        "profiles": profile_words(prepared.corpora),
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
