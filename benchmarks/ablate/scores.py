"""The scores of a grid by variant, and which claims they bear out."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from benchmarks.ablate.grid import UNTRAINED, Claim, Run, column_groups
from benchmarks.metrics.statistics import holm
from benchmarks.pages.training import final_valid
from benchmarks.results.results import Result, differing
from benchmarks.results.run_folder import Json, read_run
from benchmarks.statistics.comparison import ALPHA
from benchmarks.statistics.uncertainty import Estimate, Fit
from electrify.stage.plan import output_dir

Scores = Mapping[str, float]  # by task: the headline, mean over seeds of fine-tuning


@dataclass(frozen=True)
class RunFigures:
    """One finished run."""

    variant: str
    seed: int
    summary: Json  # of pretraining
    valid: Json  # of the last validation
    scores: Scores
    untrained: Scores  # of the control, empty where there was none
    records: Mapping[str, Result]  # by task: one of them, which tells metric and examples
    num_degenerate: int  # fine-tunings that learnt nothing
    hours: float  # of pretraining and fine-tuning
    made_by: Json  # commit and versions of pretraining


def read_figures(run: Run) -> RunFigures:
    """The figures of a finished run; `ValueError` if a file of it is damaged."""
    found = read_run(output_dir(run.config))
    results = found.evaluations.get("evaluate", ())
    manifest = found.manifests["pretrain"]
    seconds = float(found.summary["seconds"]) + sum(result.seconds for result in results)
    return RunFigures(
        variant=run.variant,
        seed=run.seed,
        summary=found.summary,
        valid=final_valid(found),
        scores=_scores(results, "pretrained"),
        untrained=_scores(results, "random-init"),
        records={result.task: result for result in results},
        num_degenerate=sum(result.degenerate is not None for result in results),
        hours=seconds / 3600,
        made_by={key: manifest.get(key) for key in ("git_commit", "versions")},
    )


def _scores(results: Sequence[Result], model: str) -> dict[str, float]:
    values: dict[str, list[float]] = {}
    for result in results:
        if result.model == model:
            values.setdefault(result.task, []).append(result.value)
    return {task: statistics.fmean(of_task) for task, of_task in values.items()}


class GridScores:
    """The scores of all finished runs by variant, of all tasks and of each language.

    `left_out` says, a line each, which scores do not count: those of other examples or by another
    metric than the first run's, and undefined ones.
    """

    def __init__(self, runs: Sequence[RunFigures]) -> None:
        self.runs = [run for run in runs if run.scores]
        tasks = list(dict.fromkeys(task for run in self.runs for task in run.scores))
        self.groups = column_groups(tasks)  # the tasks that each column is the mean of
        self.left_out: list[str] = []
        self._scores = {(run.variant, run.seed): self._counted(run) for run in self.runs}
        # of one variant: another may have a vocabulary or a width of its own
        self.control_of = next((run.variant for run in self.runs if run.untrained), None)

    def _counted(self, run: RunFigures) -> Scores:
        found = {}
        for task, score in run.scores.items():
            first = next(other.records[task] for other in self.runs if task in other.records)
            other = differing(run.records[task], first)
            why = f"{other} differs" if other else "" if math.isfinite(score) else "it is undefined"
            if why:
                self.left_out.append(f"{run.variant}, seed {run.seed}, {task}: {why}")
            else:
                found[task] = score
        return found

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
                    mean = statistics.fmean(scores[task] for task in tasks)
                    found.setdefault(variant, {})[run.seed] = mean
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

    def difference(self, column: str, variant: str, other: str) -> Estimate | None:
        """None where not both have scores."""
        fits = self.control_fits if UNTRAINED in (variant, other) else self.fits
        if column not in fits or not {variant, other} <= set(fits[column].variants):
            return None
        return fits[column].difference(variant, other)


@dataclass(frozen=True)
class Verdict:
    """A claim beside what was found."""

    claim: Claim
    column: str  # of scores that it is judged by
    difference: Estimate | None  # of the first to the second; None: not both are there
    p_corrected: float = math.nan  # over all claims and columns (Holm)

    @property
    def outcome(self) -> str:
        """'holds', 'does not hold', 'cannot be told apart' or what is not there."""
        if self.difference is None:
            return "not run"
        if math.isnan(self.p_corrected):
            return "too few seeds to tell"
        if self.p_corrected > ALPHA:
            return "cannot be told apart"
        if self.claim.is_equality:
            return "does not hold: they differ"
        return "holds" if self.difference.value > 0 else "does not hold: the other way round"


def judge(claims: Iterable[Claim], columns: Iterable[str], scores: GridScores) -> list[Verdict]:
    """Each claim by each column's means over seeds, p corrected over all: one that cannot be told
    yet counts as p = 1, so that the verdicts of a grid under way need as much as those of all."""
    verdicts = [
        Verdict(claim, column, scores.difference(column, claim.better, claim.worse))
        for column in columns
        for claim in claims
    ]
    p_values = [v.difference.p if v.difference else math.nan for v in verdicts]
    return [
        verdict if math.isnan(p) else replace(verdict, p_corrected=p_corrected)
        for verdict, p, p_corrected in zip(verdicts, p_values, holm(p_values), strict=True)
    ]
