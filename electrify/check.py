"""What a run needs and costs (`validate`), which runs there are (`ls`), this machine (`doctor`).

A check of a run is a function that raises `UserError`, before any work. A check that needs a
missing library is left out, and a line says so: `electrify validate` works without any extra.
"""

import importlib
import os
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from electrify.config.evaluate import EvaluateConfig
from electrify.config.fields import NOISE_SUITES
from electrify.config.load import flatten, load_config, toml_value
from electrify.config.run import EvaluationRun, ExportConfig, RunConfig
from electrify.stage.folder import MANIFEST
from electrify.stage.plan import check_initial, licence_of, recommended_settings
from electrify.stage.remote import is_address
from electrify.stage.trackers import require_trackers
from electrify.storage.hub import hub_failure
from electrify.system.bundled import bundled_name, config_names
from electrify.system.machine import (
    describe_precision,
    num_cores,
    unmet_requirements,
    unusable_gpu,
    versions,
)
from electrify.system.outcome import UserError, first_line
from electrify.system.progress import duration

if TYPE_CHECKING:
    from pipeline.init.survey import TextAmount

MIN_FREE_BYTES = 2**28
_HUB_SECONDS = 10.0  # for one answer
_SCORES = ("evaluate", *NOISE_SUITES)  # of other encoders in `evaluate-<name>`
_FOLDERS = ("clean", "vocab", "shards", "pretrain", "export", "onnx", *_SCORES)
# by stage: CPU seconds of its start, and MB of text a CPU second (docs/results.md)
_CPU_SECONDS = {"clean": (6.0, 1.5), "train-vocab": (8.0, 0.9), "encode": (2.0, 6.0)}
EXTRAS = {
    "pipeline": "clean, train-vocab, encode",
    "model": "pretrain, export",
    "benchmarks": "evaluate, finetune, inspect",
    "onnx": "export and finetune --onnx",
    "web": "text of web pages (kind warc)",
}
_DEVICES = {  # FLOP/s in matrix products that small networks reach in fine-tuning, assumed
    "one H200": 5e13,
    "two CPU cores": 1e11,
}


def check_run(config: RunConfig) -> list[str]:
    """Check all that the stages of a run will need; returns a line for each check left out.

    `UserError` names everything that is missing or cannot work.
    """
    checks: dict[str, Callable[[], object]] = {
        "clean": partial(check_corpus, config),
        "addresses": partial(_check_addresses, config),
        "vocab": partial(_check_vocabulary, config),
        "pretrain": partial(_check_pretraining, config),
        "evaluate": partial(_check_evaluation, config),
        "devices": partial(_check_devices, config),
    }
    problems, left_out = [], []
    for name, check in checks.items():
        try:
            check()
        except ModuleNotFoundError as error:
            left_out.append(f"{name} is not checked: {error}; pip install 'electrify[all]'")
        except UserError as error:
            problems.append(str(error))
    if problems:
        raise UserError("\n".join(problems))
    return left_out


def check_corpus(config: RunConfig) -> None:
    """`UserError` for sources or rules that are not there, and for a full disk."""
    from pipeline.rules.extra import read_code
    from pipeline.sources.files import check_inputs

    read_code(config.clean.extra_rules)
    num_bytes, folder = check_inputs(config.clean, config.output_dir), Path(config.output_dir)
    if config.clean.decontaminate_against:
        from benchmarks.tasks.texts import check_benchmarks

        check_benchmarks(config)
    # once begun, some of it is written, and later stages need far less
    is_begun = any((folder / name).exists() for name in ("clean", "clean.partial", ".work"))
    if not (is_address(config.output_dir) or is_begun):
        check_output(config, max(num_bytes, MIN_FREE_BYTES))


def check_output(config: EvaluationRun, num_bytes: int = MIN_FREE_BYTES) -> None:
    """`UserError` if the output folder cannot be written, or has no room for so many bytes."""
    folder = Path(config.output_dir).absolute()
    parent = next(path for path in (folder, *folder.parents) if path.exists())
    if not parent.is_dir():
        raise UserError(f"output_dir = {config.output_dir!r}: {parent} is a file; name a folder")
    if not os.access(parent, os.W_OK):
        raise UserError(
            f"output_dir = {config.output_dir!r}: {parent} cannot be written; name another folder"
        )
    free = shutil.disk_usage(parent).free
    if free < num_bytes:
        raise UserError(
            f"output_dir = {config.output_dir!r}: {free / 2**20:,.0f} MiB are free there, and "
            f"{num_bytes / 2**20:,.0f} MiB or more are needed; make room or name another folder"
        )


