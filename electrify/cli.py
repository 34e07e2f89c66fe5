"""The `electrify` command: one function a verb, first those of a run in their order.

A verb imports its stage when it runs: help needs no library, and each stage its own extra alone.
"""

import os
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from typer import Argument, Option

from electrify import api
from electrify.system.bundled import SHIPPED, bundled_name, config_names, find_bundled
from electrify.system.machine import num_ranks, prepare_imports, prepare_threads, use_utf8
from electrify.system.outcome import UsageError, nearest, status_of
from electrify.system.progress import drop_unread, log, setup_logging

if TYPE_CHECKING:
    from electrify.config.run import EvaluationRun, RunConfig

DEMO = "configs/demo.toml"
DATA_DIR = "evaluate.data_dir"
BEAM_VERBS = frozenset({"run", "demo", "clean", "train-vocab", "encode", "ablate"})
# tried by --search: encoders of size base want the lowest, tiny ones the highest
SEARCHED_RATES = [5e-5, 1e-4, 3e-4, 1e-3]

# an option in a message, and keys that have a flag
_OPTION = re.compile(r"`((?P<key>[a-z_.]+)(?P<value>=[^`]*)?)`")
_FLAGS = {
    DATA_DIR: "data_dir",
    "evaluate.suites": "suite",
    "evaluate.tasks": "task",
    "evaluate.own_tasks": "own_task",
    "pretrain.num_devices": "devices",
    "export.onnx.force": "force",
}

_Function = TypeVar("_Function", bound=Callable[..., Any])

