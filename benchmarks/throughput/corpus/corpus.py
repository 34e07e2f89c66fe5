"""The corpus stage beside datatrove: costs, planted copies found, removals against what was kept.

Every run of `electrify clean` is a process of its own, with parts of the graph switched off.
"""

import json
import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import electrify
from benchmarks.throughput.corpus.corpora import (
    Pair,
    Prepared,
    find_corpora,
    jaccard,
    prepare,
    read_lines,
)
from benchmarks.throughput.corpus.peer import (
    PEER_OF_WHOLE,
    PEER_SETTINGS,
    PeerSettings,
    install_peer,
    read_peer_removals,
    run_peer,
)
from benchmarks.throughput.cost import Cost, cost_row, ratios, run_measured
from benchmarks.throughput.report import Report, Row
from electrify.config.clean import CleanRules
from electrify.system.progress import log, warn
from pipeline.documents import read_rows

PACKAGES = ("apache-beam", "numpy", "scipy", "pyarrow", "xxhash", "orjson", "ftfy")
OURS, WHOLE_GRAPH = "electrify", "electrify, whole graph"
_NEAR = """
All runs read the same files and write what is left and what was removed; no other part of the graph
is on, so that exact copies are found by MinHash too. electrify: one process, defaults of
[clean.near_dedup], words are runs of letters and digits. CPU seconds are those of all processes
with their start; memory is the largest sum of proportional set sizes, sampled twice a second.
Ratios: how many times as fast ours is.
"""
_RECALL = """
Planted copies by the Jaccard of word 5-grams to their original, from the stated one on. Together:
in the end one document stands for both; recall: the share of such pairs. Below the similarity of
the config, 0.7 by default, electrify means to keep both.
"""
_PRECISION = """
True Jaccard of word 5-grams between each removed document and the one that was kept for it, natural
duplicates included: the share of the removals that have at least 0.7.
"""
_WHOLE = """
The whole graph has every rule, exact, line and near deduplication on, no Kiwi and no
decontamination; as web pages, the quality rules of crawled text, too. Kept: share of the bytes.
"""
_KEPT = re.compile(r"of (\d{2}-\d{5}-\d{9})")
_SIMILAR = 0.7

Removals = Mapping[str, str]  # removed id -> id that it was removed in favour of


@dataclass(frozen=True)
class Settings:
    """What the command was asked for."""

    data_dir: Path
    work: Path
    languages: tuple[str, ...] | None  # None: all that are there
    megabytes: float | None  # of text; None: all
    num_exact: int
    num_near: int
    seed: int
    with_peer: bool
    num_workers: int


def measure(settings: Settings) -> Report:
    """Run everything asked for; `ValueError` if there are no data or a run fails."""
    corpora = find_corpora(settings.data_dir, settings.languages)
    log(f"preparing {len(corpora)} corpora and the planted copies")
    copies = settings.num_exact, settings.num_near, settings.seed
    prepared = prepare(settings.work / "input", corpora, settings.megabytes, *copies)
    conditions = {
        "languages": sorted({corpus.language for corpus in corpora}),
        "documents": prepared.num_documents,
        "megabytes": prepared.num_bytes / 1e6,
        "planted_exact": settings.num_exact,
        "planted_near": settings.num_near,
        "seed": settings.seed,
    }
    report = Report("The corpus stage", PACKAGES, conditions)
    costs, removals = compare_near(prepared, settings, report.notes)
    recall = [row for name, of in removals.items() for row in recall_rows(name, prepared.pairs, of)]
    recall.sort(key=lambda row: float(row["jaccard_from"]))
    precision = [precision_row(name, prepared, of) for name, of in removals.items()]
    peers = PEER_SETTINGS if settings.with_peer else ()
    meaning = _NEAR + " ".join(f"{peer.name}: {peer.meaning}" for peer in peers)
    report.add("near", "Near-duplicate removal alone, on the same documents", meaning, costs)
    report.add("recall", "Planted pairs that were found", _RECALL, recall)
    report.add("precision", "What was removed, against what was kept", _PRECISION, precision)
    whole = _measure_whole(prepared, settings, report.notes)
    meaning = f"{_WHOLE}{PEER_OF_WHOLE.name}: {PEER_OF_WHOLE.meaning}" if peers else _WHOLE
    report.add("whole", "The whole graph", meaning, whole)
    return report


