"""AUC, recall and precision of planted items equal brute force on the examples repeated."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from benchmarks.metrics.weighted import auc, recall_above, threshold_at

NUM_EXAMPLES = 19


@pytest.fixture
def rng():
    return np.random.default_rng(5)


@pytest.fixture
def items(rng):
    """Scores with many ties, negatives in any order."""
    owners = rng.permutation(np.repeat(np.arange(NUM_EXAMPLES), rng.integers(1, 6, NUM_EXAMPLES)))
    return rng.integers(0, 5, NUM_EXAMPLES) * 1.0, rng.integers(0, 4, len(owners)) * 1.0, owners


@pytest.fixture
def counts(rng):
    return rng.multinomial(NUM_EXAMPLES, [1 / NUM_EXAMPLES] * NUM_EXAMPLES, 30) * 1.0


def test_auc_is_that_of_scikit_learn(items, counts):
    positives, negatives, owners = items
    for row, score in zip(counts, auc(*items)(counts), strict=True):
        weights = np.concatenate([row, row[owners]])
        labels = np.repeat([1, 0], [len(positives), len(negatives)])
        scores = np.concatenate([positives, negatives])
        assert score == pytest.approx(roc_auc_score(labels, scores, sample_weight=weights))


def test_auc_with_several_positives_an_example(items, counts):
    _, negatives, owners = items
    positives = negatives[::-1]
    for row, score in zip(counts, auc(positives, negatives, owners, owners)(counts), strict=True):
        wins = [
            row[owners[i]] * row[owners[j]] * ((p > n) + 0.5 * (p == n))
            for i, p in enumerate(positives)
            for j, n in enumerate(negatives)
        ]
        assert score == pytest.approx(sum(wins) / row[owners].sum() ** 2)


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
