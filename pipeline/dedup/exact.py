"""Exact duplicates: documents that are equal, and lines that stand in many documents.

Both are found by hashes alone: a text never travels. A batch sends one packed array to each shard,
a shard sends back one packed array to each batch.

Two documents are duplicates if their cleaned texts are equal when case and whitespace are put
aside: Korean copies often differ in their spacing alone. Of each set the one with the smallest
rank, the first in config order, is kept: 24 bytes a document one way, 20 a duplicate the other.

Lines are menus, notices, licences: they stay in the first N documents. A line is known by a hash of
its text without case and spaces. Documents that are removed for others do not count, and a
document of a single line counts never: as a whole it is the business of `exact_dedup`. A batch
sends at most N + 1 records of one line, 12 bytes each, so a line that stands in every document
costs no more than another. Back comes, for each line that stands in more than N documents, how many
documents of the batch may keep it: batches are in the order of ranks, so the first N documents of
the corpus are the first of the first batches.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import xxhash

from pipeline.dedup.records import REMOVED, first_of_run, gather, pack_by, run_starts, shard_of
from pipeline.rules.normalize import squeeze_whitespace

_HASHED = np.dtype([("high", "<u8"), ("low", "<u8"), ("rank", "<u8")])


def without_case(text: str) -> bytes:
    """The text in UTF-8 as `text_hash` and `line_hashes` take it."""
    return text.casefold().encode()


def text_hash(folded: bytes) -> bytes:
    """16 bytes, equal for cleaned texts that differ in case and whitespace only, which in them is
    spaces and newlines."""
    return xxhash.xxh3_128_digest(folded.translate(None, b" \n"))


def pack_hashes(
    hashes: bytes | bytearray, ranks: Sequence[int] | npt.NDArray[np.uint64], num_shards: int
) -> dict[int, bytes]:
    """Packed (hash, rank) records by shard; `hashes` stand one behind the other."""
    halves = np.frombuffer(hashes, dtype=">u8").reshape(-1, 2)
    records = np.empty(len(ranks), dtype=_HASHED)
    records["high"], records["low"], records["rank"] = halves[:, 0], halves[:, 1], ranks
    return pack_by(records, shard_of(records["high"], num_shards))


def find_duplicates(packed: Iterable[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """(batch, packed records) from the (batch, packed hashes) of one shard, in any order."""
    records, owners = gather(packed, _HASHED)
    order = np.lexsort((records["rank"], records["low"], records["high"]))
    records, owners = records[order], owners[order]
    is_first = run_starts(records["high"], records["low"])
    kept = records["rank"][first_of_run(is_first)]
    removed = np.ones(np.count_nonzero(~is_first), dtype=REMOVED)  # of similarity 1
    removed["rank"], removed["kept"] = records["rank"][~is_first], kept[~is_first]
    return [*pack_by(removed, owners[~is_first]).items()]


# Lines

_STANDING = np.dtype([("line", "<u8"), ("document", "<u4")])
_QUOTA = np.dtype([("line", "<u8"), ("quota", "<u4")])


def line_hashes(text: str, folded: bytes, min_characters: int) -> list[int]:
    """Hashes of the lines that are long enough, in order; none if there is one line only.

    `folded` is the text without case.
    """
    lines = text.split("\n")
    if sum(map(bool, lines)) < 2:
        return []
    of_lines = folded.translate(None, b" ").split(b"\n")
    pairs = zip(lines, of_lines, strict=True)
    return [xxhash.xxh3_64_intdigest(case) for line, case in pairs if len(line) >= min_characters]


def pack_lines(
    lines: npt.NDArray[np.uint64],
    documents: npt.NDArray[np.uint32],
    max_documents: int,
    num_shards: int,
) -> dict[int, bytes]:
    """Packed records of the lines of a batch by shard, at most `max_documents` + 1 of each line.

    `documents` are numbers below 2^32 of the documents of the lines.
    """
    order = np.lexsort((documents, lines))
    lines, documents = lines[order], documents[order]
    is_first = run_starts(lines, documents)
    lines, documents = lines[is_first], documents[is_first]
    is_sent = np.arange(len(lines)) - first_of_run(run_starts(lines)) <= max_documents
    records = np.empty(np.count_nonzero(is_sent), dtype=_STANDING)
    records["line"], records["document"] = lines[is_sent], documents[is_sent]
    return pack_by(records, shard_of(records["line"], num_shards))


def find_repeated_lines(
    packed: Iterable[tuple[int, bytes]], max_documents: int
) -> list[tuple[int, bytes]]:
    """(batch, packed quotas) from the (batch, packed records) of one shard, in any order."""
    records, owners = gather(packed, _STANDING)
    lines, documents = records["line"], records["document"]
    order = np.lexsort((owners, documents, lines))
    lines, documents, owners = lines[order], documents[order], owners[order]
    is_new = run_starts(lines, documents)  # where a document first stands
    order = np.lexsort((owners, lines))
    lines, owners, is_new = lines[order], owners[order], is_new[order]
    firsts = first_of_run(run_starts(lines))
    num_before: npt.NDArray[np.int64] = np.cumsum(is_new) - is_new  # in this shard
    num_before -= num_before[firsts]  # of this line
    total = np.bincount(firsts, weights=is_new)
    is_sent = (total[firsts] > max_documents) & run_starts(lines, owners)
    quotas = np.empty(is_sent.sum(), dtype=_QUOTA)
    quotas["line"] = lines[is_sent]
    quotas["quota"] = np.maximum(max_documents - num_before[is_sent], 0)
    return [*pack_by(quotas, owners[is_sent]).items()]


def unpack_quotas(packed: Iterable[bytes]) -> dict[int, int]:
    """By the hash of a line: how many documents of the batch may keep it."""
    quotas: npt.NDArray[np.void] = np.frombuffer(b"".join(packed), dtype=_QUOTA)
    return dict(zip(quotas["line"].tolist(), quotas["quota"].tolist(), strict=True))


def remove_repeated_lines(
    text: str, hashes: Sequence[int], min_characters: int, quotas: dict[int, int]
) -> tuple[str, int]:
    """The text without the lines whose quota is used up, and how many lines went; `hashes` are its
    `line_hashes`.

    Call it once for each document of a batch in order: a line that stays uses up its quota.
    """
    is_used_up: dict[int, bool] = {}
    for line in dict.fromkeys(hashes):
        if line in quotas:
            is_used_up[line] = quotas[line] == 0
            quotas[line] = max(quotas[line] - 1, 0)
    if not any(is_used_up.values()):
        return text, 0
    lines, of_lines = text.split("\n"), iter(hashes)
    left = [
        line
        for line in lines
        if len(line) < min_characters or not is_used_up.get(next(of_lines), False)
    ]
    return squeeze_whitespace("\n".join(left)), len(lines) - len(left)
