"""The `electrify` command: verbs to stage functions.

A verb imports what it needs when it is run: help and `--version` need none of it.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from electrify.config.load import load_config, toml_value
from electrify.config.run import RunConfig
from electrify.stage.folder import MANIFEST
from electrify.stage.plan import named_checkpoint
from electrify.stage.pull import bring, bring_figures, open_address, open_run
from electrify.stage.push import publish_report, send_rewritten
from electrify.stage.remote import is_address
from electrify.system.machine import prepare_threads
from electrify.system.outcome import nearest, status_of
from electrify.system.progress import log, setup_logging

if TYPE_CHECKING:
    from electrify.config.run import RunConfig

Verb = Callable[[argparse.Namespace], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb; the exit status is 2 for bad usage, else that of `status_of`."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    beam_options: list[str] = []
    if "--" in words:
        cut = words.index("--")
        words, beam_options = words[:cut], words[cut + 1 :]
    parsed = _parse(words)
    if beam_options and parsed.name not in _BEAM_VERBS:
        print(
            f"error: {parsed.name} has no Beam pipeline to take {' '.join(beam_options)!r}: give "
            "its own options before --",
            file=sys.stderr,
        )
        return 2
    parsed.beam_options = beam_options
    setup_logging()
    prepare_threads()
    if os.environ.get("WORLD_SIZE", "1") != "1" and parsed.name != "pretrain":
        print("error: torchrun is for pretrain alone; start this verb without it", file=sys.stderr)
        return 2
    return status_of(lambda: parsed.verb(parsed))


def _parse(words: Sequence[str]) -> argparse.Namespace:
    parser = _parser()
    name = next((word for word in words if not word.startswith("-")), None)
    if name is not None and name not in parser.verbs:
        parser.error(f"no verb {name!r}{nearest(name, parser.verbs)} electrify --help lists them")
    return parser.parse_args(words)


def _load(parsed: argparse.Namespace) -> "RunConfig":
    from electrify.config.load import load_config
    from electrify.stage.pull import open_run

    config = open_run(load_config(parsed.config, parsed.set))
    if parsed.name in _BEAM_VERBS:
        from pipeline.worker_files import check_worker_files

        check_worker_files(config, parsed.beam_options, parsed.name)
    return config


def _verb(stage: Callable[["RunConfig", argparse.Namespace], None]) -> Verb:
    """The verb that makes one stage."""

    def verb(parsed: argparse.Namespace) -> int:
        stage(_load(parsed), parsed)
        return 0

    return verb


def _clean(config: "RunConfig", parsed: argparse.Namespace) -> None:
    # before Arrow is imported, here and in workers: its own allocator reserves a gigabyte of
    # addresses at the first allocation, too much where `ulimit -v` is set (electrify/system/memory)
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    from pipeline.clean import clean
    from pipeline.sources.files import check_inputs

    check_inputs(config.clean)
    texts = None
    if config.clean.decontaminate_against:  # else the corpus stage needs nothing of benchmarks/
        from benchmarks.tasks.data.texts import dump_benchmarks

        texts = dump_benchmarks(config)
    clean(config, parsed.beam_options, parsed.overwrite, texts)


def _train_vocab(config: "RunConfig", parsed: argparse.Namespace) -> None:
    from vocab.train import train_vocab

    train_vocab(config, parsed.beam_options, parsed.overwrite)


def _encode(config: "RunConfig", parsed: argparse.Namespace) -> None:
    from vocab.encode import encode

    encode(config, parsed.beam_options, parsed.overwrite)


def _pretrain(config: "RunConfig", parsed: argparse.Namespace) -> None:
    from model.pretrain import pretrain

    pretrain(config, parsed.overwrite)


def _export(config: "RunConfig", parsed: argparse.Namespace) -> None:
    from model.export import export

    export(config, parsed.overwrite)


def _predict_masked(parsed: argparse.Namespace) -> int:
    from electrify.stage.pull import bring
    from model.masked.predict import predict_masked

    config = _load(parsed)
    bring(Path(config.output_dir), "pretrain", "vocab")
    print(predict_masked(config, parsed.checkpoint, parsed.overwrite))
    return 0


def _run(parsed: argparse.Namespace) -> int:
    """Every stage in order, of one reading of the config; each says whether it is done, missing or
    stale."""
    from benchmarks.tasks.data.hub import check_data

    config = _load(parsed)
    check_data(config.evaluate)
    for stage in (_clean, _train_vocab, _encode, _pretrain, _export):
        stage(config, parsed)
    from benchmarks.evaluate import evaluate, score_table
    from benchmarks.report import report
    from benchmarks.results.results import RESULTS, read_results
    from electrify.stage.pull import bring_figures
    from electrify.stage.push import publish_report
    from model.export import format_example, read_example

    folder = Path(config.output_dir)
    if config.evaluate.suites or config.evaluate.tasks:
        evaluate(config, None, parsed.overwrite)
        update_cards(config)
        scored = folder / "evaluate"
        print("\n".join(["", *score_table(read_results(scored / RESULTS), scored)]))
    else:
        log("evaluate: the config names no suites and no tasks")
    bring_figures(folder)
    page = report([folder], None, folder_of_data(config.evaluate.data_dir))
    publish_report(folder)
    example = read_example(config)
    if example is not None:
        print(f"\n{example['sentence']}\n{example['corrupted']}")
        print(f"P(replaced): {format_example(example)}")
    print(f"\nreport: {page}")
    return 0


def _ablate(parsed: argparse.Namespace) -> int:
    from benchmarks.ablate.run import ablate, plan_of, report_of

    if parsed.plan or parsed.report:
        show = plan_of if parsed.plan else report_of
        print(show(Path(parsed.config), parsed.set))
        return 0
    print(ablate(Path(parsed.config), parsed.set, parsed.beam_options, parsed.overwrite))
    return 0


def _leakage(parsed: argparse.Namespace) -> int:
    import tempfile

    from benchmarks.leakage.examples import write_items
    from electrify.stage.pull import bring, bring_figures
    from pipeline.decontaminate.leakage import find_leaks

    if parsed.data_dir:
        parsed.set = [*parsed.set, data_dir_option(parsed.data_dir)]
    config = _load(parsed)
    bring(Path(config.output_dir), "clean")
    bring_figures(Path(config.output_dir))  # results name the tasks
    with tempfile.TemporaryDirectory() as items:
        write_items(config, Path(items))
        find_leaks(config, parsed.beam_options, parsed.overwrite, Path(items))
    update_cards(config)
    return 0


def _evaluate(parsed: argparse.Namespace) -> int:

    return evaluate_verb(parsed)


def _report(parsed: argparse.Namespace) -> int:

    return report_verb(parsed)


def _validate(parsed: argparse.Namespace) -> int:
    from electrify.config.load import load_config
    from electrify.inspect_run import describe_config
    from electrify.system.machine import describe_precision

    config = load_config(parsed.config, parsed.set)
    from model.watch.flops import estimate

    precisions = [
        describe_precision(f"{name}.precision", section.precision)
        for name, section in (("pretrain", config.pretrain), ("evaluate", config.evaluate))
        if section.device in ("auto", "cpu")
    ]
    print("\n".join([*describe_config(config), "", *estimate(config), *precisions]))
    try:
        from pipeline.sources.files import check_inputs
        from pipeline.worker_files import check_worker_files
    except ModuleNotFoundError as error:  # where only later stages run
        log(f"clean.sources are not looked for: {error}")
    else:
        check_worker_files(config, (), "clean")
        check_inputs(config.clean)
    from benchmarks.tasks.data.hub import check_data

    check_data(config.evaluate)
    return 0


def _ls(parsed: argparse.Namespace) -> int:
    from electrify.config.tasks import TASK_NAMES
    from electrify.inspect_run import list_runs
    from electrify.stage.remote import is_address

    if parsed.address and not is_address(parsed.address):
        raise ValueError(f"{parsed.address!r} is no address; runs in out/ are listed without it")
    print("\n".join(list_runs(Path("configs"), Path("out"), parsed.address)))
    print("\ntasks\n" + "\n".join(f"  {name}" for name in sorted(TASK_NAMES)))
    return 0


def _doctor(parsed: argparse.Namespace) -> int:
    from electrify.inspect_run import check_machine

    lines, sound = check_machine()
    print("\n".join(lines))
    return 0 if sound else 1


# what stands after -- is for these
_BEAM_VERBS = ("run", "clean", "train-vocab", "encode", "leakage", "ablate")
# which of --set and --overwrite a verb reads, where it is not both
_TAKES: dict[str, tuple[str, ...]] = {
    "validate": ("--set",),
    "report": ("--set",),
    "ls": (),
    "doctor": (),
}
# verb: (function, help, end of its example)
_STAGES: dict[str, tuple[Verb, str, str]] = {
    "run": (_run, "every stage in order, skipping those already done", ""),
    "clean": (_verb(_clean), "raw text to documents", " -- --direct_num_workers=4"),
    "train-vocab": (_verb(_train_vocab), "documents to a WordPiece tokenizer", ""),
    "encode": (_verb(_encode), "documents to token shards", " -- --direct_num_workers=2"),
    "pretrain": (
        _verb(_pretrain),
        "token shards to checkpoints",
        " --set pretrain.keep_every_steps=200",
    ),
    "export": (_verb(_export), "the last checkpoint to transformers folders", ""),
    "validate": (_validate, "check a config; print it resolved, with its cost", ""),
}


class _Parser(argparse.ArgumentParser):
    """Options are written in full, in verbs too: `--over` is a mistake, not `--overwrite`."""

    verbs: Sequence[str] = ()

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)


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
        epilog="Start with: electrify run configs/demo.toml",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and leave")
    verbs = parser.add_subparsers(required=True, metavar="VERB", dest="name")
    for name, (function, text, example) in _STAGES.items():
        verb = _add(verbs, name, function, text, f"electrify {name} configs/demo.toml{example}")
        verb.add_argument("config", help="the run's TOML file")
    ablate = _add(
        verbs,
        "ablate",
        _ablate,
        "a grid of runs at equal FLOPs, one report",
        "electrify ablate configs/ablations/generator.toml",
    )
    ablate.add_argument("config", help="the grid's TOML file")
    instead = ablate.add_mutually_exclusive_group()
    instead.add_argument("--plan", action="store_true", help="only print the runs and their cost")
    instead.add_argument(
        "--report", action="store_true", help="only write the report of the runs that are finished"
    )
    evaluate = _add(
        verbs,
        "evaluate",
        _evaluate,
        "fine-tune and score an encoder",
        "electrify evaluate configs/demo.toml --data-dir pipeline/sample",
    )
    _add_evaluate_options(evaluate)
    masked = _add(
        verbs,
        "predict-masked",
        _predict_masked,
        "how well the networks name hidden tokens",
        "electrify predict-masked configs/demo.toml --checkpoint 500",
    )
    masked.add_argument("config", help="the run's TOML file")
    masked.add_argument(
        "--checkpoint", type=int, metavar="STEP", help="one on the way, in place of the last"
    )
    leakage = _add(
        verbs,
        "leakage",
        _leakage,
        "which benchmark examples stand in the run's documents",
        "electrify leakage configs/demo.toml --data-dir pipeline/sample",
    )
    leakage.add_argument("config", help="the run's TOML file")
    leakage.add_argument("--data-dir", help="folder with the official task files, as for evaluate")
    report = _add(
        verbs,
        "report",
        _report,
        "a page about one run, or comparing several",
        "electrify report out/demo",
    )
    _add_report_options(report)
    ls = _add(verbs, "ls", _ls, "list configs, tasks and the stages done", "electrify ls")
    ls.add_argument("address", nargs="?", help="gs://bucket/folder: list the runs below it, too")
    _add(verbs, "doctor", _doctor, "check this machine and installation", "electrify doctor")
    for name in _BEAM_VERBS:
        if verb_with_beam := verbs.choices.get(name):
            usage = verb_with_beam.format_usage().removeprefix("usage: ").rstrip()
            indent = " " * len(f"usage: electrify {name} ")  # as argparse breaks long lines
            verb_with_beam.usage = f"{usage}\n{indent}[-- BEAM OPTIONS]"
    parser.verbs = list(verbs.choices)
    return parser


def _add(
    verbs: "argparse._SubParsersAction[_Parser]",
    name: str,
    function: Verb,
    text: str,
    example: str,
) -> argparse.ArgumentParser:
    verb = verbs.add_parser(
        name, help=text, description=f"{text[0].upper()}{text[1:]}.", epilog=f"Example: {example}"
    )
    verb.set_defaults(verb=function)
    takes = _TAKES.get(name, ("--set", "--overwrite"))
    if "--set" in takes:
        verb.add_argument(
            "--set",
            action="append",
            default=[],
            metavar="section.key=value",
            help="override one config key; may be given several times",
        )
    if "--overwrite" in takes:
        verb.add_argument(
            "--overwrite",
            action="store_true",
            help="make a stage again that was made from another config or other inputs",
        )
    return verb


def _add_evaluate_options(evaluate: argparse.ArgumentParser) -> None:
    evaluate.add_argument("config", nargs="?", help="the run's TOML file")
    evaluate.add_argument(
        "--data-dir", help="folder with the official task files, or hub to read them by `datasets`"
    )
    what = evaluate.add_mutually_exclusive_group()
    what.add_argument(
        "--model", help="a folder, hub id or checkpoint-N, in place of the run's own export"
    )
    what.add_argument(
        "--checkpoints",
        nargs="*",
        metavar="STEP",
        help="the run's checkpoints (all that stand, or these), for learning curves",
    )
    what.add_argument(
        "--check-metrics", metavar="DIR", help="check our metrics against golden vectors and leave"
    )
    for option, text in (
        ("--rescore", "compute all scores of a run's predictions again, compare them and leave"),
        ("--ensemble", "score the seeds of each task of a run together and leave"),
        ("--submission", "write a run's predictions as GLUE, SQuAD and KLUE want them and leave"),
    ):
        what.add_argument(option, metavar="RUN", help=text)


def _add_report_options(report: argparse.ArgumentParser) -> None:
    report.add_argument(
        "runs", nargs="+", help="run folders (out/NAME), addresses (gs://...) or their configs"
    )
    report.add_argument("--output", help="folder to write to (default: the first run's)")
    report.add_argument(
        "--baseline",
        metavar="NAME",
        help="run or encoder to compare with (default: random-init, and the first run)",
    )
    report.add_argument("--data-dir", help="data of the evaluation, to quote and group examples")
    report.add_argument("--no-texts", action="store_true", help="quote no text of the data")


# The verbs `evaluate` and `report`.


def data_dir_option(folder: str) -> str:
    """`--data-dir` as `--set` would have it."""
    return f"evaluate.data_dir={toml_value(folder)}"


def evaluate_verb(parsed: argparse.Namespace) -> int:
    """Scores of an encoder or of checkpoints; or one of the checks that leave again."""
    _refuse_what_is_not_read(parsed)
    if parsed.check_metrics:
        from benchmarks.golden.check import check_metrics

        return check_metrics(Path(parsed.check_metrics))
    if parsed.rescore:
        from benchmarks.results.rescore import rescore

        return rescore(_run_folder(parsed.rescore))
    if parsed.ensemble:
        from benchmarks.results.rescore import ensemble

        ensemble(_run_folder(parsed.ensemble))
        return 0
    if parsed.submission:
        from benchmarks.results.submission import write_submissions

        write_submissions(_run_folder(parsed.submission))
        return 0
    steps = _split_steps(parsed)
    if parsed.config is None:
        raise ValueError("give a config: electrify evaluate configs/NAME.toml")
    if parsed.data_dir:
        parsed.set = [*parsed.set, data_dir_option(parsed.data_dir)]
    if steps is not None:
        return _evaluate_checkpoints(parsed, steps)
    from benchmarks.evaluate import evaluate

    config = open_run(load_config(parsed.config, parsed.set))
    with tempfile.TemporaryDirectory() as scratch:
        weights = None
        if parsed.model and (checkpoint := named_checkpoint(parsed.model)):
            from model.export import export_checkpoint

            weights = Path(scratch)
            export_checkpoint(checkpoint, weights)
        evaluate(config, parsed.model, parsed.overwrite, weights)
    if parsed.model is None:
        update_cards(config)
    return 0


def _refuse_what_is_not_read(parsed: argparse.Namespace) -> None:
    """`ValueError` if one of the checks, which read a folder alone, is given more."""
    for check in ("check_metrics", "rescore", "ensemble", "submission"):
        if getattr(parsed, check) is None:
            continue
        others = {
            "the config": parsed.config,
            "--data-dir": parsed.data_dir,
            "--set": parsed.set,
            "--overwrite": parsed.overwrite,
        }
        if given := [name for name, value in others.items() if value]:
            raise ValueError(
                f"--{check.replace('_', '-')} {getattr(parsed, check)} reads that folder alone: "
                f"leave out {' and '.join(given)}"
            )


def _split_steps(parsed: argparse.Namespace) -> list[int] | None:
    """The steps of `--checkpoints`, if it is given. A word behind it that is no number is the
    config, which may stand there, too."""
    if parsed.checkpoints is None:
        return None
    others = [word for word in parsed.checkpoints if not word.isdecimal()]
    if parsed.config is None and others:
        parsed.config = others.pop(0)
    if others:
        raise ValueError(f"--checkpoints {others[0]}: write steps, as in --checkpoints 1000 2000")
    return [int(word) for word in parsed.checkpoints if word.isdecimal()]


def _run_folder(name: str) -> Path:
    """A run's folder as the user names it; of an address the local one, with what is small."""
    if not is_address(name):
        return Path(name)
    folder = open_address(name.rstrip("/"))
    bring_figures(folder)
    return folder


