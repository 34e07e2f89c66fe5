"""Metrics of classification: official values of GLUE and KLUE.

Every metric takes gold and predicted label ids (equal length, one an example), gives 0..1 (mcc
-1..1) where the official scripts print that times 100, and is `nan` over no rows.
KLUE: KLUE-baseline klue_baseline/metrics/functional.py; GLUE: google-research/electra
finetune/classification/classification_metrics.py and huggingface/evaluate metrics/glue/glue.py.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

Labels = Sequence[int] | NDArray[np.integer[Any]]
MetricFunction = Callable[[Labels, Labels], float]


def accuracy(gold: Labels, predicted: Labels) -> float:
    """Share of equal labels."""
    gold, predicted = checked(gold, predicted)
    return float(accuracy_score(gold, predicted)) if len(gold) else math.nan


def macro_f1(gold: Labels, predicted: Labels) -> float:
    """Mean F1 over the classes that occur in gold or predictions (KLUE functional.py:23).

    A class in neither is left out of the mean; one that is predicted but never gold counts 0.
    """
    gold, predicted = checked(gold, predicted)
    if not len(gold):
        return math.nan
    return float(f1_score(gold, predicted, average="macro", zero_division=0))


def mcc(gold: Labels, predicted: Labels) -> float:
    """Matthews correlation; 0 where gold or predictions are all of one class."""
    gold, predicted = checked(gold, predicted)
    if not len(gold):
        return math.nan
    if len(set(gold.tolist())) < 2 or len(set(predicted.tolist())) < 2:
        return 0.0  # scikit-learn says the same, with a warning
    return float(matthews_corrcoef(gold, predicted))


def f1(gold: Labels, predicted: Labels) -> float:
    """F1 of label 1, which GLUE reports for MRPC and QQP; 0 without any true positive.

    Not the `F1Scorer` of the ELECTRA code, which counts gold positives as predicted ones.
    """
    gold, predicted = checked(gold, predicted)
    if not len(gold):
        return math.nan
    return float(f1_score(gold == 1, predicted == 1, zero_division=0))


def mean_of_accuracy_and_f1(gold: Labels, predicted: Labels) -> float:
    """The one number the GLUE leaderboard makes of MRPC and QQP."""
    return (accuracy(gold, predicted) + f1(gold, predicted)) / 2


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
