"""Metrics of labels, numbers and tags: by counting, by formulas, and where they are undefined."""

import math

import numpy as np
import pytest

from benchmarks.metrics import labels as metrics
from benchmarks.metrics import tags as tagging


@pytest.mark.parametrize(
    "metric",
    [metrics.accuracy, metrics.macro_f1, metrics.mcc, metrics.f1, metrics.mean_of_accuracy_and_f1],
)
def test_no_rows_are_nan_and_unequal_rows_refused(metric):
    assert math.isnan(metric([], []))
    with pytest.raises(ValueError, match=r"\(2,\) and predictions \(1,\)"):
        metric([0, 1], [0])


def test_correlations_without_a_value_are_nan_or_refused():
    for constant in (0.1, 2.5):  # the mean of 0.1 seven times is not 0.1
        assert math.isnan(metrics.pearson(np.arange(7.0), [constant] * 7))
        assert math.isnan(metrics.spearman(np.arange(7.0), [constant] * 7))
    assert math.isnan(metrics.pearson([1.0, 2.0, 3.0], [1.0, math.nan, 2.0]))
    assert math.isnan(metrics.spearman([1.0, 2.0, 3.0], [1.0, math.nan, 2.0]))
    assert math.isnan(metrics.spearman([1.0], [1.0]))
    with pytest.raises(ValueError, match="needs two rows or more, not 1"):
        metrics.pearson([1.0], [1.0])
    with pytest.raises(ValueError, match=r"\(2,\) and predictions \(1,\)"):
        metrics.pearson([1.0, 2.0], [1.0])
    infinite = [math.inf, 1.0, 2.0]
    assert math.isnan(metrics.pearson([1.0, 2.0, 3.0], infinite))
    assert metrics.spearman([1.0, 2.0, 3.0], infinite) == pytest.approx(-0.5)


O = len(tagging.NER_LABELS) - 1  # noqa: E741
B_PS, I_PS, B_LC, I_LC = range(4)


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
        tags = [tagging.NER_LABELS[n] for n in rng.choice([0, 1, 2, 3, O], 12)]
        assert tagging.entities(tags, is_lenient=True) == brute_force_entities(
            tags, is_lenient=True
        )
        assert tagging.entities(tags) == brute_force_entities(tags, is_lenient=False)


def test_macro_f1_of_characters_counts_o_and_absent_labels():
    gold, predicted = [B_PS, I_PS, O, O], [B_PS, O, O, O]
    f1_of_o = 2 * 2 / (2 + 3)
    assert tagging.character_macro_f1(gold, predicted) == pytest.approx((1 + 0 + f1_of_o + 10) / 13)
    assert math.isnan(tagging.character_macro_f1([], []))
