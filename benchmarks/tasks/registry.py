"""Every suite and task by name; `electrify.config.tasks` says which of them make a suite."""

from collections.abc import Sequence

from benchmarks.tasks import glue, klue, korean, squad
from benchmarks.tasks.own import own_task
from benchmarks.tasks.task import Task
from electrify.config.evaluate import EvaluateConfig
from electrify.config.tasks import SUITE_TASKS, check_suite, check_task
from electrify.system.outcome import UserError

TASKS: dict[str, Task] = {
    task.name: task for suite in (glue, squad, klue, korean) for task in suite.TASKS
}
SUITES: dict[str, tuple[Task, ...]] = {
    suite: tuple(TASKS[name] for name in names) for suite, names in SUITE_TASKS.items()
}


def resolve_tasks(suites: Sequence[str], tasks: Sequence[str]) -> list[Task]:
    """The tasks of the named suites, then the single ones, each once.

    Raises `ValueError` for an unknown name (with the nearest) and where nothing is named.
    """
    if not suites and not tasks:
        raise UserError(
            f"no tasks to evaluate: give --suite ({', '.join(SUITES)}) or --task, or set "
            "evaluate.suites or evaluate.tasks (`electrify ls` lists them); or give a file of your "
            "own with --own-task FILE"
        )
    names = [name for suite in suites for name in SUITE_TASKS[check_suite(suite)]]
    return [TASKS[name] for name in dict.fromkeys([*names, *map(check_task, tasks)])]


def official_tasks(options: EvaluateConfig, more: Sequence[str] = ()) -> list[Task]:
    """The tasks that a config and `more` name; none where there are only the user's own."""
    names, suites = [*options.tasks, *more], options.task_suites
    is_other_alone = (options.own_tasks or options.probe_suites) and not suites and not names
    return [] if is_other_alone else resolve_tasks(suites, names)


def tasks_of(options: EvaluateConfig, more: Sequence[str] = ()) -> list[Task]:
    """The tasks that a config and `more` name, then the user's own.

    Raises `ValueError` as `resolve_tasks` and `own_task`.
    """
    return [*official_tasks(options, more), *map(own_task, options.own_tasks)]
