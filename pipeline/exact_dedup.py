"""Exact duplicates, found by hashes alone: a text never travels.

Two documents are duplicates if their cleaned texts are equal when case and the kind and length of
whitespace are put aside. Of each set the one with the smallest rank, the first in config order, is
kept. A group of files sends one packed array to each shard, a shard of hashes sends back one packed
array to each group: 24 bytes a document one way, 16 a duplicate the other.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import xxhash

NUM_SHARDS = 256  # by the first byte of the hash; the result does not depend on it
_HASHED = np.dtype([("high", "<u8"), ("low", "<u8"), ("rank", "<u8")])
_DUPLICATE = np.dtype([("rank", "<u8"), ("kept", "<u8")])


def text_hash(text: str) -> bytes:
    """16 bytes, equal for texts that differ in case and whitespace only."""
    return xxhash.xxh3_128_digest(" ".join(text.casefold().split()).encode())


def pack_hashes(hashes: Sequence[bytes], ranks: Sequence[int]) -> dict[int, bytes]:
    """Packed (hash, rank) records by shard."""
    halves = np.frombuffer(b"".join(hashes), dtype=">u8").reshape(-1, 2)
    records = np.empty(len(ranks), dtype=_HASHED)
    records["high"], records["low"], records["rank"] = halves[:, 0], halves[:, 1], ranks
    shards = records["high"] >> np.uint64(56)
    order = np.argsort(shards, kind="stable")
    edges = np.searchsorted(shards[order], np.arange(NUM_SHARDS + 1))
    return {
        shard: records[order[edges[shard] : edges[shard + 1]]].tobytes()
        for shard in range(NUM_SHARDS)
        if edges[shard] < edges[shard + 1]
    }


def find_duplicates(packed: Iterable[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """Of one shard's (group, packed hashes): (group, packed duplicates), whatever their order."""
    groups, buffers = zip(*packed, strict=True)
    parts = [np.frombuffer(buffer, dtype=_HASHED) for buffer in buffers]
    records = np.concatenate(parts)
    owners = np.repeat(np.array(groups), [len(part) for part in parts])
    order = np.lexsort((records["rank"], records["low"], records["high"]))
    records, owners = records[order], owners[order]
    is_first = np.ones(len(records), dtype=bool)
    same_high = records["high"][1:] == records["high"][:-1]
    is_first[1:] = ~(same_high & (records["low"][1:] == records["low"][:-1]))
    first = np.maximum.accumulate(np.where(is_first, np.arange(len(records)), 0))
    duplicates = np.empty(len(records), dtype=_DUPLICATE)
    duplicates["rank"], duplicates["kept"] = records["rank"], records["rank"][first]
    return [
        (int(group), duplicates[~is_first & (owners == group)].tobytes())
        for group in np.unique(owners[~is_first])
    ]


def unpack_duplicates(packed: Iterable[bytes]) -> dict[int, int]:
    """The kept rank by the rank of its duplicate."""
    pairs: npt.NDArray[np.void] = np.frombuffer(b"".join(packed), dtype=_DUPLICATE)
    return dict(zip(pairs["rank"].tolist(), pairs["kept"].tolist(), strict=True))
