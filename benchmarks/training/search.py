"""The grid of `evaluate.search`: combinations of options, scored on held-out training rows."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from benchmarks.tasks.labels import MultiLabelClassification, Regression, SingleLabel
from benchmarks.tasks.load import TaskData, split_by_group
from benchmarks.tasks.task import Task
from electrify.config.evaluate import SearchOptions
from electrify.system.outcome import UserError


def grid(search: SearchOptions | None, task: Task) -> list[dict[str, Any]]:
    """All combinations of the values of a search that the task's head takes; none without one."""
    if search is None:
        return []
    values = {name: list(dict.fromkeys(tried)) for name, tried in search.values.items()}
    if not isinstance(task, SingleLabel | MultiLabelClassification | Regression):
        values.pop("pooling", None)
    if "pooling" in values and not task.has_parts:
        values["pooling"] = [name for name in values["pooling"] if name != "parts"] or ["mean"]
    if not values:
        return []
    return [dict(zip(values, chosen, strict=True)) for chosen in product(*values.values())]


def held_out_data(task: Task, data: TaskData, rows: Sequence[int], fraction: float) -> TaskData:
    """The training examples at positions `rows` in two: `fraction` of them, by groups, is scored,
    the others are learnt from.

    Raises `UserError` where either part is empty.
    """
    examples = tuple(data.train[number] for number in rows)
    learnt, scored = split_by_group(task, examples, 1 - fraction, salt="search\n")
    if not learnt or not scored:
        raise UserError(
            f"{task.name}: evaluate.search.held_out_fraction = {fraction} leaves {len(learnt)} "
            f"rows to learn from and {len(scored)} to score on; change it"
        )
    return replace(
        data, train=learnt, reported=scored, split="train-held-out", further={}, parts={}
    )


def best_of(trials: Sequence[Mapping[str, Any]], higher_is_better: bool) -> int:
    """The position of the best trial by its `value`; the first of equals. A failed training (its
    `degenerate` says why) and an undefined value (nan) come last."""

    def worth(trial: Mapping[str, Any]) -> tuple[bool, float]:
        value = trial["value"] if higher_is_better else -trial["value"]
        return (False, -np.inf) if np.isnan(value) else (trial["degenerate"] is None, value)

    return max(range(len(trials)), key=lambda number: worth(trials[number]))
