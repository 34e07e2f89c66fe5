import numpy as np
import pytest

from vocab.shards.reader import PERIOD, Schedule, share_out


def order(schedule, first, count):
    return schedule.indices(np.arange(first, first + count))


@pytest.mark.parametrize("sizes", [[7], [300, 0, 41], [1, 1]])
def test_at_temperature_one_every_epoch_is_a_permutation_of_everything(sizes):
    schedule, total = Schedule(sizes, 1.0, 3), sum(sizes)
    epochs = [order(schedule, epoch * total, total).tolist() for epoch in range(3)]
    assert all(sorted(epoch) == list(range(total)) for epoch in epochs)
    if total > 9:
        assert epochs[0] != epochs[1]
        assert epochs[0] != order(Schedule(sizes, 1.0, 4), 0, total).tolist()
    assert schedule.passes(2 * total) == [2.0 if size else 0.0 for size in sizes]


def test_languages_are_drawn_by_the_power_of_their_size():
    sizes, temperature = [100_000, 10_000, 0, 300], 0.3
    schedule = Schedule(sizes, temperature, 0)
    powers = np.array([size**temperature if size else 0 for size in sizes])
    expected = powers / powers.sum()
    language, _ = schedule.locate(order(schedule, 0, 2 * PERIOD))
    found = np.bincount(language, minlength=4) / (2 * PERIOD)
    assert found == pytest.approx(expected, abs=1 / PERIOD)
    assert schedule.shares == pytest.approx(expected, abs=1 / PERIOD)
    assert schedule.passes(1000)[3] == pytest.approx(1000 * expected[3] / 300, rel=1e-3)
    # and so is every stretch of the order, to within two, also across the end of a period
    for first in (0, 777, PERIOD - 50):
        some = np.bincount(language[first : first + 200], minlength=4)
        assert (np.abs(some - 200 * expected) <= 2).all()


def test_each_language_is_read_whole_before_it_is_read_again():
    sizes = [5000, 40, 9]
    schedule = Schedule(sizes, 0.3, 1)
    language, local = schedule.locate(order(schedule, 0, 3000))
    for number, size in enumerate(sizes):
        drawn = local[language == number]
        assert len(drawn) > 5 * size or number == 0
        epochs = [drawn[i : i + size] for i in range(0, len(drawn), size)]
        assert all(len(set(epoch.tolist())) == len(epoch) for epoch in epochs)
        assert number == 0 or (epochs[0] != epochs[1]).any()


@pytest.mark.parametrize("temperature", [0.0, 0.3, 1.0])
def test_any_stretch_is_found_from_its_number(temperature):
    endless = order(Schedule([50, 7, 3], temperature, 2), 0, PERIOD + 500)
    for first, count in [(0, 1), (58, 8), (60, 2), (5, 127), (PERIOD - 3, 400), (3, 0)]:
        part = order(Schedule([50, 7, 3], temperature, 2), first, count)
        assert (part == endless[first : first + count]).all()


def test_no_rank_is_left_with_one_language():
    schedule = Schedule([1000, 1000], 0.3, 0)  # one after the other would be in step with ranks
    language, _ = schedule.locate(order(schedule, 0, 4096))
    for num_ranks in (2, 4, 8):
        for rank in range(num_ranks):
            assert language[rank::num_ranks].mean() == pytest.approx(0.5, abs=0.1)


def test_shares_become_whole_numbers_that_sum():
    assert share_out(np.array([0.5, 0.25, 0.25]), 10).tolist() in ([5, 3, 2], [5, 2, 3])
    assert share_out(np.array([1.0, 0.0]), 7).tolist() == [7, 0]
    assert share_out(np.array([1.0, 1e-9, 1e-9]), 8).tolist() == [6, 1, 1]
