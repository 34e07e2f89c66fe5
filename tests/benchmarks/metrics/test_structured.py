"""Metrics of relations, trees and dialogue states: quirks of the official code, and corrections."""

import math

import numpy as np
import pytest

from benchmarks.metrics.labels import auprc, auprc_absent_as_half, auprc_without_no_relation
from benchmarks.metrics.structured import (
    Arcs,
    joint_goal_acc,
    las,
    las_macro_f1,
    las_macro_f1_without_wrong_head_class,
    las_micro_f1,
    pooled_slot_f1,
    slot_micro_f1,
    uas_macro_f1,
    uas_micro_f1,
)


def random_relations(num_labels=5, count=80):
    rng = np.random.default_rng(3)
    gold = rng.integers(0, num_labels, count)
    scores = rng.random((count, num_labels)) + 0.5 * np.eye(num_labels)[gold]
    return gold, scores / scores.sum(axis=1, keepdims=True)


def test_a_label_without_gold_rows_makes_the_area_undefined():
    gold, probabilities = random_relations()
    rows = gold != 2
    gold, probabilities = gold[rows], probabilities[rows]
    assert math.isnan(auprc(gold, probabilities))
    left = [0, 1, 3, 4]
    renumbered = np.searchsorted(left, gold)
    mean_of_left = auprc(renumbered, probabilities[:, left])
    assert auprc_absent_as_half(gold, probabilities) == pytest.approx((4 * mean_of_left + 0.5) / 5)
    assert auprc_without_no_relation(gold, probabilities) == pytest.approx(
        auprc_without_no_relation(renumbered, probabilities[:, left])
    )


def test_one_wrong_head_adds_a_class_of_its_own():
    gold = Arcs([2, 0, 2, 3, 0], [0, 2, 3, 5, 2])
    wrong = Arcs([2, 0, 3, 3, 0], [0, 2, 3, 5, 2])
    assert las_micro_f1(gold, wrong) == las(gold, wrong) == pytest.approx(0.8)
    # classes 0, 2, 5 are right, 3 is missed, that of wrong heads is never gold
    assert las_macro_f1(gold, wrong) == pytest.approx(3 / 5)
    assert las_macro_f1_without_wrong_head_class(gold, wrong) == pytest.approx(3 / 4)
    # heads as classes: 0 right, 2 once of twice, 3 once beside a false one
    assert uas_macro_f1(gold, wrong) == pytest.approx((1 + 2 / 3 + 2 / 3) / 3)
    assert uas_micro_f1(gold, wrong) == pytest.approx(0.8)


GOLD = [[], ["a-b-1"], ["a-b-1", "a-c-2", "a-d-3"]]


def test_slot_f1_is_officially_a_mean_over_turns():
    predicted = [[], ["a-b-9"], ["a-b-1", "a-c-2"]]
    of_last = 2 * 1.0 * (2 / 3) / (1.0 + 2 / 3)
    assert slot_micro_f1(GOLD, predicted) == pytest.approx((1 + 0 + of_last) / 3)
    assert pooled_slot_f1(GOLD, predicted) == pytest.approx(2 * 2 / (4 + 3))
    assert joint_goal_acc(GOLD, predicted) == pytest.approx(1 / 3)
