"""Metrics of sequence tagging: KLUE-NER as KLUE-baseline computes it, and seqeval's usual ones.

Every metric takes the label ids of all sentences in one chain, as `tagging.framed` makes them for
KLUE, and the names of the labels ("B-PS", "I-PS", "O"; by default KLUE's), and gives 0..1.
Official: `entity_macro_f1` and `character_macro_f1` (klue_baseline/metrics/functional.py:42 and
:58), `seqeval_micro_f1` (seqeval 1.2.2, what most scores of other tag sets are). Corrected:
`..._without_o` leaves O out as KLUE's paper says, `..._present` counts only labels that occur; over
chains without the frame both are free of the two labels of [CLS] and [SEP] as well.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.metrics.classification import Labels, checked, class_f1
from benchmarks.metrics.tags import OUTSIDE, entities

# in the order of KLUE's label list: the position is the label id
NER_LABELS = tuple(
    [f"{mark}-{kind}" for kind in ("PS", "LC", "OG", "DT", "TI", "QT") for mark in "BI"] + [OUTSIDE]
)

Entity = tuple[str, int, int]  # type, first position, position behind the last
Reading = Callable[[Sequence[str]], set[Entity]]  # of a chain of labels


def entity_macro_f1(gold: Labels, predicted: Labels, labels: Sequence[str] = NER_LABELS) -> float:
    """KLUE-NER: mean over entity types of the F1 of whole entities, strict IOB2.

    Types in neither gold nor predictions are left out; `nan` if there are none at all.
    """
    return _mean_by_type(gold, predicted, labels, entities)


def seqeval_macro_f1(gold: Labels, predicted: Labels, labels: Sequence[str] = NER_LABELS) -> float:
    """`entity_macro_f1` with entities read as `lenient_entities` does, seqeval's default."""
    return _mean_by_type(gold, predicted, labels, lenient_entities)


def seqeval_micro_f1(gold: Labels, predicted: Labels, labels: Sequence[str] = NER_LABELS) -> float:
    """F1 of all entities together, read as `lenient_entities` does; 0 if there are none at all.

    An I- where a B- should be is forgiven: the score may be 98 where strict reading finds 0.
    """
    return _micro(gold, predicted, labels, lenient_entities)


def entity_micro_f1(gold: Labels, predicted: Labels, labels: Sequence[str] = NER_LABELS) -> float:
    """F1 of all entities together, strict IOB2; 0 if there are none at all (as seqeval strict)."""
    return _micro(gold, predicted, labels, entities)


def character_macro_f1(
    gold: Labels, predicted: Labels, labels: Sequence[str] = NER_LABELS
) -> float:
    """KLUE-NER: mean F1 over all 13 labels of characters, O too, one that is in neither side as 1.

    The paper says without O; this is what the official code does (KLUE-baseline pull request 7).
    """
    return _character_mean(gold, predicted, range(len(labels)))


def character_macro_f1_without_o(
    gold: Labels, predicted: Labels, labels: Sequence[str] = NER_LABELS
) -> float:
    """`character_macro_f1` as KLUE's paper has it: O is no class. An absent label counts 1."""
    return _character_mean(gold, predicted, _entity_labels(labels))


def character_macro_f1_present(
    gold: Labels, predicted: Labels, labels: Sequence[str] = NER_LABELS
) -> float:
    """Mean F1 over the labels but O that occur in gold or predictions; `nan` if none does."""
    first, second = checked(gold, predicted)
    present = set(np.union1d(first, second).tolist())
    classes = [label for label in _entity_labels(labels) if label in present]
    return _character_mean(gold, predicted, classes) if classes else math.nan


def lenient_entities(tags: Sequence[str]) -> set[Entity]:
    """(type, start, end) as seqeval reads labels by default, after the CoNLL script.

    An entity starts at B- and also at an I- that follows O or another type; it goes on with the I-
    of its type.
    """
    found, start, kind = set(), -1, ""
    for index, tag in enumerate([*tags, OUTSIDE]):
        if kind and tag != f"I-{kind}":
            found.add((kind, start, index))
            kind = ""
        if tag != OUTSIDE and not kind:
            start, kind = index, tag[2:]
    return found


def _mean_by_type(gold: Labels, predicted: Labels, labels: Sequence[str], read: Reading) -> float:
    right, found = _entities(gold, predicted, labels, read)
    scores = []
    for kind in sorted({kind for kind, *_ in right | found}):
        num_right, num_found = (sum(e[0] == kind for e in side) for side in (right, found))
        num_both = sum(e[0] == kind for e in right & found)
        scores.append(2 * num_both / (num_right + num_found))
    return float(np.mean(scores)) if scores else math.nan


def _micro(gold: Labels, predicted: Labels, labels: Sequence[str], read: Reading) -> float:
    right, found = _entities(gold, predicted, labels, read)
    return 2 * len(right & found) / max(len(right) + len(found), 1)


def _entities(
    gold: Labels, predicted: Labels, labels: Sequence[str], read: Reading
) -> tuple[set[Entity], set[Entity]]:
    first, second = checked(gold, predicted)
    return read([labels[n] for n in first]), read([labels[n] for n in second])


def _character_mean(gold: Labels, predicted: Labels, classes: Sequence[int]) -> float:
    first, _ = checked(gold, predicted)
    if not len(first):
        return math.nan
    return float(np.mean(class_f1(gold, predicted, classes, undefined=1.0)))


def _entity_labels(labels: Sequence[str]) -> list[int]:
    return [number for number, label in enumerate(labels) if label != OUTSIDE]
