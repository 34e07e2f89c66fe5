"""What each verb does. A function has the verb's name; it returns an exit status, or None for 0.

A verb imports its stage when it is run, so that each needs its own extra alone.
"""

import os
import shutil
import sys
import tempfile
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path

from electrify.config.evaluate import EvaluateConfig
from electrify.config.load import evaluation_of, load_config, toml_value
from electrify.config.run import EvaluationRun, RunConfig
from electrify.config.tasks import PROBE_SUITES, SUITE_TASKS, TASK_NAMES
from electrify.overview import check_machine, describe_config, list_runs
from electrify.stage.folder import MANIFEST, input_digest
from electrify.stage.plan import (
    NETWORKS,
    check_initial,
    named_checkpoint,
    onnx_stage,
    output_dir,
    scored_folder,
)
from electrify.stage.remote import (
    is_address,
    open_address,
    open_run,
    pull,
    push_report,
    push_rewritten,
)
from electrify.system.machine import describe_precision
from electrify.system.progress import log

_MIN_FREE_BYTES = 2**28
# tried by `electrify evaluate --search`: encoders of size base want the lowest, tiny ones the
# highest
_RATES = [5e-5, 1e-4, 3e-4, 1e-3]


def init(parsed: Namespace) -> None:
    """A config for the user's own text."""
    from pipeline.init import init

    print("\n".join(init(parsed.path, parsed.output)))


def run(parsed: Namespace) -> None:
    """Every stage in order, of one reading of the config; each says whether it is done, missing or
    stale."""
    config = _load(parsed)
    for stage in (_clean, _train_vocab, _encode, _pretrain, _export):
        stage(config, parsed)
    from benchmarks.evaluate import evaluate
    from benchmarks.report import report
    from model.export import format_example, read_example

    folder = Path(config.output_dir)
    if config.evaluate.has_tasks:
        evaluate(config, None, parsed.overwrite)
    for suite in config.evaluate.probe_suites:
        evaluate(config, None, parsed.overwrite, probe=suite)
    if config.evaluate.suites or config.evaluate.has_tasks:
        _update_cards(config)
    else:
        log("evaluate: the config names no suites and no tasks")
    page = report([folder], None, _folders_of_data(config.evaluate))
    push_report(folder)
    example = read_example(config)
    if example is not None:
        print(f"\n{example['sentence']}\n{example['corrupted']}")
        print(f"P(replaced): {format_example(example)}")
    print(f"\nreport: {page}")


def _clean(config: RunConfig, parsed: Namespace) -> None:
    from pipeline.clean import clean

    texts = None
    if config.clean.decontaminate_against:  # else the corpus stage needs nothing of benchmarks/
        from benchmarks.tasks.texts import dump_benchmarks

        texts = dump_benchmarks(config)
    clean(config, parsed.beam_options, parsed.overwrite, texts)


def _train_vocab(config: RunConfig, parsed: Namespace) -> None:
    from vocab.train import train_vocab

    train_vocab(config, parsed.beam_options, parsed.overwrite)


def _encode(config: RunConfig, parsed: Namespace) -> None:
    from vocab.encode import encode

    encode(config, parsed.beam_options, parsed.overwrite)


def _pretrain(config: RunConfig, parsed: Namespace) -> None:
    from model.pretrain import pretrain

    pretrain(config, parsed.overwrite)


def _export(config: RunConfig, parsed: Namespace) -> None:
    from model.export import export

    export(config, parsed.overwrite)


def _alone(stage: Callable[[RunConfig, Namespace], None]) -> Callable[[Namespace], None]:
    return lambda parsed: stage(_load(parsed), parsed)


clean, train_vocab, encode = _alone(_clean), _alone(_train_vocab), _alone(_encode)
pretrain = _alone(_pretrain)


def export(parsed: Namespace) -> None:
    """The last checkpoint to `transformers` folders; these, or any folder, to ONNX."""
    if parsed.model is None:
        if parsed.config is None:
            raise ValueError("give a run's config, electrify export configs/NAME.toml, or --model")
        config = _load(parsed)
        _export(config, parsed)
        if parsed.onnx:
            _to_onnx(config, None, parsed.overwrite)
    elif parsed.config or not parsed.onnx:
        raise ValueError(f"--model {parsed.model} goes with --onnx, and without a config")
    else:
        run = open_run(evaluation_of(parsed.model, _overrides(parsed)), parsed.break_lock)
        _check_output(run)
        _to_onnx(run, parsed.model, parsed.overwrite)


