"""The TF-IDF baseline learns what texts say, chooses by the score it is given, and fits exactly."""

import numpy as np
import pytest

from benchmarks.training.bag_of_words import GRID, bag_of_words

WORDS = ["alpha", "beta", "gamma", "delta", "rho", "sigma", "tau", "phi", "chi", "psi"]


@pytest.fixture(autouse=True)
def one_fold(monkeypatch, request):
    """All but the test of what is held out choose on one fold."""
    if "chosen" not in request.fixturenames:
        monkeypatch.setattr("benchmarks.training.bag_of_words._ENOUGH_HELD_OUT", 1)


def texts(rng, num, length=6):
    return [" ".join(rng.choice(WORDS, length)) for _ in range(num)]


def learn(rows, labels, predicted, num_labels):
    """Chosen by accuracy."""

    def score(positions, probabilities):
        return (labels[positions] == probabilities.argmax(1)).mean()

    return bag_of_words(rows, labels, predicted, num_labels, 0, score)


def accuracy(learnt, labels, others, gold, num_labels=2):
    probabilities, choice = learn(learnt, labels, {"dev": others}, num_labels)
    assert choice["ngrams__analyzer"] in GRID["ngrams__analyzer"]
    assert probabilities["dev"].sum(1) == pytest.approx(1.0)
    return float((probabilities["dev"].argmax(1) == gold).mean())


def test_a_word_that_decides_is_found_and_noise_is_not():
    rng = np.random.default_rng(0)
    rows = [(text,) for text in texts(rng, 300)]
    by_word = np.array([int("tau" in row[0]) for row in rows])
    by_chance = rng.integers(0, 2, 300)
    assert accuracy(rows[:100], by_word[:100], rows[100:], by_word[100:]) > 0.95
    assert accuracy(rows[:100], by_chance[:100], rows[100:], by_chance[100:]) < 0.65


def test_of_a_pair_what_stands_in_both_counts():
    rng = np.random.default_rng(0)
    drawn = zip(texts(rng, 300, 3), texts(rng, 300, 3), strict=True)
    pairs = [(a, a if rng.random() < 0.5 else b) for a, b in drawn]
    same = np.array([int(a == b) for a, b in pairs])
    assert accuracy(pairs[:150], same[:150], pairs[150:], same[150:]) > 0.8


def test_labels_keep_their_places_and_unseen_ones_have_no_chance():
    learnt, labels = [("a b",), ("c d",)] * 20, np.array([3, 1] * 20)
    found, _ = learn(learnt, labels, {"dev": [("a b",), ("c d",)], "none": []}, 5)
    assert found["dev"].argmax(1).tolist() == [3, 1]
    assert not found["dev"][:, [0, 2, 4]].any()
    assert found["none"].shape == (0, 5)
    one, _ = learn(learnt, np.full(40, 2), {"dev": [("x",)]}, 5)
    assert one["dev"].tolist() == [[0, 0, 1, 0, 0]]


@pytest.mark.parametrize(
    ("number", "chosen"), [(3, ("characters", "balanced", 16.0)), (8, ("words", None, 64.0))]
)
def test_the_highest_score_is_chosen_on_rows_that_are_held_out(number, chosen):
    """Three analyzers and two weights, then C for the best of them."""
    rows, labels = [("a b",), ("c d",)] * 20, np.array([0, 1] * 20)
    asked = []

    def score(positions, probabilities):
        asked.append(sorted(positions.tolist()) == list(range(40)))
        return float(len(asked) == number + 1)

    found = bag_of_words(rows, labels, {}, 2, 0, score)[1]
    assert asked == [True] * 9
    names = ("ngrams__analyzer", "model__class_weight", "model__C")
    assert tuple(found[name] for name in names) == chosen
