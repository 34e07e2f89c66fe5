"""A grid's report for programs."""

from collections.abc import Sequence
from typing import Any

from benchmarks.ablate.claims import defined
from benchmarks.ablate.figures import RunFigures
from benchmarks.ablate.grid import Grid
from benchmarks.ablate.intervals import Verdict
from benchmarks.ablate.scores import GridScores


def report_numbers(
    grid: Grid,
    runs: Sequence[RunFigures],
    scores: GridScores,
    verdicts: Sequence[Verdict],
    method: str,
) -> dict[str, Any]:
    """Everything in the page and the figures of every run."""
    return {
        "name": grid.name,
        "method": method,
        "spread": {
            column: {"sd": defined(fit.sd), "degrees": fit.degrees}
            for column, fit in scores.fits.items()
        },
        "means": {
            column: {variant: defined(fit.mean(variant)) for variant in fit.variants}
            for column, fit in scores.control_fits.items()
        },
        "claims": [
            {
                "claim": v.claim.text, "experiment": v.claim.experiment, "judged_by": v.column,
                "difference": defined(v.difference.value) if v.difference else None,
                "half_width": defined(v.difference.half_width) if v.difference else None,
                "p": defined(v.difference.p) if v.difference else None,
                "p_corrected": defined(v.p_corrected), "outcome": v.outcome,
            }
            for v in verdicts
        ],
        "left_out": scores.left_out,
        "experiments": {q: e.model_dump(mode="json") for q, e in grid.experiments.items()},
        "runs": [run.as_json() for run in runs],
    }  # fmt: skip