def _to_onnx(config: EvaluationRun, model: str | None, overwrite: bool) -> None:
    from benchmarks.encoder import generator_of
    from benchmarks.onnx.convert import convert
    from benchmarks.onnx.text import documents, sample

    if model is None:
        folder = Path(config.output_dir)
        names = [name for name in NETWORKS if (folder / "export" / name).is_dir()]
        networks, texts = {name: folder / "export" / name for name in names}, documents(folder)
    else:
        networks, texts = {Path(model).name: Path(model)}, sample()
        if generator := generator_of(model):
            networks["generator"] = Path(generator)
    stage = onnx_stage(config, model)
    convert(
        stage,
        networks,
        scored_folder(config),
        config.export.onnx,
        config.evaluate,
        texts,
        overwrite,
    )


def evaluate(parsed: Namespace) -> int | None:
    """Scores of an encoder or of checkpoints; or one of the checks that leave again."""
    _refuse_what_is_not_read(parsed)
    if parsed.check_metrics:
        from benchmarks.golden.check import check_metrics

        return check_metrics(Path(parsed.check_metrics))
    if parsed.rescore:
        from benchmarks.results.rescore import rescore

        return rescore(_run_folder(parsed.rescore))
    if parsed.submission:
        from benchmarks.results.submission import write_submissions

        if not write_submissions(_run_folder(parsed.submission)):
            raise ValueError(
                f"{parsed.submission} has nothing to submit: it has no predictions of GLUE, SQuAD "
                "or KLUE by a pretrained encoder (test files that are below the data folder while "
                "it is scored are predicted)"
            )
        return None
    if parsed.encoder_name and not parsed.model:
        raise ValueError(f"--name {parsed.encoder_name} names the encoder of --model: give both")
    steps = _split_steps(parsed)
    config: EvaluationRun = _evaluation(parsed) if parsed.config is None else _load(parsed)
    if steps is not None:
        from benchmarks.checkpoints import evaluate_checkpoints
        from model.export import export_checkpoint

        assert isinstance(config, RunConfig)  # --model, the other way, excludes --checkpoints
        pull(Path(config.output_dir), "pretrain")
        evaluate_checkpoints(config, steps, parsed.overwrite, export_checkpoint)
        return None
    from benchmarks.evaluate import evaluate

    with tempfile.TemporaryDirectory() as scratch:
        weights = None
        if parsed.model and (checkpoint := named_checkpoint(parsed.model)):
            from model.export import export_checkpoint

            weights = Path(scratch)
            export_checkpoint(checkpoint, weights)
        options = config.evaluate
        suites: list[str | None] = list(options.probe_suites)
        # what the command names beside a probe is what that looks at; a config has both
        if not suites or options.task_suites or (options.has_tasks and not parsed.suite):
            suites.insert(0, None)
        for suite in suites:
            called = parsed.encoder_name
            evaluate(config, parsed.model, parsed.overwrite, weights, name=called, probe=suite)
    log(f"for a page of these scores: electrify report {parsed.config or config.output_dir}")
    if parsed.model is None:
        assert isinstance(config, RunConfig)
        _update_cards(config)
    return None


def _evaluation(parsed: Namespace) -> EvaluationRun:
    """What to do with `--model` alone."""
    if parsed.model is None:
        raise ValueError(
            "give an encoder, electrify evaluate --model FOLDER_OR_HUB_NAME --suite klue (or "
            "--own-task FILE), or a run's config, electrify evaluate configs/NAME.toml"
        )
    if named_checkpoint(parsed.model):
        raise ValueError(f"--model {parsed.model} is a checkpoint: give the config of its run, too")
    name = parsed.encoder_name or parsed.model
    config = open_run(evaluation_of(name, _overrides(parsed)), parsed.break_lock)
    _check_output(config)
    return config


def _overrides(parsed: Namespace) -> list[str]:
    """`--set`, behind what has an option of its own."""
    names = {name: getattr(parsed, name, None) or [] for name in ("task", "suite", "own_task")}
    own_tasks = [{"train": path} for path in names.pop("own_task")]
    overrides = []
    if own_tasks or any(names.values()):  # in place of all that a config names
        overrides += [f"evaluate.{name}s={toml_value(of)}" for name, of in names.items()]
        overrides.append(f"evaluate.own_tasks={toml_value(own_tasks)}")
    if getattr(parsed, "force", False):
        overrides.append("export.onnx.force=true")
    if getattr(parsed, "search", False):
        overrides.append(f"evaluate.search={toml_value({'learning_rate': _RATES})}")
    overrides += parsed.set
    if data_dirs := getattr(parsed, "data_dir", None):
        overrides.append(data_dir_option(data_dirs))
    return overrides


