"""The `electrify` command: one record a verb. What a verb does is in verbs.py, under its name.

verbs.py is imported when a verb runs: help and `--version` need no library.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from electrify.system.machine import prepare_threads
from electrify.system.outcome import nearest, status_of
from electrify.system.progress import setup_logging

Options = Callable[[argparse.ArgumentParser], None]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb; the exit status is 2 for bad usage, else that of `status_of`."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    beam_options: list[str] = []
    name = _verb_in(words)
    if "--" in words and name in VERBS and VERBS[name].has_beam:
        cut = words.index("--")
        words, beam_options = words[:cut], words[cut + 1 :]
    parsed = _parse(words)
    parsed.beam_options, parsed.has_beam = beam_options, VERBS[parsed.name].has_beam
    setup_logging()
    prepare_threads()
    if os.environ.get("WORLD_SIZE", "1") != "1" and parsed.name != "pretrain":
        print("error: torchrun is for pretrain alone; start this verb without it", file=sys.stderr)
        return 2
    return status_of(lambda: _run(parsed))


def _run(parsed: argparse.Namespace) -> int:
    verbs = import_module("electrify.verbs")
    return getattr(verbs, parsed.name.replace("-", "_"))(parsed) or 0


def _verb_in(words: Sequence[str]) -> str | None:
    return next((word for word in words if not word.startswith("-")), None)


def _parse(words: Sequence[str]) -> argparse.Namespace:
    parser = _parser()
    name = _verb_in(words)
    if name is not None and name not in VERBS:
        parser.error(f"no verb {name!r}{nearest(name, VERBS)} electrify --help lists them")
    return parser.parse_args(words)


def _config(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("config", help="the run's TOML file")


def _ablate(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("config", help="the grid's TOML file")
    instead = verb.add_mutually_exclusive_group()
    instead.add_argument("--plan", action="store_true", help="only print the runs and their cost")
    instead.add_argument(
        "--report", action="store_true", help="only write the report of the runs that are finished"
    )


def _export(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("config", nargs="?", help="the run's TOML file; with --model none is needed")
    onnx = "also as ONNX, fp32 and int8, int8 only where it loses next to nothing (docs/onnx.md)"
    verb.add_argument("--onnx", action="store_true", help=onnx)
    model = "with --onnx, a `transformers` folder in place of a run's export"
    verb.add_argument("--model", metavar="FOLDER", help=model)
    force = "write int8 that loses more, too; its card says so"
    verb.add_argument("--force", action="store_true", help=force)
    _data_dir(verb, "with --onnx, folder with the files of the tasks that int8 is scored on")


def _evaluate(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("config", nargs="?", help="the run's TOML file; with --model none is needed")
    for option, text in (
        (
            "--suite",
            "all tasks of a suite (electrify ls); robustness and fairness look at the named tasks "
            "instead of scoring them as they are (docs/probes.md)",
        ),
        ("--task", "one task; these and --suite replace those of the config"),
    ):
        verb.add_argument(option, action="append", metavar="NAME", help=f"{text}; may be repeated")
    verb.add_argument(
        "--own-task",
        action="append",
        metavar="FILE",
        help="a task of your own: a CSV, TSV, JSON, JSONL or Parquet file with a text and a label, "
        "a number or tags (docs/benchmarks.md); replaces the tasks of the config; may be repeated",
    )
    verb.add_argument(
        "--search",
        action="store_true",
        help="choose the learning rate of each task on held-out training rows",
    )
    _data_dir(verb, "folder with the official task files, or hub to read them by `datasets`")
    verb.add_argument(
        "--name",
        dest="encoder_name",
        metavar="NAME",
        help="name of the encoder of --model in tables (default: its folder or hub name)",
    )
    what = verb.add_mutually_exclusive_group()
    what.add_argument(
        "--model",
        help="encoder to score instead of the run's own export: a folder, hub name or "
        "checkpoint-N; without a config, results go to out/<model>/",
    )
    what.add_argument(
        "--checkpoints",
        nargs="*",
        metavar="STEP",
        help="score checkpoints of the run (all, or those of these steps), for learning curves",
    )
    what.add_argument(
        "--check-metrics", metavar="DIR", help="check our metrics against golden vectors and exit"
    )
    for option, text in (
        ("--rescore", "compute all scores again from a run's predictions, compare them and exit"),
        (
            "--submission",
            "write a run's predictions in the formats of GLUE, SQuAD and KLUE and exit",
        ),
    ):
        what.add_argument(option, metavar="RUN", help=text)


def _init(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "path",
        metavar="FOLDER_OR_FILE",
        help="your text: .jsonl, .txt, .md, .csv, .tsv, .parquet, .wet or a Wikipedia dump (.xml), "
        "plain or packed (.gz .zst .bz2 .xz)",
    )
    verb.add_argument(
        "--output",
        metavar="my.toml",
        help="config to write (default: NAME.toml in the current folder, after the folder or "
        "file); an existing file is not overwritten",
    )


def _data_dir(verb: argparse.ArgumentParser, meaning: str) -> None:
    verb.add_argument(
        "--data-dir",
        action="append",
        metavar="FOLDER",
        help=f"{meaning}; may be repeated: each task is read from the first that has it",
    )


def _leakage(verb: argparse.ArgumentParser) -> None:
    _config(verb)
    _data_dir(verb, "folder with the official task files, as for evaluate")


def _validate(verb: argparse.ArgumentParser) -> None:
    _config(verb)
    verb.add_argument("--keys", action="store_true", help="print every key with its value, too")


def _report(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "runs", nargs="+", help="run folders (out/NAME), addresses (gs://...) or their configs"
    )
    verb.add_argument("--output", help="folder to write to (default: the first run's)")
    verb.add_argument(
        "--baseline",
        metavar="NAME",
        help="run or encoder to compare with (default: random-init, and the first run)",
    )
    _data_dir(verb, "data of the evaluation, to quote and group examples")
    verb.add_argument("--no-texts", action="store_true", help="quote no text of the data")


def _inspect(verb: argparse.ArgumentParser) -> None:
    assert isinstance(verb, _Parser)
    verb.is_mixed = True
    _discriminator(verb)
    verb.add_argument(
        "texts", nargs="*", metavar="TEXT", help="texts (default: each line of the standard input)"
    )
    mark = verb.add_mutually_exclusive_group()
    mark.add_argument(
        "--threshold", type=float, metavar="P", help="mark words above this probability"
    )
    mark.add_argument(
        "--clean",
        metavar="FILE",
        help="lines of text without replaced words: the threshold is set on them (default: on "
        "bundled sentences, Korean or English as the text is)",
    )
    verb.add_argument(
        "--false-alarms",
        type=float,
        default=0.05,
        metavar="FRACTION",
        help="of the words of such text that are marked (default: %(default)s)",
    )
    verb.add_argument(
        "--no-attributions",
        action="store_true",
        help="leave out which words a verdict rests on, the slowest part",
    )
    verb.add_argument("--json", action="store_true", help="print a line of JSON for each text")
    verb.add_argument("--html", metavar="PAGE", help="write a page, too")


def _page(verb: argparse.ArgumentParser) -> None:
    _discriminator(verb)
    verb.add_argument(
        "--output", required=True, metavar="FOLDER", help="folder to write; it must not exist yet"
    )


def _discriminator(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("model", metavar="MODEL", help="the discriminator: a folder or hub name")
    verb.add_argument(
        "--generator",
        metavar="MODEL",
        help="the generator, for proposals (default: MODEL with generator for discriminator)",
    )


def _ls(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("address", nargs="?", help="gs://bucket/folder: list the runs below it, too")


@dataclass(frozen=True)
class Verb:
    """A verb as help shows it, and what it takes."""

    help: str
    example: str  # what follows `electrify VERB`
    options: Options = _config
    has_beam: bool = False  # takes what stands after --
    has_set: bool = True
    has_overwrite: bool = True
    has_break_lock: bool = True  # as far as it has --overwrite: runs may be at an address


_DEMO = "configs/demo.toml"
VERBS = {
    "init": Verb(
        "look at your text and write a config for it",
        "my-texts/ --output my.toml",
        _init,
        has_set=False,
        has_overwrite=False,
    ),
    "run": Verb("every stage in order, skipping those already done", _DEMO, has_beam=True),
    "clean": Verb("raw text to documents", f"{_DEMO} -- --direct_num_workers=4", has_beam=True),
    "train-vocab": Verb("documents to a WordPiece tokenizer", _DEMO, has_beam=True),
    "encode": Verb(
        "documents to token shards", f"{_DEMO} -- --direct_num_workers=2", has_beam=True
    ),
    "pretrain": Verb("token shards to checkpoints", f"{_DEMO} --set pretrain.keep_every_steps=200"),
    "export": Verb("the last checkpoint to transformers folders, and ONNX", _DEMO, _export),
    "validate": Verb(
        "check a config, its files and the disk; print its cost",
        _DEMO,
        _validate,
        has_overwrite=False,
    ),
    "ablate": Verb(
        "a grid of runs at equal FLOPs, one report",
        "configs/ablations/generator.toml",
        _ablate,
        has_beam=True,
        has_break_lock=False,
    ),
    "evaluate": Verb("fine-tune and score an encoder", _DEMO, _evaluate),
    "leakage": Verb(
        "which benchmark examples stand in the run's documents",
        _DEMO,
        _leakage,
        has_beam=True,
    ),
    "report": Verb(
        "a page about one run, or comparing several", "out/demo", _report, has_overwrite=False
    ),
    "inspect": Verb(
        "which words of a text a discriminator takes for replaced, and why",
        'model/shipped/ko-tiny/discriminator "배우들의 세금이 훌륭했어요."',
        _inspect,
        has_set=False,
        has_overwrite=False,
    ),
    "page": Verb(
        "a discriminator as a web page, for any static host or a double click",
        "model/shipped/ko-tiny/discriminator --output out/page",
        _page,
        has_set=False,
        has_overwrite=False,
    ),
    "ls": Verb(
        "list configs, tasks and the stages done", "", _ls, has_set=False, has_overwrite=False
    ),
    "doctor": Verb(
        "check this machine and installation",
        "",
        lambda verb: None,
        has_set=False,
        has_overwrite=False,
    ),
}


class _Parser(argparse.ArgumentParser):
    """Options are written in full, in verbs too: `--over` is a mistake, not `--overwrite`.

    Where `is_mixed` is set, options may stand between words of a list, as before a TEXT.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)
        self.is_mixed = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if not self.is_mixed:
            return super().parse_known_args(args, namespace)
        self.is_mixed = False  # argparse itself comes here again, twice
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self.is_mixed = True


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from electrify.stage.provenance import git_commit, versions

        commit = git_commit()
        print(f"electrify {versions()['electrify']}{f', commit {commit}' if commit else ''}")
        parser.exit()


