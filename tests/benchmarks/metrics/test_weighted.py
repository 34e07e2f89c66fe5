"""A metric of counted examples is the metric of the examples repeated as often."""

import math

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from benchmarks.metrics import labels, weighted
from benchmarks.metrics.weighted import auc, recall_above, threshold_at
from benchmarks.tasks.registry import TASKS
from tests.benchmarks.records import lines_of

NUM_EXAMPLES, NUM_SAMPLES = 23, 40


@pytest.fixture
def rng():
    return np.random.default_rng(3)


@pytest.fixture
def counts(rng):
    """Many samples, among them one of a single example and one of two."""
    found = rng.multinomial(NUM_EXAMPLES, [1 / NUM_EXAMPLES] * NUM_EXAMPLES, NUM_SAMPLES)
    found[0] = 0
    found[0, 4] = NUM_EXAMPLES
    found[1] = 0
    found[1, [2, 7]] = 3, 20
    return found.astype(np.float64)


def repeated(values, row):
    return np.repeat(values, row.astype(int), axis=0)


@pytest.mark.parametrize("name", weighted.OF_LABELS)
@pytest.mark.parametrize("num_classes", [2, 3, 7])
def test_metrics_of_labels(name, num_classes, rng, counts):
    gold, predicted = rng.integers(0, num_classes, (2, NUM_EXAMPLES))
    if num_classes == 3:  # of which one alone is predicted
        predicted = np.zeros(NUM_EXAMPLES, dtype=int)
    found = weighted.OF_LABELS[name](gold, predicted, num_classes)(counts)
    metric = getattr(labels, name)
    expected = [metric(repeated(gold, row), repeated(predicted, row)) for row in counts]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", weighted.OF_VALUES)
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_correlations(name, offset, rng, counts):
    gold = rng.integers(0, 6, NUM_EXAMPLES) + offset  # ties
    predicted = np.round(rng.normal(gold), 1)
    found = weighted.OF_VALUES[name](gold, predicted)(counts)
    metric = getattr(labels, name)
    expected = [metric(repeated(gold, row), repeated(predicted, row)) for row in counts]
    assert math.isnan(found[0])  # a sample of one example is constant
    assert np.isfinite(found[2:]).all()
    np.testing.assert_allclose(found, expected, rtol=1e-9, equal_nan=True)


@pytest.mark.parametrize("name", weighted.OF_LABEL_SETS)
@pytest.mark.parametrize("num_labels", [1, 5])
def test_metrics_of_label_sets(name, num_labels, rng, counts):
    gold, predicted = rng.random((2, NUM_EXAMPLES, num_labels)) < 0.3
    found = weighted.OF_LABEL_SETS[name](gold, predicted)(counts)
    metric = getattr(labels, name)
    expected = [metric(*(repeated(side, row) for side in (gold, predicted))) for row in counts]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_a_sample_without_examples_is_undefined():
    none = np.zeros((1, 4))
    labels = np.array([0, 1, 1, 0])
    for metric in weighted.OF_LABELS.values():
        assert np.isnan(metric(labels, labels, 2)(none)).all()
    assert np.isnan(weighted.micro_f1(labels, labels, 0)(none)).all()
    for metric in weighted.OF_VALUES.values():
        assert np.isnan(metric(labels, labels)(none)).all()


@pytest.mark.parametrize("name", TASKS)
def test_the_headline_of_every_task_has_a_fast_way(name, rng, counts):
    task = TASKS[name]
    lines = lines_of(task, rng, NUM_EXAMPLES)
    score = task.weighted_score(lines)
    found = score(counts[:8])
    for row, value in zip(counts, found, strict=False):
        drawn = [line for line, n in zip(lines, row, strict=True) for _ in range(int(n))]
        drawn = [{**line, "id": str(n)} for n, line in enumerate(drawn)]
        assert value == pytest.approx(task.score(drawn)[task.headline], rel=1e-9, nan_ok=True)


# Planted items among others.


@pytest.fixture
def items(rng):
    """Scores with many ties, negatives in any order."""
    owners = rng.permutation(np.repeat(np.arange(NUM_EXAMPLES), rng.integers(1, 6, NUM_EXAMPLES)))
    return rng.integers(0, 5, NUM_EXAMPLES) * 1.0, rng.integers(0, 4, len(owners)) * 1.0, owners


def test_auc_is_that_of_scikit_learn(items, counts):
    positives, negatives, owners = items
    for row, score in zip(counts, auc(*items)(counts), strict=True):
        weights = np.concatenate([row, row[owners]])
        labels = np.repeat([1, 0], [len(positives), len(negatives)])
        scores = np.concatenate([positives, negatives])
        assert score == pytest.approx(roc_auc_score(labels, scores, sample_weight=weights))


def test_recall_is_that_of_the_sample(items, counts):
    positives, _, _ = items
    for row, recall in zip(counts, recall_above(positives, 1.0)(counts), strict=True):
        assert recall == pytest.approx((row * (positives > 1)).sum() / row.sum())


@pytest.mark.parametrize("share", [0.01, 0.05, 0.3])
def test_the_share_is_above_the_threshold_but_for_one_item_and_ties(share, rng):
    for scores in (rng.normal(size=997), rng.integers(0, 7, 500) * 1.0):
        threshold = threshold_at(scores, share)
        assert (scores > threshold).mean() <= share
        assert (scores >= threshold).mean() >= share - 1 / len(scores)