def compare_near(
    prepared: Prepared, settings: Settings, notes: list[str]
) -> tuple[list[dict[str, Any]], dict[str, Removals]]:
    """Costs and removals of near-duplicate removal alone; a peer that fails leaves a note."""
    size = prepared.num_documents, prepared.num_bytes
    log("near-duplicate removal alone")
    cost, clean = run_clean(prepared, settings.work / "near", is_whole=False)
    ours = cost_row(OURS, *size, cost)
    costs, removals = [ours], {OURS: read_removals(clean)}
    for peer in PEER_SETTINGS if settings.with_peer else ():
        if row := _measure_peer(peer, prepared, settings, notes):
            costs.append(row | ratios(row, ours))
            removals[peer.name] = read_peer_removals(settings.work / "peer")
    return costs, removals


def _measure_peer(
    peer: PeerSettings, prepared: Prepared, settings: Settings, notes: list[str]
) -> dict[str, Any] | None:
    log(f"the same by {peer.name}")
    try:
        python = install_peer(settings.work)
        work = settings.work / "peer"
        cost = run_peer(python, prepared.folder, peer, work, settings.num_workers)
    except ValueError as error:
        warn(str(error))
        # its words may hold paths of this machine, which a report should not
        notes.append(f"{peer.name} could not be installed or failed: not measured.")
        return None
    name = f"{peer.name}, {settings.num_workers} workers"
    return cost_row(name, prepared.num_documents, prepared.num_bytes, cost)


def _measure_whole(prepared: Prepared, settings: Settings, notes: list[str]) -> list[Row]:
    """Every part of the graph on, in one process and on the workers; then as crawled text."""
    size = prepared.num_documents, prepared.num_bytes
    many = settings.num_workers
    costs: list[Row] = []
    for workers, profile in dict.fromkeys([(1, "none"), (many, "none"), (many, "web")]):
        log(f"whole graph, {workers} process(es), profile {profile}")
        cost, clean = run_clean(prepared, settings.work / "whole", True, workers, profile)
        name = f"{WHOLE_GRAPH}{' as web pages' * (profile == 'web')}, {workers} process(es)"
        ours = cost_row(name, *size, cost)
        documents = read_rows(sorted(clean.glob("documents-*.parquet")), ["text"])
        costs.append(ours | {"kept": _kept_fraction(prepared, documents)})
    if settings.with_peer and (row := _measure_peer(PEER_OF_WHOLE, prepared, settings, notes)):
        paths = (settings.work / "peer" / "kept").glob("*.jsonl")
        documents = (document for path in paths for document in read_lines(path))
        costs.append(row | ratios(row, ours) | {"kept": _kept_fraction(prepared, documents)})
    return costs


def _kept_fraction(prepared: Prepared, documents: Iterable[Row]) -> float:
    return sum(len(row["text"].encode()) for row in documents) / prepared.num_bytes


def run_clean(
    prepared: Prepared,
    work: Path,
    is_whole: bool,
    num_workers: int = 1,
    profile: str = "none",
) -> tuple[Cost, Path]:
    """Clean by the whole graph, or by near-duplicate removal alone; the cost, and the `clean/` that
    was written. `ValueError` if the command fails."""
    clean = {
        "exact_dedup": is_whole,
        "line_dedup.enabled": is_whole,
        **({} if is_whole else rules_off()),
    }
    config = write_config(prepared, work, clean, profile=profile)
    mode = "multi_processing" if num_workers > 1 else "in_memory"
    beam = f"--direct_running_mode={mode}", f"--direct_num_workers={num_workers}"
    return run_electrify("clean", config, *beam), work / "out" / "clean"


