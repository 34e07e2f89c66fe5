"""The scores of a grid by variant: of all tasks, of each language, of each task."""

import statistics
from collections.abc import Iterable, Sequence
from functools import cached_property

from benchmarks.ablate.columns import column_groups
from benchmarks.ablate.figures import RunFigures, Scores
from benchmarks.ablate.intervals import Fit

UNTRAINED = "untrained"  # the control: random weights, fine-tuned alike


class GridScores:
    """The scores of all finished runs by variant, of all tasks and of each language."""

    def __init__(self, runs: Sequence[RunFigures]) -> None:
        self.runs = [run for run in runs if run.scores]
        self.tasks = list(dict.fromkeys(task for run in self.runs for task in run.scores))

    @cached_property
    def groups(self) -> dict[str, list[str]]:
        """The tasks that each column is the mean of: of all, of a language, of one."""
        return column_groups(self.tasks)

    def values(self, column: str) -> dict[str, dict[int, float]]:
        """By variant and seed, of the runs that have all tasks of the column."""
        found: dict[str, dict[int, float]] = {}
        tasks = self.groups[column]
        for run in self.runs:
            for variant, scores in ((run.variant, run.scores), (UNTRAINED, run.untrained)):
                if scores.keys() >= set(tasks):
                    found.setdefault(variant, {})[run.seed] = mean_score(scores, tasks)
        return found

    @cached_property
    def fits(self) -> dict[str, Fit]:
        """By column; of no scores, none."""
        return {column: Fit(self.values(column)) for column in self.groups} if self.runs else {}

    @property
    def headline(self) -> str:
        """The column that comes first: of all tasks or, of one, that task."""
        return next(iter(self.groups))


def mean_score(scores: Scores, tasks: Iterable[str]) -> float:
    """Plain mean of the headlines."""
    return statistics.fmean(scores[task] for task in tasks)
