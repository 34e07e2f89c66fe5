"""The benchmark of the vocabulary and of the token shards: prepare, run, judge."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import electrify
from benchmarks.throughput.corpus import find_corpora
from benchmarks.throughput.figures import Step, added_step, step_of
from benchmarks.throughput.measure import Cost, run_measured
from benchmarks.throughput.vocab_figures import (
    ALONE,
    DEFAULT,
    END_TO_END,
    OURS,
    PEER,
    WHITESPACE,
    Point,
    Trained,
    VocabFigures,
    judge,
    largest,
)
from benchmarks.throughput.vocab_text import Documents, prepare_documents
from electrify.config.vocab import VocabConfig
from electrify.stage.folder import write_json
from electrify.system.progress import log
from vocab.compare import find_span_files

KIWI_CUTS = ("particles", "nominal", "all")
CROSSINGS = (0.0, 0.03, 0.3, 1.0)  # beside the default
_KIWI_BYTES = 2_000_000  # of running text, analysed by kiwipiepy alone
_TWO_PROCESSES = ("--direct_running_mode=multi_processing", "--direct_num_workers=2")


@dataclass(frozen=True)
class VocabSettings:
    """What the command was asked for."""

    data_dir: Path
    work: Path
    sizes_mb: tuple[float, ...]  # of Korean
    with_peer: bool
    with_kiwi: bool
    vocab_size: int


def measure_vocab_stage(settings: VocabSettings) -> VocabFigures:
    """Run everything asked for; `ValueError` if there are no data or a run fails."""
    every = find_corpora(settings.data_dir, None)
    log("preparing the documents")
    whole = prepare_documents(settings.work / "all", every)
    korean = _korean(settings)
    figures = VocabFigures(_describe(korean[-1], whole, settings))
    for documents in korean:
        _train(documents, "ko", settings, figures)
    _train(whole, "all languages", settings, figures)
    _measure_encoding(korean[-1], settings, figures)
    if settings.with_kiwi:
        _measure_kiwi(korean[-1], settings, figures)
    _measure_curve(korean[-1], settings, figures)
    figures.goals = judge(figures)
    return figures


def _korean(settings: VocabSettings) -> list[Documents]:
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


def _train(documents: Documents, text: str, settings: VocabSettings, figures: VocabFigures) -> None:
    """Plain words, as the peer has it, by both."""
    log(f"training on {documents.num_bytes / 1e6:,.1f} MB, {text}")
    size = documents.num_documents, documents.num_bytes
    cost = _train_ours(documents, "none", settings)
    figures.training.append(Trained(text, step_of(OURS, *size, cost, "whitespace")))
    if settings.with_peer:
        config = VocabConfig()
        task = {
            "size": settings.vocab_size,
            "min_frequency": config.min_frequency,
            "limit_alphabet": config.limit_alphabet,
            "documents": _names(documents),
            "folder": str(documents.folder / "vocab-peer"),
        }
        cost = _run("train_peer", task, documents.folder)
        figures.training.append(Trained(text, step_of(PEER, *size, cost)))


def _train_ours(documents: Documents, cuts: str, settings: VocabSettings) -> Cost:
    task = {
        "config": _config(documents, cuts, settings),
        "documents": _names(documents),
        "beam_options": [],
        "folder": str(_vocab(documents, cuts)),
    }
    return _run("train", task, documents.folder)


def _measure_encoding(documents: Documents, settings: VocabSettings, figures: VocabFigures) -> None:
    log("encoding")
    size = documents.num_documents, documents.num_bytes
    vocab = _vocab(documents, "none")
    task: dict[str, Any] = {"vocab": str(vocab), "documents": _names(documents)}
    found = _run_for_result("encode_alone", task, documents.folder)
    figures.encoding.append(
        Step(
            ALONE,
            size[0],
            size[1] / 1e6,
            found["cpu_seconds"],
            found["wall_seconds"],
            note="texts in memory, ids not kept",
        )
    )
    for name, options in (
        (END_TO_END, _TWO_PROCESSES),
        ("documents to shards, as the local runner chooses", ()),
    ):
        task = {
            "config": _config(documents, "none", settings),
            "beam_options": list(options),
            "folder": str(documents.folder / f"shards-{len(figures.encoding)}"),
        }
        cost = _run("encode", task, documents.folder)
        note = "start of the processes, sentences, shards and checksums included"
        figures.encoding.append(step_of(name, *size, cost, note))


def _measure_kiwi(documents: Documents, settings: VocabSettings, figures: VocabFigures) -> None:
    """Training on morphemes, and what the analysis adds to training on plain words."""
    size = documents.num_documents, documents.num_bytes
    plain = largest(figures.training, OURS)
    assert plain is not None
    for cuts in KIWI_CUTS:
        log(f"training on morphemes: {cuts}")
        run = step_of(f"training, {cuts}", *size, _train_ours(documents, cuts, settings))
        figures.kiwi.append(run)
        if cuts == DEFAULT:
            wall = max(0.0, (run.wall_seconds or 0) - (plain.wall_seconds or 0))
            added = added_step("kiwi pass, each distinct word once", run, plain)
            note = "training on morphemes less training on plain words; loads the model, too"
            figures.kiwi.append(
                Step(added.name, *size[:1], added.megabytes, added.cpu_seconds, wall, note=note)
            )
    task = {
        "documents": _names(documents),
        "bytes": _KIWI_BYTES,
        "total_bytes": documents.num_bytes,
    }
    found = _run_for_result("kiwi_alone", task, documents.folder)
    figures.kiwi.append(
        Step(
            "kiwipiepy alone, running text",
            int(found["documents"]),
            found["bytes"] / 1e6,
            found["cpu_seconds"],
            found["wall_seconds"],
            note="all cores, a sample of the text",
        )
    )


def _measure_curve(documents: Documents, settings: VocabSettings, figures: VocabFigures) -> None:
    """Fertility and ceiling of every vocabulary learnt on the largest Korean text."""
    folder = settings.data_dir / "klue"
    if not folder.is_dir():
        figures.notes.append("No folder klue in the data: the trade-off was not measured.")
        return
    named = {PEER: documents.folder / "vocab-peer"} if settings.with_peer else {}
    named[WHITESPACE] = _vocab(documents, "none")
    if settings.with_kiwi:
        named |= {cuts: _vocab(documents, cuts) for cuts in KIWI_CUTS}
        for crossing in CROSSINGS:
            log(f"nominal, max_crossing {crossing:g}")
            name = f"{DEFAULT}, max_crossing {crossing:g}"
            named[name] = documents.folder / f"vocab-crossing-{crossing:g}"
            task = {
                "config": _config(documents, DEFAULT, settings),
                "counts": str(_vocab(documents, DEFAULT) / "word_counts.parquet"),
                "max_crossing": crossing,
                "folder": str(named[name]),
            }
            _run("learn_again", task, documents.folder)
    log("spans")
    task = {
        "files": [str(path) for path in find_span_files(folder)],
        "vocabularies": [[name, str(path)] for name, path in named.items()],
    }
    for row in _run_for_result("measure_spans", task, documents.folder)["rows"]:
        figures.curve.append(
            Point(
                row["name"],
                row["data"],
                row["pieces"],
                row["pieces_per_word"],
                row["span_ceiling"],
                row["start_ceiling"],
                row["end_ceiling"],
                row["num_spans"],
            )
        )


def _config(documents: Documents, cuts: str, settings: VocabSettings) -> dict[str, Any]:
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


def _describe(korean: Documents, whole: Documents, settings: VocabSettings) -> dict[str, Any]:
    return {
        "korean_documents": korean.num_documents,
        "korean_megabytes": korean.num_bytes / 1e6,
        "all_documents": whole.num_documents,
        "all_megabytes": whole.num_bytes / 1e6,
        "vocab_size": settings.vocab_size,
    }


def sizes_of(text: str) -> tuple[float, ...]:
    """`10,50,90` as numbers; `ValueError` for anything else."""
    try:
        sizes: Sequence[float] = [float(size) for size in text.split(",")]
    except ValueError:
        sizes = []
    if not sizes or not all(0 < size < float("inf") for size in sizes):
        raise ValueError(f"--sizes {text!r}: give sizes in MB above 0, such as 10,50,90")
    return tuple(sizes)
