"""The suites that look at tasks in another way: at which, with which further rows."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, cast

from benchmarks.noise import fairness, robustness
from benchmarks.noise.effects import Effect
from benchmarks.results.results import Result
from benchmarks.tasks.load import TaskData
from benchmarks.tasks.registry import TASKS, tasks_of
from benchmarks.tasks.task import Task
from electrify.config.evaluate import EvaluateConfig
from electrify.system.outcome import UserError


class Suite(Protocol):
    """A module of this room. `add_rows` adds the rows that one fine-tuning predicts, too, and
    `effects` is what predictions say, before the correction for several tests."""

    DEFAULT_TASKS: Sequence[str]

    def accepts(self, task: Task) -> bool: ...

    def add_rows(self, task: Task, data: TaskData) -> TaskData: ...

    def effects(self, folder: Path, results: Sequence[Result]) -> Iterable[Effect]: ...


SUITES = {"robustness": cast(Suite, robustness), "fairness": cast(Suite, fairness)}
# beside the recipe "electra", what a config that names no recipe leaves out. It is short, for the
# score itself is not the point, and learns from all states without a decay by layer, which also
# fits encoders that were pretrained for a short time (docs/recipe-ko.md)
_FINETUNING: Mapping[str, Any] = {
    "max_train_examples": 2000,
    "num_epochs": 6.0,
    "pooling": "parts",
    "layer_lr_decay": 1.0,
}


def with_default_tasks(options: EvaluateConfig) -> EvaluateConfig:
    """The options with the tasks that their suites look at, where they name none."""
    if options.has_tasks:
        return options
    names = (name for suite in options.noise_suites for name in SUITES[suite].DEFAULT_TASKS)
    return options.model_copy(update={"tasks": tuple(dict.fromkeys(names))})


def noise_options(options: EvaluateConfig, suite: str) -> EvaluateConfig:
    """The options of the fine-tunings that a suite looks at: the config's, and `_FINETUNING` where
    it names no recipe. The tasks are those of the config that the suite can look at, or where it
    names none the suite's own.

    Raises `UserError` where the suite can look at none of the tasks that the config names.
    """
    default = SUITES[suite].DEFAULT_TASKS
    named = tasks_of(options) if options.has_tasks else [TASKS[name] for name in default]
    if not (names := [task.name for task in named if SUITES[suite].accepts(task)]):
        raise UserError(
            f"{suite} cannot look at {', '.join(task.name for task in named)}; name others, or "
            f"none for {', '.join(default)}"
        )
    changes: dict[str, Any] = {
        "suites": (),
        "tasks": tuple(name for name in names if name in TASKS),
        "own_tasks": tuple(own for own in options.own_tasks if own.task_name in names),
        "train_fractions": (1.0,),
        "search": None,
    }
    if options.recipe == "auto":
        unset = {name: v for name, v in _FINETUNING.items() if getattr(options, name) is None}
        changes |= {"recipe": "electra", **unset}
    return options.model_copy(update=changes)