def _refuse_what_is_not_read(parsed: Namespace) -> None:
    """`ValueError` if one of the checks, which read a folder alone, is given more."""
    for check in ("check_metrics", "rescore", "submission"):
        if getattr(parsed, check) is None:
            continue
        others = {
            "the config": parsed.config,
            "--data-dir": parsed.data_dir,
            "--suite": parsed.suite,
            "--task": parsed.task,
            "--own-task": parsed.own_task,
            "--search": parsed.search,
            "--name": parsed.encoder_name,
            "--set": parsed.set,
            "--overwrite": parsed.overwrite,
        }
        if given := [name for name, value in others.items() if value]:
            raise ValueError(
                f"--{check.replace('_', '-')} {getattr(parsed, check)} reads only that folder: "
                f"leave out {' and '.join(given)}"
            )


def _split_steps(parsed: Namespace) -> list[int] | None:
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


def report(parsed: Namespace) -> None:
    """A page about runs."""
    from benchmarks.report import report

    configs = {n: load_config(n, parsed.set) for n in parsed.runs if n.endswith(".toml")}
    if parsed.set and not configs:
        raise ValueError(
            f"--set {parsed.set[0]} overrides a config, but you gave no config: leave --set out, "
            "or give the config of a run"
        )
    folders = [
        _run_folder(configs[name].output_dir if name in configs else name) for name in parsed.runs
    ]
    given = EvaluateConfig(data_dir=tuple(parsed.data_dir or ()))
    named = [given, *(config.evaluate for config in configs.values())]
    page = report(
        folders,
        Path(parsed.output) if parsed.output else None,
        next(filter(None, map(_folders_of_data, named)), ()),
        not parsed.no_texts,
        parsed.baseline,
    )
    if not parsed.output:
        push_report(folders[0])
    print(page)


def leakage(parsed: Namespace) -> None:
    """Which benchmark examples stand in the run's documents."""
    from benchmarks.leakage.examples import write_items
    from pipeline.decontaminate.leakage import find_leaks

    config = _load(parsed)
    pull(Path(config.output_dir), "clean")
    input_digest(output_dir(config) / "clean", "clean")  # told before any task is fetched
    with tempfile.TemporaryDirectory() as items:
        write_items(config, Path(items))
        find_leaks(config, parsed.beam_options, parsed.overwrite, Path(items))
    _update_cards(config)


def ablate(parsed: Namespace) -> None:
    """A grid of runs, its plan or its report."""
    from benchmarks.ablate.run import ablate, plan_of, report_of

    if parsed.plan or parsed.report:
        show = plan_of if parsed.plan else report_of
        print(show(Path(parsed.config), parsed.set))
    else:
        print(ablate(Path(parsed.config), parsed.set, parsed.beam_options, parsed.overwrite))


def inspect(parsed: Namespace) -> None:
    """Which words of a text are taken for replaced."""
    from benchmarks.inspect.inspect import inspect

    if files := list(filter(os.path.isfile, parsed.texts)):
        raise ValueError(f"TEXT is {files[0]!r}, a file: give its lines with < {files[0]}")
    if not parsed.texts and sys.stdin.isatty():
        log("a text a line; end with Ctrl-D")
    inspect(
        parsed.model,
        parsed.texts or sys.stdin,
        parsed.generator,
        parsed.threshold,
        parsed.clean,
        parsed.false_alarms,
        not parsed.no_attributions,
        parsed.json,
        parsed.html,
    )


def page(parsed: Namespace) -> None:
    """A web page around a discriminator."""
    from benchmarks.inspect.page.build import build_page

    build_page(parsed.model, parsed.generator, Path(parsed.output))


def validate(parsed: Namespace) -> None:
    """What a config asks for and its cost; `ValueError` for inputs that are not there."""
    config = load_config(parsed.config, parsed.set)
    from model.watch.flops import estimate

    _preflight(config, "validate")
    precisions = [
        describe_precision(f"{name}.precision", section.precision)
        for name, section in (("pretrain", config.pretrain), ("evaluate", config.evaluate))
        if section.device in ("auto", "cpu")
    ]
    lines = [f"{parsed.config} can be run: electrify run {parsed.config}", *estimate(config)]
    lines += [f"output: {config.output_dir}", *precisions]
    lines += ["", *describe_config(config)] if parsed.keys else ["all keys: --keys"]
    print("\n".join(lines))


def ls(parsed: Namespace) -> None:
    """Configs, runs and tasks."""
    if parsed.address and not is_address(parsed.address):
        raise ValueError(
            f"{parsed.address!r} is not an address such as gs://bucket/folder; `electrify ls` "
            "alone lists the runs in out/"
        )
    print("\n".join(list_runs(Path("configs"), Path("out"), parsed.address)))
    print("\nsuites\n" + "\n".join(f"  {name}" for name in (*SUITE_TASKS, *PROBE_SUITES)))
    print("\ntasks\n" + "\n".join(f"  {name}" for name in sorted(TASK_NAMES)))


