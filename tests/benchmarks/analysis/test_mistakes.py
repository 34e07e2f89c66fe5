"""A detector that knows finds everything, one that guesses finds as much as chance."""

import re
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from benchmarks.analysis.korean import word_spans
from benchmarks.analysis.mistakes import Bigrams, by_word, figures_of, marked_lines
from benchmarks.analysis.plant import Planted
from benchmarks.analysis.reader import TokenizedText

WORDS = ["하나", "둘", "셋", "넷", "다섯", "여섯"]


def make_planted(count: int, draw: np.random.Generator) -> list[Planted]:
    found = []
    for number in range(count):
        words = [f"{draw.choice(WORDS)}{number}" for _ in range(8)]
        place = int(draw.integers(8))
        wrong = [*words[:place], "틀린" + words[place], *words[place + 1 :]]
        start = len(" ".join(words[:place])) + (place > 0)
        clean, text = " ".join(words), " ".join(wrong)
        rule = "odd" if number % 2 else "even"
        before, after = (start, start + len(words[place])), (start, start + len(wrong[place]))
        found.append(Planted("keyboard", rule, clean, text, before, after))
    return found


@pytest.fixture(scope="module")
def figures():
    draw = np.random.default_rng(0)
    planted = make_planted(60, draw)
    texts = {text for p in planted for text in (p.clean, p.text)}
    knowing = {text: np.array([1.0 * ("틀린" in word) for word in text.split()]) for text in texts}
    guessing = {text: draw.normal(size=len(word_spans(text))) for text in sorted(texts)}
    rows = figures_of({"keyboard": planted}, {"knowing": knowing, "guessing": guessing})
    return {(row.detector, row.metric): row for row in rows}


def test_the_one_that_knows(figures):
    for metric in ("auc", "recall at 1%"):
        row = figures["knowing", metric]
        assert (row.estimate.value, row.estimate.low, row.estimate.high) == (1, 1, 1)
        assert row.num_sentences == 60


def test_the_one_that_guesses(figures):
    estimate = figures["guessing", "auc"].estimate
    assert estimate.low < 0.5 < estimate.high
    assert figures["guessing", "recall at 1%"].estimate.value < 0.2


def test_a_mistake_has_the_highest_score_of_its_words():
    mistake = Planted("added-space", "added", "가나 다라", "가 나 다라", (0, 2), (0, 3))
    for second, wins in ((5.0, 1), (0.5, 0)):  # beside 2
        words = {"가 나 다라": np.array([1.0, second, 2]), "가나 다라": np.array([1.0, 4])}
        figures = figures_of({"added-space": [mistake]}, {"planted": words})
        assert {row.metric: row.estimate.value for row in figures}["auc"] == wins


def test_a_word_has_the_highest_score_of_its_pieces():
    spans = [(0, 1), (1, 2), (2, 5), (5, 6), (6, 8)]  # the space may belong to the piece behind it
    text = TokenizedText("국회 증시가 국", np.arange(5), spans, [0, 0, 1, 1, 2])
    assert by_word(
        text,
        np.array([1.0, 3, 2, 0, -1]),
    ).tolist() == [3, 2, -1]


# Kneser-Ney's probabilities add up to one, and are those of the formula.

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


SHIPPED = "model/shipped/ko-tiny/discriminator"


@pytest.fixture(scope="module")
def lines() -> list[str]:
    return marked_lines(SHIPPED, "ko")


def test_the_shipped_encoder_finds_wrong_particles_and_misses_exchanged_words(lines: list[str]):
    fractions = []
    for line in lines[1::2]:
        found = re.match(r"(\d+) of (\d+) ", line)
        assert found
        fractions.append(int(found[1]) / int(found[2]))
    particles, words = fractions
    assert particles > 0.8
    assert words < 0.4
