"""Metrics of dependency parsing as KLUE-DP has them.

KLUE-baseline klue_baseline/metrics/functional.py:86-195, which prints them times 100. Every word of
every sentence counts; punctuation is part of its word. A word has the number of its head word (0
is the root, words count from 1) and a label id.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.metrics.classification import Labels, accuracy, checked, macro_f1, mean_f1

FIRST_MERGED_LABEL = 15  # VP_CMP, the first of the rare ones in `get_dep_labels`
_MERGED, _WRONG_HEAD = -3, -2

Classes = NDArray[np.int64]


class Arcs(NamedTuple):
    """Words one after the other, those of all sentences: each (words,)."""

    heads: Labels
    labels: Labels


def uas_macro_f1(gold: Arcs, predicted: Arcs) -> float:
    """Macro F1 with the number of the head word taken as a class (functional.py:86).

    A head that is predicted but nowhere gold adds a class of F1 0 to the mean.
    """
    return macro_f1(gold.heads, predicted.heads)


def uas_micro_f1(gold: Arcs, predicted: Arcs) -> float:
    """Share of words with the right head (:102), the usual UAS; 0 over no words."""
    return _share(gold.heads, predicted.heads)


def las_macro_f1(gold: Arcs, predicted: Arcs) -> float:
    """Macro F1 of the labels (:118), by two rules of its own.

    Label ids from `FIRST_MERGED_LABEL` on are one class, so one of them for another is right. The
    predicted label of a word with a wrong head becomes a class of its own, and as that class is
    never gold, one wrong head anywhere adds a 0 to the mean.
    """
    return macro_f1(*las_classes(gold, predicted))


def las_classes(gold: Arcs, predicted: Arcs) -> tuple[Classes, Classes]:
    """The gold and predicted classes of the words of which `las_macro_f1` is the macro F1."""
    return _merged(gold.labels), _marked_wrong(gold, predicted, _merged(predicted.labels))


def las_micro_f1(gold: Arcs, predicted: Arcs) -> float:
    """Share of words with the right head and the right label, labels merged as above (:156)."""
    merged = _marked_wrong(gold, predicted, _merged(predicted.labels))
    return _share(_merged(gold.labels), merged)


def las(gold: Arcs, predicted: Arcs) -> float:
    """Share of words with the right head and exactly the right label: the usual LAS."""
    return _share(gold.labels, _marked_wrong(gold, predicted, np.asarray(predicted.labels)))


def las_macro_f1_without_wrong_head_class(gold: Arcs, predicted: Arcs) -> float:
    """`las_macro_f1` over the real classes alone; a word with a wrong head is a miss of its own."""
    return _macro_f1_without_wrong(
        _merged(gold.labels), _marked_wrong(gold, predicted, _merged(predicted.labels))
    )


def las_macro_f1_unmerged(gold: Arcs, predicted: Arcs) -> float:
    """Macro F1 of all labels apart, without the class of wrong heads."""
    labels = np.asarray(predicted.labels)
    return _macro_f1_without_wrong(np.asarray(gold.labels), _marked_wrong(gold, predicted, labels))


def _merged(labels: Labels) -> Classes:
    ids = np.asarray(labels, dtype=np.int64)
    return np.where(ids >= FIRST_MERGED_LABEL, _MERGED, ids)


def _marked_wrong(gold: Arcs, predicted: Arcs, labels: NDArray[np.integer[Any]]) -> Classes:
    """Predicted labels, the class of wrong heads where the head is another than the gold one."""
    gold_heads, heads = checked(gold.heads, predicted.heads)
    checked(heads, labels)
    return np.where(gold_heads == heads, labels, _WRONG_HEAD).astype(np.int64)


def _share(gold: Labels, predicted: Labels) -> float:
    gold, predicted = checked(gold, predicted)
    return accuracy(gold, predicted) if len(gold) else 0.0


def _macro_f1_without_wrong(gold: Classes, predicted: Classes) -> float:
    """Mean over the classes of gold and predictions but that of wrong heads; nan over no words."""
    return mean_f1(gold, predicted, np.setdiff1d(np.union1d(gold, predicted), [_WRONG_HEAD]))
