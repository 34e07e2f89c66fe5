"""Intervals are those of the formulas that hold at either end, and hold in between."""

import math

import numpy as np
import pytest
from scipy import stats

from benchmarks.results.predictions import with_groups
from benchmarks.statistics.scores import Sample
from benchmarks.statistics.uncertainty import (
    NUM_RESAMPLES,
    difference,
    estimate,
    resample,
    score_bounds,
    scored,
)
from benchmarks.tasks.task import Example
from tests.benchmarks.conftest import t_half_width
from tests.benchmarks.records import SST2, STSB, right_lines


def estimate_lines(task, runs):
    return estimate(*scored(task, runs), score_bounds(task.headline))


def first_right(num_examples, num_right):
    return right_lines([number < num_right for number in range(num_examples)])


def test_the_error_over_examples_is_that_of_resampled_scores():
    draws = resample(SST2, {0: first_right(50, 30)})
    assert draws.scores[0].shape == (NUM_RESAMPLES,)
    # the number of right ones in a resample is binomial
    assert draws.scores[0].mean() == pytest.approx(0.6, abs=0.02)
    assert draws.scores[0].std() == pytest.approx(math.sqrt(0.6 * 0.4 / 50), rel=0.15)
    found = estimate({0: 0.6}, draws)
    assert found.over == "examples"
    expected = stats.t.interval(0.95, 50 - 1, 0.6, draws.scores[0].std())
    assert (found.low, found.high) == pytest.approx(expected)


@pytest.mark.parametrize("values", [(0.7, 0.74), (0.7, 0.71, 0.74), (0.5, 0.6, 0.4, 0.55, 0.52)])
def test_without_predictions_it_is_the_t_interval_over_seeds(values):
    found = estimate(dict(enumerate(values)), None)
    half_width = t_half_width(values)
    assert found.over == "seeds"
    assert found.high - found.value == pytest.approx(half_width)
    assert found.value - found.low == pytest.approx(half_width)


def test_an_undefined_seed_makes_all_undefined():
    runs = {0: first_right(20, 15), 1: [p | {"prediction": None} for p in right_lines([True] * 20)]}
    found = estimate_lines(SST2, runs)
    assert math.isnan(found.value)
    assert math.isnan(found.low)
    assert found.over == ""
    alone = estimate({0: 0.7}, None)  # of one seed nothing is known without its examples
    assert (alone.value, alone.over, alone.text()) == (0.7, "", "–")


@pytest.mark.parametrize(
    ("second", "shares_seeds"),
    [
        ((0.79, 0.785, 0.80, 0.81), True),
        ((0.79, 0.785, 0.80, 0.81), False),
        ((0.79, 0.77, 0.80), False),
    ],
)
def test_shared_seeds_are_paired_and_unrelated_ones_are_those_of_welch(second, shares_seeds):
    first = (0.81, 0.80, 0.83, 0.82)
    sides = (dict(enumerate(first)), None, dict(enumerate(second)), None)
    found = difference(*sides, shares_seeds=shares_seeds)
    if shares_seeds:
        expected = stats.ttest_rel(first, second)
    else:
        expected = stats.ttest_ind(first, second, equal_var=False)
    assert (found.low, found.high) == pytest.approx(tuple(expected.confidence_interval()))
    assert found.p == pytest.approx(expected.pvalue)


def test_seeds_that_differ_by_the_same_by_chance_are_apart():
    found = difference({0: 0.80, 1: 0.82}, None, {0: 0.81, 1: 0.83}, None, shares_seeds=True)
    assert found.low < 0 < found.high
    constant = difference({0: 0.8, 1: 0.8}, None, {0: 0.7, 1: 0.7}, None, shares_seeds=True)
    assert constant.low == constant.high == pytest.approx(0.1)
    assert constant.p == 0.0


def test_both_levels_add_up():
    runs = {seed: first_right(500, n) for seed, n in enumerate((380, 390, 400, 385, 395, 370))}
    values, draws = scored(SST2, runs)
    found = estimate(values, draws)
    of_seeds = np.var(list(values.values()), ddof=1) / len(values)
    of_examples = np.var(draws.mean(list(values)))
    squares = of_seeds**2 / 5 + of_examples**2 / (NUM_RESAMPLES - 1)
    degrees = (of_seeds + of_examples) ** 2 / squares
    half = stats.t.ppf(0.975, degrees) * math.sqrt(of_seeds + of_examples)
    assert found.over == "examples and seeds"
    assert (found.high - found.low) / 2 == pytest.approx(half)


def models(rng, sd, num_seeds, num_examples=100):
    """Scores and draws of a model whose seeds vary by `sd`, and of others of its kind."""
    hardness = rng.random(num_examples)  # of an example, for every seed of every model alike
    while True:
        rates = np.clip(rng.normal(0.7, sd, num_seeds), 0, 1)
        # seeds slip on examples of their own
        slips = rng.random((num_seeds, num_examples)) < 0.1
        runs = {n: right_lines((hardness < rates[n]) ^ slips[n]) for n in range(num_seeds)}
        yield scored(SST2, runs)


