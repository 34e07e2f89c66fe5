"""The TF-IDF baseline learns what texts say, chooses by the score it is given, and fits exactly."""

from itertools import product

import numpy as np
import pytest
from scipy.sparse import random_array, vstack
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

from benchmarks.finetune.bag_of_words import (
    ANALYZERS,
    CHOICES,
    STRENGTHS,
    WEIGHTS,
    Choice,
    Learner,
    bag_of_words,
)
from benchmarks.metrics.labels import macro_f1

WORDS = ["alpha", "beta", "gamma", "delta", "rho", "sigma", "tau", "phi", "chi", "psi"]


def texts(rng, num, length=6):
    return [" ".join(rng.choice(WORDS, length)) for _ in range(num)]


def learn(rows, labels, predicted, num_labels, seed=0, metric=lambda a, b: (a == b).mean()):
    """Chosen by accuracy unless another metric is given."""

    def score(positions, probabilities):
        return metric(labels[positions], probabilities.argmax(1))

    return bag_of_words(rows, labels, predicted, num_labels, seed, score)


def accuracy(learnt, labels, others, gold, num_labels=2):
    probabilities, choice = learn(learnt, labels, {"dev": others}, num_labels)
    assert choice in CHOICES
    assert probabilities["dev"].sum(1) == pytest.approx(1.0)
    return float((probabilities["dev"].argmax(1) == gold).mean())


def test_a_word_that_decides_is_found_and_noise_is_not():
    rng = np.random.default_rng(0)
    rows = [(text,) for text in texts(rng, 400)]
    by_word = np.array([int("tau" in row[0]) for row in rows])
    by_chance = rng.integers(0, 2, 400)
    assert accuracy(rows[:200], by_word[:200], rows[200:], by_word[200:]) > 0.95
    assert accuracy(rows[:200], by_chance[:200], rows[200:], by_chance[200:]) < 0.65


def test_of_a_pair_what_stands_in_both_counts():
    rng = np.random.default_rng(0)
    first = texts(rng, 400, 3)
    pairs = [
        (a, a if rng.random() < 0.5 else b) for a, b in zip(first, texts(rng, 400, 3), strict=True)
    ]
    same = np.array([int(a == b) for a, b in pairs])
    assert accuracy(pairs[:300], same[:300], pairs[300:], same[300:]) > 0.85


def test_the_metric_of_the_task_decides():
    """A rare label: accuracy likes the frequent one, macro F1 weighs the classes."""
    rng = np.random.default_rng(0)
    labels = (rng.random(300) < 0.1).astype(np.int64)
    # "tau" stands in most rows of the rare label, and in three of ten of the frequent one
    has_word = rng.random(300) < np.where(labels == 1, 0.8, 0.3)
    rows = [
        (f"{text.replace('tau', 'rho')} {'tau' if has else ''}",)
        for text, has in zip(texts(rng, 300), has_word, strict=True)
    ]
    assert learn(rows, labels, {}, 2)[1].class_weight is None
    assert learn(rows, labels, {}, 2, metric=macro_f1)[1].class_weight == "balanced"


@pytest.mark.parametrize("num_classes", [2, 4])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_coordinates_in_the_span_of_the_rows_give_the_same_model(
    num_classes, class_weight, monkeypatch
):
    monkeypatch.setattr("benchmarks.finetune.bag_of_words._MANY_LABELS", num_classes)
    rng = np.random.default_rng(0)
    features = random_array((50, 500), density=0.1, format="csr", rng=rng)
    features = normalize(vstack([features, features[:10]], format="csr"))  # of rank 50
    others = normalize(random_array((20, 500), density=0.1, format="csr", rng=rng))
    labels = np.minimum(rng.integers(0, 2 * num_classes, 60), num_classes - 1)  # uneven
    for strength in (0.1, 16.0):
        learner = Learner(features, labels)
        assert learner.is_rotated
        plain = LogisticRegression(C=strength, class_weight=class_weight, max_iter=1000, tol=1e-8)
        plain.fit(features, labels)
        found = learner.model(Choice("words", class_weight, strength), 1e-8)
        assert found.coef_ == pytest.approx(plain.coef_, abs=1e-4)
        probabilities = found.predict_proba(others), plain.predict_proba(others)
        assert probabilities[0] == pytest.approx(probabilities[1], abs=1e-5)


def test_labels_keep_their_places_and_unseen_ones_have_no_chance():
    learnt, labels = [("a b",), ("c d",)] * 20, np.array([3, 1] * 20)
    found, _ = learn(learnt, labels, {"dev": [("a b",), ("c d",)], "none": []}, 5)
    assert found["dev"].argmax(1).tolist() == [3, 1]
    assert not found["dev"][:, [0, 2, 4]].any()
    assert found["none"].shape == (0, 5)
    one, _ = learn(learnt, np.full(40, 2), {"dev": [("x",)]}, 5)
    assert one["dev"].tolist() == [[0, 0, 1, 0, 0]]


@pytest.mark.parametrize("number", [0, 5, 7])
def test_the_highest_score_is_chosen(number):
    """Three analyzers and two weights, then two further C for the best of them."""
    rows, labels = [("a b",), ("c d",)] * 20, np.array([0, 1] * 20)
    asked = []

    def score(positions, probabilities):
        asked.append(sorted(positions.tolist()) == list(range(40)))
        return float(len(asked) == number + 1)

    chosen = bag_of_words(rows, labels, {}, 2, 0, score)[1]
    assert asked == [True] * 8
    tried = [Choice(a, w, STRENGTHS[0]) for a, w in product(ANALYZERS, WEIGHTS)]
    assert chosen == [*tried, *(tried[0]._replace(C=c) for c in STRENGTHS[1:])][number]