def _check_addresses(config: RunConfig) -> None:
    """`UserError` for an address whose protocol no installed library knows."""
    from fsspec import get_filesystem_class

    paths = {
        "output_dir": config.output_dir,
        "beam.work_dir": config.beam.work_dir,
        "pretrain.checkpoint_dir": config.pretrain.checkpoint_dir,
    } | {f"clean.sources[{i}].path": source.path for i, source in enumerate(config.clean.sources)}
    for key, path in paths.items():
        if path is None or not is_address(path):
            continue
        try:
            get_filesystem_class(path.partition("://")[0])
        except (ValueError, ImportError) as error:
            raise UserError(f"{key} = {path!r}: {first_line(error)}") from None


def _check_vocabulary(config: RunConfig) -> None:
    from vocab.pretokenize import mask_words_of
    from vocab.train import first_pieces_of

    first_pieces_of(config.vocab, mask_words_of(config))


def _check_pretraining(config: RunConfig) -> None:
    options = config.pretrain
    for option, name in check_initial(options).items():
        _check_hub("model", name, f"pretrain.{option}")
    if options.initial_model:
        from model.weights.initial import check_initial_shapes

        check_initial_shapes(config)
    require_trackers(options)


def _check_evaluation(config: RunConfig) -> None:
    from benchmarks.tasks.load import HUB, check_data

    found = (pair for options in _evaluations(config.evaluate) for pair in check_data(options))
    for name, (task, folder) in {task.name: (task, folder) for task, folder in found}.items():
        if task.hub and str(folder) == HUB:
            _check_hub("dataset", task.hub.path, f"evaluate: {name}")


def _evaluations(options: EvaluateConfig) -> list[EvaluateConfig]:
    """The options of each evaluation of a run: of the tasks as they are, then of each suite of
    noise. `UserError` for a suite that can look at none of the tasks."""
    from benchmarks.noise.suites import noise_options

    plain = [options] if options.has_tasks else []
    return [*plain, *(noise_options(options, suite) for suite in options.noise_suites)]


def _check_hub(kind: str, name: str, key: str) -> None:
    """`UserError` if a model or data set is neither on the hub nor in the cache."""
    from huggingface_hub import HfApi, scan_cache_dir
    from huggingface_hub.errors import CacheNotFound, RepositoryNotFoundError

    try:
        HfApi().repo_info(name, repo_type=kind, timeout=_HUB_SECONDS)
    except RepositoryNotFoundError:
        raise UserError(
            f"{key} = {name!r}: neither a folder here nor a {kind} on the hub that you may read "
            "(for a private or gated one log in: hf auth login)"
        ) from None
    except Exception as error:  # offline, a proxy, time-outs: each client has errors of its own
        with suppress(CacheNotFound):
            if any(repo.repo_id == name for repo in scan_cache_dir().repos):
                return
        raise UserError(
            f"{key} = {name!r}: {hub_failure(error)} (this {kind} is not in the cache here)"
        ) from None


def _check_devices(config: RunConfig) -> None:
    """`UserError` if a device that the config names is missing; `auto` needs none."""
    named = {"pretrain": config.pretrain.device, "evaluate": config.evaluate.device}
    for section, device in named.items():
        if device in ("auto", "cpu"):
            continue
        if device == "xla":
            if find_spec("torch_xla") is None:
                raise UserError(f'{section}.device = "xla": torch_xla is not installed')
            continue
        torch = importlib.import_module("torch")
        backend = torch.backends.mps if device == "mps" else torch.cuda
        if not backend.is_available():
            raise UserError(
                f'{section}.device = "{device}": torch {torch.__version__} sees no such device '
                'here; use "auto" or "cpu", or see `electrify doctor`'
            )


# --- the cost of a run ----------------------------------------------------------------------------


def describe_config(config: RunConfig) -> list[str]:
    """Every key of a config with its resolved value, a line each, as `--set` takes it.

    Of what is not set the line is a comment; tables in a list (`clean.sources[0]`) are set whole.
    """
    return [
        f"# {key} is not set" if value is None else f"{key} = {toml_value(value)}"
        for key, value in flatten(config.model_dump(mode="json"))
    ]


