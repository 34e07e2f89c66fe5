"""The report of a grid: which claims hold, a table of scores a question, every run."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.ablate.grid import Claim, Grid, Run
from benchmarks.results.results import percent
from benchmarks.results.run_folder import Json, read_run
from benchmarks.results.table import Record, Table, write_page
from benchmarks.sections.stages import final_valid
from benchmarks.statistics.comparison import ALPHA, holm
from benchmarks.statistics.uncertainty import Fit, Interval, p_text
from electrify.page.page import Page
from electrify.storage.files import read_toml

MEAN = "all tasks"
_TEXTS = read_toml(Path(__file__).with_suffix(".toml"))
_VALID: Mapping[str, str] = _TEXTS["valid"]


@dataclass(frozen=True)
class RunFigures:
    variant: str
    seed: int
    summary: Json  # of pretraining
    valid: Json  # of the last validation
    scores: Mapping[str, float]  # by task: the headline, mean over seeds of fine-tuning
    num_degenerate: int  # fine-tunings that learnt nothing
    hours: float  # of pretraining and fine-tuning


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
        {task: statistics.fmean(of_seeds) for task, of_seeds in values.items()},
        sum(result.degenerate is not None for result in results),
        seconds / 3600,
    )


def fit_scores(runs: Sequence[RunFigures]) -> dict[str, Fit]:
    """The fit of each column of scores, of the runs that have all its tasks. The first column, that
    of all tasks or of the only one, judges the claims."""
    tasks = list(dict.fromkeys(task for run in runs for task in run.scores))
    columns = ({MEAN: tasks} if tasks[1:] else {}) | {task: [task] for task in tasks}
    fits = {}
    for column, names in columns.items():
        values: dict[str, dict[int, float]] = {}
        for run in runs:
            mean = statistics.fmean(run.scores.get(name, math.nan) for name in names)
            if math.isfinite(mean):
                values.setdefault(run.variant, {})[run.seed] = mean
        if values and set.intersection(*map(set, values.values())):  # of seeds
            fits[column] = Fit(values)
    return fits


def _difference(fit: Fit, variant: str, other: str) -> Interval | None:
    """None where a variant has no score."""
    return fit.difference(variant, other) if {variant, other} <= {*fit.variants} else None


@dataclass(frozen=True)
class Verdict:
    claim: Claim
    difference: Interval | None  # of the first to the second; None: not both are there
    p_corrected: float = math.nan  # over all claims (Holm)

    @property
    def outcome(self) -> str:
        """'holds', 'does not hold', 'no significant difference' or what is not there."""
        if self.difference is None:
            return "not run"
        if math.isnan(self.p_corrected):
            return "too few seeds to tell"
        if self.p_corrected > ALPHA:
            return "no significant difference"
        if self.claim.is_equality:
            return "does not hold: they differ"
        return "holds" if self.difference.value > 0 else "does not hold: the other way round"


def judge(claims: Iterable[Claim], fit: Fit) -> list[Verdict]:
    """Each claim by its means over seeds, p corrected over all: one that cannot be told yet counts
    as p = 1, so that the verdicts of a grid under way need as much as those of all."""
    verdicts = [Verdict(c, _difference(fit, c.better, c.worse)) for c in claims]
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
    fits = fit_scores(runs)
    headline = next(iter(fits), "")
    verdicts = judge(grid.claims, fits[headline]) if fits else []
    said = [f"{verdict.claim.text}: {verdict.outcome}." for verdict in verdicts]
    said += [] if runs else ["No run is finished."]
    if runs and missing:
        said.append(f"{len(missing)} runs are not finished: {'; '.join(missing)}.")
    page = Page(
        f"Ablation: {grid.name}",
        f"{len(runs)} of {len(planned)} runs of the same training FLOPs in matrix products",
    )
    for text in said:
        page.verdict(text)
    if verdicts:
        page.heading("Claims")
        page.records([_claim_row(verdict, fits) for verdict in verdicts])
        page.paragraph(_TEXTS["method"].format(alpha=ALPHA))
    rows = _variant_rows(grid, runs, fits)
    if rows:
        page.heading("Variants")
        page.paragraph(f"{_TEXTS['meaning']}.")
        page.records(rows)
        page.heading("Runs")
        page.records([_run_row(run, fits) for run in runs])
    path = write_page(folder, "report", page)
    return "\n".join([*(Table.of(rows).terminal() or said), str(path)])


def _claim_row(verdict: Verdict, fits: Mapping[str, Fit]) -> Record:
    claim = verdict.claim
    differences = {c: _difference(fit, claim.better, claim.worse) for c, fit in fits.items()}
    return {
        "claim": claim.text,
        **{column: _plus_minus(difference) for column, difference in differences.items()},
        "p, corrected": p_text(verdict.p_corrected),
        "at this scale": verdict.outcome,
    }


def _variant_rows(grid: Grid, runs: Sequence[RunFigures], fits: Mapping[str, Fit]) -> list[Record]:
    """A row a variant that has a finished run; beside the first column its difference to the first
    of them."""
    by_variant = {v: [run for run in runs if run.variant == v] for v in grid.variants}
    by_variant = {variant: own for variant, own in by_variant.items() if own}
    reference = next(iter(by_variant), "")
    valid = [key for key in _VALID if any(run.valid.get(key) for run in runs)]
    rows: list[Record] = []
    for variant, own in by_variant.items():
        row: dict[str, object] = {
            "variant": variant,
            "seeds": len(own),
            "steps": own[0].summary["num_steps"],
            "tokens": own[0].summary["tokens"],
        }
        for key in valid:
            known = [run.valid[key] for run in own if run.valid.get(key) is not None]
            row[_VALID[key]] = statistics.fmean(known) if known else None
        for number, (column, fit) in enumerate(fits.items()):
            row[column] = percent(fit.mean(variant)) if variant in fit.variants else None
            if number == 0:
                other = None if variant == reference else _difference(fit, variant, reference)
                row[f"to {reference}"] = _plus_minus(other)
        rows.append(row)
    return rows


def _plus_minus(difference: Interval | None) -> str | None:
    """'+1.23 ± 0.45' points: with half of its 95 % interval, where that is known."""
    if difference is None or math.isnan(difference.value):
        return None
    half = "" if math.isnan(difference.low) else f" ± {percent(difference.half_width)}"
    return f"{100 * difference.value:+.2f}{half}"


def _run_row(run: RunFigures, columns: Iterable[str]) -> Record:
    return {
        "variant": run.variant,
        "seed": run.seed,
        "steps": run.summary["num_steps"],
        "tokens": run.summary["tokens"],
        "hours": run.hours,
        "learnt nothing": run.num_degenerate,
        **{task: percent(run.scores.get(task)) for task in columns if task != MEAN},
    }
