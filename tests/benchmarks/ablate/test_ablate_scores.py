"""Intervals and verdicts of a grid: equal to scipy's, and cautious where little is known."""

import math

import numpy as np
import pytest
from scipy import stats

from benchmarks.ablate.grid import Claim
from benchmarks.ablate.scores import GridScores, judge
from benchmarks.statistics.uncertainty import Fit

Table = dict[str, dict[int, float]]


def table(num_variants: int, num_seeds: int, of_seeds: float = 0.05) -> Table:
    generator = np.random.default_rng(3)
    shift = generator.normal(0, of_seeds, num_seeds)
    return {
        str(variant): {
            seed: float(generator.normal(0.5 + 0.02 * variant + shift[seed], 0.01))
            for seed in range(num_seeds)
        }
        for variant in range(num_variants)
    }


def test_of_two_variants_it_is_the_paired_t_test():
    values = table(2, 4)
    found = Fit(values).difference("1", "0")
    reference = stats.ttest_rel(list(values["1"].values()), list(values["0"].values()))
    interval = reference.confidence_interval(0.95)
    assert found.p == pytest.approx(reference.pvalue)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))


def test_the_rest_is_that_of_the_two_way_analysis_of_variance():
    values = table(5, 3)
    scores = np.array([list(of_seeds.values()) for of_seeds in values.values()])
    rest = scores - scores.mean(0) - scores.mean(1, keepdims=True) + scores.mean()
    fit = Fit(values)
    assert fit.degrees == 8
    assert fit.sd**2 * 8 == pytest.approx((rest**2).sum())
    assert [fit.mean(v) for v in values] == pytest.approx(scores.mean(1))


def test_a_variant_that_lacks_a_seed_is_not_judged_by_the_luck_of_those_it_has():
    values = {"a": {0: 0.5, 1: 0.9}, "b": {0: 0.5, 1: 0.9}, "c": {0: 0.51}}
    fit = Fit(values)
    assert fit.difference("c", "a").value == pytest.approx(0.01)
    assert fit.mean("c") == pytest.approx(0.71)


@pytest.mark.parametrize("is_complete", [True, False])
def test_p_is_right_as_often_as_it_says(is_complete: bool):
    """Without any difference, one claim in twenty is below .05, whatever seeds are missing."""
    generator = np.random.default_rng(0)
    hits = 0
    for _ in range(400):
        shift = generator.normal(0, 3, 3)
        values = {
            str(v): {
                s: float(generator.normal(shift[s], 1))
                for s in range(3)
                if is_complete or v < 2 or s != v % 3
            }
            for v in range(5)
        }
        hits += Fit(values).difference("0", "4").p < 0.05
    assert 8 <= hits <= 33  # 20, and 3 standard errors


def judged(claims: list[Claim], values: Table):
    """Verdicts of a grid of one column with these scores."""
    scores = GridScores([])
    scores.fits = {"score": Fit(values)}
    return judge(claims, ["score"], scores)


def test_outcomes():
    values = {
        "low": {0: 0.1, 1: 0.11},
        "high": {0: 0.9, 1: 0.912},
        "alike": {0: 0.1, 1: 0.112},
        "odd": {0: 0.5, 1: 0.51},
        "other": {0: 0.3, 1: 0.309},
    }
    claims = [
        Claim("high", "low", False),
        Claim("low", "high", False),
        Claim("alike", "low", False),
        Claim("low", "alike", True),
        Claim("low", "odd", True),
        Claim("low", "none", False),
    ]
    assert [v.outcome for v in judged(claims, values)] == [
        "holds",
        "does not hold: the other way round",
        "cannot be told apart",
        "cannot be told apart",
        "does not hold: they differ",
        "not run",
    ]


def test_of_one_seed_each_nothing_is_said():
    (found,) = judged([Claim("b", "a", False)], {"a": {0: 0.1}, "b": {0: 0.9}})
    assert found.difference is not None
    assert found.difference.value == pytest.approx(0.8)
    assert math.isnan(found.difference.low)
    assert found.outcome == "too few seeds to tell"


@pytest.mark.parametrize("gap", [0.0, 0.1])
def test_where_nothing_varies_nothing_is_said(gap: float):
    """Two gaps that happen to be equal do not make a difference sure."""
    found = Fit({"a": {0: 0.5, 1: 0.6}, "b": {0: 0.5 + gap, 1: 0.6 + gap}}).difference("b", "a")
    assert found.value == pytest.approx(gap)
    assert math.isnan(found.low)
    assert math.isnan(found.p)


def test_variants_without_a_seed_in_common_are_not_compared():
    """Unless another variant links them: their seeds may be harder."""
    values = {"a": {0: 0.5, 1: 0.6}, "b": {0: 0.7, 1: 0.81}, "c": {2: 0.9, 3: 0.8}}
    apart = Fit(values)
    assert math.isnan(apart.difference("c", "a").value)
    assert math.isnan(apart.mean("c"))
    assert apart.difference("b", "a").value == pytest.approx(0.205)
    linked = Fit(values | {"d": {1: 0.6, 2: 0.7}})
    assert linked.difference("c", "a").value == pytest.approx(0.2, abs=0.01)
    (found,) = judged([Claim("c", "a", False)], values)
    assert found.outcome == "too few seeds to tell"
