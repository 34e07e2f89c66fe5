"""Metrics of KLUE-NER, as KLUE-baseline klue_baseline/metrics/functional.py computes them."""

import math

import numpy as np
from sklearn.metrics import f1_score

from benchmarks.metrics.classification import Labels, checked
from benchmarks.tagging import OUTSIDE, entities

# in the order of KLUE's label list: the position is the label id
NER_LABELS = tuple(
    [f"{mark}-{kind}" for kind in ("PS", "LC", "OG", "DT", "TI", "QT") for mark in "BI"] + [OUTSIDE]
)


def entity_macro_f1(gold: Labels, predicted: Labels) -> float:
    """KLUE-NER: mean over entity types of the F1 of whole entities, strict IOB2.

    Label ids of all sentences in one chain, as `tagging.framed` makes them. Types in neither gold
    nor predictions are left out; `nan` if there are none at all (KLUE functional.py:42, seqeval).
    """
    gold, predicted = checked(gold, predicted)
    right, found = (entities([NER_LABELS[n] for n in chain]) for chain in (gold, predicted))
    scores = []
    for kind in sorted({kind for kind, *_ in right | found}):
        num_right, num_found = (sum(e[0] == kind for e in side) for side in (right, found))
        num_both = sum(e[0] == kind for e in right & found)
        scores.append(2 * num_both / (num_right + num_found))
    return float(np.mean(scores)) if scores else math.nan


def character_macro_f1(gold: Labels, predicted: Labels) -> float:
    """KLUE-NER: mean F1 over all 13 labels of characters, O too, one that is in neither side as 1.

    The paper says without O; this is what the official code does (KLUE functional.py:58).
    """
    gold, predicted = checked(gold, predicted)
    if not len(gold):
        return math.nan
    labels = list(range(len(NER_LABELS)))
    scores = f1_score(gold, predicted, labels=labels, average=None, zero_division=1.0)
    return float(np.mean(scores))
