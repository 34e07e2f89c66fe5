"""The suites that look at tasks in another way: at which, with which further rows."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, cast

from benchmarks.noise import fairness, robustness
from benchmarks.noise.effects import Effect, Evaluated
from benchmarks.tasks.load import TaskData, noise_tasks
from benchmarks.tasks.task import Task
from electrify.config.evaluate import EvaluateConfig
from electrify.system.progress import warn


class Suite(Protocol):
    """A module of this room."""

    DEFAULT_TASKS: Sequence[str]

    def accepts(self, task: Task) -> bool:
        """Whether the suite can look at a task."""

    def add_rows(self, task: Task, data: TaskData) -> TaskData:
        """A task's data with the further rows that one fine-tuning predicts, too."""

    def effects(self, of: Evaluated) -> Iterable[Effect]:
        """What it finds in the predictions, before the correction for several tests."""


SUITES: Mapping[str, Suite] = {
    "robustness": cast(Suite, robustness),
    "fairness": cast(Suite, fairness),
}
_ENOUGH_SEEDS = 5
_NUM_PROCESSES = 2
# what a config that names no recipe leaves out. It is short, for the score itself is not the
# point, and learns from all states without a decay by layer, which also fits encoders that were
# pretrained for a short time (docs/recipe-ko.md)
_FINETUNING: Mapping[str, Any] = {
    "recipe": "electra",
    "max_train_examples": 2000,
    "num_epochs": 6.0,
    "pooling": "parts",
    "layer_lr_decay": 1.0,
}


def noise_options(options: EvaluateConfig, suite: str) -> EvaluateConfig:
    """The options of the fine-tunings that a suite looks at: the config's, and `_FINETUNING` where
    it names no recipe. The tasks are those of the config that the suite can look at, or where it
    names none the suite's own that have data.

    Raises `ValueError` where the suite can look at none of the tasks that the config names.
    """
    module = SUITES[suite]
    tasks = noise_tasks(options, suite, module.DEFAULT_TASKS, module.accepts)
    own = {of.task_name: of for of in options.own_tasks}
    if len(options.seeds) < _ENOUGH_SEEDS:
        warn(
            f"{suite}: with {len(options.seeds)} seeds only very large differences remain after "
            f"the correction for all tests; give evaluate.seeds {_ENOUGH_SEEDS} or more"
        )
    given: dict[str, Any] = {
        "suites": (),
        "tasks": tuple(name for name in tasks if name not in own),
        "own_tasks": tuple(of for name, of in own.items() if name in tasks),
        "train_fractions": (1.0,),
        "search": None,
    }
    if "num_processes" not in options.model_fields_set:
        given["num_processes"] = _NUM_PROCESSES
    if options.recipe == "auto":
        given |= {
            name: value
            for name, value in _FINETUNING.items()
            if name == "recipe" or getattr(options, name) is None
        }
    return options.model_copy(update=given)
