"""Kneser-Ney's probabilities add up to one, and are those of the formula."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from benchmarks.proofreading.bigram import Bigrams

NUM_IDS = 6
ROWS = [np.array(row) for row in ([0, 1, 2, 1, 2, 3], [0, 1, 2, 4], [0, 2, 1], [3])]


def probabilities(model: Bigrams, first: int) -> np.ndarray:
    return np.array([np.exp(-model.surprisals(np.array([first, b]))[0]) for b in range(NUM_IDS)])


def test_they_are_a_distribution():
    model = Bigrams(ROWS, NUM_IDS)
    for first in range(NUM_IDS):  # 5 is not in the text, nothing follows 4
        found = probabilities(model, first)
        assert found.sum() == pytest.approx(1)
        assert (found > 0).all()


def test_they_are_those_of_the_formula():
    model = Bigrams(ROWS, NUM_IDS)
    pairs = Counter(tuple(map(int, pair)) for row in ROWS for pair in pairwise(row))
    once, twice = (sum(c == n for c in pairs.values()) for n in (1, 2))
    discount = once / (once + 2 * twice)
    for a in (0, 1, 2, 3):
        behind = {b: c for (first, b), c in pairs.items() if first == a}
        if not behind:
            continue
        total = sum(behind.values())
        for b, found in enumerate(probabilities(model, a)):
            different = sum(second == b for _, second in pairs) + 1
            lower = different / (len(pairs) + NUM_IDS)
            upper = max(behind.get(b, 0) - discount, 0) / total
            assert found == pytest.approx(upper + discount * len(behind) / total * lower)


def test_rarities_and_empty_text():
    model = Bigrams(ROWS, NUM_IDS)
    common, rare = model.rarities(np.array([0, 1, 5]))
    assert common < rare
    with pytest.raises(ValueError, match="no pair of pieces"):
        Bigrams([np.array([1])], NUM_IDS)
