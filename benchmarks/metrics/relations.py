"""Metrics of relation extraction as KLUE-RE has them.

KLUE-baseline klue_baseline/metrics/functional.py:66-84, which prints them times 100.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.metrics.classification import Labels, checked

Probabilities = NDArray[np.floating[Any]] | Sequence[Sequence[float]]

# The trapezoid between the only points of a label without gold rows in scikit-learn since 1.1:
# recall 1 at precision 0, and recall 0 at precision 1.
_AREA_WITHOUT_GOLD = 0.5


def micro_f1(gold: Labels, predicted: Labels, no_relation: int = 0) -> float:
    """Micro F1 over the relations, `no_relation` left out of both sides (functional.py:66).

    0 where neither gold nor predictions have a relation, and over no rows, as scikit-learn says.
    """
    gold, predicted = checked(gold, predicted)
    num_right = np.sum((gold == predicted) & (gold != no_relation))
    num_claimed = np.sum(gold != no_relation) + np.sum(predicted != no_relation)
    return float(2 * num_right / num_claimed) if num_claimed else 0.0


def auprc(gold: Labels, probabilities: Probabilities) -> float:
    """Mean over all labels, `no_relation` too, of the area under the precision-recall curve.

    `probabilities` is (rows, labels). The area is that of trapezoids, so equal probabilities
    everywhere give about .52 with 30 labels, not the base rate. A label without gold rows makes
    the mean nan, as the scikit-learn 0.24.1 does that KLUE-baseline pins (functional.py:74).
    """
    return _mean(_areas(gold, probabilities))


def auprc_absent_as_half(gold: Labels, probabilities: Probabilities) -> float:
    """`auprc` by scikit-learn since 1.1: a label without gold rows counts .5, whatever is said."""
    areas = _areas(gold, probabilities)
    return _mean(np.where(np.isnan(areas), _AREA_WITHOUT_GOLD, areas))


def auprc_without_no_relation(
    gold: Labels, probabilities: Probabilities, no_relation: int = 0
) -> float:
    """The mean area over the relations that have gold rows; nan where none has.

    Of the rows that micro F1 speaks of, and defined on a split that lacks a rare relation.
    """
    areas = np.delete(_areas(gold, probabilities), no_relation)
    return _mean(areas[~np.isnan(areas)])


def _mean(areas: NDArray[np.float64]) -> float:
    return float(np.mean(areas)) if len(areas) else math.nan


def _areas(gold: Labels, probabilities: Probabilities) -> NDArray[np.float64]:
    """Area of every label, (labels,); nan without gold rows and for probabilities that are nan."""
    labels, scores = np.asarray(gold), np.asarray(probabilities, dtype=np.float64)
    if labels.ndim != 1 or scores.ndim != 2 or len(labels) != len(scores):
        raise ValueError(
            f"gold labels have shape {labels.shape} and probabilities {scores.shape}; "
            "give a row of probabilities, one a label, for each gold label"
        )
    if len(labels) and not 0 <= labels.min() <= labels.max() < scores.shape[1]:
        raise ValueError(
            f"gold labels go from {labels.min()} to {labels.max()}, probabilities are of "
            f"{scores.shape[1]} labels; give the ids of one list of labels"
        )
    areas = np.full(scores.shape[1], math.nan)
    for label in range(scores.shape[1]):
        is_gold = labels == label
        if is_gold.any() and np.isfinite(scores[:, label]).all():
            areas[label] = _area(is_gold, scores[:, label])
    return areas


def _area(is_gold: NDArray[np.bool_], scores: NDArray[np.float64]) -> float:
    """Trapezoids from recall 0 at precision 1 through a point for each distinct score.

    scikit-learn's `auc` of `precision_recall_curve`; a host that trains need not have it.
    """
    order = np.argsort(-scores, kind="stable")
    is_last = np.append(np.diff(scores[order]) != 0, True)  # of its score
    num_right = np.cumsum(is_gold[order])[is_last]
    num_named = np.flatnonzero(is_last) + 1
    recall = np.append(0.0, num_right / num_right[-1])
    precision = np.append(1.0, num_right / num_named)
    return float(np.trapezoid(precision, recall))
