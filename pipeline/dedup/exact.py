"""Exact duplicates, found by hashes alone: a text never travels.

Two documents are duplicates if their cleaned texts are equal when case and the kind and length of
whitespace are put aside. Of each set the one with the smallest rank, the first in config order, is
kept. A batch sends one packed array to each shard, a shard of hashes sends back one packed
array to each batch: 24 bytes a document one way, 24 a duplicate the other.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import xxhash

from pipeline.dedup.records import gather, make_records, pack_by, run_starts, shard_of

_HASHED = np.dtype([("high", "<u8"), ("low", "<u8"), ("rank", "<u8")])


def without_case(text: str) -> bytes:
    """The text in UTF-8 as `text_hash` and `line_hashes` take it."""
    return text.casefold().encode()


def text_hash(folded: bytes) -> bytes:
    """16 bytes, equal for cleaned texts that differ in case and whitespace only.

    Whitespace of a cleaned text is one space, or one or two newlines, between words.
    """
    return xxhash.xxh3_128_digest(folded.replace(b"\n\n", b" ").replace(b"\n", b" "))


def pack_hashes(
    hashes: bytes | bytearray, ranks: Sequence[int], num_shards: int
) -> dict[int, bytes]:
    """Packed (hash, rank) records by shard; `hashes` stand one behind the other."""
    halves = np.frombuffer(hashes, dtype=">u8").reshape(-1, 2)
    records = np.empty(len(ranks), dtype=_HASHED)
    records["high"], records["low"], records["rank"] = halves[:, 0], halves[:, 1], ranks
    return pack_by(records, shard_of(records["high"], num_shards))


def find_duplicates(packed: Iterable[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """(batch, packed records) from the (batch, packed hashes) of one shard, in any order.

    A record is made of every document of a set of two or more, see `pipeline.dedup.records`.
    """
    records, owners = gather(packed, _HASHED)
    order = np.lexsort((records["rank"], records["low"], records["high"]))
    records, owners = records[order], owners[order]
    is_first = run_starts(records["high"], records["low"])
    starts = np.flatnonzero(is_first)
    sizes = np.diff(starts, append=len(records))
    is_sent = np.repeat(sizes > 1, sizes)
    ranks = records["rank"][is_sent]
    duplicates = make_records(
        ranks,
        np.repeat(records["rank"][starts], sizes)[is_sent],
        np.ones(len(ranks), dtype=np.float32),
        np.where(is_first, np.repeat(sizes, sizes), 0)[is_sent],
    )
    return [*pack_by(duplicates, owners[is_sent]).items()]
