"""Scores of reading: single pairs by hand, sweeps and substrings beside brute force."""

import math
import random

import pytest

from benchmarks.metrics.reading import (
    klue_mrc,
    mlqa,
    normalize_mlqa,
    rouge_w,
    squad_v2,
)
from benchmarks.tasks.registry import TASKS


def test_extra_predictions_are_ignored_and_nothing_is_nan():
    assert squad_v2({"q1": ["x"]}, {"q1": "x", "q9": "y"})["exact"] == 1.0
    assert math.isnan(squad_v2({}, {})["f1"])
    assert math.isnan(klue_mrc({}, {})["rouge_w"])


def questions(rng: random.Random) -> tuple[dict, dict, dict]:
    words = ["red", "blue", "the", "a", "car"]
    gold, predictions, odds = {}, {}, {}
    for number in range(rng.randint(2, 12)):
        name = f"q{number}"
        count = 0 if number == 0 else 1 if number == 1 else rng.choice([0, 1, 2])
        gold[name] = [" ".join(rng.choices(words, k=rng.randint(1, 3))) for _ in range(count)]
        predictions[name] = " ".join(rng.choices(words, k=rng.randint(0, 2)))
        odds[name] = rng.choice([-1.0, 0.5, round(rng.gauss(0, 2), 2)])
    return gold, predictions, odds


@pytest.mark.parametrize("seed", range(10))
def test_average_precision_is_that_of_every_threshold_tried(seed):
    gold, predictions, odds = questions(random.Random(seed))
    scores = squad_v2(gold, predictions, odds)
    answerable = [name for name, answers in gold.items() if answers]
    for metric in ("exact", "f1"):
        right = {name: squad_v2({name: gold[name]}, predictions)[metric] for name in answerable}
        area, recall = 0.0, 0.0
        for threshold in sorted(set(odds.values())):
            answered = [name for name in gold if odds[name] <= threshold]
            found = sum(right.get(name, 0.0) for name in answered)
            area += found / len(answered) * (found / len(answerable) - recall)
            recall = found / len(answerable)
        assert scores[f"pr_{metric}_ap"] == pytest.approx(area)


@pytest.mark.parametrize(
    ("language", "text", "left"),
    [  # what mlqa_evaluation_v1.py leaves of them
        ("en", "The U.S.A., an “Empire”", "usa empire"),
        ("de", "Der König des Landes—nicht die Königin", "könig landesnicht königin"),
        ("es", "¿La casa? Unos «el»", "casa"),
        ("vi", "Những ngôi nhà của tôi", "ngôi nhà tôi"),
        ("hi", "यह भारत है।", "यह भारत है"),
        ("ar", "في البيت والكتاب؟", "في بيت و كتاب"),  # also within a word
        ("zh", "北京（首都）ABC 1990年", "北 京 首 都 abc 1990 年"),
        ("de", "the House", "the house"),
    ],
)
def test_each_language_of_mlqa_has_its_own_words(language, text, left):
    assert normalize_mlqa(text, language) == left
    assert mlqa({"q": [left]}, {"q": text}, language) == {"f1": 1.0, "exact_match": 1.0}


def test_a_split_of_mlqa_is_scored_by_the_rules_of_its_language():
    """Half of the characters of a Chinese answer are half of its words; in English it is one."""
    task, row = TASKS["mlqa"], {"id": "q", "context": "北京首都", "question": "?"}
    row["answers"] = {"text": ["北京首都"], "answer_start": [0]}
    scores = {}
    for split in ("en", "zh"):
        (example,) = task.from_rows(split, [(1, row)], "made up")
        line = {"id": "q", "gold": ["北京首都"], "prediction": "北京", "language": example.language}
        scores[split] = task.score([line])["f1"]
    assert scores == {"en": 0.0, "zh": pytest.approx(2 / 3)}
    assert task.reported_splits == ("en", "ar", "de", "es", "hi", "vi", "zh")


def test_of_long_answers_frequent_characters_are_not_looked_for():
    text = "".join(random.Random(0).choices("가나다라마바사", k=250))
    prediction = text[40:210]  # a substring of 170 characters
    assert rouge_w(prediction, text) == 0.0
    expected = 2 * 170 / (170 + 250)
    assert rouge_w(prediction, text, autojunk=False) == pytest.approx(expected)
    # one character less than 200, and it is found
    assert rouge_w(prediction, text[40:239]) == pytest.approx(2 * 170 / (170 + 199))