def describe_run(config: RunConfig) -> list[str]:
    """Text, size, cost of every stage, output and precision of a run."""
    from model.flops import estimate

    lines, all_seconds = list[str](), 0.0
    try:
        amount, num_elsewhere = _text_amount(config)
        config = _sized(config, amount)
        lines, all_seconds = corpus_cost(config, amount, num_elsewhere)
    except ModuleNotFoundError as error:
        lines.append(f"the text is not estimated: {error}")
    for name, cost in (("pretrain", estimate), ("evaluate", evaluation_cost)):
        try:
            more, seconds = cost(config)
        except ModuleNotFoundError as error:
            lines.append(f"{name} is not estimated: {error}")
        else:
            lines, all_seconds = lines + more, all_seconds + seconds
    lines.append(f"in all about {duration(all_seconds)} of two CPU cores")
    lines += [f"NOTE: {warning}" for warning in config.pretrain.warnings]
    if config.removes_scored_rows:
        lines.append(
            "clean removes texts of the rows that [evaluate] scores; clean.decontaminate_against = "
            "[] keeps them"
        )
    lines.append(f"output: {config.output_dir}")
    start = config.pretrain.initial_model
    unnamed = config.model_copy(update={"export": ExportConfig()})
    try:
        licence = licence_of(unnamed)
    except ModuleNotFoundError as error:
        lines.append(f"the licence is not known: {error}")
    else:
        if licence:
            lines.append(
                f"licence: {bundled_name(str(start))} is {licence}, which asks to share alike: so "
                "are the weights of this run, and who passes them on names where they are from"
            )
    is_scored = config.evaluate.has_tasks or config.evaluate.noise_suites
    lines += [
        describe_precision(f"{name}.precision", section.precision)
        for name, section in (("pretrain", config.pretrain), ("evaluate", config.evaluate))
        if section.device in ("auto", "cpu") and (name == "pretrain" or is_scored)
    ]
    return lines


def _text_amount(config: RunConfig) -> "tuple[TextAmount, int]":
    """The text of all sources on this machine, by heads of files, and how many are elsewhere."""
    from pipeline.init.survey import TextAmount, amount_of

    sources = config.clean.sources
    here = [of for of in sources if of.kind != "huggingface" and not is_address(of.path)]
    amounts = [amount_of(source, config.output_dir) for source in here]
    summed = TextAmount(*map(sum, zip((0.0, 0.0, 0.0), *amounts, strict=True)))
    return summed, len(sources) - len(here)


def _sized(config: RunConfig, amount: "TextAmount") -> RunConfig:
    """The config with a number for `vocab.size`."""
    num_first = 0
    if config.vocab.extend:
        from vocab.train import first_pieces_of

        num_first = len(first_pieces_of(config.vocab))
    if not amount.num_words and not num_first:
        return config
    vocab = config.vocab.sized(amount.num_words, num_first)
    return config.model_copy(update={"vocab": vocab})


def corpus_cost(
    config: RunConfig, amount: "TextAmount", num_elsewhere: int = 0
) -> tuple[list[str], float]:
    """The text and its vocabulary, CPU time of the stages that read it, and how often pretraining
    does; what to do where the text is too small. And these seconds."""
    if not amount.num_bytes:
        return [
            "the text is not estimated: it is not here, or not in the first megabyte of files"
        ], 0.0
    from model.plan import phases_of
    from pipeline.init.config import FEW_TOKENS, NUM_PASSES

    megabytes, tokens = amount.num_bytes / 1e6, amount.num_tokens
    elsewhere = f", without {num_elsewhere} source(s) elsewhere" if num_elsewhere else ""
    times = {name: base + megabytes / rate for name, (base, rate) in _CPU_SECONDS.items()}
    phases = phases_of(config.pretrain)
    num_passes = sum(phase.num_steps * phase.tokens_per_step for phase in phases) / tokens
    text = f"{megabytes:,.1f} MB" if megabytes >= 0.1 else f"{1000 * megabytes:,.1f} KB"
    lines = [
        f"text: about {text} in {amount.num_documents:,.0f} documents, "
        f"{amount.num_words:,.0f} words (by heads of files{elsewhere})",
        f"vocabulary: {config.vocab.num_pieces:,} pieces",
        f"CPU time: {', '.join(f'{name} {duration(s)}' for name, s in times.items())}, estimated",
        f"passes over the text: {num_passes:,.1f}, of about "
        f"{round(tokens, 2 - len(str(int(tokens)))):,.0f} tokens each",
    ]
    if num_elsewhere == 0 and num_passes > 10 * NUM_PASSES and not config.pretrain.initial_model:
        few = max(1, round(config.pretrain.num_steps * NUM_PASSES / num_passes))
        lines.append(
            f"NOTE: so many passes teach little; {NUM_PASSES} are pretrain.num_steps = {few}. With "
            f"Korean text below {FEW_TOKENS // 10**6} M tokens start from the shipped encoder: "
            "electrify init FOLDER writes such a config"
        )
    return lines, sum(times.values())


