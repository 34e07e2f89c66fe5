"""A grid's report for programs."""

import math
from collections.abc import Sequence
from typing import Any

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
            column: {"sd": _known(fit.sd), "degrees": fit.degrees}
            for column, fit in scores.fits.items()
        },
        "means": {
            column: {variant: fit.mean(variant) for variant in fit.variants}
            for column, fit in scores.fits.items()
        },
        "claims": [
            {
                "claim": v.claim.text, "experiment": v.claim.experiment, "judged_by": v.column,
                "difference": v.difference.value if v.difference else None,
                "half_width": _known(v.difference.half_width) if v.difference else None,
                "p": _known(v.difference.p) if v.difference else None,
                "p_corrected": _known(v.p_corrected), "outcome": v.outcome,
            }
            for v in verdicts
        ],
        "experiments": {q: e.model_dump(mode="json") for q, e in grid.experiments.items()},
        "runs": [run.as_json() for run in runs],
    }  # fmt: skip


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
