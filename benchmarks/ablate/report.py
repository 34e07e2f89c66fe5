"""The report of a grid: which claims hold, a table of scores a question, every run."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from benchmarks.ablate.grid import Claim, Experiment, Grid, Run, column_groups
from benchmarks.results.results import Result, differing, percent
from benchmarks.results.run_folder import Json, read_run
from benchmarks.results.table import Record, Table, write_page
from benchmarks.sections.stages import final_valid
from benchmarks.statistics.comparison import ALPHA, holm
from benchmarks.statistics.uncertainty import Fit, Interval, p_text
from electrify.page.page import Page
from electrify.storage.files import read_toml

_TEXTS = read_toml(Path(__file__).with_suffix(".toml"))
_VALID: Mapping[str, str] = _TEXTS["valid"]
Scores = Mapping[str, float]  # by task: the headline, mean over seeds of fine-tuning


@dataclass(frozen=True)
class RunFigures:
    """One finished run."""

    variant: str
    seed: int
    summary: Json  # of pretraining
    valid: Json  # of the last validation
    scores: Scores
    records: Mapping[str, Result]  # by task: one of them, which tells metric and examples
    num_degenerate: int  # fine-tunings that learnt nothing
    hours: float  # of pretraining and fine-tuning
    git_commit: str | None  # of the code that pretrained


def read_figures(run: Run) -> RunFigures:
    """The figures of a finished run; `ValueError` if a file of it is damaged."""
    folder = read_run(run.folder)
    results = folder.evaluations.get("evaluate", ())
    values: dict[str, list[float]] = {}
    for result in results:
        if result.role == "pretrained":
            values.setdefault(result.task, []).append(result.value)
    seconds = float(folder.summary["seconds"]) + sum(result.seconds for result in results)
    return RunFigures(
        run.variant,
        run.seed,
        folder.summary,
        final_valid(folder),
        {task: statistics.fmean(of_task) for task, of_task in values.items()},
        {result.task: result for result in results},
        sum(result.degenerate is not None for result in results),
        seconds / 3600,
        folder.manifests["pretrain"].get("git_commit"),
    )


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

    def _counted(self, run: RunFigures) -> Scores:
        counted = {}
        for task, score in run.scores.items():
            first = next(other.records[task] for other in self.runs if task in other.records)
            other = differing(run.records[task], first)
            why = f"{other} differs" if other else "" if math.isfinite(score) else "it is undefined"
            if why:
                self.left_out.append(f"{run.variant}, seed {run.seed}, {task}: {why}")
            else:
                counted[task] = score
        return counted

    @cached_property
    def fits(self) -> dict[str, Fit]:
        """By column, of the runs that have all of its tasks; a column without such a run is left
        out."""
        fits = {}
        for column, tasks in self.groups.items():
            values: dict[str, dict[int, float]] = {}
            for (variant, seed), scores in self._scores.items():
                if scores.keys() >= set(tasks):
                    mean = statistics.fmean(scores[task] for task in tasks)
                    values.setdefault(variant, {})[seed] = mean
            if values:
                fits[column] = Fit(values)
        return fits

    @property
    def headline(self) -> str:
        """The column that comes first: of all tasks or, of one, that task."""
        return next(iter(self.fits or self.groups))

    def difference(self, column: str, variant: str, other: str) -> Interval | None:
        fit = self.fits.get(column)
        if fit is None or not {variant, other} <= {*fit.variants}:
            return None
        return fit.difference(variant, other)


@dataclass(frozen=True)
class Verdict:
    """A claim beside the scores."""

    claim: Claim
    difference: Interval | None  # of the first to the second; None: not both are there
    p_corrected: float = math.nan  # over all claims (Holm)

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


def judge(claims: Iterable[Claim], scores: GridScores) -> list[Verdict]:
    """Each claim by its means over seeds, p corrected over all: one that cannot be told yet counts
    as p = 1, so that the verdicts of a grid under way need as much as those of all."""
    column = scores.headline
    verdicts = [Verdict(c, scores.difference(column, c.better, c.worse)) for c in claims]
    p_values = [v.difference.p if v.difference else math.nan for v in verdicts]
    return [
        verdict if math.isnan(p) else replace(verdict, p_corrected=corrected)
        for verdict, p, corrected in zip(verdicts, p_values, holm(p_values), strict=True)
    ]


def write_report(
    grid: Grid, planned: Sequence[Run], figures: Mapping[str, RunFigures], folder: Path
) -> str:
    """report.html and report.md of the finished runs, `figures` by label; the tables as text."""
    runs = [figures[run.label] for run in planned if run.label in figures]
    missing = [run.label for run in planned if run.label not in figures]
    scores = GridScores(runs)
    verdicts = judge(grid.claims, scores) if scores.runs else []
    said = [_summary(verdicts)] if verdicts else [] if runs else ["No run is finished."]
    if runs and missing:
        said.append(f"{len(missing)} runs are not finished: {'; '.join(missing)}.")
    if scores.left_out:
        said.append(f"Scores left out: {'; '.join(scores.left_out)}.")
    tables = {
        question: Table.of(rows)
        for question, experiment in grid.experiments.items()
        if (rows := _experiment_rows(experiment, runs, scores))
    }
    flops = [cost for run in runs if (cost := run.summary["flops_matmul"])]
    apart = max(flops) / min(flops) - 1 if flops else 0.0  # steps are whole
    about = (
        f"{len(runs)} of {len(planned)} runs, all of the same training FLOPs in matrix products"
        f"{f', but for {100 * apart:.0f} %' * (apart >= 0.01)}"
    )
    page = Page(f"Ablation: {grid.name}", about)
    for text in said:
        page.verdict(text)
    if verdicts:
        page.heading("Claims")
        Table.of(_claim_rows(verdicts, scores)).add_to(page)
        fit = scores.fits.get(scores.headline)
        if fit and not math.isnan(fit.sd):
            page.paragraph(
                f"{scores.headline}: the rest has a standard deviation of {percent(fit.sd)} "
                f"points, with {fit.degrees} degrees of freedom."
            )
        page.paragraph(_TEXTS["method"].format(alpha=ALPHA))
    for question, table in tables.items():
        page.heading(question)
        page.paragraph(f"{_TEXTS['meaning']}.")
        table.add_to(page)
    if runs:
        page.heading("Runs")
        page.records([_run_row(run, scores) for run in runs])
    place = write_page(folder, "report", page)
    lines = [line for name, table in tables.items() for line in (name, *table.terminal(), "")]
    return "\n".join([*(lines or said), str(place)])


def _summary(verdicts: Sequence[Verdict]) -> str:
    """How many claims came out how: 'Of 9 claims: 1 holds (a > b), 8 ...'."""
    claims: dict[str, list[str]] = {}
    for verdict in verdicts:
        claims.setdefault(verdict.outcome.partition(":")[0], []).append(verdict.claim.text)
    parts = [
        f"{len(texts)} {outcome}" + (f" ({'; '.join(texts)})" if "hold" in outcome else "")
        for outcome, texts in claims.items()
    ]
    return f"Of {len(verdicts)} claims: {', '.join(parts)}."


def _claim_rows(verdicts: Sequence[Verdict], scores: GridScores) -> list[Record]:
    """Each claim with its difference by all columns; the first one judges it."""
    return [
        {
            "claim": v.claim.text,
            **{
                column: _plus_minus(scores.difference(column, v.claim.better, v.claim.worse))
                for column in scores.fits
            },
            "p, corrected": p_text(v.p_corrected),
            "at this scale": v.outcome,
        }
        for v in verdicts
    ]


def _experiment_rows(
    experiment: Experiment, runs: Sequence[RunFigures], scores: GridScores
) -> list[Record]:
    """A row a variant that has a finished run; beside the mean of all tasks its difference to the
    first of them."""
    by_variant = {v: [run for run in runs if run.variant == v] for v in experiment.variants}
    by_variant = {variant: of_variant for variant, of_variant in by_variant.items() if of_variant}
    reference = next(iter(by_variant), "")
    valid = [k for k in _VALID if any(r.valid.get(k) for runs in by_variant.values() for r in runs)]
    rows: list[Record] = []
    for variant, of_variant in by_variant.items():
        row: dict[str, object] = {
            "variant": variant,
            "seeds": len(of_variant),
            "steps": of_variant[0].summary["num_steps"],
            "tokens": of_variant[0].summary["tokens"],
        }
        for key in valid:
            known = [run.valid[key] for run in of_variant if run.valid.get(key) is not None]
            row[_VALID[key]] = statistics.fmean(known) if known else None
        for column, fit in scores.fits.items():
            row[column] = percent(fit.mean(variant)) if variant in fit.variants else None
            if column == scores.headline:
                other = scores.difference(column, variant, reference)
                row[f"to {reference}"] = None if variant == reference else _plus_minus(other)
        rows.append(row)
    return rows


def _plus_minus(difference: Interval | None) -> str | None:
    """'+1.23 ± 0.45' points: with half of its 95 % interval, where that is known."""
    if difference is None or math.isnan(difference.value):
        return None
    half = "" if math.isnan(difference.low) else f" ± {percent(difference.half_width)}"
    return f"{100 * difference.value:+.2f}{half}"


def _run_row(run: RunFigures, scores: GridScores) -> Record:
    return {
        "variant": run.variant,
        "seed": run.seed,
        "steps": run.summary["num_steps"],
        "tokens": run.summary["tokens"],
        "FLOPs, matrix products": f"{run.summary['flops_matmul']:.3g}",
        "tokens per second": run.summary.get("tokens_per_second"),
        "device": run.summary.get("device"),
        "commit": run.git_commit,
        "hours": run.hours,
        "learnt nothing": run.num_degenerate,
        **{t: percent(run.scores.get(t)) for t, of in scores.groups.items() if of == [t]},
    }
