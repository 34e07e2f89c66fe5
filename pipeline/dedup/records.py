"""What batches and shards send each other: packed arrays of records.

Back to a batch comes, for each of its documents that is removed, which one is kept and how similar
they are: 20 bytes.
"""

import math
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

REMOVED = np.dtype([("rank", "<u8"), ("kept", "<u8"), ("similarity", "<f4")])
SHARD_BYTES = 32_000_000  # of records; comparing them takes four to nine times as much memory


class NumShards(NamedTuple):
    """How many shards each shuffle deals its records to: the size of elements, not the result."""

    texts: int = 1
    lines: int = 1
    bands: int = 1  # of each band
    sketches: int = 1


# Taken are documents of 1 kB (24 bytes of hash and rank, 12 of key and row in each band), a long
# line in 120 bytes (12 bytes), and a byte of sketch for one of text. Documents of 100 bytes fill
# shards of ten times `SHARD_BYTES`, and then most of them send one band only.
_BYTES_A_BYTE = (0.024, 0.1, 0.012, 1.0)


def num_shards(num_bytes: int) -> NumShards:
    """Shards of about `SHARD_BYTES` for so many bytes of text."""
    return NumShards(*(max(1, math.ceil(num_bytes * each / SHARD_BYTES)) for each in _BYTES_A_BYTE))


def shard_of(hashes: NDArray[np.uint64], num_shards: int) -> NDArray[np.uint64]:
    """Even shares of the range of the hashes, by their upper 32 bits."""
    half = np.uint64(32)
    shards: NDArray[np.uint64] = (hashes >> half) * np.uint64(num_shards) >> half
    return shards


def pack_by(records: NDArray[Any], keys: NDArray[Any]) -> dict[int, bytes]:
    """The packed records of each key, in their order; one sort, whatever the number of keys."""
    order = np.argsort(keys, kind="stable")
    records, keys = records[order], keys[order]
    starts = np.flatnonzero(run_starts(keys))
    ranges = pairwise([*starts.tolist(), len(keys)])
    return {
        key: records[start:end].tobytes()
        for key, (start, end) in zip(keys[starts].tolist(), ranges, strict=True)
    }


def gather(
    packed: Iterable[tuple[int, bytes]], dtype: np.dtype[Any] | str
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """All records of a shard, and the batch of each."""
    batches, buffers = zip(*packed, strict=True)
    parts = [np.frombuffer(buffer, dtype=dtype) for buffer in buffers]
    return np.concatenate(parts), np.repeat(np.array(batches), [len(part) for part in parts])


def run_starts(*columns: NDArray[Any]) -> NDArray[np.bool_]:
    """Where a row differs from the row before it in any column; the first row does."""
    starts = np.ones(len(columns[0]), dtype=bool)
    starts[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return starts


def first_of_run(is_first: NDArray[np.bool_]) -> NDArray[np.int64]:
    """For each row the index of the first row of its run."""
    indices = np.flatnonzero(is_first)
    return np.repeat(indices, np.diff(indices, append=len(is_first)))


def unpack_removed(packed: Iterable[bytes]) -> dict[int, tuple[int, float]]:
    """By rank of a removed document: the kept one, and how similar they are."""
    records = np.frombuffer(b"".join(packed), dtype=REMOVED)
    pairs = zip(records["kept"].tolist(), records["similarity"].tolist(), strict=True)
    return dict(zip(records["rank"].tolist(), pairs, strict=True))
