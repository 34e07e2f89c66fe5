"""Intervals by resampling groups: exact where they can be, and as wide as theory says."""

import math

import numpy as np
import pytest

from electrify.system.resampling import outcome, ratio_intervals


def test_a_ratio_is_that_of_the_sums():
    sums, counts = np.array([[1.0, 4.0], [3.0, 0.0], [0.0, 2.0]]), np.array([2.0, 5.0, 1.0])
    ratios, _ = ratio_intervals(sums, counts, seed=0)
    assert ratios == pytest.approx([4 / 8, 6 / 8])


def test_the_interval_is_as_wide_as_theory_says():
    rng = np.random.default_rng(1)
    values = rng.normal(size=400)
    _, bounds = ratio_intervals(values[:, None], np.ones(400), seed=0, num_resamples=4000)
    expected = 1.96 * values.std() / math.sqrt(400)
    assert bounds[0] == pytest.approx(values.mean() + np.array([-expected, expected]), abs=0.01)


def test_items_of_a_group_hang_together():
    """Each group twice as long, of copies, tells nothing new: the interval stays."""
    rng = np.random.default_rng(2)
    values = rng.random((60, 1))
    _, once = ratio_intervals(values, np.ones(60), seed=3)
    _, twice = ratio_intervals(2 * values, 2 * np.ones(60), seed=3)
    assert np.allclose(once, twice)


def test_columns_are_compared_on_the_same_draws():
    rng = np.random.default_rng(4)
    first = rng.random(50)
    second = first - 0.1  # always lower by as much
    sums = np.stack([first, second, first - second], axis=1)
    ratios, bounds = ratio_intervals(sums, np.ones(50), seed=5)
    assert ratios[2] == pytest.approx(ratios[0] - ratios[1])
    assert bounds[2] == pytest.approx([0.1, 0.1])
    assert bounds[0, 0] < ratios[1] + 0.1 < bounds[0, 1]


def test_the_same_numbers_give_the_same_interval():
    sums, counts = np.random.default_rng(6).random((30, 2)), np.full(30, 3.0)
    again = ratio_intervals(sums.copy(), counts.copy(), seed=7)
    assert all(map(np.array_equal, ratio_intervals(sums, counts, seed=7), again))


def test_one_group_has_no_interval_and_none_no_ratio():
    ratios, bounds = ratio_intervals(np.array([[2.0]]), np.array([4.0]), seed=0)
    assert ratios.tolist() == [0.5]
    assert np.isnan(bounds).all()
    ratios, bounds = ratio_intervals(np.zeros((0, 2)), np.zeros(0), seed=0)
    assert np.isnan(ratios).all()
    assert np.isnan(bounds).all()


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [
        (0.1, 0.2, "better"),
        (-0.2, -0.1, "worse"),
        (-0.1, 0.2, "cannot tell apart"),
        (0.0, 0.2, "cannot tell apart"),
        (None, None, "cannot tell apart"),
    ],
)
def test_what_an_interval_says(low, high, word):
    assert outcome(low, high) == word
