"""KorQuAD's and KLUE-MRC's scores: single pairs by hand, substrings by brute force."""

import math
import random

import pytest

from benchmarks.metrics import korean_reading


def longest_common(first: str, second: str) -> int:
    return max(
        (
            end - start
            for start in range(len(first))
            for end in range(start, len(first) + 1)
            if first[start:end] in second
        ),
        default=0,
    )


def test_rouge_w_is_the_f1_of_the_longest_common_substring():
    rng = random.Random(0)
    for _ in range(40):
        first, second = ("".join(rng.choices("가나다라 ", k=rng.randint(1, 20))) for _ in range(2))
        a, b = korean_reading.normalize_klue(first), korean_reading.normalize_klue(second)
        size = longest_common(a, b)
        expected = 2 * size / (len(a) + len(b)) if a and b else float(a == b)
        assert korean_reading.rouge_w(first, second) == pytest.approx(expected)
        assert korean_reading.rouge_w(first, second, autojunk=False) == pytest.approx(expected)


def test_of_long_answers_frequent_characters_are_not_looked_for():
    text = "".join(random.Random(0).choices("가나다라마바사", k=250))
    prediction = text[40:210]  # a substring of 170 characters
    assert korean_reading.rouge_w(prediction, text) == 0.0
    expected = 2 * 170 / (170 + 250)
    assert korean_reading.rouge_w(prediction, text, autojunk=False) == pytest.approx(expected)
    # one character less than 200, and it is found
    assert korean_reading.rouge_w(prediction, text[40:239]) == pytest.approx(2 * 170 / (170 + 199))


def test_no_questions_have_no_score():
    assert math.isnan(korean_reading.klue_mrc({}, {})["rouge_w"])