def update_cards(config: RunConfig) -> None:
    """Put what is known of the scores into the model cards of the run's export, if there is one."""
    folder = Path(config.output_dir)
    if not (folder / "export" / MANIFEST).exists():
        return
    from benchmarks.pages.card_tables import card_sections
    from model.weights.card import add_sections

    bring_figures(folder)
    add_sections(config, card_sections(folder))
    send_rewritten(folder / "export")


def _evaluate_checkpoints(parsed: argparse.Namespace, steps: list[int]) -> int:
    from benchmarks.checkpoints import evaluate_checkpoints
    from model.export import export_checkpoint

    config = open_run(load_config(parsed.config, parsed.set))
    bring(Path(config.output_dir), "pretrain")
    evaluate_checkpoints(config, steps, parsed.overwrite, export_checkpoint)
    return 0


def report_verb(parsed: argparse.Namespace) -> int:
    """A page about runs."""
    from benchmarks.report import report

    configs = {name: load_config(name, parsed.set) for name in parsed.runs if _is_config(name)}
    if parsed.set and not configs:
        raise ValueError(
            f"--set {parsed.set[0]}: for configs, and no run here is named by its own; leave it out"
        )
    folders = [
        _run_folder(configs[name].output_dir if name in configs else name) for name in parsed.runs
    ]
    named = [parsed.data_dir, *(config.evaluate.data_dir for config in configs.values())]
    page = report(
        folders,
        Path(parsed.output) if parsed.output else None,
        folder_of_data(next(filter(None, named), None)),
        not parsed.no_texts,
        parsed.baseline,
    )
    if not parsed.output:
        publish_report(folders[0])
    print(page)
    return 0


def _is_config(name: str) -> bool:
    return name.endswith(".toml")


def folder_of_data(name: str | None) -> Path | None:
    """A data folder, where one is named and it is not the hub."""
    return None if name in (None, "hub") else Path(str(name)).expanduser()
