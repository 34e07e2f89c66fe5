"""How well scores find planted items among others: AUC, and recall at a threshold.

All are functions of how often each example is in a sample, as in `weighted`. An example has one
positive item, where nothing else is said, and any number of negative ones.
"""

import math

import numpy as np
from numpy.typing import NDArray

from benchmarks.metrics.weighted import Floats, Weighted, mean_of

Owners = NDArray[np.int64]


def auc(
    positives: Floats, negatives: Floats, owners: Owners, positive_owners: Owners | None = None
) -> Weighted:
    """The chance that a positive item has a higher score than a negative one; ties count half.

    `owners` (m,) name the examples of `negatives` (m,), `positive_owners` (n,) those of
    `positives` (n,), which are else one an example.
    """
    if positive_owners is None:
        positive_owners = np.arange(len(positives))
    order = np.argsort(negatives, kind="stable")
    ranked, owners = negatives[order], owners[order]
    below = np.searchsorted(ranked, positives, side="left")
    not_above = np.searchsorted(ranked, positives, side="right")

    def of_one(counts: Floats) -> float:
        weights = np.concatenate([[0.0], np.cumsum(counts[owners])])
        of_positives = counts[positive_owners]
        pairs = of_positives.sum() * weights[-1]
        wins = of_positives @ (weights[below] + weights[not_above]) / 2
        return float(wins / pairs) if pairs else math.nan

    return lambda counts: np.array([of_one(row) for row in counts])


def threshold_at(negatives: Floats, false_alarm_fraction: float) -> float:
    """A score above which stands this fraction of the negative items; less where they are tied."""
    return float(np.quantile(negatives, 1 - false_alarm_fraction, method="higher"))


def recall_above(positives: Floats, threshold: float) -> Weighted:
    """The fraction of positive items with a score above the threshold."""
    return mean_of((positives > threshold).astype(np.float64))
