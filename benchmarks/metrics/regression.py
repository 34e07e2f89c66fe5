"""Metrics of a number for each pair: STS-B and KLUE-STS.

Every metric takes gold and predicted numbers of one length, one a row. Correlations are -1..1 where
the official scripts print them times 100, and `nan` where a side is constant: never 0.
STS-B: google-research/electra finetune/classification/classification_metrics.py and
huggingface/evaluate metrics/glue/glue.py; KLUE-STS: KLUE-baseline klue_baseline/metrics/
functional.py:31-39. All of them call scipy, whose values these equal.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.metrics.classification import f1

Values = Sequence[float] | NDArray[np.floating[Any]]
PARAPHRASE_THRESHOLD = 3.0  # KLUE-STS: a pair of this value or more is one of the same meaning


def pearson(gold: Values, predicted: Values) -> float:
    """Pearson's correlation; `nan` where a side is constant. `ValueError` of less than two rows."""
    first, second = _checked(gold, predicted)
    if len(first) < 2:
        raise ValueError(f"Pearson's correlation needs two rows or more, not {len(first)}")
    return _correlation(first, second)


def spearman(gold: Values, predicted: Values) -> float:
    """Pearson's correlation of ranks, equal values at their mean rank; `nan` where undefined."""
    first, second = _checked(gold, predicted)
    if len(first) < 2 or np.isnan(first).any() or np.isnan(second).any():
        return math.nan
    return _correlation(_ranks(first), _ranks(second))


def mean_of_pearson_and_spearman(gold: Values, predicted: Values) -> float:
    """The one number the GLUE leaderboard makes of STS-B."""
    return (pearson(gold, predicted) + spearman(gold, predicted)) / 2


def mse(gold: Values, predicted: Values) -> float:
    """Mean squared error, in the units given: ELECTRA's code takes it of targets scaled to 0..1."""
    first, second = _checked(gold, predicted)
    return float(np.mean((first - second) ** 2)) if len(first) else math.nan


def f1_at_3(gold: Values, predicted: Values) -> float:
    """KLUE-STS: F1 of the pairs of 3 or more, both sides cut there (functional.py:35).

    Not the file's `binary-label`. 0 where neither side has such a pair.
    """
    first, second = _checked(gold, predicted)
    return f1(
        (first >= PARAPHRASE_THRESHOLD).astype(np.int64),
        (second >= PARAPHRASE_THRESHOLD).astype(np.int64),
    )


def f1_at_3_float32(gold: Values, predicted: Values) -> float:
    """`f1_at_3` as KLUE-baseline's trainer calls it, in single precision: 2.9999999 becomes 3.0."""
    first, second = _checked(gold, predicted)
    return f1_at_3(first.astype(np.float32), second.astype(np.float32))


def _correlation(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    if np.all(first == first[0]) or np.all(second == second[0]):
        return math.nan  # before rounding of the mean makes a number of it
    with np.errstate(invalid="ignore"):  # infinite values give nan
        first, second = first - first.mean(), second - second.mean()
        first, second = first / np.linalg.norm(first), second / np.linalg.norm(second)
    return float(np.clip(first @ second, -1.0, 1.0))


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks from 1; equal values share the mean of theirs."""
    _, group, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: NDArray[np.float64] = (np.cumsum(counts) - (counts - 1) / 2)[group]
    return ranks


def _checked(gold: Values, predicted: Values) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both as arrays of one length; `ValueError` if they are not."""
    first, second = np.asarray(gold, dtype=np.float64), np.asarray(predicted, dtype=np.float64)
    if first.shape != second.shape or first.ndim != 1:
        raise ValueError(
            f"gold values have shape {first.shape} and predictions {second.shape}; "
            "give one number a row in both"
        )
    return first, second
