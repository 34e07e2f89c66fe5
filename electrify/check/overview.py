"""What `electrify validate` prints of a config, and `electrify ls` of all runs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from electrify.check.cost import corpus_cost, evaluation_cost
from electrify.config.load import load_config, toml_key, toml_value
from electrify.config.run import RunConfig
from electrify.config.tasks import PROBE_SUITES
from electrify.stage.folder import MANIFEST, read_manifest
from electrify.stage.remote import address_of, local_folders, names_below
from electrify.system.machine import describe_precision
from electrify.system.progress import duration

_SCORES = ("evaluate", *PROBE_SUITES)
_FOLDERS = ("clean", "vocab", "shards", "pretrain", "export", "onnx", *_SCORES, "leakage")
_OF_MODELS = tuple(f"{name}-" for name in _SCORES)  # of another encoder, `evaluate-<name>`
_GRID = "ablation-"  # grids of runs: `ablation-<name>/<variant>/seed-<seed>/`


def describe_config(config: RunConfig) -> list[str]:
    """Every key of a config with its resolved value, a line each, as `--set` takes it.

    Of what is not set the line is a comment; tables in a list (`clean.sources[0]`) are set whole.
    """
    return [
        f"# {key} is not set" if value is None else f"{key} = {toml_value(value)}"
        for key, value in _flatten(config.model_dump(mode="json"), "")
    ]


def describe_run(config: RunConfig, has_keys: bool) -> list[str]:
    """Size, cost of every stage, output and precision of a run; with `has_keys` every key."""
    from model.flops import estimate

    lines = [*estimate(config)]
    for stage_cost in (corpus_cost, evaluation_cost):
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
    return lines + (["", *describe_config(config)] if has_keys else ["all keys: --keys"])


def list_runs(configs: Path, runs: Path, address: str | None = None) -> list[str]:
    """Configs with what they are, then run folders with the stages done, then runs at addresses.

    Of a grid of runs there is a line for each variant, with the last stage of each seed. Of runs at
    addresses there are those that work in folders of this machine, as far as it knows, and all
    below `address`. `ValueError` if that cannot be read.
    """
    lines = ["configs"]
    for path in sorted(configs.glob("*.toml")):
        try:
            config = load_config(path)
            what = f"{config.pretrain.size}, {config.pretrain.num_steps:,} steps"
        except (ValueError, OSError) as error:
            what = f"INVALID: {error}"
        lines.append(f"  {path}  {what}")
    lines += ["", "runs"]
    for run in sorted(p for p in runs.glob("*") if p.is_dir()):
        lines += _grid_lines(run) or _run_lines(run, str(run))
    for run in sorted(local_folders().glob("*/*")):
        run_address = address_of(run)
        if run_address and any(_stages_of(run, _all_stages(run))):  # not one mistyped
            lines += _run_lines(run, run_address)
    return [*lines, *(_lines_below(address) if address else ())]


def _run_lines(run: Path, name: str) -> list[str]:
    done, partial = _stages_of(run, _all_stages(run))
    lines = [f"  {name}  {', '.join(done + partial) or 'nothing done'}"]
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
        done, partial = _stages_of(run, _FOLDERS)
        last = (partial or done or ["nothing done"])[-1]
        variants.setdefault(run.parent.name, []).append(f"{run.name} {last}")
    width = max(map(len, variants), default=0)
    lines = [f"    {name:{width}}  {', '.join(seeds)}" for name, seeds in variants.items()]
    return [f"  {grid}  {len(variants)} variants, {len(runs)} runs", *lines] if runs else []


def _all_stages(run: Path) -> list[str]:
    folders = {p.name.removesuffix(".partial") for of in _OF_MODELS for p in run.glob(f"{of}*")}
    return [*_FOLDERS, *sorted(folders, key=_by_step)]


def _stages_of(run: Path, stages: Sequence[str]) -> tuple[list[str], list[str]]:
    """Of these stages those that are done, and those that are begun, as they are shown."""
    done = [stage for stage in stages if (run / stage / MANIFEST).exists()]
    partial = [f"{stage} (partial)" for stage in stages if (run / f"{stage}.partial").exists()]
    return done, partial


def _by_step(stage: str) -> tuple[str, int]:
    """Orders `evaluate-checkpoint-1000` behind `-500`."""
    name, _, step = stage.rpartition("-")
    return (name, int(step)) if step.isdecimal() else (stage, 0)


def _lines_below(address: str) -> list[str]:
    """Runs that stand below an address, or at it, with what is finished and begun of each."""
    runs: dict[str, list[str]] = {}
    for name in names_below(address):
        run, _, stage = f"/{name}".removesuffix(f"/{MANIFEST}").rpartition("/")
        if name.endswith(f"/{MANIFEST}") and _is_stage(stage):
            runs.setdefault(run, []).append(stage)
    lines = ["", f"runs at {address.rstrip('/')}"]
    for run, stages in sorted(runs.items()):
        others = sorted(set(stages).difference(_FOLDERS), key=_by_step)
        done = [*(stage for stage in _FOLDERS if stage in stages), *others]
        lines.append(f"  {address.rstrip('/')}{run}  {', '.join(done)}")
    return lines if runs else [*lines, "  none"]


def _is_stage(name: str) -> bool:
    return name in _FOLDERS or (name.startswith(_OF_MODELS) and not name.endswith(".partial"))


def _flatten(value: Any, prefix: str) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [
            pair
            for key, inner in value.items()
            for pair in _flatten(inner, f"{prefix}.{toml_key(key)}" if prefix else key)
        ]
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [pair for i, inner in enumerate(value) for pair in _flatten(inner, f"{prefix}[{i}]")]
    return [(prefix, value)]