app = typer.Typer(
    name="electrify",
    help="From raw text to a scored ELECTRA encoder.",
    epilog="Start with: electrify demo; for your text: electrify init FOLDER. "
    "Every verb takes --debug, which prints the trace of an error. electrify --version prints the "
    "version.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _verb(example: str) -> Callable[[_Function], _Function]:
    """A command of the app, whose help ends with an example."""
    of_beam = "Options of Beam follow --. " if example.partition(" ")[0] in BEAM_VERBS else ""
    return app.command(epilog=f"{of_beam}Example: electrify {example}")


def _word(name: str, meaning: str) -> Any:
    return Argument(metavar=name, help=meaning)


def _bundled(name: str, meaning: str) -> Any:
    """A word that may name what comes with electrify."""
    return Argument(metavar=name, help=meaning, callback=find_bundled)


def _value(name: str, meaning: str, *option: str) -> Any:
    """An option with a value. One that is called as its value is has to be written out: Typer 0.27
    makes --MODEL of it."""
    return Option(*option, metavar=name, help=meaning)


ConfigFile = Annotated[str, _word("CONFIG", "the run's TOML file")]
AnyConfig = Annotated[str | None, _word("CONFIG", "the run's TOML file; not needed with --model")]
RunFolder = Annotated[str, _word("RUN", "a run's folder (out/NAME) or address")]
Overrides = Annotated[
    list[str],
    Option("--set", metavar="section.key=value", help="override a config key; repeatable"),
]
Json = Annotated[bool, Option("--json", help="print JSON, for programs")]
Overwrite = Annotated[
    bool, Option("--overwrite", help="make a stage again if its config or inputs have changed")
]
Devices = Annotated[
    int | None,
    Option("--devices", help="GPUs that pretrain (default: as many as share the batch evenly)"),
]
DataDirs = Annotated[
    list[str],
    Option(
        "--data-dir", metavar="FOLDER", help="folder of official task files, or hub; repeatable"
    ),
]
Generator = Annotated[
    str | None,
    Option(
        metavar="MODEL",
        help="the generator (default: the folder beside the discriminator)",
        callback=lambda name: name and find_bundled(name),
    ),
]
Discriminator = Annotated[str, _bundled("MODEL", "a discriminator's folder or hub name")]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb; the exit status is 2 for wrong options, else that of `status_of`."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    verb = next((word for word in words if not word.startswith("-")), "")
    beam: list[str] = []
    if "--" in words and verb in BEAM_VERBS:
        cut = words.index("--")
        words, beam = words[:cut], words[cut + 1 :]
    if arguments is None:
        use_utf8()
    in_words = partial(with_flags, verb)
    setup_logging(in_words)
    prepare_threads()
    prepare_imports()
    if num_ranks() > 1 and verb != "pretrain":
        print("error: torchrun is for pretrain alone; start this verb without it", file=sys.stderr)
        return 2
    if words == ["--version"]:
        return status_of(_print_version, debug=debug)
    return status_of(_run_verb, words, verb, beam, debug=debug, in_words=in_words)


def with_flags(verb: str, message: str) -> str:
    """A message with the flags of this verb for options in backticks, and --set for values."""
    if "`" not in message:
        return message
    command = typer.main.get_command(app).commands.get(verb)  # type: ignore[attr-defined]
    flags = {option.name: option.opts[0] for option in (command.params if command else ())}

    def flag(match: re.Match[str]) -> str:
        if match["value"] is not None:
            return f"--set {shlex.quote(match[1])}"
        found = flags.get(_FLAGS.get(match["key"], match["key"]), "")
        return found if found.startswith("--") else match[0]

    return _OPTION.sub(flag, message)


def _run_verb(words: list[str], verb: str, beam: list[str]) -> int:
    command = typer.main.get_command(app)
    verbs = command.commands  # type: ignore[attr-defined]
    if verb and verb not in verbs:
        from electrify.config.removed import VERBS

        if verb in VERBS:
            raise UsageError(f"electrify {verb} is gone: {VERBS[verb]}")
        raise UsageError(f"no verb {verb!r}{nearest(verb, verbs)} (electrify --help lists all)")
    try:
        return command.main(words, "electrify", standalone_mode=False, obj=beam) or 0
    except typer.Exit as left:
        return left.exit_code
    except SystemExit:
        if drop_unread(1):  # click ends where the reader of our output is gone
            return 0
        raise
    except Exception as error:
        if not hasattr(error, "format_message"):  # of click: wrong options
            raise
        from electrify.config.removed import OPTIONS

        message = error.format_message()
        option = f"{verb} {getattr(error, 'option_name', '')}"
        if option in OPTIONS:
            raise UsageError(f"electrify {option} is gone: {OPTIONS[option]}") from None
        if not verb:  # the help, where nothing is asked
            print(message, file=sys.stderr)
            return 2
        if verb in BEAM_VERBS and "No such option" in message and "Possible" not in message:
            message += f"; options of Beam follow --: electrify {verb} CONFIG -- --option"
        raise UsageError(message or f"see electrify {verb} --help") from None


def _print_version() -> int:
    from electrify.system.machine import git_commit, versions

    commit = git_commit()
    number = versions().get("electrify", "of a checkout")
    print(f"electrify {number}{f', commit {commit}' if commit else ''}")
    return 0


# --- a run, stage by stage ------------------------------------------------------------------------


@_verb("init my-texts/ --output my.toml")
def init(
    path: Annotated[
        str,
        _word(
            "FOLDER_OR_FILE",
            "your text: .jsonl .json .txt .csv .parquet .zip, a Wikipedia dump, ...",
        ),
    ],
    output: Annotated[str | None, _value("TOML", "config to write")] = None,
) -> None:
    """Look at your text and write a config for it."""
    from pipeline.init.config import init

    print("\n".join(init(path, output)))


@_verb(f"run {DEMO}")
def run(
    beam: typer.Context,
    config: ConfigFile,
    overrides: Overrides = [],
    devices: Devices = None,
    overwrite: Overwrite = False,
) -> None:
    """Run every stage in order, skipping those already done."""
    from electrify.stage.plan import NETWORKS

    run = api.load_config(config, overrides, _given({"pretrain.num_devices": devices}))
    encoder, start = Path(run.output_dir) / "export" / NETWORKS[0], run.pretrain.initial_model

    def before() -> None:
        if start and not encoder.exists():
            _print_marks(run, start, "before")

    page = api.run(run, beam_options=beam.obj, overwrite=overwrite, when_checked=before)
    _print_marks(run, str(encoder), "after" if start else "trained")
    print(
        f"\nencoder: {encoder}; in Python: AutoModel.from_pretrained({str(encoder)!r})\n"
        f'look at a text:          electrify inspect {encoder} "TEXT"\n'
        f"your labels, a CSV:      electrify finetune {encoder} --own-task FILE --output OUT\n"
        "train on your own text:  electrify init FOLDER\n"
        f"report: {page}"
    )


def _print_marks(run: "RunConfig", model: str, when: str) -> None:
    """The planted mistakes that a discriminator marks; nothing of another network."""
    from electrify.system.outcome import UserError

    if not run.pretrain.has_detection_head:
        return
    from benchmarks.analysis.mistakes import marked_lines
    from benchmarks.model_name import encoder_path

    with suppress(UserError):
        if lines := marked_lines(encoder_path(model), run.clean.sources[0].language):
            print(f"\n{when}, {bundled_name(model)}:", *lines, "", sep="\n", flush=True)


@_verb("demo")
def demo(beam: typer.Context, overrides: Overrides = [], overwrite: Overwrite = False) -> None:
    """Train the shipped encoder further on a bundled sample and score it: about three minutes."""
    run(beam, DEMO, overrides, overwrite=overwrite)


def _beam_verb(example: str, meaning: str, work: Callable[..., object]) -> None:
    """A stage of Beam."""

    def stage(
        beam: typer.Context,
        config: ConfigFile,
        overrides: Overrides = [],
        overwrite: Overwrite = False,
    ) -> None:
        work(api.load_config(config, overrides), beam_options=beam.obj, overwrite=overwrite)

    stage.__doc__, stage.__name__ = meaning, work.__name__
    _verb(example)(stage)


_beam_verb(f"clean {DEMO} -- --direct_num_workers=4", "Clean and deduplicate raw text.", api.clean)
_beam_verb(f"train-vocab {DEMO}", "Train a WordPiece tokenizer on the documents.", api.train_vocab)
_beam_verb(
    f"encode {DEMO} -- --direct_num_workers=2", "Encode the documents to token shards.", api.encode
)


@_verb(f"pretrain {DEMO} --set pretrain.keep_every_steps=200")
def pretrain(
    config: ConfigFile,
    overrides: Overrides = [],
    devices: Devices = None,
    overwrite: Overwrite = False,
) -> None:
    """Train generator and discriminator on the shards."""
    run = api.load_config(config, overrides, _given({"pretrain.num_devices": devices}))
    api.pretrain(run, overwrite=overwrite)


@_verb(f"export {DEMO}")
def export(
    config: AnyConfig = None,
    onnx: Annotated[bool, Option("--onnx", help="also as ONNX, fp32 and int8")] = False,
    model: Annotated[str | None, _value("FOLDER", "with --onnx: convert this folder")] = None,
    force: Annotated[bool, Option("--force", help="write int8 that loses more, too")] = False,
    step: Annotated[
        int | None, _value("N", "that checkpoint, also of unfinished work: export-checkpoint-N/")
    ] = None,
    data_dir: DataDirs = [],
    overrides: Overrides = [],
    overwrite: Overwrite = False,
) -> None:
    """Write the last checkpoint for `transformers`, and as ONNX."""
    options = _given({"export.onnx.force": force, DATA_DIR: data_dir})
    if model is None and config is None:
        raise UsageError("give a run's config, electrify export configs/NAME.toml, or --model")
    model = model and find_bundled(model)
    if step is not None and (model or onnx):
        raise UsageError(
            f"--step {step} exports a checkpoint of a run: leave out --model and --onnx"
        )
    if model and (config or not onnx):
        raise UsageError(f"--model {model} goes with --onnx, and without a config")
    run: EvaluationRun
    if model:
        run = _evaluation(model, None, overrides, options)
    else:
        run = full_run = api.load_config(str(config), overrides, options)
        folder = api.export(full_run, overwrite=overwrite, step=step)
        if step is not None:
            print(folder)
    if onnx:
        from benchmarks.onnx.convert import convert_run

        convert_run(run, model, overwrite)


# --- scores ---------------------------------------------------------------------------------------


@_verb(f"evaluate {DEMO}")
def evaluate(
    config: AnyConfig = None,
    suite: Annotated[list[str], _value("NAME", "all tasks of a suite; repeatable")] = [],
    task: Annotated[list[str], _value("NAME", "one task; repeatable")] = [],
    own_task: Annotated[list[str], _value("FILE", "your own table of texts and labels")] = [],
    search: Annotated[bool, Option("--search", help="choose each task's learning rate")] = False,
    quick: Annotated[
        bool,
        Option(
            "--quick", help="a first look: one seed, 1,000 rows, two epochs (60 steps at least)"
        ),
    ] = False,
    data_dir: DataDirs = [],
    model: Annotated[
        str | None,
        _value("MODEL", "score this folder, hub name or, with CONFIG, checkpoint", "--model"),
    ] = None,
    name: Annotated[str | None, _value("NAME", "name of --model in tables", "--name")] = None,
    checkpoints: Annotated[
        str | None, _value("STEPS", "score checkpoints: all, or steps as 1000,2000")
    ] = None,
    overrides: Overrides = [],
    overwrite: Overwrite = False,
) -> None:
    """Fine-tune and score an encoder."""
    from electrify.config.evaluate import QUICK

    options: dict[str, object] = {}
    if suite or task or own_task:  # in place of all that a config names
        options = {"evaluate.tasks": (), "evaluate.suites": (), "evaluate.own_tasks": ()}
    options |= _given(
        {
            "evaluate.tasks": task,
            "evaluate.suites": suite,
            "evaluate.own_tasks": [{"train": path} for path in own_task],
            "evaluate.search": {"learning_rate": SEARCHED_RATES} if search else None,
            DATA_DIR: data_dir,
        }
        | {f"evaluate.{key}": value for key, value in QUICK.items() if quick}
    )
    if name and not model:
        raise UsageError(f"--name {name} names the encoder of --model: give both")
    if checkpoints:
        if model or not config:
            raise UsageError(
                "--checkpoints scores those of a run: give its config, without --model"
            )
        return _evaluate_checkpoints(
            api.load_config(config, overrides, options), checkpoints, overwrite
        )
    model = model and find_bundled(model)
    run = (
        api.load_config(config, overrides, options)
        if config
        else _evaluation(model, name, overrides, options)
    )
    # tasks beside such a suite on the command line are what it looks at; a config has both
    alone = bool(suite and run.evaluate.noise_suites and not run.evaluate.task_suites)
    api.evaluate(run, model=model, name=name, overwrite=overwrite, noise_alone=alone)
    is_elsewhere = any(word.startswith("output_dir") for word in overrides)
    scored = config if config and not is_elsewhere else run.output_dir
    log(f"for a page of these scores: electrify report {scored}")


def _evaluate_checkpoints(run: "RunConfig", steps: str, overwrite: bool) -> None:
    from benchmarks.evaluate import evaluate_checkpoints

    numbers = [] if steps == "all" else steps.split(",")
    if others := [number for number in numbers if not number.isdecimal()]:
        raise UsageError(f"--checkpoints {others[0]}: write all, or steps as 1000,2000")
    evaluate_checkpoints(run, [int(number) for number in numbers], overwrite, api.export_checkpoint)


def _evaluation(
    model: str | None, name: str | None, overrides: Sequence[str], options: Mapping[str, object]
) -> "EvaluationRun":
    """What to do with `--model` alone."""
    from electrify.check import check_output
    from electrify.config.load import evaluation_of
    from electrify.stage.plan import named_checkpoint
    from electrify.stage.remote import open_run

    if model is None:
        raise UsageError(
            "give a run's config, or --model FOLDER_OR_HUB_NAME with --suite or --task"
        )
    if named_checkpoint(model):
        raise UsageError(f"--model {model} is a checkpoint: give the config of its run, too")
    run = open_run(evaluation_of(name or model, overrides, options))
    check_output(run)
    return run


@_verb("report out/demo")
def report(
    runs: Annotated[list[str], _word("RUN", "run folders, addresses or configs")],
    output: Annotated[Path | None, _value("FOLDER", "folder to write")] = None,
    data_dir: DataDirs = [],
    no_texts: Annotated[bool, Option("--no-texts", help="quote no text of the data")] = False,
    json: Json = False,
    overrides: Overrides = [],
) -> None:
    """Make a page about one run, or compare several."""
    from benchmarks.results.run_folder import results_folder, stages_there
    from electrify.config.load import load_config
    from electrify.stage.remote import push_report

    configs = {name: load_config(name, overrides) for name in runs if name.endswith(".toml")}
    if overrides and not configs:
        raise UsageError(f"--set {overrides[0]} overrides a config: give that of a run")
    folders = [_run_folder(configs[n].output_dir if n in configs else n) for n in runs]
    for folder in folders:  # checked before torch is imported
        if results_folder(folder) is None:
            stages_there(folder)
    from benchmarks.report import read_runs, report, scores_for_programs

    data_dirs = tuple(Path(name).expanduser() for name in data_dir)
    for options in [config.evaluate for config in configs.values()]:
        data_dirs = data_dirs or api.local_folders(options.data_dirs, options.own_tasks)
    read = read_runs(folders)
    page = report(read, output, data_dirs, not no_texts)
    if not output and not folders[1:]:
        push_report(folders[0])
    if json:
        _print_json(page=str(page), scores=scores_for_programs(read))
    else:
        print(page)


@_verb("ablate configs/ablations/generator.toml --dry-run")
def ablate(
    beam: typer.Context,
    config: Annotated[str, _bundled("GRID", "the grid's TOML file")],
    dry_run: Annotated[bool, Option("--dry-run", help="print the runs and their cost")] = False,
    overrides: Overrides = [],
    overwrite: Overwrite = False,
) -> None:
    """Run a grid of runs at equal FLOPs and write one report."""
    from benchmarks.ablate import run as grid
    from electrify.check import check_run

    if dry_run:
        print(grid.dry_run(Path(config), overrides))
    else:
        print(grid.ablate(Path(config), overrides, beam.obj, overwrite, check_run))


@_verb(f"publish {DEMO} --to my-name/demo --dry-run")
def publish(
    config: ConfigFile,
    to: Annotated[
        str | None, _value("NAMESPACE/NAME", "begins the repositories' names (default: the run's)")
    ] = None,
    parts: Annotated[
        str | None,
        _value("NAMES", "of discriminator,encoder,generator (default: all)"),
    ] = None,
    private: Annotated[bool, Option("--private", help="into private repositories")] = False,
    dry_run: Annotated[bool, Option("--dry-run", help="print what would be uploaded")] = False,
    overrides: Overrides = [],
) -> None:
    """Upload the networks of a finished run to the Hugging Face hub."""
    run = api.load_config(config, overrides)
    names = parts.replace(" ", "").split(",") if parts else None
    print("\n".join(api.publish(run, to, parts=names, private=private, dry_run=dry_run)))


# --- a network for a task -------------------------------------------------------------------------


@_verb(f"finetune {SHIPPED} --own-task tickets.csv --output out/tickets")
def finetune(
    model: Annotated[str, _bundled("MODEL", "an encoder's folder or hub name")],
    output: Annotated[str, _value("FOLDER", "folder to write; it must not exist yet")],
    own_task: Annotated[str | None, _value("FILE", "your own table of texts and labels")] = None,
    task: Annotated[str | None, _value("NAME", "an official task")] = None,
    seeds: Annotated[
        int, Option("--seeds", metavar="N", min=1, help="keep the best of N seeds")
    ] = 1,
    onnx: Annotated[bool, Option("--onnx", help="also as ONNX")] = False,
    data_dir: DataDirs = [],
    overrides: Overrides = [],
) -> None:
    """Make a network for labels, numbers, tags or answers, which `transformers` opens."""
    if (own_task is None) == (task is None):
        raise UsageError("give one task: --own-task FILE, or --task NAME")
    given: dict[str, Any] = {"data_dir": data_dir, "seeds": seeds, "onnx": onnx}
    api.finetune(model, output, own_task=own_task, task=task, overrides=overrides, **given)


@_verb("predict out/tickets texts.txt --output labels.csv")
def predict(
    folder: Annotated[str, _word("FOLDER", "that finetune wrote")],
    file: Annotated[
        str, _bundled("FILE", "a text a line (.txt), or a table: .csv .jsonl .parquet")
    ],
    output: Annotated[str | None, _value("FILE", ".csv or .jsonl to write")] = None,
) -> None:
    """Print the label and its probability for each text of a file."""
    from benchmarks.predict import predict

    predict(Path(folder), Path(file), Path(output) if output else None)


# --- looking at a discriminator -------------------------------------------------------------------


@_verb(f'inspect {SHIPPED} "배우들의 연기을 보고 감동했어요."')
def inspect(
    model: Discriminator,
    texts: Annotated[list[str], _word("TEXT", "default: lines of stdin")] = [],
    generator: Generator = None,
    threshold: Annotated[float | None, _value("P", "mark words above this probability")] = None,
    no_attributions: Annotated[
        bool, Option("--no-attributions", help="leave out why a word is marked (faster)")
    ] = False,
    json: Annotated[bool, Option("--json", help="print a line of JSON a text")] = False,
) -> None:
    """Show which words the discriminator flags, and why."""
    from json import dumps

    if files := list(filter(os.path.isfile, texts)):
        raise UsageError(f"TEXT is {files[0]!r}, a file: give its lines with < {files[0]}")
    _check_model(model)
    if not texts and sys.stdin.isatty():
        log("a text a line; end with Ctrl-D")
    from benchmarks.analysis.inspect import as_record, as_text, findings

    lines = texts or sys.stdin
    why = not no_attributions
    for found in findings(model, lines, generator, threshold, why):
        print(dumps(as_record(found), ensure_ascii=False) if json else as_text(found), flush=True)


@_verb(f"page {SHIPPED} --output out/page")
def page(
    model: Discriminator,
    output: Annotated[str, _value("FOLDER", "folder to write; it must not exist yet")],
    generator: Generator = None,
) -> None:
    """Make a web page around a discriminator, for any static host."""
    _check_model(model)
    from benchmarks.analysis.page import build_page

    build_page(model, generator, Path(output))


# --- checks ---------------------------------------------------------------------------------------


@_verb(f"validate {DEMO}")
def validate(
    config: ConfigFile,
    keys: Annotated[bool, Option("--keys", help="print every key with its value")] = False,
    json: Json = False,
    overrides: Overrides = [],
) -> None:
    """Check all that a run needs; print what each stage costs."""
    from electrify.check import check_run, describe_config, describe_run
    from electrify.config.load import load_config

    run = load_config(config, overrides)
    left_out = check_run(run)
    lines = describe_run(run)
    if json:
        _print_json(config=run.model_dump(mode="json"), notes=[*lines, *left_out])
        return
    changes = [word for override in overrides for word in ("--set", override)]
    when = ", once what is missing below is installed" if left_out else ""
    print(f"{config} can be run{when}: {shlex.join(['electrify', 'run', config, *changes])}")
    every_key = ["", *describe_config(run)] if keys else ["all keys: --keys"]
    print("\n".join([*lines, *every_key, *left_out]))


@_verb("ls")
def ls(json: Json = False) -> None:
    """List configs, runs with the stages done, suites and tasks."""
    from electrify.check import list_runs, stages_of_runs
    from electrify.config.fields import NOISE_SUITES, SUITE_TASKS, TASK_NAMES

    suites, tasks = [*SUITE_TASKS, *NOISE_SUITES], sorted(TASK_NAMES)
    if json:
        runs = stages_of_runs(Path("out"))
        _print_json(configs=config_names(), runs=runs, suites=suites, tasks=tasks)
        return
    print("\n".join(list_runs(Path("out"))))
    print("\nsuites\n" + "\n".join(f"  {name}" for name in suites))
    print("\ntasks\n" + "\n".join(f"  {name}" for name in tasks))


@_verb("doctor")
def doctor(json: Json = False) -> int:
    """Check this machine and the installation."""
    from electrify.check import check_machine
    from electrify.system.machine import versions

    lines, is_sound = check_machine()
    if json:
        _print_json(is_sound=is_sound, lines=lines, versions=versions())
    else:
        print("\n".join(lines))
    return 0 if is_sound else 1


# --- what verbs share -----------------------------------------------------------------------------


def _check_model(name: str) -> None:
    """Refuse what is no run, export or model, before torch is imported."""
    from benchmarks.model_name import check_model, encoder_path

    check_model(encoder_path(name))


def _print_json(**values: object) -> None:
    from json import dumps

    print(dumps(values, ensure_ascii=False, indent=1))


def _given(options: Mapping[str, object]) -> dict[str, object]:
    """The values by key of those options that the command has."""
    return {
        key: value
        for key, value in options.items()
        if not (value is None or value is False or value == [])
    }


def _run_folder(name: str) -> Path:
    """A run's folder as the user names it; of an address the local one, with what is finished."""
    from electrify.stage.remote import is_address, open_address

    return open_address(name.rstrip("/")) if is_address(name) else Path(name)
