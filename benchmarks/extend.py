"""More jobs for a finished evaluation: those it has are kept, only the others are done."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.jobs import Job
from benchmarks.load import TaskData
from benchmarks.predictions import PREDICTIONS
from benchmarks.results import RESULTS, Result, read_results
from electrify.artifacts import MANIFEST, SPARSE, Stage, canonical, check_files, read_manifest

# options that say which jobs there are; the others say how each is done
_WHICH = ("suites", "tasks", "seeds", "train_fractions", "random_init_control", "tasks_options")
Config = Mapping[str, Any]


def is_extension(stage: Stage, jobs: Sequence[Job], data: Mapping[str, TaskData]) -> bool:
    """Whether the stage's finished folder holds some of its jobs and no others, done alike: from
    the same model, files and options."""
    if not (stage.folder / MANIFEST).exists() or (stage.folder / SPARSE).exists():
        return False
    made = read_manifest(stage.folder)
    config: Config = canonical(dict(stage.config))
    if _how(made["config"]) != _how(config) or _model(made["inputs"]) != _model(stage.inputs):
        return False
    planned = {job.key for job in jobs}
    results = read_results(stage.folder / RESULTS)
    return len(results) < len(planned) and all(
        result.job in planned
        and result.data_sha256 == data[result.task].sha256
        and _own(made["config"], result) == _own(config, result)
        for result in results
    )


def carry_over(finished: Path, partial: Path) -> None:
    """Copy records and predictions of a finished evaluation; `ValueError` if one has changed."""
    check_files(finished, "evaluate")
    predictions = finished / PREDICTIONS
    of_all_seeds = shutil.ignore_patterns("*-ensemble.jsonl")
    shutil.copytree(predictions, partial / PREDICTIONS, ignore=of_all_seeds, dirs_exist_ok=True)
    copy = partial / f"{RESULTS}.copy"
    shutil.copyfile(finished / RESULTS, copy)
    copy.rename(partial / RESULTS)  # last: a job in the results is a job that is whole


def _how(config: Config) -> dict[str, Any]:
    return {name: value for name, value in config.items() if name not in _WHICH}


def _model(inputs: Mapping[str, str]) -> dict[str, str]:
    return {name: digest for name, digest in inputs.items() if name != "data"}


def _own(config: Config, result: Result) -> dict[str, Any]:
    """The task's own options, but for its seeds."""
    own = config["tasks_options"].get(result.task, {})
    return {name: value for name, value in own.items() if name != "seeds" and value is not None}
