import itertools

import numpy as np
import pytest

from benchmarks.statistics.comparison import (
    rank_over_tasks,
    rank_samples,
    ranks_of,
    resampled_means,
)
from benchmarks.statistics.scores import Sample
from benchmarks.statistics.uncertainty import NUM_RESAMPLES, resample
from tests.benchmarks.records import SST2

NUM_EXAMPLES = 100


def sample(right: list[set[int]], prefix: str = "dev") -> Sample:
    """Of an encoder that has these examples right, by seed."""
    runs = {
        seed: [
            {"id": f"{prefix}-{n:03}", "gold": "1", "prediction": str(int(n in of_seed))}
            for n in range(NUM_EXAMPLES)
        ]
        for seed, of_seed in enumerate(right)
    }
    values = {seed: len(of_seed) / NUM_EXAMPLES for seed, of_seed in enumerate(right)}
    return Sample(values, resample(SST2, runs), "accuracy")


def test_ranks_are_those_of_the_values_and_equal_ones_share_theirs():
    drawn = np.array([[0.5], [0.9], [0.5], [np.nan]]).repeat(NUM_RESAMPLES, axis=1)
    for order in itertools.permutations(range(4)):
        values = drawn[list(order)]
        ranks = ranks_of(values[:, 0].tolist(), values, "seeds")
        assert [ranks[order.index(n)].value for n in range(4)] == [2, 1, 2, 4]
        assert all(rank.low == rank.value == rank.high for rank in ranks)


def test_encoders_stay_correlated():
    # each has all that the next one has right, and one example more: on no resample is it worse,
    # though their own intervals overlap
    first, second, third = (sample([set(range(n))] * 3) for n in (62, 61, 60))
    assert first.estimate.low < third.estimate.high
    ranks = rank_samples([third, first, second], True, "task")
    # a resample may lack the one example, which makes the two equal
    assert [(rank.value, rank.high) for rank in ranks] == [(3, 3), (1, 1), (2, 2)]
    # a shift of all seeds changes no rank, however much a seed changes the score
    seeds = (0.1, 0.5, 0.9)
    low, high = (Sample({n: s + d for n, s in enumerate(seeds)}) for d in (0.0, 0.01))
    assert [rank.text() for rank in rank_samples([low, high], True, "x")] == ["2 (2–2)", "1 (1–1)"]
    assert [rank.value for rank in rank_samples([low, high], False, "x")] == [1, 2]
    # of other seeds the draws are others
    other = Sample({n + 7: s + 0.01 for n, s in enumerate(seeds)})
    assert [rank.text() for rank in rank_samples([low, other], True, "x")] == ["2 (1–2)", "1 (1–2)"]


def test_the_interval_is_that_of_resampled_examples():
    # right on disjoint halves: each is first in half of the resamples
    halves = sample([set(range(50))]), sample([set(range(50, 100))])
    drawn, over = resampled_means(halves, "task")
    assert over == "examples"
    assert drawn.mean(axis=1) == pytest.approx([0.5, 0.5], abs=0.01)
    assert drawn[0] == pytest.approx(1 - drawn[1])
    assert {rank.text() for rank in rank_samples(halves, True, "task")} == {"1 (1–2)"}


def test_what_is_resampled_is_what_all_have():
    whole, again = sample([{1, 2}, {1}]), sample([{3}, {4, 5}])
    without = Sample(dict(whole.values))
    of_others = sample([{1, 2}, {1}], prefix="test")
    alone = Sample({0: 0.5})
    assert resampled_means([whole, again], "task")[1] == "examples and seeds"
    assert resampled_means([whole, without], "task")[1] == "seeds"
    assert resampled_means([whole, of_others], "task")[1] == "seeds"
    assert resampled_means([whole, alone], "task")[1] == "seeds of encoders with several"
    assert resampled_means([alone, alone], "task")[1] == ""
    assert rank_samples([alone, Sample({0: 0.4})], True, "task")[1].text() == "2"


def test_over_tasks_the_mean_is_ranked():
    a, b = Sample({0: 0.9, 1: 0.9}), Sample({0: 0.5, 1: 0.5})
    c, d = Sample({0: 0.4, 1: 0.4}), Sample({0: 0.7, 1: 0.7})
    ranks = rank_over_tasks({"x": [a, b], "y": [c, d]})
    assert [rank.text() for rank in ranks] == ["1 (1–1)", "2 (2–2)"]
    assert ranks[0].over == "seeds"
