"""Every suite and task by name."""

import difflib
from collections.abc import Mapping, Sequence
from typing import TypeVar

from benchmarks import glue, klue, klue_structured, korean, squad
from benchmarks.task import Task

SUITES: dict[str, tuple[Task, ...]] = {
    "glue": glue.TASKS,
    "squad": squad.SQUAD_TASKS,
    "xquad": squad.XQUAD,
    "klue": (*klue.TASKS, *klue_structured.TASKS, squad.KLUE_MRC),
    "korean": (*korean.TASKS, squad.KORQUAD_1),
}
_APART = (*klue_structured.VARIANTS, *squad.VARIANTS)  # run when named alone
TASKS: dict[str, Task] = {task.name: task for tasks in (*SUITES.values(), _APART) for task in tasks}
_Found = TypeVar("_Found")


def resolve_tasks(suites: Sequence[str], tasks: Sequence[str]) -> list[Task]:
    """The tasks of the named suites, then the single ones, each once.

    Raises `ValueError` for an unknown name (with the nearest) and where nothing is named.
    """
    if not suites and not tasks:
        raise ValueError(
            "no tasks to evaluate: set evaluate.suites or evaluate.tasks "
            f"(suites: {', '.join(SUITES)}; tasks: {', '.join(TASKS)})"
        )
    found: dict[str, Task] = {}
    for suite in suites:
        found |= {task.name: task for task in _look_up("suite", suite, SUITES)}
    for name in tasks:
        found[name] = _look_up("task", name, TASKS)
    return list(found.values())


def _look_up(kind: str, name: str, known: Mapping[str, _Found]) -> _Found:
    if name in known:
        return known[name]
    nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
    hint = f"; did you mean {nearest[0]}?" if nearest else ""
    raise ValueError(f"unknown {kind} {name!r}{hint} (known: {', '.join(known)})")
