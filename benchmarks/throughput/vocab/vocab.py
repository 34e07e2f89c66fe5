"""The vocabulary and the token shards beside `tokenizers`: costs of training and encoding.

Every run is a process of its own.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import electrify
from benchmarks.throughput.corpus.corpora import find_corpora, prepare
from benchmarks.throughput.corpus.corpus import rules_off, run_electrify, write_config
from benchmarks.throughput.cost import Cost, cost_row, ratios, run_measured
from benchmarks.throughput.report import Report
from electrify.config.vocab import VocabConfig
from electrify.stage.folder import write_json
from electrify.system.progress import log
from pipeline.documents import document_paths, read_rows

PACKAGES = ("tokenizers", "apache-beam", "kiwipiepy", "numpy", "pyarrow")
OURS = "electrify"
PEER = "BertWordPieceTokenizer"
ALONE = "encode_batch_fast alone"
_TRAINING = f"""
{OURS}: `train-vocab` on documents that are cleaned by no rule, its report included. {PEER}:
`train_from_iterator` over the same files, 64 documents at a time, same size, alphabet and least
frequency. Costs are of a command with all its processes and their start; memory is the largest sum
of proportional set sizes, sampled twice a second. Ratios: how many times as fast ours is.
"""
_ENCODING = """
The library alone encodes texts that are in memory, on all cores, and keeps nothing. `encode` reads
documents, cuts them into sentences, encodes, and writes shards with checksums. Ratios: its speed by
that of the library.
"""


@dataclass(frozen=True)
class Settings:
    """What the command was asked for."""

    data_dir: Path
    work: Path
    languages: tuple[str, ...] | None  # None: all that are there
    megabytes: float | None  # of text; None: all
    with_peer: bool
    pretokenizer: Literal["whitespace", "kiwi"]  # the peer has the first
    vocab_size: int


def measure(settings: Settings) -> Report:
    """Clean, train and encode; `ValueError` if there are no data or a run fails."""
    work = settings.work
    corpora = find_corpora(settings.data_dir, settings.languages)
    log("preparing the documents")
    prepared = prepare(work / "input", corpora, settings.megabytes)
    dedup = ("exact_dedup", "line_dedup.enabled", "near_dedup.enabled")
    vocab = f'[vocab]\nsize = {settings.vocab_size}\npretokenizer = "{settings.pretokenizer}"'
    clean = rules_off() | dict.fromkeys(dedup, False)
    config = write_config(prepared, work, clean, [vocab, "[encode]", "[pretrain]"])
    run_electrify("clean", config)
    documents = document_paths(work / "out" / "clean")
    rows = [row["text"] for row in read_rows(documents, ["text"])]
    size = len(rows), sum(len(text.encode()) for text in rows)
    del rows
    conditions = {
        "languages": sorted({corpus.language for corpus in corpora}),
        "documents": size[0],
        "megabytes": size[1] / 1e6,
        "vocab_size": settings.vocab_size,
        "pretokenizer": settings.pretokenizer,
    }
    report = Report("The vocabulary and the token shards", PACKAGES, conditions)
    log("training")
    training = [cost_row(OURS, *size, run_electrify("train-vocab", config))]
    if settings.with_peer:
        options = VocabConfig.model_validate({"size": settings.vocab_size})
        task: dict[str, Any] = {
            "vocab_size": options.size,
            "min_frequency": options.min_frequency,
            "limit_alphabet": options.limit_alphabet,
        }
        peer = cost_row(PEER, *size, _run_peer("train", task, documents, work))
        training.append(peer | ratios(peer, training[0]))
    report.add("training", "Training", _TRAINING, training)
    log("encoding")
    encoding = [cost_row("documents to shards", *size, run_electrify("encode", config))]
    if settings.with_peer:
        task = {"tokenizer": str(work / "out" / "vocab" / "tokenizer.json")}
        _run_peer("encode", task, documents, work)
        seconds = json.loads((work / "encode.json").read_text(encoding="utf-8"))
        peer = cost_row(ALONE, *size, Cost(**seconds, peak_mb=None))
        encoding.append(peer | ratios(peer, encoding[0]))
    report.add("encoding", "Encoding", _ENCODING, encoding)
    return report


def _run_peer(job: str, options: dict[str, Any], documents: list[Path], work: Path) -> Cost:
    """What a job of `vocab.peer` costs, whose output is `<work>/<job>.json`."""
    task = {"options": options, "documents": [str(path) for path in documents]}
    path = work / f"{job}-task.json"
    write_json(path, task)
    command = [sys.executable, "-m", "benchmarks.throughput.vocab.peer", job, str(path)]
    command.append(str(work / f"{job}.json"))
    return run_measured(command, work / f"peer-{job}.log", Path(electrify.__file__).parents[1])
