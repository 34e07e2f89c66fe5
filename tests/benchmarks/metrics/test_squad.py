"""SQuAD's scores: single pairs by hand, sweeps over thresholds beside every threshold tried."""

import math
import random

import pytest

from benchmarks.metrics.squad import normalize_answer, squad_v1, squad_v2


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("The  Cat's  hat!", "cats hat"),
        ("an A, the", ""),
        ("theory of a", "theory of"),
        ("a.m.", "am"),  # punctuation goes first, and leaves no blank
        ("“quoted”", "“quoted”"),
        ("non\u00a0breaking\tblank", "non breaking blank"),
        ("Café ＡＢ", "café ａｂ"),
    ],
)
def test_normal_form(text, normal):
    assert normalize_answer(text) == normal


def test_version_1_takes_the_best_answer_and_counts_missing_ids_as_wrong():
    gold = {"q1": ["red car", "a red car here"], "q2": ["1999"], "q3": ["blue"], "q4": ["the"]}
    scores = squad_v1(gold, {"q1": "The red car", "q2": "in 1999", "q4": "...", "other": "blue"})
    assert scores["exact_match"] == pytest.approx((1 + 0 + 0 + 1) / 4)
    # q4: nothing is left on both sides, which is an exact match of F1 0
    assert scores["f1"] == pytest.approx((1 + 2 / 3 + 0 + 0) / 4)
    assert scores["f1_empty_as_match"] == pytest.approx((1 + 2 / 3 + 0 + 1) / 4)


def test_version_1_over_nothing_and_of_an_unanswerable_question():
    assert all(math.isnan(value) for value in squad_v1({}, {"q": "x"}).values())
    with pytest.raises(ValueError, match=r"'q2' has no gold answer; .*SQuAD 2\.0"):
        squad_v1({"q1": ["x"], "q2": []}, {"q1": "x", "q2": ""})


@pytest.mark.parametrize(
    ("predictions", "odds", "message"),
    [
        ({"q1": "x"}, None, "1 of 2 questions have no prediction, such as 'q2'"),
        ({"q1": "x", "q2": ""}, {"q1": 0.0}, "1 of 2 questions have no no-answer value"),
        ({"q1": "x", "q2": ""}, {"q1": 0.0, "q2": 1.0, "q9": 0.0}, "of no question, such as 'q9'"),
    ],
)
def test_ids_that_do_not_fit_are_refused(predictions, odds, message):
    with pytest.raises(ValueError, match=message):
        squad_v2({"q1": ["x"], "q2": []}, predictions, odds)


def test_extra_predictions_are_ignored_and_nothing_is_nan():
    assert squad_v2({"q1": ["x"]}, {"q1": "x", "q9": "y"})["exact"] == 1.0
    assert math.isnan(squad_v2({}, {})["f1"])


def test_the_official_sweep_starts_at_0_whatever_the_values_are():
    gold = {"q1": [], "q2": []}
    scores = squad_v2(gold, {"q1": "x", "q2": "y"}, {"q1": -9.0, "q2": -5.0}, -20.0)
    assert (scores["best_exact"], scores["best_exact_thresh"]) == (1.0, 0.0)
    # at 0.0 both would be answered and wrong; the reachable threshold says to answer nothing
    threshold = scores["best_exact_reachable_thresh"]
    assert threshold < -9.0
    again = squad_v2(gold, {"q1": "x", "q2": "y"}, {"q1": -9.0, "q2": -5.0}, threshold)
    assert again["exact"] == scores["best_exact_reachable"] == 1.0


def test_the_official_sweep_may_stop_between_equal_values():
    gold, predictions = {"q1": ["x"], "q2": []}, {"q1": "x", "q2": "y"}
    tied = squad_v2(gold, predictions, {"q1": 0.5, "q2": 0.5})
    assert (tied["best_exact"], tied["best_exact_reachable"]) == (1.0, 0.5)
    other_order = squad_v2(gold, predictions, {"q2": 0.5, "q1": 0.5})
    assert other_order["best_exact"] == 0.5


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


@pytest.mark.parametrize("seed", range(30))
def test_sweeps_are_those_of_every_threshold_tried(seed):
    gold, predictions, odds = questions(random.Random(seed))
    scores = squad_v2(gold, predictions, odds)
    answerable = [name for name, answers in gold.items() if answers]
    for metric in ("exact", "f1"):
        thresholds = (-1e9, *odds.values())
        tried = [squad_v2(gold, predictions, odds, of)[metric] for of in thresholds]
        assert scores[f"best_{metric}_reachable"] == pytest.approx(max(tried))
        at = scores[f"best_{metric}_reachable_thresh"]
        assert squad_v2(gold, predictions, odds, at)[metric] == pytest.approx(max(tried))
        right = {name: squad_v2({name: gold[name]}, predictions)[metric] for name in answerable}
        area, recall = 0.0, 0.0
        for threshold in sorted(set(odds.values())):
            answered = [name for name in gold if odds[name] <= threshold]
            found = sum(right.get(name, 0.0) for name in answered)
            area += found / len(answered) * (found / len(answerable) - recall)
            recall = found / len(answerable)
        assert scores[f"pr_{metric}_ap"] == pytest.approx(area)
