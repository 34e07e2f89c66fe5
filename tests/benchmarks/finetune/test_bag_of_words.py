"""The floor learns what words say, of pairs what stands in both, and nothing where nothing is."""

import numpy as np
import pytest

from benchmarks.finetune.bag_of_words import ANALYZERS, STRENGTHS, bag_of_words

WORDS = ["alpha", "beta", "gamma", "delta", "rho", "sigma", "tau", "phi", "chi", "psi"]


def texts(rng, num, length=6):
    return [" ".join(rng.choice(WORDS, length)) for _ in range(num)]


def accuracy(learnt, labels, others, gold, num_labels=2):
    found = bag_of_words(learnt, labels, {"dev": others}, num_labels, seed=0)
    assert found.analyzer in ANALYZERS
    assert found.strength in STRENGTHS
    assert found.probabilities["dev"].sum(1) == pytest.approx(1.0)
    return float((found.probabilities["dev"].argmax(1) == gold).mean())


def test_a_word_that_decides_is_found_and_noise_is_not():
    rng = np.random.default_rng(0)
    rows = [(text,) for text in texts(rng, 600)]
    by_word = np.array([int("tau" in row[0]) for row in rows])
    by_chance = rng.integers(0, 2, 600)
    assert accuracy(rows[:400], by_word[:400], rows[400:], by_word[400:]) > 0.95
    assert accuracy(rows[:400], by_chance[:400], rows[400:], by_chance[400:]) < 0.65


def test_of_a_pair_what_stands_in_both_counts():
    rng = np.random.default_rng(0)
    first = texts(rng, 900, 3)
    pairs = [
        (a, a if rng.random() < 0.5 else b) for a, b in zip(first, texts(rng, 900, 3), strict=True)
    ]
    same = np.array([int(a == b) for a, b in pairs])
    assert accuracy(pairs[:600], same[:600], pairs[600:], same[600:]) > 0.85


def test_of_few_rows_the_choice_does_not_hang_on_the_seed():
    """Stems that hardly come twice, and an ending that says the label eight times of ten."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 150)
    heard = np.where(rng.random(150) < 0.8, labels, 1 - labels)
    rows = [
        (f"{''.join(rng.choice(list('bcdfghjklm'), 4))}{('aaa', 'oeo')[ending]}",)
        for ending in heard
    ]
    chosen = {bag_of_words(rows, labels, {}, 2, seed=seed).analyzer for seed in range(8)}
    assert chosen == {"characters"}


def test_labels_keep_their_places_and_unseen_ones_have_no_chance():
    learnt, labels = [("a b",), ("c d",)] * 20, np.array([3, 1] * 20)
    found = bag_of_words(learnt, labels, {"dev": [("a b",), ("c d",)], "none": []}, 5, seed=0)
    assert found.probabilities["dev"].argmax(1).tolist() == [3, 1]
    assert not found.probabilities["dev"][:, [0, 2, 4]].any()
    assert found.probabilities["none"].shape == (0, 5)
    one = bag_of_words(learnt, np.full(40, 2), {"dev": [("x",)]}, 5, seed=0)
    assert one.probabilities["dev"].tolist() == [[0, 0, 1, 0, 0]]


def test_the_same_rows_give_the_same_probabilities():
    rng = np.random.default_rng(0)
    rows, labels = [(text,) for text in texts(rng, 80)], rng.integers(0, 3, 80)
    first, second = (bag_of_words(rows, labels, {"dev": rows}, 3, seed=1) for _ in range(2))
    assert (first.probabilities["dev"] == second.probabilities["dev"]).all()