@pytest.mark.parametrize(("sd", "num_seeds"), [(0.0, 3), (0.1, 5)])
def test_intervals_and_p_are_right_as_often_as_they_say(sd, num_seeds):
    """Over models and over examples, whichever of them varies more."""
    rng = np.random.default_rng(17)
    num_covered, num_small, num_trials, truth = 0, 0, 60, 0.7 * 0.9 + 0.3 * 0.1
    for _ in range(num_trials):
        pair = models(rng, sd, num_seeds)
        first = next(pair)
        found = estimate(*first)
        num_covered += found.low <= truth <= found.high
        gain = difference(*first, *next(pair))
        num_small += gain.p <= 0.05
        assert (gain.p <= 0.05) == (not gain.low <= 0 <= gain.high)
    assert num_covered / num_trials >= 0.88  # 0.95 less 2.5 standard errors
    assert num_small / num_trials <= 0.12  # 0.05 and 2.5 standard errors


def test_a_difference_on_the_same_examples_is_paired():
    """One system right where the other is, and on ten more: certain, though both are uncertain."""
    values, draws = scored(SST2, dict.fromkeys(range(3), first_right(300, 160)))
    others, other_draws = scored(SST2, dict.fromkeys(range(3), first_right(300, 150)))
    found = difference(values, draws, others, other_draws)
    alone = estimate(values, draws)
    assert found.value == pytest.approx(10 / 300)
    assert found.low > 0
    assert found.p < 0.01
    assert found.high - found.low < (alone.high - alone.low) / 2


def test_the_same_lines_in_any_order_give_the_same_draws():
    rows = first_right(90, 41)
    first = resample(SST2, {0: rows, 1: rows[::-1]})
    again = resample(SST2, {5: rows})
    assert first.ids == again.ids
    np.testing.assert_array_equal(first.scores[0], again.scores[5])
    np.testing.assert_array_equal(first.scores[1], again.scores[5])


def test_examples_of_one_text_are_drawn_together():
    """Where all of a group are alike, n groups of k say as much as n examples."""
    alone = first_right(40, 25)
    named = [(f"{n:02}", k, row) for n, row in enumerate(alone) for k in range(3)]
    together = [row | {"id": f"{name}-{k}", "group": name} for name, k, row in named]
    draws = resample(SST2, {0: together})
    assert draws.num_groups == 40
    expected = resample(SST2, {0: alone}).scores[0].std()
    assert draws.scores[0].std() == pytest.approx(expected, rel=0.15)
    without = [{name: value for name, value in row.items() if name != "group"} for row in together]
    assert draws.ids != resample(SST2, {0: without}).ids
    of_one_text = [row | {"group": "a"} for row in together]
    assert resample(SST2, {0: of_one_text}).ids == resample(SST2, {0: without}).ids


def test_predictions_have_the_groups_of_their_first_texts():
    pairs = [("a", "b"), ("c", "d"), ("a", "e")]
    examples = [Example(str(n), texts) for n, texts in enumerate(pairs)]
    first, alone, second = with_groups(examples, [{"id": e.id} for e in examples])
    assert first["group"] == second["group"]
    assert alone == {"id": "1"}


@pytest.mark.parametrize("value", [0, 1])
def test_where_all_examples_are_alike_others_need_not_be(value):
    """About 3 of n may be not (the rule of three). Two that say the same differ by 0, surely."""
    found = estimate_lines(SST2, {0: first_right(100, 100 * value)})
    assert found.value == value
    assert abs(found.high - found.low) == pytest.approx(0.03, abs=0.001)
    draws = resample(SST2, {0: first_right(9, 5), 1: first_right(9, 5)})
    same = difference({0: 5 / 9, 1: 5 / 9}, draws, {0: 5 / 9, 1: 5 / 9}, draws, shares_seeds=True)
    assert (same.value, same.p) == (0.0, 1.0)


def test_where_too_many_resamples_have_no_score_there_is_no_interval():
    """Of four pairs of which three predictions are equal, (3/4)^4 of resamples are constant."""
    rows = [{"id": str(n), "gold": float(n), "prediction": 1.0 + (n == 3)} for n in range(4)]
    found = estimate_lines(STSB, {0: rows})
    assert (found.low, found.over) == (pytest.approx(math.nan, nan_ok=True), "")
    many = [{"id": str(n), "gold": n % 5.0, "prediction": 1.0 + (n % 10 == 3)} for n in range(40)]
    assert np.isnan(resample(STSB, {0: many}).scores[0]).any()  # a few, which are left out
    found = estimate_lines(STSB, {0: many})
    assert found.low < found.value < found.high


@pytest.mark.parametrize("metric", ["accuracy", "label_set_macro_f1", "entity_micro_f1", "pearson"])
def test_no_interval_of_a_score_leaves_the_range_of_its_metric(metric):
    sample = Sample({0: 0.99, 1: 1.0, 2: 0.98}, metric=metric)
    assert sample.estimate.low < 0.98
    assert sample.estimate.high == 1.0
