"""Metrics of dependency parsing and of dialogue states, as KLUE has them.

KLUE-baseline klue_baseline/metrics/functional.py:86-195, `wos_jga`, `wos_slot_micro_f1`, and
utils.py `compute_prf_for_wos` (from the code of TRADE), which print them times 100.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.metrics.labels import Labels, accuracy, checked, macro_f1

FIRST_MERGED_LABEL = 15  # VP_CMP, the first of the rare ones in `get_dep_labels`
_MERGED, _WRONG_HEAD = -3, -2

Classes = NDArray[np.int64]


class Arcs(NamedTuple):
    """Words one after the other, those of all sentences, punctuation in its word: each (words,)."""

    heads: Labels  # number of the head word; words count from 1, 0 is the root
    labels: Labels


def uas_macro_f1(gold: Arcs, predicted: Arcs) -> float:
    """Macro F1 with the number of the head word taken as a class (functional.py:86). A head that is
    predicted but nowhere gold adds a class of F1 0 to the mean."""
    return macro_f1(gold.heads, predicted.heads)


def uas_micro_f1(gold: Arcs, predicted: Arcs) -> float:
    """Fraction of words with the right head (:102), the usual UAS; 0 over no words."""
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
    """Fraction of words with the right head and the right label, labels merged as above (:156)."""
    return _share(*las_classes(gold, predicted))


def las(gold: Arcs, predicted: Arcs) -> float:
    """Fraction of words with the right head and exactly the right label: the usual LAS."""
    return _share(gold.labels, _marked_wrong(gold, predicted, np.asarray(predicted.labels)))


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


State = Sequence[str]  # "domain-slot-value", a list a user turn


def joint_goal_acc(gold: Sequence[State], predicted: Sequence[State]) -> float:
    """Fraction of turns whose states are equal as sets; 0 over no turns."""
    turns = list(zip(gold, predicted, strict=True))
    return sum(set(a) == set(b) for a, b in turns) / len(turns) if turns else 0.0


def slot_micro_f1(gold: Sequence[State], predicted: Sequence[State]) -> float:
    """Mean over turns of the F1 of a turn, which is no micro average; 0 over no turns.

    Two empty states have F1 1, an empty gold state and a predicted one 0. What stands twice in a
    state counts twice.
    """
    turns = list(zip(gold, predicted, strict=True))
    return sum(_turn_f1(a, b) for a, b in turns) / len(turns) if turns else 0.0


def pooled_slot_f1(gold: Sequence[State], predicted: Sequence[State]) -> float:
    """F1 over the slot values of all turns together, each once a turn: the real micro average. 1
    where no turn has a value on either side, nan over no turns."""
    turns = [(set(a), set(b)) for a, b in zip(gold, predicted, strict=True)]
    if not turns:
        return float("nan")
    num_right = sum(len(a & b) for a, b in turns)
    num_claimed = sum(len(a) + len(b) for a, b in turns)
    return 2 * num_right / num_claimed if num_claimed else 1.0


def _turn_f1(gold: State, predicted: State) -> float:
    if not gold:
        return float(not predicted)
    num_found = sum(value in predicted for value in gold)
    num_false = sum(value not in gold for value in predicted)
    if not num_found:
        return 0.0
    precision, recall = num_found / (num_found + num_false), num_found / len(gold)
    return 2 * precision * recall / (precision + recall)
