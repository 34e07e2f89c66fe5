"""Headline metrics of many samples of the same examples at once, as the bootstrap asks for them.

A sample says how often each example is in it: `counts` (samples, examples) of whole numbers >= 0.
Every function here gives what the metric of its name gives on the examples repeated so often, from
sums over examples in place of the examples themselves; of a sample without examples, nan.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.metrics.labels import Labels, LabelSets, checked
from benchmarks.metrics.structured import Arcs, las_classes

Floats = NDArray[np.float64]
Weighted = Callable[[Floats], Floats]  # counts (R, n) to scores (R,)


def mean_of(items: Floats) -> Weighted:
    """The mean of the items (n,), such as whether each prediction is right."""
    return lambda counts: _ratio(counts @ items, counts.sum(axis=1), math.nan)


def accuracy(gold: Labels, predicted: Labels, num_classes: int) -> Weighted:
    return mean_of(np.equal(*checked(gold, predicted)).astype(np.float64))


def macro_f1(gold: Labels, predicted: Labels, num_classes: int) -> Weighted:
    """Mean F1 over the classes that occur on either side of a sample."""
    return macro_f1_of(*class_sums(gold, predicted, num_classes))


def mcc(gold: Labels, predicted: Labels, num_classes: int) -> Weighted:
    """Matthews correlation (R_K); 0 where one side of a sample is all of one class."""
    right, of_gold, of_predicted = _one_hot(gold, predicted, num_classes)

    def score(counts: Floats) -> Floats:
        num_rows, num_right = counts.sum(axis=1), (counts @ right).sum(axis=1)
        in_gold, in_predicted = counts @ of_gold, counts @ of_predicted
        covariance = num_right * num_rows - (in_gold * in_predicted).sum(axis=1)
        spread = (num_rows**2 - (in_gold**2).sum(axis=1)) * (
            num_rows**2 - (in_predicted**2).sum(axis=1)
        )
        return _of_any_rows(_ratio(covariance, np.sqrt(spread), 0.0), num_rows)

    return score


def f1(gold: Labels, predicted: Labels, num_classes: int) -> Weighted:
    return micro_f1_of(*(sums[:, [1]] for sums in class_sums(gold, predicted, num_classes)))


# by the name of the metric of which they are
OF_LABELS: Mapping[str, Callable[[Labels, Labels, int], Weighted]] = {
    metric.__name__: metric for metric in (accuracy, macro_f1, mcc, f1)
}


def label_set_macro_f1(gold: LabelSets, predicted: LabelSets) -> Weighted:
    return macro_f1_of(*_label_set_sums(gold, predicted))


def label_set_micro_f1(gold: LabelSets, predicted: LabelSets) -> Weighted:
    return micro_f1_of(*_label_set_sums(gold, predicted))


def exact_match(gold: LabelSets, predicted: LabelSets) -> Weighted:
    return mean_of((gold == predicted).all(axis=1).astype(np.float64))


def _label_set_sums(gold: LabelSets, predicted: LabelSets) -> tuple[Floats, Floats]:
    occurrences = gold.astype(np.float64) + predicted
    return (gold & predicted).astype(np.float64), occurrences


OF_LABEL_SETS: Mapping[str, Callable[[LabelSets, LabelSets], Weighted]] = {
    metric.__name__: metric for metric in (label_set_macro_f1, label_set_micro_f1, exact_match)
}


def micro_f1(gold: Labels, predicted: Labels, left_out: int) -> Weighted:
    """F1 of all classes but `left_out` together; 0 where no sample row has one of them."""
    num_classes = 1 + int(np.max([*gold, *predicted, left_out]))
    sums = class_sums(gold, predicted, num_classes)
    return micro_f1_of(*(np.delete(of, left_out, axis=1) for of in sums))


def class_sums(
    gold: Labels, predicted: Labels, num_classes: int, example_of: Labels | None = None
) -> tuple[Floats, Floats]:
    """Of each example and class the labels that are right, and those on both sides: each (n, K).

    `example_of` says of which example a label is where an example has several; every example has
    one at least.
    """
    right, of_gold, of_predicted = _one_hot(gold, predicted, num_classes)
    if example_of is None:
        return right, of_gold + of_predicted
    starts = np.flatnonzero(np.diff(np.asarray(example_of), prepend=-1))
    return (
        np.add.reduceat(right, starts, axis=0),
        np.add.reduceat(of_gold + of_predicted, starts, axis=0),
    )


def las_macro_f1(gold: Arcs, predicted: Arcs, example_of: Labels) -> Weighted:
    """KLUE's macro F1 of the labels of arcs, of words in one chain; `example_of` as above."""
    sides = las_classes(gold, predicted)
    classes, ids = np.unique(np.concatenate(sides), return_inverse=True)
    first, second = np.split(ids, 2)
    return macro_f1_of(*class_sums(first, second, len(classes), example_of))


def macro_f1_of(right: Floats, occurrences: Floats) -> Weighted:
    """Mean over classes of 2 right / occurrences, from the sums of `class_sums`. A class that is
    not in a sample is left out; nan where none is in."""

    def score(counts: Floats) -> Floats:
        scores = _ratio(2 * (counts @ right), counts @ occurrences, math.nan)
        is_counted = ~np.isnan(scores)
        total = np.where(is_counted, scores, 0.0).sum(axis=1)
        return _of_any_rows(_ratio(total, is_counted.sum(axis=1), math.nan), counts.sum(axis=1))

    return score


