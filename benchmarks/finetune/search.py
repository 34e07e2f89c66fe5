"""What a search over options tries, and in which rounds.

Successive halving (Jamieson and Talwalkar 2016) in two rounds at most: every combination of the
values takes an eighth of the steps, the best quarter, two at least, takes half of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from benchmarks.finetune.recipe import HyperParameters
from benchmarks.tasks.labels import MultiLabelClassification, Regression, SingleLabel
from benchmarks.tasks.task import Task
from electrify.config.evaluate import SearchOptions

FIRST, LAST = 0.125, 0.5  # shares of the steps in the rounds
_FEWEST_STEPS = 60  # without which scores say nothing


def combinations(search: SearchOptions, task: Task) -> list[dict[str, Any]]:
    """The options of each trial of a task: all combinations that the task's head takes, or
    `num_trials` drawn of them."""
    values = {name: list(dict.fromkeys(tried)) for name, tried in search.values.items()}
    if not isinstance(task, SingleLabel | MultiLabelClassification | Regression):
        values.pop("pooling", None)
    if "pooling" in values and not task.has_parts:
        values["pooling"] = [name for name in values["pooling"] if name != "parts"] or ["mean"]
    every = [dict(zip(values, chosen, strict=True)) for chosen in product(*values.values())]
    if search.num_trials is None or search.num_trials >= len(every):
        return every if values else []
    drawn = np.random.default_rng(0).choice(len(every), search.num_trials, replace=False)
    return [every[number] for number in sorted(drawn)]


def rounds(
    tried: Sequence[Mapping[str, Any]], settings: HyperParameters, num_rows: int
) -> list[tuple[int, float]]:
    """Of each round of a search how many trials it has, and which share of the steps they take; one
    round where a share would be too few steps for a score that says something."""
    num_trials = len(tried)
    num_steps = min((replace(settings, **of).num_steps(num_rows) for of in tried), default=0)
    if LAST * num_steps < _FEWEST_STEPS:
        return [(num_trials, 1.0)]
    if FIRST * num_steps < _FEWEST_STEPS or num_trials <= 2:
        return [(num_trials, LAST)]
    return [(num_trials, FIRST), (num_kept(num_trials), LAST)]


def num_kept(num_trials: int) -> int:
    return max(2, -(-num_trials // 4))
