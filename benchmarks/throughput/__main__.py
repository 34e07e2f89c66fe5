"""Throughput of the stages.

python -m benchmarks.throughput corpus [--peer] [--json PATH] [--report DIR]
python -m benchmarks.throughput vocab [--peer] [--json PATH] [--report DIR]
python -m benchmarks.throughput pretrain [--device cuda] [--size base] [--peer] [--json PATH] ...
python -m benchmarks.throughput finetune [--model DIR] [--data-dir DIR] [--peer] [--json PATH] ...

Each stage's modules are imported when it is asked for: a host with a GPU need not have what reads
and cleans text.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.pages.twin_page import TwinPage
from electrify.stage.folder import write_json
from electrify.system.machine import load_warning, prepare_threads
from electrify.system.progress import setup_logging, warn

if TYPE_CHECKING:
    from benchmarks.throughput.run import Settings


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one benchmark and print its tables; the exit status: 0 done, 1 refused."""
    parsed = _parser().parse_args(arguments)
    setup_logging()
    prepare_threads()
    if loaded := load_warning():
        warn(loaded)
    try:
        document: TwinPage = parsed.measure(parsed)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(document.markdown())
    return 0


def _measure_corpus(parsed: argparse.Namespace) -> TwinPage:
    from benchmarks.throughput.run import measure_corpus_stage
    from benchmarks.throughput.table import build_page

    figures = measure_corpus_stage(_settings(parsed))
    return _written(parsed, build_page(figures), figures.as_json())


def _measure_vocab(parsed: argparse.Namespace) -> TwinPage:
    from benchmarks.throughput.vocab_run import VocabSettings, measure_vocab_stage, sizes_of
    from benchmarks.throughput.vocab_table import build_vocab_page

    settings = VocabSettings(
        Path(parsed.data_dir),
        Path(parsed.work).resolve(),
        sizes_of(parsed.sizes),
        parsed.peer,
        not parsed.no_kiwi,
        parsed.vocab_size,
    )
    figures = measure_vocab_stage(settings)
    return _written(parsed, build_vocab_page(figures), figures.as_json())


def _measure_pretrain(parsed: argparse.Namespace) -> TwinPage:
    from benchmarks.throughput.pretrain import measure_pretraining
    from benchmarks.throughput.pretrain_settings import PretrainSettings
    from benchmarks.throughput.pretrain_table import build_pretrain_page

    for name in ("batch_size", "micro_batches", "rounds", "steps", "band_steps"):
        if (value := getattr(parsed, name)) is not None and value < 1:
            raise ValueError(f"--{name.replace('_', '-')} {value}: at least 1")
    if not 0 <= parsed.dropout < 1:
        raise ValueError(f"--dropout {parsed.dropout:g}: from 0 to below 1")
    settings = PretrainSettings(
        parsed.device,
        parsed.size,
        parsed.peer,
        not parsed.no_compiled_peer,
        parsed.probe,
        Path(parsed.run) if parsed.run else None,
        parsed.batch_size,
        parsed.length,
        parsed.micro_batches,
        parsed.rounds,
        parsed.steps,
        parsed.dropout,
        parsed.precision,
        with_ceilings=not parsed.no_ceilings,
        with_padded=not parsed.no_padded,
        fast=parsed.fast,
        band_steps=parsed.band_steps if parsed.band else 0,
    )
    figures = measure_pretraining(settings)
    return _written(parsed, build_pretrain_page(figures), figures.as_json())


def _measure_finetune(parsed: argparse.Namespace) -> TwinPage:
    from benchmarks.throughput.finetune import (
        FinetuneSettings,
        build_finetune_page,
        measure_finetuning,
    )

    try:
        seeds = tuple(dict.fromkeys(int(seed) for seed in parsed.seeds.split(",")))
    except ValueError:
        raise ValueError(f"--seeds {parsed.seeds!r}: give numbers, such as 0,1,2") from None
    for name in ("rows", "reported", "batch_size", "length"):
        if (value := getattr(parsed, name)) < 1:
            raise ValueError(f"--{name.replace('_', '-')} {value}: at least 1")
    if parsed.epochs <= 0:
        raise ValueError(f"--epochs {parsed.epochs:g}: above 0")
    settings = FinetuneSettings(
        parsed.peer,
        not parsed.no_peer_by_length,
        parsed.model,
        parsed.size,
        Path(parsed.data_dir) if parsed.data_dir else None,
        tuple(parsed.tasks.split(",")),
        seeds,
        parsed.rows,
        parsed.reported,
        parsed.epochs,
        parsed.batch_size,
        parsed.learning_rate,
        parsed.length,
        parsed.pooling,
        parsed.device,
        parsed.precision,
    )
    figures = measure_finetuning(settings)
    return _written(parsed, build_finetune_page(figures), figures.as_json())


def _written(parsed: argparse.Namespace, document: TwinPage, record: object) -> TwinPage:
    """The document, after the files that were asked for are written."""
    if parsed.json:
        write_json(Path(parsed.json), record)
    if parsed.report:
        document.write(Path(parsed.report), record)
    return document


