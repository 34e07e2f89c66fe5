"""The scores of a grid by variant: of all tasks, of each language, of each task."""

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.ablate.grid import UNTRAINED, Claim, Run, column_groups, run_label
from benchmarks.metrics.statistics import holm
from benchmarks.pages.sections import curve, final_valid
from benchmarks.results.results import Result
from benchmarks.results.run_folder import Json, read_run
from benchmarks.statistics.comparison import ALPHA, incomparable
from benchmarks.statistics.uncertainty import student
from electrify.config.run import RunConfig
from electrify.stage.plan import output_dir

LOSSES = {
    "generator_loss": "generator, MLM loss",
    "language_loss": "main network, MLM loss",
    "rtd_loss": "RTD loss",
}
Scores = Mapping[str, float]  # by task: the headline, mean over seeds of fine-tuning


@dataclass(frozen=True)
class RunFigures:
    """One finished run."""

    variant: str
    seed: int
    summary: Json
    valid: Json  # of the last validation
    losses: Mapping[str, Sequence[tuple[float, float]]]  # by metric: (FLOPs, held-out loss)
    scores: Scores
    untrained: Scores  # of the control, empty where there was none
    records: Mapping[str, Result]  # by task: one of them, which tells metric and examples
    num_degenerate: int  # fine-tunings that learnt nothing
    on_the_way: Sequence[tuple[float, Scores]]  # FLOPs and scores of checkpoints, the last one too
    hours: float  # of pretraining and fine-tuning, checkpoints' too
    made_by: Json  # commit and versions of pretraining

    @property
    def label(self) -> str:
        """As the log names the run."""
        return run_label(self.variant, self.seed)

    @property
    def flops(self) -> float:
        """Of pretraining, in matrix products."""
        return float(self.summary["flops_matmul"])

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        keep = (
            "num_steps",
            "tokens",
            "tokens_per_second",
            "flops_matmul",
            "flops_paper",
            "parameters",
            "seconds",
            "device",
        )
        return {
            "variant": self.variant,
            "seed": self.seed,
            **{key: self.summary.get(key) for key in keep},
            "made_by": dict(self.made_by),
            "valid": dict(self.valid),
            "num_degenerate": self.num_degenerate,
            "scores": _defined(self.scores),
            "untrained": _defined(self.untrained),
            "on_the_way": [
                {"flops_matmul": flops, "scores": _defined(scores)}
                for flops, scores in self.on_the_way
            ],
        }


def _defined(scores: Scores) -> dict[str, float | None]:
    return {task: None if math.isnan(score) else score for task, score in scores.items()}


def read_figures(run: Run) -> RunFigures:
    """Of a finished run; `ValueError` if a file of it is damaged."""
    found = read_run(output_dir(run.config))
    results = found.evaluations.get("evaluate", ())
    manifest = found.manifests["pretrain"]
    scores = _scores(results, "pretrained")
    points = [
        (_flops_at(run.config, step), _scores(records, "pretrained"))
        for step, records in found.checkpoint_evaluations.items()
        if step < 0.99 * int(found.summary["num_steps"])  # nearer it is the last one
    ]
    of_checkpoints = (r for records in found.checkpoint_evaluations.values() for r in records)
    seconds = float(found.summary["seconds"])
    seconds += sum(result.seconds for result in chain(results, of_checkpoints))
    return RunFigures(
        variant=run.variant,
        seed=run.seed,
        summary=found.summary,
        valid=final_valid(found),
        losses={
            metric: [
                (_flops_at(run.config, int(step)), value)
                for step, value in curve(found, "valid", metric)
            ]
            for metric in LOSSES
        },
        scores=scores,
        untrained=_scores(results, "random-init"),
        records={result.task: result for result in results},
        num_degenerate=sum(result.degenerate is not None for result in results),
        on_the_way=[*points, (float(found.summary["flops_matmul"]), scores)] if points else (),
        hours=seconds / 3600,
        made_by={key: manifest.get(key) for key in ("git_commit", "versions", "finished_at")},
    )


def _flops_at(config: RunConfig, step: int) -> float:
    """In matrix products, of the first steps: phases and stages cost more or less each."""
    from model.watch.flops import run_flops

    length = config.encode.sequence_length
    return run_flops(config.pretrain, config.vocab.size, length, step).matmul


def _scores(results: Sequence[Result], model: str) -> dict[str, float]:
    values: dict[str, list[float]] = {}
    for result in results:
        if result.model == model:
            values.setdefault(result.task, []).append(result.value)
    return {task: statistics.fmean(of_task) for task, of_task in values.items()}


Values = Mapping[str, Mapping[int, float]]  # by variant and seed: a score
_Floats = npt.NDArray[np.float64]
_ROUNDING = 1e-24  # of a sum of squares of scores


