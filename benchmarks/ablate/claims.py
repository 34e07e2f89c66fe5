"""The claims of a grid in its report: which hold, by which scores, and how sure that is."""

import math
from collections.abc import Mapping, Sequence

from benchmarks.ablate.grid import UNTRAINED, Claim, Grid
from benchmarks.ablate.intervals import Difference, Fit, Verdict, judge
from benchmarks.ablate.scores import GridScores
from benchmarks.comparison import ALPHA
from benchmarks.twin_page import TwinPage
from benchmarks.uncertainty import p_text

METHOD = (
    "A score is the mean over tasks of their headline metrics, of one pretrained network; what "
    "stands in the tables is the mean over pretraining seeds. Intervals are of 95 %. What a seed "
    "does to all variants alike (which examples are learnt from, the order of pretraining) is "
    "taken out, and what is left is pooled over all variants, since each has few seeds. They say "
    "how much other seeds may change, not what another corpus, size, budget or other test rows "
    "would; the sd of the rest is itself an estimate of few seeds. p of the "
    "claims is corrected over all that the grid makes, run or not, by all scores that they are "
    "judged by (Holm); above "
    f"{ALPHA} the two cannot be told apart, which does not say that they are equal."
)


def judge_claims(grid: Grid, scores: GridScores) -> list[Verdict]:
    """Every claim by every column that the grid names; of a grid without scores, none."""
    if not scores.runs:
        return []
    columns = grid.judged_by or (scores.headline,)
    return judge(grid.claims, {column: scores.fits.get(column) for column in columns})


def add_claims(
    document: TwinPage, grid: Grid, verdicts: Sequence[Verdict], scores: GridScores
) -> None:
    """A table for each column that claims are judged by, then the differences in all columns."""
    document.heading("Which claims hold here")
    document.paragraph(METHOD)
    by_column: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        by_column.setdefault(verdict.column, []).append(verdict)
    for column, found in by_column.items():
        document.heading(f"By {column}", level=3)
        document.paragraph(f"{summary_of(found)} {_spread(scores, column)}".rstrip())
        document.table(
            ["claim", "of", "difference", "95 % interval", "p, corrected", "at this scale"],
            [_row(grid, verdict) for verdict in found],
        )
    with document.fold("The same differences by language and task"):
        rows = [_in_columns(claim, scores.fits) for claim in grid.claims]
        if scores.control_of:  # what pretraining adds: no claim, its seeds vary otherwise
            gain = Claim(scores.control_of, UNTRAINED, is_equality=False)
            rows.append(_in_columns(gain, scores.control_fits))
        document.table(
            ["claim", *scores.fits], rows,
            "With half of the 95 % interval, not corrected for their number",
        )  # fmt: skip


def summary_of(verdicts: Sequence[Verdict]) -> str:
    """How many claims came out how, which are decided: 'Of 9 claims 1 hold (a > b), 8 ...'."""
    groups = {"hold": "holds", "do not hold": "does not hold", "cannot be told apart": "cannot",
              "have too few seeds to tell": "too few", "were not run": "not run"}  # fmt: skip
    parts = []
    for words, start in groups.items():
        found = [v.claim.text for v in verdicts if v.outcome.startswith(start)]
        names = f" ({'; '.join(found)})" if "hold" in words else ""
        parts += [f"{len(found)} {words}{names}"] if found else []
    return f"Of {len(verdicts)} claims {', '.join(parts)}."


def _spread(scores: GridScores, column: str) -> str:
    fit = scores.fits.get(column)
    if fit is None or math.isnan(fit.sd):
        return ""
    return f"The rest has an sd of {fit.sd:.4f}, with {fit.degrees} degrees of freedom."


def _row(grid: Grid, verdict: Verdict) -> tuple[object, ...]:
    difference, experiment = verdict.difference, verdict.claim.experiment
    return (
        verdict.claim.text, grid.experiments[experiment].source or experiment,
        None if difference is None else defined(difference.value), _interval(difference),
        p_text(verdict.p_corrected), verdict.outcome,
    )  # fmt: skip


def _in_columns(claim: Claim, fits: Mapping[str, Fit]) -> tuple[str | None, ...]:
    return claim.text, *(_in_column(fit, claim) for fit in fits.values())


def _in_column(fit: Fit, claim: Claim) -> str | None:
    if not {claim.better, claim.worse} <= set(fit.variants):
        return None
    return plus_minus(fit.difference(claim.better, claim.worse))


def _interval(difference: Difference | None) -> str | None:
    if difference is None or math.isnan(difference.half_width):
        return None
    low, high = (difference.value + sign * difference.half_width for sign in (-1, 1))
    return f"{low:.4f} to {high:.4f}"


def defined(value: float) -> float | None:
    """None for nan, as tables and JSON have it."""
    return None if math.isnan(value) else value


def plus_minus(difference: Difference) -> str | None:
    """'+0.0123 ± 0.0045': with half of its 95 % interval, where that is known."""
    if math.isnan(difference.value):
        return None
    half = "" if math.isnan(difference.half_width) else f" ± {difference.half_width:.4f}"
    return f"{difference.value:+.4f}{half}"
