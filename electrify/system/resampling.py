"""Intervals of a ratio of sums, by resampling whole groups, whose items hang together."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_AT_ONCE = 2**22  # numbers of a table of draws: 32 MB


def ratio_intervals(
    sums: Floats, counts: Floats, seed: int, num_resamples: int = 2000
) -> tuple[Floats, Floats]:
    """Ratios sum(sums) / sum(counts) and their 95 % percentile intervals: (F,), (F, 2).

    `sums` (G, F) are of G groups and F figures, `counts` (G,) > 0 the items of each group. All
    figures are computed on the same draws, so a column of differences is a paired comparison. Of
    fewer than two groups the interval is nan. The same numbers give the same interval.
    """
    assert (counts > 0).all()
    num_groups, num_figures = sums.shape
    if not num_groups:
        return np.full(num_figures, np.nan), np.full((num_figures, 2), np.nan)
    ratios = sums.sum(axis=0) / counts.sum()
    if num_groups < 2:
        return ratios, np.full((num_figures, 2), np.nan)
    rng = np.random.default_rng(seed)
    shares = np.full(num_groups, 1 / num_groups)
    drawn = []
    rows = max(1, _AT_ONCE // num_groups)
    for start in range(0, num_resamples, rows):
        times = rng.multinomial(num_groups, shares, size=min(rows, num_resamples - start))
        drawn.append((times @ sums) / (times @ counts)[:, None])
    bounds = np.percentile(np.concatenate(drawn), [2.5, 97.5], axis=0)
    return ratios, np.ascontiguousarray(bounds.T)


def outcome(low: float | None, high: float | None) -> str:
    """What an interval of a gain says: better, worse, cannot tell apart."""
    if low is None or high is None or not (low > 0 or high < 0):
        return "cannot tell apart"
    return "better" if low > 0 else "worse"
