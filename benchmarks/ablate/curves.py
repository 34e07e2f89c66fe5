"""A grid against FLOPs: scores of checkpoints by column, and held-out losses."""

import math
from collections.abc import Mapping, Sequence

from benchmarks.ablate.figures import LOSSES, RunFigures
from benchmarks.ablate.grid import UNTRAINED, Grid
from benchmarks.ablate.scores import GridScores, mean_score
from benchmarks.twin_page import TwinPage

_Points = Sequence[tuple[float, float]]


def add_curves(
    document: TwinPage, grid: Grid, runs: Sequence[RunFigures], scores: GridScores
) -> None:
    """The first seed of each variant that has a curve, in each column; then every variant's losses.

    ELECTRA (Clark et al. 2020), the shape of Figures 1, 2 and 4.
    """
    document.heading("Against FLOPs")
    scored = {run.variant: run for run in runs if run.on_the_way}
    if scored:
        curves = {column: _curves(scored, scores.groups[column]) for column in scores.fits}
        for column in _drawn(grid, scores):
            _draw(document, column, curves[column], scores)
        rows = [
            (variant, f"{flops:.3g}", *(dict(curves[c][variant]).get(flops) for c in curves))
            for variant, run in scored.items()
            for flops, _ in run.on_the_way
        ]
        document.table(["variant", "FLOPs", *curves], rows, "One seed each")
        document.paragraph(
            "Checkpoints on the way were saved before the learning rate had fallen, the last one "
            "after. Bands are the 95 % interval of one seed."
        )
    first = {run.variant: run for run in reversed(runs)}
    for metric, name in LOSSES.items():
        lines = {v: run.losses[metric] for v, run in first.items() if run.losses[metric]}
        if lines:
            document.line_plot(
                f"Held-out {name}, first seed", lines, "training FLOPs", "nats per token"
            )


def _drawn(grid: Grid, scores: GridScores) -> list[str]:
    """The first column, those of languages, and those that claims are judged by."""
    several = [column for column, tasks in scores.groups.items() if len(tasks) > 1]
    return [c for c in dict.fromkeys([scores.headline, *several, *grid.judged_by])
            if c in scores.fits]  # fmt: skip


def _curves(scored: Mapping[str, RunFigures], tasks: Sequence[str]) -> dict[str, _Points]:
    return {
        variant: [
            (flops, mean_score(found, tasks))
            for flops, found in run.on_the_way
            if found.keys() >= set(tasks)
        ]
        for variant, run in scored.items()
    }


def _draw(
    document: TwinPage, column: str, curves: Mapping[str, _Points], scores: GridScores
) -> None:
    half = scores.fits[column].half_width_of_a_run
    bands = {
        variant: [(flops, score - half, score + half) for flops, score in points]
        for variant, points in curves.items()
        if not math.isnan(half)
    }
    lines = dict(curves)
    control = scores.control_fits[column]
    ends = [flops for points in curves.values() for flops, _ in points]
    if UNTRAINED in control.variants and ends:
        level = control.mean(UNTRAINED)
        lines[UNTRAINED] = [(min(ends), level), (max(ends), level)]
    document.line_plot(
        f"Score of checkpoints, {column}", lines, "training FLOPs", "score", bands=bands
    )
