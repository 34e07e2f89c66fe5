"""A detector that knows finds everything, one that guesses finds as much as chance."""

import numpy as np
import pytest

from benchmarks.korean.morphemes import word_spans
from benchmarks.proofreading.measure import ALL, collect, rows_of
from benchmarks.proofreading.plant import Planted

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
    rows = rows_of({"keyboard": planted}, {"knowing": knowing, "guessing": guessing})
    return {(row.rule, row.detector, row.metric): row for row in rows}


def test_the_one_that_knows(figures):
    for metric in ("auc", "paired", "recall at 1%", "precision at 1%", "precision at 5%"):
        row = figures[ALL, "knowing", metric]
        assert (row.value, row.low, row.high) == (1, 1, 1)
        assert row.num_sentences == 60


def test_the_one_that_guesses(figures):
    for metric in ("auc", "paired"):
        row = figures[ALL, "guessing", metric]
        assert row.low < 0.5 < row.high
    assert figures[ALL, "guessing", "recall at 5%"].value < 0.2
    # one mistake among eight words
    assert figures[ALL, "guessing", "precision at 5%"].value < 0.5


def test_rules_and_differences(figures):
    assert {figures[rule, "knowing", "auc"].num_sentences for rule in ("odd", "even")} == {30}
    gap = figures[ALL, "knowing - guessing", "auc"]
    assert gap.value == pytest.approx(1 - figures[ALL, "guessing", "auc"].value)
    assert gap.low > 0


def test_a_mistake_has_the_highest_score_of_its_words():
    mistake = Planted("added-space", "added", "가나 다라", "가 나 다라", (0, 2), (0, 3))
    words = {"가 나 다라": np.array([1.0, 5, 2]), "가나 다라": np.array([3.0, 4])}
    scores = collect([mistake], words)
    assert (scores.mistakes, scores.twins, scores.others.tolist()) == (5, 3, [2])
