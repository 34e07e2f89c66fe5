import numpy as np
import pytest

from vocab.shards.draws import hash_pair, make_key, permute, uniform


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 8, 9, 100, 1000, 4097])
def test_permute_is_a_permutation(size):
    for seed in range(5):
        order = permute(make_key(seed), np.arange(size), size)
        assert sorted(order.tolist()) == list(range(size))


def test_permute_of_a_part_is_that_part():
    whole = permute(9, np.arange(1000), 1000)
    assert (permute(9, np.array([5, 999, 3]), 1000) == whole[[5, 999, 3]]).all()


def test_every_place_is_as_likely_and_keys_differ():
    orders = np.array([permute(make_key("x", seed), np.arange(10), 10) for seed in range(5000)])
    for column in orders.T:
        assert np.bincount(column, minlength=10) / 5000 == pytest.approx([0.1] * 10, abs=0.02)
    pairs = np.bincount(orders[:, 0] * 10 + orders[:, 1], minlength=100)
    assert (pairs > 0).sum() == 90
    # in a long order, neighbours have nothing to do with each other
    order = permute(1, np.arange(100_000), 100_000)
    assert abs(np.corrcoef(order[:-1], order[1:])[0, 1]) < 0.01


def test_uniform_draws():
    draws = uniform(make_key("u"), np.arange(100_000))
    assert draws.min() >= 0
    assert draws.max() < 1
    assert draws.mean() == pytest.approx(0.5, abs=0.005)
    assert (draws < 0.1).mean() == pytest.approx(0.1, abs=0.005)


def test_hash_is_splitmix64():
    # the finaliser of Steele et al. (2014) on 1, in exact integers
    def mix(z):
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
        return z ^ (z >> 31)

    expected = [mix((mix(7) + i * 0x9E3779B97F4A7C15) % 2**64) for i in range(5)]
    assert hash_pair(7, np.arange(5)).tolist() == expected