def _settings(parsed: argparse.Namespace) -> "Settings":
    from benchmarks.throughput.run import Settings

    languages = None if parsed.languages == "all" else tuple(parsed.languages.split(","))
    try:
        scale = tuple(float(size) for size in parsed.scale.split(",") if size != "none")
    except ValueError:
        raise ValueError(
            f"--scale {parsed.scale!r}: give sizes in MB, such as 10,30,90, or none"
        ) from None
    for name, least in (("exact", 0), ("near", 0), ("workers", 1)):
        if (value := getattr(parsed, name)) < least:
            raise ValueError(f"--{name} {value}: at least {least}")
    if not all(size > 0 for size in scale):
        raise ValueError(f"--scale {parsed.scale!r}: sizes are in MB and above 0")
    return Settings(
        data_dir=Path(parsed.data_dir),
        work=Path(parsed.work).resolve(),
        languages=languages,
        num_exact=parsed.exact,
        num_near=parsed.near,
        seed=parsed.seed,
        with_peer=parsed.peer,
        with_steps=not parsed.no_steps,
        scale_mb=scale,
        num_workers=parsed.workers,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.throughput", allow_abbrev=False)
    stages = parser.add_subparsers(required=True, metavar="STAGE")
    corpus = stages.add_parser("corpus", help="raw text to documents, against datatrove")
    corpus.set_defaults(measure=_measure_corpus)
    _add_common(corpus)
    add = corpus.add_argument
    add(
        "--peer",
        action="store_true",
        help="run datatrove too, in three settings and an environment of its own",
    )
    add("--work", default="out/throughput", help="folder for inputs, runs and the peer")
    add("--languages", default="ko,en", help="corpora of the main part, or all")
    add("--scale", default="10,30,90", help="MB of all languages beside the whole, or none")
    add("--workers", type=int, default=2, help="processes of the whole graph and of the peer")
    add("--no-steps", action="store_true", help="leave out the runs with one part each")
    add("--exact", type=int, default=1000, help="planted exact copies")
    add("--near", type=int, default=150, help="planted copies of each kind and Jaccard")
    add("--seed", type=int, default=0, help="of the planted copies")
    vocab = stages.add_parser("vocab", help="documents to pieces and shards, against tokenizers")
    vocab.set_defaults(measure=_measure_vocab)
    _add_common(vocab)
    add = vocab.add_argument
    add("--peer", action="store_true", help="train BertWordPieceTokenizer on the same texts, too")
    add("--work", default="out/throughput-vocab", help="folder for documents and runs")
    add("--sizes", default="10,50,90", help="MB of Korean, the last for all but training")
    add("--vocab-size", type=int, default=32_000, help="pieces")
    add("--no-kiwi", action="store_true", help="leave out the vocabularies of morphemes")
    _add_pretrain(stages.add_parser("pretrain", help="steps a second, against transformers"))
    _add_finetune(stages.add_parser("finetune", help="examples a second, against its Trainer"))
    return parser


def _add_pretrain(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(measure=_measure_pretrain)
    _add_outputs(parser)
    add = parser.add_argument
    add("--device", choices=("auto", "cpu", "cuda"), default="auto")
    add(
        "--size",
        choices=("small", "base", "large", "tiny"),
        default="small",
        help="the paper's, or tiny to try the command out",
    )
    add("--peer", action="store_true", help="time the step of transformers, plain and compiled")
    add("--no-compiled-peer", action="store_true", help="leave out the compiled one")
    add("--probe", action="store_true", help="also time attention backends and head widths; GPU")
    add("--run", metavar="DIR", help="read the shards of this run in place of synthetic text")
    add("--batch-size", type=int, help="sequences a step")
    add("--length", type=int, help="tokens of a sequence")
    add("--micro-batches", type=int, default=1, help="time ours in so many parts, too")
    add("--rounds", type=int, help="of all systems in turn")
    add("--steps", type=int, help="of each system in a round")
    add("--dropout", type=float, default=0.1)
    add("--no-padded", action="store_true", help="leave out sequences with padding")
    add(
        "--fast",
        choices=("auto", "on", "off"),
        default="auto",
        help="ours as a run on the device, compiled in any case, or as written",
    )
    add("--band", action="store_true", help="also compare loss curves, as written and fast")
    add("--band-steps", type=int, default=500, help="of each curve")
    add("--precision", choices=("auto", "fp32", "bf16"), default="auto")
    add("--no-ceilings", action="store_true", help="leave out the matrix product and the copy")


def _add_finetune(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(measure=_measure_finetune)
    _add_outputs(parser)
    add = parser.add_argument
    add("--peer", action="store_true", help="fine-tune with the Trainer of transformers, too")
    add("--no-peer-by-length", action="store_true", help="leave out its batches of like length")
    add("--model", metavar="DIR", help="the encoder, or a hub name; without, random weights")
    add(
        "--size",
        choices=("tiny", "small", "base", "large"),
        default="tiny",
        help="of random weights: the paper's, or tiny to try the command out",
    )
    add("--data-dir", metavar="DIR", help="folder with the tasks' files; without, texts made here")
    add("--tasks", default="klue-ynat,klue-nli", help="of that folder")
    add("--seeds", default="0,1,2,3,4", help="one fine-tuning of each system a seed")
    add("--rows", type=int, default=2048, help="training rows")
    add("--reported", type=int, default=1000, help="rows that are scored, at most")
    add("--epochs", type=float, default=3.0)
    add("--batch-size", type=int, default=32)
    add("--learning-rate", type=float, help="the recipe's if not given")
    add("--length", type=int, default=128, help="pieces of a row, at most")
    add("--pooling", choices=("cls", "mean"), default="cls", help="what the head reads")
    add("--device", choices=("auto", "cpu", "cuda"), default="auto")
    add("--precision", choices=("auto", "fp32", "bf16"), default="auto")


def _add_outputs(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--json", metavar="PATH", help="write every figure to this file")
    add("--report", metavar="DIR", help="write report.html, report.md and report.json")


def _add_common(parser: argparse.ArgumentParser) -> None:
    _add_outputs(parser)
    add = parser.add_argument
    add("--data-dir", default="../shared/data", help="folder with corpora/<language>/*.jsonl.gz")


if __name__ == "__main__":
    sys.exit(main())
