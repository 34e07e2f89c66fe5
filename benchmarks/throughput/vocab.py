"""The vocabulary and the token shards beside `tokenizers`: costs of training and encoding, borders.

Every run is a process of its own (`benchmarks.throughput.vocab_jobs`).
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import electrify
from benchmarks.throughput.cost import Cost, cost_row, run_measured
from benchmarks.throughput.report import Report, Row
from benchmarks.throughput.texts import Documents, find_corpora, prepare_documents
from electrify.config.vocab import VocabConfig
from electrify.stage.folder import write_json
from electrify.system.progress import log
from vocab.compare import find_span_files

PACKAGES = ("tokenizers", "apache-beam", "kiwipiepy", "numpy", "pyarrow")
OURS = "electrify"
PEER = "BertWordPieceTokenizer"
ALONE = "encode_batch_fast alone, 2 threads"
MORPHEME_CUTS = ("particles", "nominal", "all")  # of the vocabularies learnt from Kiwi's morphemes
_TWO_PROCESSES = ("--direct_running_mode=multi_processing", "--direct_num_workers=2")
_TRAINING = f"""
{OURS}: words counted in Beam by a process of its own, then pieces learnt from the counts, until
tokenizer.json is written. {PEER}: `train_from_iterator` over the same files, 64 documents at a
time, same size, alphabet and least frequency. Costs are of a command with all its processes and
their start; memory is the largest sum of proportional set sizes, sampled ten times a second.
Ratios: the figure of the peer by that of ours. Morphemes: Kiwi sees each distinct word once.
"""
_ENCODING = """
The library alone encodes texts that are in memory; what is measured against it reads documents,
cuts them into sentences, encodes, and writes shards with checksums. Ratio: MB/s, by those of the
library.
"""
_BORDERS = """
Span ceiling: the share of answers or entities that begin and end at borders of pieces; a span head
cannot score above it in exact match. Pieces a word: as spaces part words. `nominal` is the default.
"""


@dataclass(frozen=True)
class Settings:
    """What the command was asked for."""

    data_dir: Path
    work: Path
    sizes_mb: tuple[float, ...]  # of Korean
    with_peer: bool
    with_kiwi: bool
    vocab_size: int


def measure(settings: Settings) -> Report:
    """Run everything asked for; `ValueError` if there are no data or a run fails."""
    log("preparing the documents")
    whole = prepare_documents(settings.work / "all", find_corpora(settings.data_dir, None))
    korean = _korean(settings)
    report = Report("The vocabulary and the token shards", PACKAGES, _describe(korean[-1], whole))
    report.conditions["vocab_size"] = settings.vocab_size
    training: list[Row] = []
    for documents in korean:
        training += _train(documents, "ko", settings)
    training += _train(whole, "all languages", settings)
    if settings.with_kiwi:
        training += [_train_on_morphemes(korean[-1], cuts, settings) for cuts in MORPHEME_CUTS]
    report.add("training", "Training", _TRAINING, training)
    report.add("encoding", "Encoding", _ENCODING, _measure_encoding(korean[-1], settings))
    spans = settings.data_dir / "klue"
    if spans.is_dir():
        title = "Pieces a word against span ceiling"
        report.add("borders", title, _BORDERS, _measure_borders(korean[-1], spans, settings))
    else:
        report.notes.append("No folder klue in the data: borders of pieces were not measured.")
    return report


def _korean(settings: Settings) -> list[Documents]:
    """The texts of the asked sizes, as far as there is text; the smallest first."""
    corpora = find_corpora(settings.data_dir, ["ko"])
    full = prepare_documents(settings.work / "ko", corpora)
    found = []
    for size in sorted(settings.sizes_mb):
        share = size * 1e6 / full.num_bytes
        if share >= 1:
            found.append(full)
            break
        found.append(prepare_documents(settings.work / f"ko-{size:g}", corpora, share))
    return found


def _train(documents: Documents, text: str, settings: Settings) -> list[Row]:
    """Plain words, as the peer has it, by both."""
    log(f"training on {documents.num_bytes / 1e6:,.1f} MB, {text}")
    size = documents.num_documents, documents.num_bytes
    ours = {"text": text} | cost_row(OURS, *size, _train_ours(documents, "none", settings))
    if not settings.with_peer:
        return [ours]
    config = VocabConfig.model_validate({"size": settings.vocab_size})
    task = {
        "size": settings.vocab_size,
        "min_frequency": config.min_frequency,
        "limit_alphabet": config.limit_alphabet,
        "documents": _names(documents),
        "folder": str(documents.folder / "vocab-peer"),
    }
    peer = {"text": text} | cost_row(PEER, *size, _run("train_peer", task, documents.folder))
    for name in ("wall_seconds", "cpu_seconds", "peak_mb"):
        peer[f"ratio_of_{name}"] = peer[name] / ours[name]
    return [ours, peer]


def _train_on_morphemes(documents: Documents, cuts: str, settings: Settings) -> Row:
    log(f"training on morphemes: {cuts}")
    cost = _train_ours(documents, cuts, settings)
    size = documents.num_documents, documents.num_bytes
    return {"text": "ko"} | cost_row(f"{OURS}, morphemes: {cuts}", *size, cost)


def _train_ours(documents: Documents, cuts: str, settings: Settings) -> Cost:
    task = {
        "config": _config(documents, cuts, settings),
        "documents": _names(documents),
        "beam_options": [],
        "folder": str(_vocab(documents, cuts)),
    }
    return _run("train", task, documents.folder)


def _measure_encoding(documents: Documents, settings: Settings) -> list[Row]:
    log("encoding")
    size = documents.num_documents, documents.num_bytes
    vocab = _vocab(documents, "none")
    task: dict[str, Any] = {"vocab": str(vocab), "documents": _names(documents)}
    found = _run_for_result("encode_alone", task, documents.folder)
    cost = Cost(found["wall_seconds"], found["cpu_seconds"], None, None)
    rows = [cost_row(ALONE, *size, cost, "texts in memory, ids not kept")]
    for name, options in (
        ("documents to shards, 2 processes", _TWO_PROCESSES),
        ("documents to shards, as the local runner chooses", ()),
    ):
        task = {
            "config": _config(documents, "none", settings),
            "beam_options": list(options),
            "folder": str(documents.folder / f"shards-{len(rows)}"),
        }
        cost = _run("encode", task, documents.folder)
        note = "start of the processes, sentences, shards and checksums included"
        row = cost_row(name, *size, cost, note)
        row["ratio_of_mb_per_second"] = row["mb_per_second"] / rows[0]["mb_per_second"]
        rows.append(row)
    return list(rows)


def _measure_borders(documents: Documents, folder: Path, settings: Settings) -> list[Row]:
    """Every vocabulary learnt on the largest Korean text, on every file of answers or entities."""
    named = {PEER: documents.folder / "vocab-peer"} if settings.with_peer else {}
    named["whitespace"] = _vocab(documents, "none")
    if settings.with_kiwi:
        named |= {cuts: _vocab(documents, cuts) for cuts in MORPHEME_CUTS}
    log("spans")
    task = {
        "files": [str(path) for path in find_span_files(folder)],
        "vocabularies": [[name, str(path)] for name, path in named.items()],
    }
    rows = _run_for_result("measure_spans", task, documents.folder)["rows"]
    return [{"name": row["name"], "data": row["data"]} | row for row in rows]


def _config(documents: Documents, cuts: str, settings: Settings) -> dict[str, Any]:
    """A run's config whose `clean` and `vocab` are the documents' and those of plain words."""
    vocab: dict[str, Any] = {"size": settings.vocab_size}
    if cuts == "none":
        vocab["pretokenizer"] = "whitespace"
    else:
        vocab |= {"pretokenizer": "kiwi", "morpheme_cuts": cuts}
    return {
        "name": "throughput",
        "output_dir": str(documents.folder),
        "clean": {"sources": [{"kind": "text", "language": "ko", "path": "unused.txt"}]},
        "vocab": vocab,
        "encode": {},
        "pretrain": {},
    }


def _vocab(documents: Documents, cuts: str) -> Path:
    # encode() takes what it needs from `vocab`
    return documents.folder / ("vocab" if cuts == "none" else f"vocab-{cuts}")


def _names(documents: Documents) -> list[str]:
    return [str(path) for path in documents.paths]


def _run(job: str, task: Mapping[str, Any], folder: Path) -> Cost:
    path = folder / f"{job}.json"
    write_json(path, dict(task))
    command = [sys.executable, "-m", "benchmarks.throughput.vocab_jobs", job, str(path)]
    return run_measured(command, folder / f"{job}.log", Path(electrify.__file__).parents[1])


def _run_for_result(job: str, task: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    output = folder / f"{job}-found.json"
    _run(job, {**task, "output": str(output)}, folder)
    found: dict[str, Any] = json.loads(output.read_text(encoding="utf-8"))
    return found


def _describe(korean: Documents, whole: Documents) -> dict[str, Any]:
    return {
        "korean_documents": korean.num_documents,
        "korean_megabytes": korean.num_bytes / 1e6,
        "all_documents": whole.num_documents,
        "all_megabytes": whole.num_bytes / 1e6,
        "cleaning": "NFC and whitespace made even, nothing removed",
    }
