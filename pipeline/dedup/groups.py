"""What groups of files and shards send each other: packed arrays of records.

Back to a group come clusters of equal or similar documents. A record tells of one document of a
cluster: which one is kept, how similar they are and, of the kept one itself, how many documents
the cluster has. 24 bytes travel for it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

RECORD = np.dtype([("rank", "<u8"), ("kept", "<u8"), ("similarity", "<f4"), ("size", "<u4")])
Records = NDArray[np.void]


@dataclass(frozen=True, slots=True)
class Clusters:
    """What a group of files learns of its documents."""

    kept_of: dict[int, tuple[int, float]] = field(default_factory=dict)  # removed: kept, similarity
    size_of: dict[int, int] = field(default_factory=dict)  # kept rank: documents of its cluster


def by_shard(records: Records, shards: NDArray[np.uint64], num_shards: int) -> dict[int, bytes]:
    """Packed records by shard; they stand in the order of their shards."""
    edges = np.searchsorted(shards, np.arange(num_shards + 1))
    return {
        shard: records[edges[shard] : edges[shard + 1]].tobytes()
        for shard in range(num_shards)
        if edges[shard] < edges[shard + 1]
    }


def gather(
    packed: Iterable[tuple[int, bytes]], dtype: np.dtype[Any] | str
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """All records of a shard, and the group of each."""
    groups, buffers = zip(*packed, strict=True)
    parts = [np.frombuffer(buffer, dtype=dtype) for buffer in buffers]
    return np.concatenate(parts), np.repeat(np.array(groups), [len(part) for part in parts])


def run_starts(*columns: NDArray[Any]) -> NDArray[np.bool_]:
    """Where a row differs from the row before it in any column; the first row does."""
    starts = np.ones(len(columns[0]), dtype=bool)
    starts[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return starts


def make_records(
    rank: NDArray[np.uint64],
    kept: NDArray[np.uint64],
    similarity: NDArray[np.float32],
    size: NDArray[np.int64],
) -> Records:
    """Records from their columns; `size` is 0 for a removed document."""
    records = np.empty(len(rank), dtype=RECORD)
    records["rank"], records["kept"] = rank, kept
    records["similarity"], records["size"] = similarity, size
    return records


def by_group(records: Records, groups: NDArray[Any]) -> list[tuple[int, bytes]]:
    """(group, its packed records), where `groups` names the group of each record."""
    return [(int(g), records[groups == g].tobytes()) for g in np.unique(groups)]


def unpack_clusters(packed: Iterable[bytes]) -> Clusters:
    """Read what `by_group` packed, in any order of arrival."""
    records: Records = np.frombuffer(b"".join(packed), dtype=RECORD)
    removed, kept = records[records["size"] == 0], records[records["size"] > 0]
    pairs = zip(removed["kept"].tolist(), removed["similarity"].tolist(), strict=True)
    return Clusters(
        dict(zip(removed["rank"].tolist(), pairs, strict=True)),
        dict(zip(kept["rank"].tolist(), kept["size"].tolist(), strict=True)),
    )
