"""Several arrays read as one against the array that they are, joined."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vocab.shards.files import Joined

UINT16 = np.dtype(np.uint16)
sizes = st.lists(st.integers(0, 12), max_size=6)


def parts_of(sizes: list[int]) -> list[np.ndarray]:
    numbers = np.arange(sum(sizes), dtype=np.uint16)
    return np.split(numbers, np.cumsum(sizes)[:-1].astype(np.int64)) if sizes else []


@settings(max_examples=200, deadline=None)
@given(sizes, st.data())
def test_taken_ranges_are_slices_of_the_whole(sizes, data):
    """Also empty ones, ones that go over several parts, that meet, that come twice."""
    joined, total = Joined(parts_of(sizes), UINT16), sum(sizes)
    place = st.integers(0, total)
    pairs = data.draw(st.lists(st.tuples(place, place).map(sorted), max_size=8))
    starts = np.array([start for start, _ in pairs], np.int64)
    stops = np.array([stop for _, stop in pairs], np.int64)
    taken = joined.take(starts, stops - starts)
    assert taken.dtype == UINT16
    assert taken.tolist() == [n for start, stop in pairs for n in range(start, stop)]


def test_what_is_outside_is_refused():
    joined = Joined(parts_of([5, 3]), UINT16)
    for start, length in ((-1, 2), (7, 2), (8, 1)):
        with pytest.raises(AssertionError):
            joined.take(np.array([start]), np.array([length]))
    with pytest.raises(IndexError, match=r"tokens 7\.\.9 of a stream of 8"):
        joined.read(7, 9)