def micro_f1_of(right: Floats, occurrences: Floats) -> Weighted:
    """2 right / occurrences over all classes together; 0 where there is none."""
    of_all = right.sum(axis=1), occurrences.sum(axis=1)
    return lambda counts: _of_any_rows(
        _ratio(2 * (counts @ of_all[0]), counts @ of_all[1], 0.0), counts.sum(axis=1)
    )


def pearson(gold: Sequence[float] | Floats, predicted: Sequence[float] | Floats) -> Weighted:
    """Pearson's correlation; nan where a side of a sample is constant."""
    sides = [np.asarray(side, dtype=np.float64) for side in (gold, predicted)]
    # sums of squares lose digits far from 0
    centred = [side - side.mean() for side in sides]
    return lambda counts: np.where(
        _vary(counts, sides),
        _correlation(counts, [np.broadcast_to(side, counts.shape) for side in centred]),
        math.nan,
    )


def spearman(gold: Sequence[float] | Floats, predicted: Sequence[float] | Floats) -> Weighted:
    """Pearson's correlation of the ranks that the examples have in a sample."""
    sides = [np.asarray(side, dtype=np.float64) for side in (gold, predicted)]
    is_defined = not any(np.isnan(side).any() for side in sides)
    return lambda counts: np.where(
        _vary(counts, sides) & is_defined,
        _correlation(counts, [_ranks(counts, side) for side in sides]),
        math.nan,
    )


OF_VALUES: Mapping[str, Callable[[Any, Any], Weighted]] = {
    metric.__name__: metric for metric in (pearson, spearman)
}


# How well scores find planted items among others. An example has one positive item and any number
# of negative ones.


def auc(positives: Floats, negatives: Floats, owners: NDArray[np.int64]) -> Weighted:
    """The chance that a positive item has a higher score than a negative one; ties count half.
    `owners` (m,) name the examples of `negatives` (m,), `positives` (n,) are one an example."""
    order = np.argsort(negatives, kind="stable")
    ranked, owners = negatives[order], owners[order]
    below = np.searchsorted(ranked, positives, side="left")
    not_above = np.searchsorted(ranked, positives, side="right")

    def of_one(counts: Floats) -> float:
        weights = np.concatenate([[0.0], np.cumsum(counts[owners])])
        pairs = counts.sum() * weights[-1]
        wins = counts @ (weights[below] + weights[not_above]) / 2
        return float(wins / pairs) if pairs else math.nan

    return lambda counts: np.array([of_one(row) for row in counts])


def threshold_at(negatives: Floats, false_alarm_fraction: float) -> float:
    """A score above which stands this fraction of the negative items; less where they are tied."""
    return float(np.quantile(negatives, 1 - false_alarm_fraction, method="higher"))


def recall_above(positives: Floats, threshold: float) -> Weighted:
    """The fraction of positive items with a score above the threshold."""
    return mean_of((positives > threshold).astype(np.float64))


# Parts of the above.


def _ranks(counts: Floats, values: Floats) -> Floats:
    """Ranks from 1 in each sample, equal values at the mean of theirs, less their mean: (R, n)."""
    order = np.argsort(values, kind="stable")
    is_first = np.diff(values[order], prepend=math.nan) != 0  # of each group of equal values
    sizes = np.add.reduceat(counts[:, order], np.flatnonzero(is_first), axis=1)  # (R, groups)
    ranks = np.cumsum(sizes, axis=1) - (sizes - 1) / 2
    middle = (counts.sum(axis=1, keepdims=True) + 1) / 2
    group_of = np.empty(len(values), dtype=np.int64)
    group_of[order] = np.cumsum(is_first) - 1
    return np.asarray((ranks - middle)[:, group_of])


def _vary(counts: Floats, sides: Sequence[Floats]) -> NDArray[np.bool_]:
    """Whether both sides of a sample have two values at least: (R,)."""
    first, second = (
        np.where(counts > 0, side, -np.inf).max(axis=1)
        > np.where(counts > 0, side, np.inf).min(axis=1)
        for side in sides
    )
    return np.asarray(first & second)


def _correlation(counts: Floats, sides: Sequence[Floats]) -> Floats:
    total = counts.sum(axis=1)
    with np.errstate(invalid="ignore"):  # infinite values give nan
        means = [_ratio((counts * side).sum(axis=1), total, math.nan) for side in sides]
        first, second = (side - mean[:, None] for side, mean in zip(sides, means, strict=True))
        products = (counts * first * second).sum(axis=1)
        squares = [(counts * side**2).sum(axis=1) for side in (first, second)]
        correlation = _ratio(products, np.sqrt(squares[0]) * np.sqrt(squares[1]), math.nan)
    return np.clip(correlation, -1.0, 1.0)


def _one_hot(gold: Labels, predicted: Labels, num_classes: int) -> tuple[Floats, Floats, Floats]:
    """Right labels, gold and predicted ones, each (labels, K) of 0 and 1."""
    gold, predicted = checked(gold, predicted)
    classes = np.eye(num_classes)
    of_gold, of_predicted = classes[gold], classes[predicted]
    return of_gold * of_predicted, of_gold, of_predicted


def _of_any_rows(scores: Floats, num_rows: Floats) -> Floats:
    return np.where(num_rows > 0, scores, math.nan)


def _ratio(part: Floats, whole: Floats | NDArray[np.int64], undefined: float) -> Floats:
    """`part` / `whole`, and `undefined` where that is 0."""
    return np.where(whole != 0, part / np.where(whole != 0, whole, 1), undefined)
