"""KorQuAD's and KLUE-MRC's scores: single pairs by hand, substrings by brute force."""

import math
import random

import pytest

from benchmarks.metrics import klue_mrc, korquad
from benchmarks.metrics.klue_mrc import klue_mrc as score_klue
from benchmarks.metrics.korquad import korquad as score_korquad


def test_korquad_blanks_brackets_and_klue_only_deletes_ascii_signs():
    text = "《겨울 (밤)》의  <1,000>번째 ‘곡’!"
    assert korquad.normalize_answer(text) == "겨울 밤 의 1000 번째 곡"
    assert klue_mrc.normalize_answer(text) == "《겨울 밤》의 1000번째 ‘곡’"


def test_korquad_counts_missing_ids_and_answers_of_brackets_alone():
    gold = {"q1": ["《》"], "q2": ["서울"]}
    assert score_korquad(gold, {"q1": "()"}) == {"exact_match": 0.5, "f1": 0.0}
    assert math.isnan(score_korquad({}, {})["f1"])
    with pytest.raises(ValueError, match="'q1' has no gold answer"):
        score_korquad({"q1": []}, {"q1": ""})


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
        a, b = klue_mrc.normalize_answer(first), klue_mrc.normalize_answer(second)
        size = longest_common(a, b)
        expected = 2 * size / (len(a) + len(b)) if a and b else float(a == b)
        assert klue_mrc.rouge_w(first, second) == pytest.approx(expected)
        assert klue_mrc.rouge_w_without_autojunk(first, second) == pytest.approx(expected)


def test_of_long_answers_frequent_characters_are_not_looked_for():
    text = "".join(random.Random(0).choices("가나다라마바사", k=250))
    prediction = text[40:210]  # a substring of 170 characters
    assert klue_mrc.rouge_w(prediction, text) == 0.0
    expected = 2 * 170 / (170 + 250)
    assert klue_mrc.rouge_w_without_autojunk(prediction, text) == pytest.approx(expected)
    # one character less than 200, and it is found
    assert klue_mrc.rouge_w(prediction, text[40:239]) == pytest.approx(2 * 170 / (170 + 199))


def test_brackets_stay_in_klue_and_go_in_the_corrected_scores():
    scores = score_klue({"q": ["《여름》"]}, {"q": "여름"})
    assert (scores["exact_match"], scores["exact_match_without_brackets"]) == (0.0, 1.0)
    assert scores["rouge_w"] == pytest.approx(2 * 2 / 6)
    assert scores["rouge_w_without_brackets"] == 1.0


def test_klue_refuses_missing_ids_and_unknown_types():
    gold = {"q1": ["서울"], "q2": []}
    with pytest.raises(ValueError, match="1 of 2 questions have no prediction, such as 'q2'"):
        score_klue(gold, {"q1": "서울"})
    with pytest.raises(ValueError, match="question 'q2' is of type 0; KLUE-MRC has the types"):
        score_klue(gold, {"q1": "서울", "q2": ""}, {"q1": 1, "q2": 0})
    assert math.isnan(score_klue({}, {})["rouge_w"])
