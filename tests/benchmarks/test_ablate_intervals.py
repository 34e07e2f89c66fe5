"""Intervals and verdicts of a grid: equal to scipy's, and cautious where little is known."""

import math

import numpy as np
import pytest
from scipy import stats

from benchmarks.ablate.grid import Claim
from benchmarks.ablate.intervals import judge, pooled_spread


def values(num_variants: int, num_seeds: int) -> dict[str, list[float]]:
    generator = np.random.default_rng(3)
    return {
        str(variant): list(generator.normal(0.5 + 0.02 * variant, 0.01, num_seeds))
        for variant in range(num_variants)
    }


def test_of_two_variants_it_is_the_two_sample_t_test():
    groups = values(2, 4)
    (found,) = judge([Claim("1", "0", False)], groups, pooled_spread(groups))
    reference = stats.ttest_ind(groups["1"], groups["0"])
    interval = reference.confidence_interval(0.95)
    assert found.p == pytest.approx(reference.pvalue)
    assert found.difference is not None
    assert found.difference - found.half_width == pytest.approx(interval.low)
    assert found.difference + found.half_width == pytest.approx(interval.high)


def test_the_spread_is_the_within_mean_square_of_the_analysis_of_variance():
    groups = values(5, 3)
    spread = pooled_spread(groups)
    everything = np.concatenate(list(groups.values()))
    between = sum(3 * (np.mean(g) - everything.mean()) ** 2 for g in groups.values())
    within = everything.var() * len(everything) - between
    assert spread.degrees == 10
    assert spread.sd**2 * 10 == pytest.approx(within)
    f = (between / 4) / spread.sd**2
    assert f == pytest.approx(stats.f_oneway(*groups.values()).statistic)


def test_p_is_right_as_often_as_it_says():
    """Without any difference, one claim in twenty is below .05."""
    generator = np.random.default_rng(0)
    hits = 0
    for _ in range(2000):
        groups = {str(v): list(generator.normal(0, 1, 2)) for v in range(6)}
        (found,) = judge([Claim("0", "1", False)], groups, pooled_spread(groups))
        hits += found.p < 0.05
    assert 70 <= hits <= 130


def test_variants_of_one_seed_take_the_spread_of_the_others():
    groups = values(3, 3) | {"one": [0.9]}
    spread = pooled_spread(groups)
    assert spread.degrees == 6
    (found,) = judge([Claim("one", "0", False)], groups, spread)
    assert found.outcome == "holds"
    assert spread.half_width(1) == pytest.approx(stats.t.ppf(0.975, 6) * spread.sd)


def test_outcomes():
    groups = {"low": [0.1, 0.11], "high": [0.9, 0.91], "alike": [0.1, 0.112], "odd": [0.5, 0.51]}
    claims = [
        Claim("high", "low", False), Claim("low", "high", False), Claim("alike", "low", False),
        Claim("low", "alike", True), Claim("low", "odd", True), Claim("low", "none", False),
    ]  # fmt: skip
    outcomes = [v.outcome for v in judge(claims, groups, pooled_spread(groups))]
    assert outcomes == [
        "holds", "does not hold: the other way round", "cannot be told apart",
        "cannot be told apart", "does not hold: they differ", "not run",
    ]  # fmt: skip


def test_p_is_corrected_over_all_claims():
    groups = values(4, 3)
    spread = pooled_spread(groups)
    claims = [Claim(str(v), "0", False) for v in (1, 2, 3)]
    alone = [judge([claim], groups, spread)[0] for claim in claims]
    together = judge(claims, groups, spread)
    assert all(
        a.p == t.p and t.p_corrected >= a.p_corrected for a, t in zip(alone, together, strict=True)
    )
    assert max(t.p_corrected / t.p for t in together) == pytest.approx(3)


def test_of_one_seed_each_nothing_is_said():
    groups = {"a": [0.1], "b": [0.9]}
    (found,) = judge([Claim("b", "a", False)], groups, pooled_spread(groups))
    assert found.difference == pytest.approx(0.8)
    assert math.isnan(found.half_width)
    assert found.outcome == "one seed: cannot be told"
