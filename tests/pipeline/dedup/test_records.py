"""Hashes are dealt to shards evenly, whatever their number."""

import numpy as np
import pytest

from pipeline.dedup.records import shard_of


@pytest.mark.parametrize("num", [1, 2, 7, 4096])
def test_hashes_are_spread_evenly(num):
    hashes = np.random.default_rng(0).integers(1 << 64, size=200_000, dtype=np.uint64)
    hashes[:2] = 0, (1 << 64) - 1
    counts = np.bincount(shard_of(hashes, num).astype(int), minlength=num)
    assert len(counts) == num
    mean = len(hashes) / num
    assert abs(counts - mean).max() <= 6 * mean**0.5