def _parser() -> _Parser:
    parser = _Parser(
        prog="electrify",
        description="From raw text to a scored ELECTRA encoder.",
        epilog="Start with: electrify run configs/demo.toml; for your text: electrify init FOLDER",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and leave")
    parsers = parser.add_subparsers(required=True, metavar="VERB", dest="name")
    for name, verb in VERBS.items():
        _fill(
            parsers.add_parser(
                name,
                help=verb.help,
                description=f"{verb.help[0].upper()}{verb.help[1:]}.",
                epilog=f"Example: electrify {name} {verb.example}".rstrip(),
                formatter_class=argparse.RawDescriptionHelpFormatter,  # examples can be copied
            ),
            verb,
        )
    return parser


def _fill(parser: argparse.ArgumentParser, verb: Verb) -> None:
    if verb.has_set:
        parser.add_argument(
            "--set",
            action="append",
            default=[],
            metavar="section.key=value",
            help="override one config key; may be given several times",
        )
    if verb.has_overwrite:
        parser.add_argument(
            "--overwrite",
            action="store_true",
            help="make a stage again that was made from another config or other inputs",
        )
    if verb.has_overwrite and verb.has_break_lock:
        parser.add_argument(
            "--break-lock",
            action="store_true",
            help="at an address, take a stage over from a machine that was lost",
        )
    verb.options(parser)
    if verb.has_beam:
        usage = parser.format_usage().removeprefix("usage: ").rstrip()
        indent = " " * len(f"usage: {parser.prog} ")  # as argparse breaks long lines
        parser.usage = f"{usage}\n{indent}[-- BEAM OPTIONS]"
