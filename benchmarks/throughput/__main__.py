"""Figures of the stages beside a named peer, in one run.

python -m benchmarks.throughput corpus [--peer] [--json PATH]
python -m benchmarks.throughput vocab [--peer] [--json PATH]
python -m benchmarks.throughput pretrain [--device cuda] [--size base] [--peer] [--json PATH] ...
python -m benchmarks.throughput finetune [--model DIR] [--data-dir DIR] [--peer] [--json PATH] ...

Each stage's modules are imported when it is asked for: a host with a GPU need not have what reads
and cleans text.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.throughput.report import Report
from electrify.stage.folder import write_json
from electrify.system.machine import load_warning, prepare_threads
from electrify.system.progress import setup_logging, warn


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one benchmark and print its tables; the exit status: 0 done, 1 refused."""
    parsed = _parser().parse_args(arguments)
    setup_logging()
    prepare_threads()
    if loaded := load_warning():
        warn(loaded)
    try:
        report: Report = parsed.measure(parsed)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if parsed.json:
        write_json(Path(parsed.json), report.as_json())
    print(report.markdown())
    return 0


def _measure_corpus(parsed: argparse.Namespace) -> Report:
    from benchmarks.throughput.corpus import CorpusSettings, measure_corpus

    _check_least(parsed, 0, "exact", "near")
    _check_least(parsed, 1, "workers")
    settings = CorpusSettings(
        data_dir=Path(parsed.data_dir),
        work=Path(parsed.work).resolve(),
        languages=None if parsed.languages == "all" else tuple(parsed.languages.split(",")),
        num_exact=parsed.exact,
        num_near=parsed.near,
        seed=parsed.seed,
        with_peer=parsed.peer,
        num_workers=parsed.workers,
    )
    return measure_corpus(settings)


def _measure_vocab(parsed: argparse.Namespace) -> Report:
    from benchmarks.throughput.vocab import VocabSettings, measure_vocab

    settings = VocabSettings(
        data_dir=Path(parsed.data_dir),
        work=Path(parsed.work).resolve(),
        sizes_mb=_sizes("--sizes", parsed.sizes),
        with_peer=parsed.peer,
        with_kiwi=not parsed.no_kiwi,
        vocab_size=parsed.vocab_size,
    )
    return measure_vocab(settings)


def _measure_pretrain(parsed: argparse.Namespace) -> Report:
    from benchmarks.throughput.pretrain import PretrainSettings, measure_pretraining

    _check_least(parsed, 1, "batch_size", "micro_batches", "rounds", "steps")
    if not 0 <= parsed.dropout < 1:
        raise ValueError(f"--dropout {parsed.dropout:g}: from 0 to below 1")
    settings = PretrainSettings(
        device=parsed.device,
        size=parsed.size,
        with_peer=parsed.peer,
        with_compiled_peer=not parsed.no_compiled_peer,
        run=Path(parsed.run) if parsed.run else None,
        batch_size=parsed.batch_size,
        length=parsed.length,
        micro_batches=parsed.micro_batches,
        rounds=parsed.rounds,
        steps=parsed.steps,
        dropout=parsed.dropout,
        precision=parsed.precision,
        with_padded=not parsed.no_padded,
        fast=parsed.fast,
    )
    return measure_pretraining(settings)


def _measure_finetune(parsed: argparse.Namespace) -> Report:
    from benchmarks.throughput.finetune import FinetuneSettings, measure_finetuning

    try:
        seeds = tuple(dict.fromkeys(int(seed) for seed in parsed.seeds.split(",")))
    except ValueError:
        raise ValueError(f"--seeds {parsed.seeds!r}: give numbers, such as 0,1,2") from None
    _check_least(parsed, 1, "rows", "reported", "batch_size", "length")
    if parsed.epochs <= 0:
        raise ValueError(f"--epochs {parsed.epochs:g}: above 0")
    settings = FinetuneSettings(
        with_peer=parsed.peer,
        with_lengths=not parsed.no_peer_by_length,
        model=parsed.model,
        size=parsed.size,
        data_dir=Path(parsed.data_dir) if parsed.data_dir else None,
        tasks=tuple(parsed.tasks.split(",")),
        seeds=seeds,
        num_train=parsed.rows,
        num_reported=parsed.reported,
        num_epochs=parsed.epochs,
        batch_size=parsed.batch_size,
        learning_rate=parsed.learning_rate,
        length=parsed.length,
        pooling=parsed.pooling,
        device=parsed.device,
        precision=parsed.precision,
    )
    return measure_finetuning(settings)