def run_electrify(verb: str, config: Path, *beam_options: str) -> Cost:
    """What a verb costs on a config; `ValueError` if it fails."""
    command = [sys.executable, "-m", "electrify", verb, str(config)]
    command += ["--", *beam_options] if beam_options else []
    log_file = config.with_name(f"{verb}.log")
    return run_measured(command, log_file, Path(electrify.__file__).parents[1])


def write_config(
    prepared: Prepared,
    work: Path,
    clean: Mapping[str, Any],
    further: Sequence[str] = (),
    profile: str = "none",
) -> Path:
    """The TOML of a run into the folder `work`: options of `[clean]`, further lines.

    What an earlier run left there goes, so that nothing is skipped as done.
    """
    shutil.rmtree(work / "out", ignore_errors=True)
    sources = [
        "    {{ kind = {}, language = {}, profile = {}, path = {}, name = {} }}".format(
            *map(json.dumps, ("jsonl", corpus.language, profile, str(path), corpus.name))
        )
        for index, corpus in enumerate(prepared.corpora)
        for path in [prepared.folder / f"{index:02d}" / "*.jsonl"]
    ]
    lines = [
        'name = "throughput"',
        f"output_dir = {json.dumps(str(work / 'out'))}",
        "[clean]",
        "sources = [",
        ",\n".join(sources),
        "]",
        *(f"{key} = {json.dumps(value)}" for key, value in clean.items()),
        *further,
    ]
    work.mkdir(parents=True, exist_ok=True)
    path = work / "config.toml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def rules_off() -> dict[str, Any]:
    """Every rule of `[clean]` at the value that does nothing: false, 0, or its default name."""
    return {
        name: type(field.default)(0)
        for name, field in CleanRules.model_fields.items()
        if isinstance(field.default, bool | int | float)
    }


# What was removed.


def read_removals(clean: Path) -> Removals:
    """Of a `clean` folder; `ValueError` for a removal that does not name what was kept."""
    removals = {}
    for row in read_rows(sorted(clean.glob("removed-*.parquet")), ["id", "reason", "detail"]):
        if row["reason"] in ("duplicate", "near_duplicate"):
            kept = _KEPT.match(row["detail"])
            if kept is None:
                raise ValueError(f"{clean}: {row['id']} {row['reason']}: {row['detail']!r}")
            removals[row["id"]] = kept[1]
    return removals


def representative(document_id: str, removals: Removals) -> str:
    """The document that stands for this one in the end."""
    while document_id in removals:
        document_id = removals[document_id]
    return document_id


def recall_rows(system: str, pairs: Sequence[Pair], removals: Removals) -> list[Row]:
    """By tenths of Jaccard: how many pairs there are, of how many one stands for the other or a
    third document for both, and their share."""
    by_tenth: dict[float, list[bool]] = {}
    for pair in pairs:
        together = representative(pair.copy, removals) == representative(pair.original, removals)
        by_tenth.setdefault(int(10 * pair.jaccard) / 10, []).append(together)
    return [
        {
            "system": system,
            "jaccard_from": tenth,
            "pairs": len(of),
            "together": sum(of),
            "recall": sum(of) / len(of),
        }
        for tenth, of in sorted(by_tenth.items())
    ]


def precision_row(system: str, prepared: Prepared, removals: Removals) -> Row:
    """The number of removals, and the share that is similar to the document kept."""
    kept = {removed: representative(removed, removals) for removed in removals}
    texts = prepared.texts({*kept, *kept.values()})
    similar = [jaccard(texts[one], texts[other]) >= _SIMILAR for one, other in kept.items()]
    share = sum(similar) / len(similar) if similar else None
    return {"system": system, "removals": len(similar), "at_least_0.7": share}
