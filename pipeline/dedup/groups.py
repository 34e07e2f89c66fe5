"""Clusters of equal or similar documents as the passes hand them on: packed records by group.

A record tells of one document of a cluster: which one is kept, how similar they are and, of the
kept one itself, how many documents the cluster has. 24 bytes travel for it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

RECORD = np.dtype([("rank", "<u8"), ("kept", "<u8"), ("similarity", "<f4"), ("size", "<u4")])
Records = npt.NDArray[np.void]


@dataclass(frozen=True, slots=True)
class Clusters:
    """What a group of files learns of its documents."""

    kept_of: dict[int, tuple[int, float]] = field(default_factory=dict)  # removed: kept, similarity
    size_of: dict[int, int] = field(default_factory=dict)  # kept rank: documents of its cluster


def make_records(
    rank: npt.NDArray[np.uint64],
    kept: npt.NDArray[np.uint64],
    similarity: npt.NDArray[np.float32],
    size: npt.NDArray[np.int64],
) -> Records:
    """Records from their columns; `size` is 0 for a removed document."""
    records = np.empty(len(rank), dtype=RECORD)
    records["rank"], records["kept"] = rank, kept
    records["similarity"], records["size"] = similarity, size
    return records


def by_group(records: Records, groups: npt.NDArray[np.int64]) -> list[tuple[int, bytes]]:
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
