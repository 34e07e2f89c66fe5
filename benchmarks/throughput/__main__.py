"""Figures of the stages beside a named peer, in one run.

python -m benchmarks.throughput STAGE [--peer] [--json PATH] ...

STAGE is corpus, vocab, pretrain, finetune, inference or scale.

Each stage's module is imported when it is asked for: a host with a GPU need not have what reads
and cleans text.
"""

import argparse
import importlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.throughput.report import Report
from electrify.stage.folder import write_json
from electrify.system.machine import load_warning, prepare_threads
from electrify.system.outcome import status_of
from electrify.system.progress import setup_logging, warn

_SIZES = ("tiny", "small", "base", "large")
_DATA = Path("../shared/data")
_MODULES = {
    "corpus": "corpus.corpus",
    "vocab": "vocab.vocab",
    "pretrain": "pretrain.pretrain",
    "finetune": "finetune.finetune",
    "inference": "inference",
    "scale": "corpus.scale",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one benchmark and print its tables; the exit status: 0 done, 1 refused."""
    options = vars(_parser().parse_args(arguments))
    stage, path = options.pop("stage"), options.pop("json", None)
    setup_logging()
    prepare_threads()
    if loaded := load_warning():
        warn(loaded)

    def work() -> int:
        module = importlib.import_module(f"benchmarks.throughput.{_MODULES[stage]}")
        report: Report = module.measure(module.Settings(**options))
        if path:
            write_json(path, report.as_json())
        print(report.markdown())
        return 0

    return status_of(work)


def _parser() -> argparse.ArgumentParser:
    """Options have the names of the settings' fields."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.throughput", allow_abbrev=False)
    stages = parser.add_subparsers(required=True, metavar="STAGE", dest="stage")
    _add_corpus(stages.add_parser("corpus", help="raw text to documents, against datatrove"))
    _add_vocab(stages.add_parser("vocab", help="documents to shards, against tokenizers"))
    _add_pretrain(stages.add_parser("pretrain", help="steps a second, against transformers"))
    _add_finetune(stages.add_parser("finetune", help="examples a second, against its Trainer"))
    _add_inference(stages.add_parser("inference", help="ONNX and int8, against torch"))
    _add_scale(stages.add_parser("scale", help="the passes of clean by size, made-up corpora"))
    for stage in stages.choices.values():
        add = stage.add_argument
        add("--peer", action="store_true", dest="with_peer", help="measure the peer, too")
        add("--json", metavar="PATH", type=Path, help="write every figure there")
    return parser


def _add_texts(parser: argparse.ArgumentParser, work: str, languages: str) -> None:
    add = parser.add_argument
    data = "folder with corpora/<language>/*.jsonl.gz"
    add("--data-dir", metavar="DIR", default=_DATA, type=Path, help=data)
    folder = "folder for inputs and runs"
    add("--work", metavar="DIR", default=work, type=lambda text: Path(text).resolve(), help=folder)
    add("--languages", default=languages, type=_languages, help="corpora, or all")
    add("--megabytes", type=_positive, help="of text, spread evenly; without, all of it")


def _add_corpus(parser: argparse.ArgumentParser) -> None:
    _add_texts(parser, "out/throughput", "ko,en")
    add = parser.add_argument
    workers = "processes of the whole graph and of the peer"
    add("--workers", type=_count(1), default=2, dest="num_workers", help=workers)
    add("--exact", type=_count(0), default=1000, dest="num_exact", help="planted exact copies")
    add("--near", type=_count(0), default=1200, dest="num_near", help="planted near copies")
    add("--seed", type=int, default=0, help="of the planted copies")


def _add_vocab(parser: argparse.ArgumentParser) -> None:
    _add_texts(parser, "out/throughput-vocab", "ko")
    add = parser.add_argument
    add("--vocab-size", type=_count(1), default=32_000, help="pieces")
    cuts = "how ours cuts words; the peer cuts none"
    add("--pretokenizer", choices=("whitespace", "kiwi"), default="whitespace", help=cuts)


def _add_pretrain(parser: argparse.ArgumentParser) -> None:
    parser.argument_default = argparse.SUPPRESS  # the settings have defaults
    _add_device(parser)
    add = parser.add_argument
    add("--size", choices=_SIZES, help="the paper's, or tiny to try the command")
    add("--batch-size", type=_count(1), help="sequences a step")
    add("--length", type=int, help="tokens of a sequence")
    add("--micro-batches", type=_count(1), help="time ours in so many parts, too")
    add("--rounds", type=_count(1), help="of all systems in turn")
    add("--steps", type=_count(1), help="of each system in a round")
    add("--dropout", type=_fraction)


def _add_finetune(parser: argparse.ArgumentParser) -> None:
    parser.argument_default = argparse.SUPPRESS  # the settings have defaults
    _add_device(parser)
    add = parser.add_argument
    add("--model", metavar="DIR", help="the encoder, or a hub name; without, random weights")
    add("--size", choices=_SIZES, help="of random weights: the paper's, or tiny")
    add("--data-dir", metavar="DIR", type=Path, help="folder with the tasks' files")
    add("--tasks", type=_words, help="of that folder")
    add("--seeds", type=_numbers, help="one fine-tuning of each system a seed")
    add("--rows", type=_count(1), dest="num_train", help="training rows")
    add("--reported", type=_count(1), dest="num_reported", help="rows that are scored, at most")
    add("--epochs", type=_positive, dest="num_epochs")
    add("--batch-size", type=_count(1))
    add("--learning-rate", type=_positive, help="the recipe's if not given")
    add("--length", type=_count(1), help="pieces of a row, at most")


def _add_inference(parser: argparse.ArgumentParser) -> None:
    parser.argument_default = argparse.SUPPRESS  # the settings have defaults
    add = parser.add_argument
    add("--model", metavar="DIR", help="the encoder's folder; without, random weights")
    add("--size", choices=_SIZES, help="of random weights: the paper's, or tiny")
    names = "ways to make int8 (benchmarks/onnx/variants.toml)"
    add("--variants", type=_words, help=names)
    add("--lengths", type=_numbers, help="tokens of a row")
    add("--threads", type=_numbers)
    add("--batch-size", type=_count(1), help="rows at once")
    add("--rounds", type=_count(1), dest="num_rounds", help="of all systems in turn")


def _add_scale(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--documents", type=_count(1), default=100_000, dest="num_documents", help="of about 1 kB")
    folder = "folder for the corpus and the run"
    work = "out/throughput-scale"
    add("--work", metavar="DIR", default=work, type=lambda text: Path(text).resolve(), help=folder)
    add("--seed", type=int, default=0, help="of the corpus")
    off = "only what needs all documents: duplicates"
    add("--no-rules", action="store_false", dest="with_rules", help=off)
    hashes = "draw hashes in place of texts: for more documents than the disk holds"
    add("--hashes-only", action="store_true", help=hashes)


def _add_device(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"))
    parser.add_argument("--precision", choices=("auto", "fp32", "bf16"))


# How options read; argparse names the one whose value is refused.


def _count(least: int) -> Callable[[str], int]:
    def count(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is no number of at least {least}")
        return int(text)

    return count


def _positive(text: str) -> float:
    if not 0 < (number := float(text)) < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not above 0")
    return number


def _fraction(text: str) -> float:
    if not 0 <= (number := float(text)) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not from 0 to below 1")
    return number


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(dict.fromkeys(map(int, _words(text))))


def _languages(text: str) -> tuple[str, ...] | None:
    return None if text == "all" else _words(text)


if __name__ == "__main__":
    sys.exit(main())
