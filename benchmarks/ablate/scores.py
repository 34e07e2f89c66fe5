"""The scores of a grid by variant: of all tasks, of each language, of each task."""

import math
import statistics
from collections.abc import Iterable, Sequence
from functools import cached_property

from benchmarks.ablate.columns import column_groups
from benchmarks.ablate.figures import RunFigures, Scores
from benchmarks.ablate.grid import UNTRAINED
from benchmarks.ablate.intervals import Fit
from benchmarks.comparison import incomparable


class GridScores:
    """The scores of all finished runs by variant, of all tasks and of each language.

    `left_out` says, a line each, which scores do not count: those of other examples or by another
    metric than the first run's, and undefined ones.
    """

    def __init__(self, runs: Sequence[RunFigures]) -> None:
        self.runs = [run for run in runs if run.scores]
        self.tasks = list(dict.fromkeys(task for run in self.runs for task in run.scores))
        self.left_out: list[str] = []
        self._scores = {(run.variant, run.seed): self._counted(run) for run in self.runs}
        # of one variant: another may have a vocabulary or a width of its own
        self.control_of = next((run.variant for run in self.runs if run.untrained), None)

    def _counted(self, run: RunFigures) -> Scores:
        found = {}
        for task, score in run.scores.items():
            first = next(other.records[task] for other in self.runs if task in other.records)
            other = incomparable(run.records[task], first)
            why = other.why if other else "" if math.isfinite(score) else "it is undefined"
            if why:
                self.left_out.append(f"{run.variant}, seed {run.seed}, {task}: {why}")
            else:
                found[task] = score
        return found

    @cached_property
    def groups(self) -> dict[str, list[str]]:
        """The tasks that each column is the mean of: of all, of a language, of one."""
        return column_groups(self.tasks)

    def values(self, column: str, with_control: bool = False) -> dict[str, dict[int, float]]:
        """By variant and seed, of the runs that have all tasks of the column."""
        found: dict[str, dict[int, float]] = {}
        tasks = self.groups[column]
        for run in self.runs:
            kinds = {run.variant: self._scores[run.variant, run.seed]}
            if with_control and run.variant == self.control_of:
                kinds[UNTRAINED] = run.untrained
            for variant, scores in kinds.items():
                if scores.keys() >= set(tasks):
                    found.setdefault(variant, {})[run.seed] = mean_score(scores, tasks)
        return found

    @cached_property
    def fits(self) -> dict[str, Fit]:
        """By column, of the pretrained networks; a column that no run has whole is left out."""
        return {column: Fit(found) for column in self.groups if (found := self.values(column))}

    @cached_property
    def control_fits(self) -> dict[str, Fit]:
        """With the control beside them, whose seeds vary otherwise: for its own row alone."""
        return {column: Fit(self.values(column, with_control=True)) for column in self.fits}

    @property
    def headline(self) -> str:
        """The column that comes first: of all tasks or, of one, that task."""
        return next(iter(self.fits or self.groups))


def mean_score(scores: Scores, tasks: Iterable[str]) -> float:
    """Plain mean of the headlines."""
    return statistics.fmean(scores[task] for task in tasks)
