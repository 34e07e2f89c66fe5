"""Records by key: as a plain loop has them, at a cost that does not follow the number of keys."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.dedup.records import pack_by, shard_of


@given(st.lists(st.integers(0, 5)))
@settings(max_examples=50)
def test_equals_a_plain_loop(keys):
    records = np.arange(len(keys), dtype="<u4")
    packed = pack_by(records, np.array(keys, dtype=np.int64))
    assert {key: np.frombuffer(part, "<u4").tolist() for key, part in packed.items()} == {
        key: [place for place, one in enumerate(keys) if one == key] for key in sorted(set(keys))
    }
    assert [*packed] == sorted(set(keys))


@pytest.mark.parametrize("num", [1, 2, 7, 4096])
def test_hashes_are_spread_evenly(num):
    hashes = np.random.default_rng(0).integers(1 << 64, size=200_000, dtype=np.uint64)
    hashes[:2] = 0, (1 << 64) - 1
    counts = np.bincount(shard_of(hashes, num).astype(int), minlength=num)
    assert len(counts) == num
    mean = len(hashes) / num
    assert abs(counts - mean).max() <= 6 * mean**0.5