def doctor(parsed: Namespace) -> int:
    """This machine and installation; 1 if something needed is missing."""
    lines, is_sound = check_machine()
    print("\n".join(lines))
    return 0 if is_sound else 1


def data_dir_option(folders: Sequence[str]) -> str:
    """`--data-dir`, once or several times, as `--set` would have it."""
    return f"evaluate.data_dir={toml_value(folders if folders[1:] else folders[0])}"


def _load(parsed: Namespace) -> RunConfig:
    config = open_run(load_config(parsed.config, _overrides(parsed)), parsed.break_lock)
    _check_output(config)
    if parsed.has_beam:
        _preflight(config, parsed.name, parsed.beam_options)
    return config


def _check_output(config: EvaluationRun, num_bytes: int = _MIN_FREE_BYTES) -> None:
    """`ValueError` if the output folder cannot be written, or has no room for so many bytes."""
    folder = Path(config.output_dir).absolute()
    place = next(path for path in (folder, *folder.parents) if path.exists())
    if not place.is_dir():
        raise ValueError(f"output_dir = {config.output_dir!r}: {place} is a file; name a folder")
    if not os.access(place, os.W_OK):
        raise ValueError(
            f"output_dir = {config.output_dir!r}: {place} cannot be written; name another folder"
        )
    free = shutil.disk_usage(place).free
    if free < num_bytes:
        raise ValueError(
            f"output_dir = {config.output_dir!r}: {free / 2**20:,.0f} MiB are free there, and "
            f"{num_bytes / 2**20:,.0f} MiB or more are needed; make room or name another folder"
        )


def _preflight(config: RunConfig, verb: str, beam_options: Sequence[str] = ()) -> None:
    """`ValueError` names what the verb would not find: files of the corpus, data of the tasks, and
    paths that Beam's workers cannot open."""
    if verb in ("run", "clean"):
        # before Arrow is imported, here and in workers: its own allocator reserves a gigabyte of
        # addresses at the first allocation, too much where `ulimit -v` is set (system/memory.py)
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    try:
        from pipeline.sources.files import check_inputs
        from pipeline.worker_files import check_worker_files
    except ModuleNotFoundError as error:  # where only later stages run
        log(f"clean.sources are not checked: {error}")
    else:
        check_worker_files(config, beam_options, "clean" if verb == "validate" else verb)
        if verb in ("run", "clean", "validate"):
            num_bytes, folder = check_inputs(config.clean), Path(config.output_dir)
            # once begun, some of it is written, and later stages need far less
            is_begun = any((folder / name).exists() for name in ("clean", "clean.partial", ".work"))
            if not (is_address(config.output_dir) or is_begun):
                _check_output(config, max(num_bytes, _MIN_FREE_BYTES))
    if verb in ("run", "clean", "validate") and config.clean.decontaminate_against:
        from benchmarks.tasks.texts import check_benchmarks

        check_benchmarks(config)
    if verb in ("run", "validate"):
        _check_later_stages(config)


def _check_later_stages(config: RunConfig) -> None:
    """`ValueError` names what a later stage would not find hours from now."""
    from vocab.train import check_vocab_inputs

    check_vocab_inputs(config)
    options = config.pretrain
    check_initial(options)
    if options.probe and not Path(options.probe.path).is_file():
        raise ValueError(f"pretrain.probe.path: there is no file {options.probe.path}")
    if options.wandb_project:
        from model.watch.boards import import_wandb

        import_wandb(options.wandb_project)
    if config.evaluate.has_tasks:
        from benchmarks.tasks.data import check_data

        check_data(config.evaluate)


def _run_folder(name: str) -> Path:
    """A run's folder as the user names it; of an address the local one, with what is small."""
    return open_address(name.rstrip("/")) if is_address(name) else Path(name)


def _folders_of_data(options: EvaluateConfig) -> tuple[Path, ...]:
    """The data folders without the hub: a page is made without a network."""
    return tuple(folder for folder in options.data_dirs if str(folder) != "hub")


def _update_cards(config: RunConfig) -> None:
    """Put what is known of the scores into the model cards of the run's export, if there is one."""
    folder = Path(config.output_dir)
    if not (folder / "export" / MANIFEST).exists():
        return
    from benchmarks.pages.card_tables import card_sections
    from model.weights.card import add_sections

    add_sections(config, card_sections(folder))
    push_rewritten(folder / "export")
