"""Metrics beside brute force: quirks of the official code, and corrections."""

import math
import random

import numpy as np
import pytest
from sklearn.metrics import auc, precision_recall_curve

from benchmarks.metrics import labels as metrics
from benchmarks.metrics import tags as tagging
from benchmarks.metrics.reading import rouge_w
from benchmarks.metrics.structured import Arcs, las, las_macro_f1, pooled_slot_f1

NER_LABELS = ("B-PS", "I-PS", "B-LC", "I-LC", "O")


def test_correlations_without_a_value_are_nan():
    for correlation in (metrics.pearson, metrics.spearman):
        for constant in (0.1, 2.5):  # the mean of 0.1 seven times is not 0.1
            assert math.isnan(correlation(np.arange(7.0), [constant] * 7))
        assert math.isnan(correlation([1.0, 2.0, 3.0], [1.0, math.nan, 2.0]))
    infinite = [math.inf, 1.0, 2.0]
    assert math.isnan(metrics.pearson([1.0, 2.0, 3.0], infinite))
    assert metrics.spearman([1.0, 2.0, 3.0], infinite) == pytest.approx(-0.5)


def brute_force_entities(tags, is_lenient):
    """Every stretch, taken as an entity if its labels and its neighbours make it one."""
    found = set()
    for start in range(len(tags)):
        for end in range(start + 1, len(tags) + 1):
            kind = tags[start][2:]
            first = tags[start][0] == "B" or (
                is_lenient
                and tags[start][0] == "I"
                and (start == 0 or tags[start - 1] not in (f"B-{kind}", f"I-{kind}"))
            )
            goes_on = all(tag == f"I-{kind}" for tag in tags[start + 1 : end])
            if first and goes_on and (end == len(tags) or tags[end] != f"I-{kind}"):
                found.add((kind, start, end))
    return found


def test_entities_are_those_of_brute_force():
    rng = np.random.default_rng(0)
    for _ in range(200):
        tags = [NER_LABELS[n] for n in rng.choice([0, 1, 2, 3, -1], 12)]
        for is_lenient in (True, False):
            expected = brute_force_entities(tags, is_lenient)
            assert tagging.entities(tags, is_lenient=is_lenient) == expected


def test_the_area_without_no_relation_is_the_mean_over_the_other_labels():
    rng = np.random.default_rng(3)
    gold, scores = rng.integers(0, 5, 80), rng.random((80, 5))
    curves = [precision_recall_curve(gold == label, scores[:, label]) for label in range(1, 5)]
    expected = np.mean([auc(recall, precision) for precision, recall, _ in curves])
    assert metrics.auprc_without_no_relation(gold, scores) == pytest.approx(expected)


def test_a_wrong_head_is_officially_a_class_of_its_own_and_slot_f1_a_mean_over_turns():
    """Beside them the usual scores, which no official script has."""
    gold = Arcs([2, 0, 2, 3, 0], [0, 2, 3, 5, 2])
    wrong = Arcs([2, 0, 3, 3, 0], [0, 2, 3, 5, 2])
    assert las(gold, wrong) == pytest.approx(0.8)
    # classes 0, 2, 5 are right, 3 is missed, that of wrong heads is never gold
    assert las_macro_f1(gold, wrong) == pytest.approx(3 / 5)
    states = [[], ["a-b-1"], ["a-b-1", "a-c-2", "a-d-3"]]
    assert pooled_slot_f1(states, [[], ["a-b-9"], ["a-b-1", "a-c-2"]]) == pytest.approx(4 / (4 + 3))


def test_of_long_answers_frequent_characters_are_not_looked_for():
    text = "".join(random.Random(0).choices("가나다라마바사", k=250))
    prediction = text[40:210]  # a substring of 170 characters
    assert rouge_w(prediction, text) == 0.0
    expected = 2 * 170 / (170 + 250)
    assert rouge_w(prediction, text, autojunk=False) == pytest.approx(expected)
    # one character less than 200, and it is found
    assert rouge_w(prediction, text[40:239]) == pytest.approx(2 * 170 / (170 + 199))