def evaluation_cost(config: RunConfig) -> tuple[list[str], float]:
    """Number of fine-tunings and their time, by the official numbers of rows of the tasks, at half
    the longest length, or by the bytes of labelled rows of the user's own; and its seconds on two
    CPU cores. Rows that suites of noise add are not counted."""
    from benchmarks.tasks.load import check_data, load_tasks
    from benchmarks.training.recipe import hyper_parameters, seeds_for
    from model.flops import parameter_counts
    from model.plan import discriminator_shape
    from pipeline.init.survey import BYTES_A_TOKEN

    pretrain, vocab_size = config.pretrain, config.vocab.num_pieces
    parameters = parameter_counts(pretrain, vocab_size)["discriminator"]
    parameters -= discriminator_shape(pretrain, vocab_size).embedding_parameters
    own = config.evaluate.model_copy(update={"tasks": (), "suites": ()})
    data = load_tasks(own)[1] if own.own_tasks else {}
    num_jobs, flops = 0, 0.0
    evaluations = _evaluations(config.evaluate)
    for options, task in ((each, task) for each in evaluations for task, _ in check_data(each)):
        num_encoders = 1 + options.random_init_control
        if options is config.evaluate:  # the start is scored on the tasks as they are alone
            num_encoders += bool(pretrain.initial_model and options.start_control)
        recommended = recommended_settings(config.model_copy(update={"evaluate": options}))
        settings = hyper_parameters(task, options, pretrain.hidden_size, recommended)
        count = len(set(options.train_fractions)) * len(seeds_for(task, options))
        count = num_encoders * (count + len(options.search.trials if options.search else ()))
        num_predicted = task.num_rows.get(task.reported, 0)
        num_train = task.num_rows.get("train", 0) or num_predicted
        length = settings.max_sequence_length / 2
        if task.name in data:
            num_train, num_predicted = len(data[task.name].train), len(data[task.name].reported)
            num_bytes = sum(len("".join(e.texts).encode()) for e in data[task.name].train)
            length = min(num_bytes / BYTES_A_TOKEN / num_train, settings.max_sequence_length)
        most = settings.max_train_examples or num_train
        trained = settings.num_steps(min(num_train, most)) * settings.batch_size
        num_jobs += count
        flops += count * length * parameters * (6 * trained + 2 * num_predicted)
    if not num_jobs:
        return [], 0.0
    times = [f"{duration(flops / rate)} ({name}, assumed)" for name, rate in _DEVICES.items()]
    line = f"evaluate: {num_jobs} fine-tunings, about {flops:.3g} FLOPs: {', '.join(times)}"
    return [line], flops / _DEVICES["two CPU cores"]


# --- ls -------------------------------------------------------------------------------------------


def list_runs(runs: Path) -> list[str]:
    """Configs with what they are, then the runs with their stages, as `stages_of_runs` has them."""
    lines = ["configs"]
    for name in config_names():
        try:
            config = load_config(name)
            what = f"{config.pretrain.size}, {config.pretrain.num_steps:,} steps"
        except (ValueError, OSError) as error:
            what = f"INVALID: {first_line(error)}"
        lines.append(f"  {name}  {what}")
    lines += ["", "extras", *(f"  {line}" for line in extra_lines()), "", "runs"]
    found = stages_of_runs(runs)
    lines += [] if found else [f"  none in {runs}/"]
    for run, stages in found.items():
        begun = [f"{stage} (partial)" for stage in stages["begun"]]
        lines.append(f"  {run}  {', '.join([*stages['done'], *begun])}")
    return lines