@dataclass(frozen=True)
class Difference:
    """A mean over seeds less another one; nan where nothing is known of how sure it is."""

    value: float
    half_width: float  # of the 95 % interval
    p: float  # two-sided, of as large a difference where there is none


@dataclass(frozen=True)
class Verdict:
    """A claim beside what was found."""

    claim: Claim
    column: str  # of scores that it is judged by
    difference: Difference | None  # of the first to the second; None: not both are there
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


class Fit:
    """Least squares of scores on variant and seed, and how sure differences of variants are.

    A seed draws what is learnt from in fine-tuning and the order of pretraining for all variants
    alike, so that a score is taken as variant + seed + rest (two-way analysis of variance without
    interaction; variants may lack seeds). The rest is taken to vary alike in all variants: its
    variance is pooled over the whole grid, which gives sixteen variants of two seeds fifteen
    degrees of freedom where a pair of them alone has one. Of two variants it is the paired t-test.
    """

    def __init__(self, values: Values) -> None:
        cells = [
            (variant, seed, score)
            for variant, of_seeds in values.items()
            for seed, score in of_seeds.items()
            if math.isfinite(score)
        ]
        self.counts = Counter(variant for variant, _, _ in cells)
        self.variants = list(self.counts)
        self.seeds = sorted({seed for _, seed, _ in cells})
        self._design = np.array([self._row(variant, seed) for variant, seed, _ in cells])
        self._scores = np.array([score for _, _, score in cells])
        self._inverse = np.linalg.pinv(self._design.T @ self._design)
        self._effects: _Floats = self._inverse @ self._design.T @ self._scores

    def mean(self, variant: str) -> float:
        """Over all seeds of the grid: where the variant lacks one, as the others had it; nan where
        no other variant links its seeds to the rest."""
        rows = [self._row(variant, seed) for seed in self.seeds]
        return self._estimate(np.mean(rows, axis=0))

    @property
    def half_width_of_a_run(self) -> float:
        """Of the 95 % interval of one score, what seeds do to all variants alike left out."""
        return student(0.0, self.sd, self.degrees)[0]

    def difference(self, variant: str, other: str) -> Difference:
        """With its interval and p; nan where the grid has too few seeds, or no two that link the
        variants, and where nothing varies, of which nothing can be learnt."""
        contrast = self._row(variant, self.seeds[0]) - self._row(other, self.seeds[0])
        value = self._estimate(contrast)
        if math.isnan(value) or not self.degrees or not self.sd:
            return Difference(value, math.nan, math.nan)
        error = self.sd * math.sqrt(float(contrast @ self._inverse @ contrast))
        return Difference(value, *student(value, error, self.degrees))

    def _estimate(self, contrast: _Floats) -> float:
        """Of the effects; nan if the scores do not determine it (it is no sum of their rows)."""
        projected = contrast @ self._inverse @ self._design.T @ self._design
        return float(contrast @ self._effects) if np.allclose(projected, contrast) else math.nan

    @cached_property
    def degrees(self) -> int:
        """Degrees of freedom of the rest."""
        return len(self._scores) - int(np.linalg.matrix_rank(self._design))

    @cached_property
    def sd(self) -> float:
        """Of the rest, pooled over variants; nan without degrees of freedom."""
        if not self.degrees:
            return math.nan
        rest = self._scores - self._design @ self._effects
        squares = float(rest @ rest)
        return math.sqrt(squares / self.degrees) if squares > _ROUNDING else 0.0

    def _row(self, variant: str, seed: int) -> _Floats:
        """(variants + seeds,): one in the place of each."""
        of_variant = [float(variant == other) for other in self.variants]
        return np.array([*of_variant, *(float(seed == other) for other in self.seeds)])


def judge(claims: Sequence[Claim], fits: Mapping[str, Fit | None]) -> list[Verdict]:
    """Each claim by each column's means over seeds, p corrected over all: one that cannot be told
    yet counts as p = 1, so that the verdicts of a grid under way need as much as those of all."""
    verdicts = [_verdict(claim, column, fit) for column, fit in fits.items() for claim in claims]
    p_values = [math.nan if v.difference is None else v.difference.p for v in verdicts]
    corrected = holm([1.0 if math.isnan(p) else p for p in p_values])
    return [
        verdict if math.isnan(p) else replace(verdict, p_corrected=p_corrected)
        for verdict, p, p_corrected in zip(verdicts, p_values, corrected, strict=True)
    ]


def _verdict(claim: Claim, column: str, fit: Fit | None) -> Verdict:
    if fit is None or not {claim.better, claim.worse} <= set(fit.variants):
        return Verdict(claim, column, None)
    return Verdict(claim, column, fit.difference(claim.better, claim.worse))


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
