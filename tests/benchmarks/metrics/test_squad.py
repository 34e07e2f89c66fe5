"""SQuAD's scores: single pairs by hand, sweeps over thresholds beside every threshold tried."""

import math
import random

import pytest

from benchmarks.metrics.squad import squad_v2


def test_extra_predictions_are_ignored_and_nothing_is_nan():
    assert squad_v2({"q1": ["x"]}, {"q1": "x", "q9": "y"})["exact"] == 1.0
    assert math.isnan(squad_v2({}, {})["f1"])


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
