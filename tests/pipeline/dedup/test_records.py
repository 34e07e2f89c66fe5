"""Records by key: as a plain loop has them, at a cost that does not follow the number of keys."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.dedup.records import MAX_STARS, NumShards, num_shards, pack_by, shard_of


class _Counted(np.ndarray):
    """Counts the elements that numpy's functions and indexing of the array go over."""

    work = 0

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        plain = [np.asarray(one) for one in inputs]
        _Counted.work += sum(one.size for one in plain)
        return np.asarray(getattr(ufunc, method)(*plain, **options)).view(_Counted)

    def __array_function__(self, function, types, arguments, options):
        plain = [np.asarray(a) if isinstance(a, np.ndarray) else a for a in arguments]
        _Counted.work += sum(one.size for one in plain if isinstance(one, np.ndarray))
        return function(*plain, **options)

    def __getitem__(self, key):
        found = super().__getitem__(key)
        _Counted.work += np.size(found) + np.size(key)
        return found


def _work(num_records, num_keys):
    records = np.arange(num_records).view(_Counted)
    keys = np.random.default_rng(0).integers(num_keys, size=num_records).view(_Counted)
    _Counted.work = 0
    pack_by(records, keys)
    return _Counted.work


def test_work_is_linear_in_records_and_does_not_follow_the_number_of_groups():
    num = 20_000
    assert _work(num, 2_000) < 1.5 * _work(num, 2)
    assert _work(4 * num, 8_000) < 5 * _work(num, 2_000)
    assert _work(num, 2_000) < 20 * num  # a comparison of all records for each group: 2,000


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


def test_shards_follow_the_size_of_the_corpus():
    """So what one shard holds is the same for 1 TB and for 10."""
    assert num_shards(0) == NumShards()
    small, large = num_shards(10**12), num_shards(10**13)
    for name in ("texts", "lines", "bands", "sketches"):
        assert getattr(large, name) == pytest.approx(10 * getattr(small, name), rel=0.01)
    assert large.components <= MAX_STARS  # which send to each other
