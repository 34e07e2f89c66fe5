"""Every suite and task by name; `electrify.config.tasks` says which of them make a suite."""

from collections.abc import Sequence

from benchmarks.tasks import glue, klue, korean, squad
from benchmarks.tasks.task import Task
from electrify.config.tasks import SUITE_TASKS, check_suite, check_task

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
        raise ValueError(
            f"no tasks to evaluate: give --suite ({', '.join(SUITES)}) or --task, or set "
            "evaluate.suites or evaluate.tasks (`electrify ls` lists them)"
        )
    names = [name for suite in suites for name in SUITE_TASKS[check_suite(suite)]]
    return [TASKS[name] for name in dict.fromkeys([*names, *map(check_task, tasks)])]