def _check_least(parsed: argparse.Namespace, least: int, *names: str) -> None:
    for name in names:
        if (value := getattr(parsed, name)) is not None and value < least:
            raise ValueError(f"--{name.replace('_', '-')} {value}: at least {least}")


def _sizes(option: str, text: str) -> tuple[float, ...]:
    """`10,50,90` as numbers; `ValueError` for anything else."""
    try:
        sizes = tuple(float(size) for size in text.split(","))
    except ValueError:
        sizes = ()
    if not sizes or not all(0 < size < float("inf") for size in sizes):
        raise ValueError(f"{option} {text!r}: give sizes in MB above 0, such as 10,50,90")
    return sizes


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.throughput", allow_abbrev=False)
    stages = parser.add_subparsers(required=True, metavar="STAGE")
    _add_corpus(stages.add_parser("corpus", help="raw text to documents, against datatrove"))
    _add_vocab(stages.add_parser("vocab", help="documents to shards, against tokenizers"))
    _add_pretrain(stages.add_parser("pretrain", help="steps a second, against transformers"))
    _add_finetune(stages.add_parser("finetune", help="examples a second, against its Trainer"))
    for stage in stages.choices.values():
        stage.add_argument("--json", metavar="PATH", help="write every figure to this file")
    return parser


def _add_corpus(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(measure=_measure_corpus)
    _add_texts(parser, "out/throughput")
    add = parser.add_argument
    peer = "run datatrove too, in three settings and an environment of its own"
    add("--peer", action="store_true", help=peer)
    add("--languages", default="ko,en", help="corpora of the main part, or all")
    add("--workers", type=int, default=2, help="processes of the whole graph and of the peer")
    add("--exact", type=int, default=1000, help="planted exact copies")
    add("--near", type=int, default=150, help="planted copies of each Jaccard")
    add("--seed", type=int, default=0, help="of the planted copies")


def _add_vocab(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(measure=_measure_vocab)
    _add_texts(parser, "out/throughput-vocab")
    add = parser.add_argument
    add("--peer", action="store_true", help="train BertWordPieceTokenizer on the same texts, too")
    add("--sizes", default="10,50,90", help="MB of Korean, the last for all but training")
    add("--vocab-size", type=int, default=32_000, help="pieces")
    add("--no-kiwi", action="store_true", help="leave out the vocabularies of morphemes")


def _add_texts(parser: argparse.ArgumentParser, work: str) -> None:
    add = parser.add_argument
    add("--data-dir", default="../shared/data", help="folder with corpora/<language>/*.jsonl.gz")
    add("--work", default=work, help="folder for inputs and runs")


def _add_pretrain(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(measure=_measure_pretrain)
    add = parser.add_argument
    add("--device", choices=("auto", "cpu", "cuda"), default="auto")
    sizes = ("small", "base", "large", "tiny")
    add("--size", choices=sizes, default="small", help="the paper's, or tiny to try the command")
    add("--peer", action="store_true", help="time the step of transformers, plain and compiled")
    add("--no-compiled-peer", action="store_true", help="leave out the compiled one")
    add("--run", metavar="DIR", help="read the shards of this run in place of synthetic text")
    add("--batch-size", type=int, help="sequences a step")
    add("--length", type=int, help="tokens of a sequence")
    add("--micro-batches", type=int, default=1, help="time ours in so many parts, too")
    add("--rounds", type=int, help="of all systems in turn")
    add("--steps", type=int, help="of each system in a round")
    add("--dropout", type=float, default=0.1)
    add("--no-padded", action="store_true", help="leave out sequences with padding")
    fast = "ours as a run on the device, compiled in any case, or as written"
    add("--fast", choices=("auto", "on", "off"), default="auto", help=fast)
    add("--precision", choices=("auto", "fp32", "bf16"), default="auto")


def _add_finetune(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(measure=_measure_finetune)
    add = parser.add_argument
    add("--peer", action="store_true", help="fine-tune with the Trainer of transformers, too")
    add("--no-peer-by-length", action="store_true", help="leave out its batches of like length")
    add("--model", metavar="DIR", help="the encoder, or a hub name; without, random weights")
    sizes, size = ("tiny", "small", "base", "large"), "of random weights: the paper's, or tiny"
    add("--size", choices=sizes, default="tiny", help=size)
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


if __name__ == "__main__":
    sys.exit(main())