def stages_of_runs(runs: Path) -> dict[str, dict[str, list[str]]]:
    """The stages that are done and begun of each run in a folder, or up to two folders deeper, as
    those of `ablate` are."""
    stages = ("*/*", "*/*/*", "*/*/*/*")
    paths = [path for of in stages for path in runs.glob(f"{of}/{MANIFEST}")]
    paths += [path for of in stages for path in runs.glob(f"{of}.partial")]
    by_run: dict[str, dict[str, list[str]]] = {}
    for name in sorted(path.as_posix() for path in paths):
        state = "begun" if name.endswith(".partial") else "done"
        run, _, stage = name.removesuffix(f"/{MANIFEST}").removesuffix(".partial").rpartition("/")
        suite, dash, _ = stage.partition("-")
        if suite in (_SCORES if dash else _FOLDERS) or stage.startswith("export-checkpoint-"):
            by_run.setdefault(run, {"done": [], "begun": []})[state].append(stage)
    return {
        run: {state: sorted(stages, key=_order) for state, stages in states.items()}
        for run, states in by_run.items()
    }


def _order(stage: str) -> tuple[int, int, str]:
    """In the order of a run, then evaluations of other encoders; checkpoints by their steps."""
    known = _FOLDERS.index(stage) if stage in _FOLDERS else len(_FOLDERS)
    return known, len(stage) if "-checkpoint-" in stage else 0, stage


# --- doctor ---------------------------------------------------------------------------------------


def check_machine() -> tuple[list[str], bool]:
    """Facts about this machine and what is installed; False if something needed is missing."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    lines = [
        f"python {sys.version.split()[0]}, {os.cpu_count()} cores ({num_cores()} for this process),"
        f" {memory:.0f} GiB memory, {shutil.disk_usage('.').free / 2**30:.0f} GiB free here"
    ]
    sound = True
    if not (3, 11) <= sys.version_info[:2] <= (3, 13):
        lines.append("PROBLEM: Python 3.11, 3.12 or 3.13 is needed")
        sound = False
    # an extra that is not installed may not be wanted; a library of another version is a fault
    unmet = [line for extra in EXTRAS for line in unmet_requirements(extra)]
    sound &= all(line.endswith("is missing") for line in unmet)
    lines += extra_lines()
    lines += [f"  {name} {number}" for name, number in versions().items()]
    gpus, is_usable = check_gpus()
    return lines + gpus, sound and is_usable


def extra_lines() -> list[str]:
    """What each extra brings, and how to install what is missing."""
    lines = []
    for extra, meaning in EXTRAS.items():
        unmet = ", ".join(unmet_requirements(extra))
        state = f"{unmet}: pip install 'electrify[{extra}]'" if unmet else "installed"
        lines.append(f"[{extra}] {meaning}: {state}")
    return lines


def check_gpus() -> tuple[list[str], bool]:
    """A line for each GPU that torch sees; False if there is one that it cannot use."""
    if find_spec("torch") is None:
        has_card = Path("/dev/nvidiactl").exists()
        return ["GPU: NVIDIA, but torch is not installed"] if has_card else [], True
    torch: Any = importlib.import_module("torch")
    if not torch.cuda.is_available():
        if problem := unusable_gpu(torch.__version__, torch.version.cuda):
            return [f"PROBLEM: {problem}"], False
        return ["GPU: none that torch can use"], True
    built_for = torch.cuda.get_arch_list()
    lines, is_usable = [], True
    for number in range(torch.cuda.device_count()):
        card = torch.cuda.get_device_properties(number)
        free = torch.cuda.mem_get_info(number)[0] / 2**30
        line = (
            f"GPU {number}: {card.name}, capability {card.major}.{card.minor}, {free:.0f} of "
            f"{card.total_memory / 2**30:.0f} GiB free, CUDA {torch.version.cuda}"
        )
        if all(int(arch.rpartition("_")[2]) > 10 * card.major + card.minor for arch in built_for):
            line = f"PROBLEM: {line}: this torch is built for {', '.join(built_for)} alone"
            is_usable = False
        elif card.major < 8:
            line += "; no units for bf16, so precision is fp32 (pretrain.precision may be fp16)"
        lines.append(line)
    return lines, is_usable
