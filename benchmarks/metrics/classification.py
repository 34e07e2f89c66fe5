"""Metrics of classification: official values of GLUE and KLUE.

Every metric takes gold and predicted label ids (equal length, one an example), gives 0..1 (mcc
-1..1) where the official scripts print that times 100, and is `nan` over no rows.
KLUE: KLUE-baseline klue_baseline/metrics/functional.py; GLUE: google-research/electra
finetune/classification/classification_metrics.py and huggingface/evaluate metrics/glue/glue.py.
All of them call scikit-learn, whose values these equal; a host that trains need not have it.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Labels = Sequence[int] | NDArray[np.integer[Any]]
MetricFunction = Callable[[Any, Any], float]  # gold and predicted values of one length


def accuracy(gold: Labels, predicted: Labels) -> float:
    """Share of equal labels."""
    gold, predicted = checked(gold, predicted)
    return float(np.mean(gold == predicted)) if len(gold) else math.nan


def macro_f1(gold: Labels, predicted: Labels) -> float:
    """Mean F1 over the classes that occur in gold or predictions (KLUE functional.py:23).

    A class in neither is left out of the mean; one that is predicted but never gold counts 0.
    """
    gold, predicted = checked(gold, predicted)
    if not len(gold):
        return math.nan
    return float(np.mean(class_f1(gold, predicted, np.union1d(gold, predicted))))


def mcc(gold: Labels, predicted: Labels) -> float:
    """Matthews correlation of two classes or more (R_K); 0 where one side is all of one class.

    R_K of s rows, c of them right, with t_k gold and p_k predicted rows of class k (Gorodkin 2004):
    (c s - sum t_k p_k) / sqrt((s^2 - sum p_k^2) (s^2 - sum t_k^2)).
    """
    gold, predicted = checked(gold, predicted)
    if not len(gold):
        return math.nan
    classes = np.union1d(gold, predicted)
    in_gold, in_predicted = (_counts(side, classes) for side in (gold, predicted))
    num_rows, num_right = len(gold), int(np.sum(gold == predicted))
    covariance = num_right * num_rows - int(in_gold @ in_predicted)
    variances = [num_rows**2 - int(side @ side) for side in (in_gold, in_predicted)]
    return covariance / math.sqrt(math.prod(variances)) if all(variances) else 0.0


def f1(gold: Labels, predicted: Labels) -> float:
    """F1 of label 1, which GLUE reports for MRPC and QQP; 0 without any true positive.

    Not the `F1Scorer` of the ELECTRA code, which counts gold positives as predicted ones.
    """
    gold, predicted = checked(gold, predicted)
    return float(class_f1(gold, predicted, [1])[0]) if len(gold) else math.nan


def mean_of_accuracy_and_f1(gold: Labels, predicted: Labels) -> float:
    """The one number the GLUE leaderboard makes of MRPC and QQP."""
    return (accuracy(gold, predicted) + f1(gold, predicted)) / 2


def class_f1(
    gold: Labels, predicted: Labels, classes: Labels, undefined: float = 0.0
) -> NDArray[np.float64]:
    """F1 of each class (len(classes),): 2 tp / (gold + predicted); `undefined` where in neither.

    This is scikit-learn's `f1_score(labels=classes, average=None, zero_division=undefined)`.
    """
    gold, predicted = checked(gold, predicted)
    of_classes = np.asarray(classes)
    occurrences = _counts(gold, of_classes) + _counts(predicted, of_classes)
    num_right = _counts(gold[gold == predicted], of_classes)
    return np.where(occurrences > 0, 2 * num_right / np.maximum(occurrences, 1), undefined)


def _counts(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.int64]:
    """Rows of each class, in the order of `classes`."""
    return np.array([np.count_nonzero(labels == label) for label in classes], dtype=np.int64)


def checked(
    gold: Labels, predicted: Labels
) -> tuple[NDArray[np.integer[Any]], NDArray[np.integer[Any]]]:
    """Both as arrays of one length; `ValueError` if they are not."""
    first, second = np.asarray(gold), np.asarray(predicted)
    if first.shape != second.shape or first.ndim != 1:
        raise ValueError(
            f"gold labels have shape {first.shape} and predictions {second.shape}; "
            "give one label id an example in both"
        )
    return first, second
