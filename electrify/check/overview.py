"""What `electrify validate` prints of a config, and `ls` of all runs."""

import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from electrify.config.fields import PROBE_SUITES
from electrify.config.load import flatten, load_config, toml_value
from electrify.config.run import RunConfig
from electrify.stage.folder import MANIFEST, read_manifest
from electrify.stage.remote import is_address
from electrify.storage.folder import Folder, explained
from electrify.system.bundled import config_names
from electrify.system.machine import (
    describe_precision,
)
from electrify.system.outcome import first_line
from electrify.system.progress import duration

if TYPE_CHECKING:
    from benchmarks.tasks.data import TaskData

_SCORES = ("evaluate", *PROBE_SUITES)
_FOLDERS = ("clean", "vocab", "shards", "pretrain", "export", "embed", "onnx", *_SCORES, "leakage")
# of another encoder, `evaluate-<name>`
_OF_MODELS = re.compile(rf"({'|'.join(_SCORES)})-(?!.*\.partial$)")
_GRID = "ablation-"  # grids of runs: `ablation-<name>/<variant>/seed-<seed>/`
# docs/results.md: MB of raw text a CPU second for cleaning, learning pieces at morphemes, encoding
_CLEAN_RATE, _VOCAB_RATE, _ENCODE_RATE = 3.7, 1.9, 8.0
_TOKEN_CHARACTERS = 1.8  # characters a token, of Korean; other scripts have more
_SAMPLE_ROWS = 1000  # whose lengths are measured
_DEVICES = {  # FLOP/s in matrix products that small networks reach in fine-tuning, assumed
    "one H200": 5e13,
    "two CPU cores": 1e11,
}


def describe_config(config: RunConfig) -> list[str]:
    """Every key of a config with its resolved value, a line each, as `--set` takes it.

    Of what is not set the line is a comment; tables in a list (`clean.sources[0]`) are set whole.
    """
    return [
        f"# {key} is not set" if value is None else f"{key} = {toml_value(value)}"
        for key, value in flatten(config.model_dump(mode="json"))
    ]


def describe_run(config: RunConfig) -> list[str]:
    """Size, cost of every stage, output and precision of a run."""
    from model.flops import estimate

    lines = [*estimate(config)]
    for stage_cost in (corpus_cost, mixture, evaluation_cost):
        try:
            lines += stage_cost(config)
        except ModuleNotFoundError as error:
            lines.append(f"{stage_cost.__name__.replace('_', ' ')} is not estimated: {error}")
    lines.append(f"output: {config.output_dir}")
    lines += [
        describe_precision(f"{name}.precision", section.precision)
        for name, section in (("pretrain", config.pretrain), ("evaluate", config.evaluate))
        if section.device in ("auto", "cpu")
    ]
    return lines


def corpus_cost(config: RunConfig) -> list[str]:
    """CPU time of the stages that read text; the sources on this machine are measured."""
    from pipeline.sources.files import expand_sources

    sources = config.clean.sources
    if any(source.kind == "huggingface" or is_address(source.path) for source in sources):
        return ["clean, train-vocab, encode: not estimated, the sources are not on this machine"]
    megabytes = sum(file.text_bytes for file in expand_sources(sources)) / 1e6
    stages = {"clean": _CLEAN_RATE, "train-vocab": _VOCAB_RATE, "encode": _ENCODE_RATE}
    parts = [f"{name} {duration(megabytes / rate)}" for name, rate in stages.items()]
    return [f"CPU time for {megabytes:,.1f} MB of text: {', '.join(parts)} (estimated)"]


def mixture(config: RunConfig) -> list[str]:
    """What pretraining reads of each language, once there are token shards of several."""
    folder = Path(config.output_dir) / "shards"
    if not (folder / "index.json").exists():
        return []
    from model.train.mixture import mixture_table, phase_readers
    from vocab.shards.files import TokenShards

    readers = phase_readers(config, TokenShards(folder))
    return [*mixture_table(readers)] if len(readers[0].reader.languages) > 1 else []


def evaluation_cost(config: RunConfig) -> list[str]:
    """Number of fine-tunings and their time, by the rows of the tasks.

    Rows on the hub are not read: they count by their official number, at half the longest length.
    """
    options = config.evaluate
    if not options.has_tasks:
        return []
    from benchmarks.finetune.recipe import hyper_parameters, seeds_for
    from benchmarks.finetune.search import combinations, rounds
    from benchmarks.tasks.data import check_data, hub_paths, load_tasks
    from model.flops import body_parameters

    data: dict[str, TaskData] = {}
    tasks = check_data(options)
    if not hub_paths(options):
        with suppress(ValueError):  # unreadable files: `evaluate` names what is wrong with them
            tasks, data = load_tasks(options)
    _, parameters = body_parameters(config.pretrain, config.vocab.size)
    num_encoders = 1 + options.random_init_control
    num_fractions = len(set(options.train_fractions))
    num_jobs, flops = 0, 0.0
    for task in tasks:
        settings = hyper_parameters(task, options, config.pretrain.hidden_size)
        tried = combinations(options.search, task) if options.search else []
        fine_tunings = num_fractions * len(seeds_for(task, options))
        if task.name in data:
            train, predicted = data[task.name].train, data[task.name].reported
            num_train, num_predicted = len(train), len(predicted)
            lengths = [
                min(settings.max_sequence_length, sum(map(len, example.texts)) / _TOKEN_CHARACTERS)
                for example in (train or predicted)[:_SAMPLE_ROWS]
            ]
            length = sum(lengths) / max(1, len(lengths))
        else:
            num_train = task.num_rows.get("train", 0)
            num_predicted = task.num_rows.get(task.reported, 0)
            length = settings.max_sequence_length / 2
        rows = min(num_train or num_predicted, settings.max_train_examples or num_train)
        trained = settings.num_steps(rows) * settings.batch_size
        trials = rounds(tried, settings, rows) if tried else []
        num_jobs += num_encoders * (fine_tunings + sum(number for number, _ in trials))
        whole = num_encoders * (fine_tunings + sum(number * share for number, share in trials))
        flops += whole * length * parameters * (6 * trained + 2 * num_predicted)
    times = [f"{duration(flops / rate)} ({name}, assumed)" for name, rate in _DEVICES.items()]
    return [f"evaluate: {num_jobs} fine-tunings, about {flops:.3g} FLOPs: {', '.join(times)}"]


