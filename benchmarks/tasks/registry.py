"""Every suite and task by name."""

from collections.abc import Sequence

from benchmarks.tasks import glue, klue, korean, squad
from benchmarks.tasks.task import Task
from electrify.config.tasks import check_suite, check_task

SUITES: dict[str, tuple[Task, ...]] = {
    "glue": glue.TASKS,
    "squad": squad.SQUAD_TASKS,
    "xquad": squad.XQUAD,
    "klue": (*klue.TASKS, squad.KLUE_MRC),
    "korean": (*korean.TASKS, squad.KORQUAD_1),
}
_APART = (*klue.VARIANTS, *squad.VARIANTS)  # run when named alone
TASKS: dict[str, Task] = {task.name: task for tasks in (*SUITES.values(), _APART) for task in tasks}


def resolve_tasks(suites: Sequence[str], tasks: Sequence[str]) -> list[Task]:
    """The tasks of the named suites, then the single ones, each once.

    Raises `ValueError` for an unknown name (with the nearest) and where nothing is named.
    """
    if not suites and not tasks:
        raise ValueError(
            f"no tasks to evaluate: set evaluate.suites ({', '.join(SUITES)}) or evaluate.tasks "
            "(`electrify ls` lists them)"
        )
    found: dict[str, Task] = {}
    for suite in suites:
        found |= {task.name: task for task in SUITES[check_suite(suite)]}
    for name in tasks:
        found[name] = TASKS[check_task(name)]
    return list(found.values())
