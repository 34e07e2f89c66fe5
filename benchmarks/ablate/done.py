"""Whether a run of a grid is finished, and made from what the grid now says."""

import json
from pathlib import Path

from benchmarks.ablate.plan import Run
from electrify.artifacts import MANIFEST, canonical, read_manifest, write_json
from electrify.config import RunConfig
from electrify.stages import (
    KEEPING_OPTIONS,
    checkpoint_step,
    checkpoints,
    output_dir,
    pretrain_options,
)

_RECORD = "ablation.json"  # in the folder of a finished run: what it was made from


def mark_done(run: Run) -> None:
    """Write down what the finished run was made from."""
    write_json(output_dir(run.config) / _RECORD, _record(run))


def is_done(run: Run) -> bool:
    """Whether the run was finished, and from the present config and shards."""
    try:
        text = (output_dir(run.config) / _RECORD).read_text(encoding="utf-8")
        return is_whole(run) and json.loads(text) == _record(run)
    except (FileNotFoundError, ValueError):
        return False


def is_whole(run: Run) -> bool:
    """Whether every stage stands there, made by this config: with `--overwrite` old folders stay
    until the new ones are whole."""
    folder = output_dir(run.config)
    if not _is_made(folder / "pretrain", pretrain_options(run.config)):
        return False
    stages = ["export", *(["evaluate"] if _is_scored(run.config) else [])]
    if not all((folder / stage / MANIFEST).exists() for stage in stages):
        return False
    return not (run.has_curve and _is_scored(run.config)) or _has_curve(folder)


def _is_scored(config: RunConfig) -> bool:
    return bool(config.evaluate.suites or config.evaluate.tasks)


def _is_made(stage: Path, options: dict[str, object]) -> bool:
    if not (stage / MANIFEST).exists():
        return False
    made: dict[str, object] = read_manifest(stage)["config"]
    wanted: dict[str, object] = canonical(options)
    return made == wanted


def _has_curve(folder: Path) -> bool:
    """Whether each checkpoint but the last one, which is the export, is scored."""
    *on_the_way, _ = checkpoints(folder / "pretrain")
    steps = [checkpoint_step(path) for path in on_the_way]
    return all((folder / f"evaluate-checkpoint-{step}" / MANIFEST).exists() for step in steps)


def _record(run: Run) -> dict[str, object]:
    shards = read_manifest(output_dir(run.config) / "shards")["digest"]
    config = run.config.model_dump(mode="json")
    del config["evaluate"]["data_dir"]  # where data lie is no difference, nor what is kept
    for option in KEEPING_OPTIONS:
        del config["pretrain"][option]
    return {"config": config, "shards": shards, "has_curve": run.has_curve}