def list_runs(runs: Path, address: str | None = None) -> list[str]:
    """Configs with what they are, then run folders with the stages done, then runs at addresses.

    Of a grid of runs there is a line for each variant, with the last stage of each seed. Of runs at
    addresses there are those below `address`. `ValueError` if that cannot be read.
    """
    lines = ["configs"]
    for name in config_names():
        try:
            config = load_config(name)
            what = f"{config.pretrain.size}, {config.pretrain.num_steps:,} steps"
        except (ValueError, OSError) as error:
            what = f"INVALID: {first_line(error)}"
        lines.append(f"  {name}  {what}")
    lines += ["", "runs"]
    for run in sorted(p for p in runs.glob("*") if p.is_dir()):
        lines += _grid_lines(run) or _run_lines(run, str(run))
    return [*lines, *(_lines_below(address) if address else ())]


def stages_of_runs(runs: Path, address: str | None = None) -> dict[str, dict[str, list[str]]]:
    """What is done and begun of each run in a folder, those of grids too, and below an address."""
    folders = [run for run in sorted(runs.glob("*")) if run.is_dir()]
    folders = [one for run in folders for one in sorted(run.glob("*/seed-*")) or [run]]
    local_runs = {
        str(run): dict(zip(("done", "begun"), _stages_of(run), strict=True)) for run in folders
    }
    below = _runs_below(address) if address else {}
    return local_runs | {run: {"done": done, "begun": []} for run, done in below.items()}


def _run_lines(run: Path, name: str) -> list[str]:
    done, begun = _stages_of(run)
    stages = [*done, *(f"{stage} (partial)" for stage in begun)]
    lines = [f"  {name}  {', '.join(stages) or 'nothing done'}"]
    width = max(map(len, (*done, "evaluate ")))
    return lines + [f"    {stage:{width}} {_when_made(run / stage)}" for stage in done]


def _when_made(stage: Path) -> str:
    try:
        manifest = read_manifest(stage)
        return f"{manifest['finished_at']}  {duration(manifest['seconds'])}"
    except (ValueError, KeyError, TypeError, OSError) as error:  # one stage hides no other
        return f"DAMAGED: {error}"


def _grid_lines(grid: Path) -> list[str]:
    """The variants of a grid; empty for a folder that is none."""
    runs = sorted(grid.glob("*/seed-*")) if grid.name.startswith(_GRID) else []
    variants: dict[str, list[str]] = {}
    for run in runs:
        done, begun = _stages_of(run)
        last = f"{begun[-1]} (partial)" if begun else (done or ["nothing done"])[-1]
        variants.setdefault(run.parent.name, []).append(f"{run.name} {last}")
    width = max(map(len, variants), default=0)
    lines = [f"    {name:{width}}  {', '.join(seeds)}" for name, seeds in variants.items()]
    return [f"  {grid}  {len(variants)} variants, {len(runs)} runs", *lines] if runs else []


def _stages_of(run: Path) -> tuple[list[str], list[str]]:
    """The stages of a run that are done, and those that are begun."""
    done = _ordered(path.parent.name for path in run.glob(f"*/{MANIFEST}"))
    return done, _ordered(path.stem for path in run.glob("*.partial"))


def _ordered(folders: Iterable[str]) -> list[str]:
    """The stages among names of folders, in the order of a run; checkpoints by their steps."""
    stages = [n for n in folders if n in _FOLDERS or re.match(_OF_MODELS, n)]

    def place(stage: str) -> tuple[int, str, int]:
        number = _FOLDERS.index(stage) if stage in _FOLDERS else len(_FOLDERS)
        name, _, step = stage.rpartition("-")
        return (number, name, int(step)) if step.isdecimal() else (number, stage, 0)

    return sorted(stages, key=place)


def _lines_below(address: str) -> list[str]:
    lines = [f"  {run}  {', '.join(stages)}" for run, stages in _runs_below(address).items()]
    return ["", f"runs at {address.rstrip('/')}", *(lines or ["  none"])]


def _runs_below(address: str) -> dict[str, list[str]]:
    """Runs that stand below an address, or at it, with the finished stages of each."""
    runs: dict[str, list[str]] = {}
    folder = Folder(address)
    with explained(address, "read"):
        names = folder.files()
    for name in names:
        if name.endswith(f"/{MANIFEST}"):
            run, _, stage = f"/{name}".removesuffix(f"/{MANIFEST}").rpartition("/")
            runs.setdefault(run, []).append(stage)
    place = address.rstrip("/")
    done = {f"{place}{run}": _ordered(stages) for run, stages in sorted(runs.items())}
    return {run: stages for run, stages in done.items() if stages}
