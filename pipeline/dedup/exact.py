"""Exact duplicates: documents that are equal, lines that stand in many of them, and documents that
stand in longer ones.

All are found by hashes alone: a text never travels. A batch sends one packed array to each shard,
a shard sends back one packed array to each batch.

Two documents are duplicates if their cleaned texts are equal when case and whitespace are put
aside: Korean copies often differ in their spacing alone. Of each set the one with the smallest
rank, the first in config order, is kept, or those of an earlier corpus: 24 bytes a document one
way, 20 a duplicate the other.

Lines are menus, notices, licences: they stay in the first N documents. A line is known by a hash of
its text without case and spaces. Documents that are removed for others do not count, and a
document of a single line counts never: as a whole it is the business of `exact_dedup`. A batch
sends at most N + 1 records of one line, 12 bytes each, so a line that stands in every document
costs no more than another. Back comes, for each line that stands in more than N documents, how many
documents of the batch may keep it: batches are in the order of ranks, so the first N documents of
the corpus are the first of the first batches.

A document is inside others if each of its units stands in a longer one. Units, of some 64 bytes
without case, blanks and ASCII punctuation, end where eight bytes say so, whatever stands around
them. So a stretch of a text has the units of the whole, but for the pieces at its ends, which are
not compared: a document of which they are more than a fifth is left alone. The longest document
with a unit is inside none, so each unit stays. 20 bytes travel for a unit, 24 back for a pair of
documents that share one.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from string import punctuation

import numpy as np
import numpy.typing as npt
import xxhash

from pipeline.dedup.records import (
    REMOVED,
    are_earlier,
    first_of_run,
    gather,
    pack_by,
    run_starts,
    shard_of,
)
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
    is_new = ~are_earlier(records["rank"])
    order = np.lexsort((records["rank"], is_new, records["low"], records["high"]))
    records, owners, is_new = records[order], owners[order], is_new[order]
    is_first = run_starts(records["high"], records["low"])
    kept = records["rank"][first_of_run(is_first)]
    is_removed = is_new & ~is_first
    removed = np.ones(is_removed.sum(), dtype=REMOVED)  # of similarity 1
    removed["rank"], removed["kept"] = records["rank"][is_removed], kept[is_removed]
    return [*pack_by(removed, owners[is_removed]).items()]


# Lines

_STANDING = np.dtype([("line", "<u8"), ("document", "<u4")])
_QUOTA = np.dtype([("line", "<u8"), ("quota", "<u4")])


def line_hashes(text: str, folded: bytes, min_characters: int) -> Iterator[tuple[int, int]]:
    """(line number, hash) of the lines that are long enough; none if there is one line only.

    `folded` is the text without case.
    """
    lines = text.split("\n")
    if sum(map(bool, lines)) < 2:
        return
    of_lines = folded.translate(None, b" ").split(b"\n")
    for number, (line, of_line) in enumerate(zip(lines, of_lines, strict=True)):
        if len(line) >= min_characters:
            yield number, xxhash.xxh3_64_intdigest(of_line)


def pack_lines(
    lines: npt.NDArray[np.uint64],
    documents: npt.NDArray[np.uint32],
    max_documents: int,
    num_shards: int,
) -> dict[int, bytes]:
    """Packed records of the lines of a batch by shard, at most `max_documents` + 1 of each line.

    `documents` are numbers below 2^32 of the documents of the lines.
    """
    records = np.empty(len(lines), dtype=_STANDING)
    records["line"], records["document"] = lines, documents
    records = np.unique(records)  # by line, then document
    num_before = np.arange(len(records)) - first_of_run(run_starts(records["line"]))
    records = records[num_before <= max_documents]
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
    text: str, min_characters: int, quotas: dict[int, int]
) -> tuple[str, int]:
    """The text without the lines whose quota is used up, and how many lines went.

    Call it once for each document of a batch in order: a line that stays uses up its quota.
    """
    removed: set[int] = set()
    decided: dict[int, bool] = {}
    for number, line in line_hashes(text, without_case(text), min_characters):
        if line not in quotas:
            continue
        if line not in decided:
            decided[line] = quotas[line] == 0
            quotas[line] = max(quotas[line] - 1, 0)
        if decided[line]:
            removed.add(number)
    if not removed:
        return text, 0
    left = [line for number, line in enumerate(text.split("\n")) if number not in removed]
    return squeeze_whitespace("\n".join(left)), len(removed)


# Documents inside longer ones

_UNIT = np.dtype([("unit", "<u8"), ("rank", "<u8"), ("num_units", "<u4")])
_COVERED = np.dtype([("rank", "<u8"), ("kept", "<u8"), ("covered", "<u4"), ("num_units", "<u4")])
_MIN_COMPARED = 0.8  # of a text, in units: a short comment may well be a part of another
_NO_PART = f" \n{punctuation}".encode()  # marks of a list or heading go where a line is joined
_UNIT_BITS = 6  # a place in 2^6 ends a unit
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_PIECE_BYTES = 1 << 20  # looked at together: 16 bytes of memory for each


def unit_hashes(folded: bytes) -> list[int]:
    """Hashes of the distinct units of a text without case; none of a short text."""
    squeezed = folded.translate(None, _NO_PART)
    ends: list[int] = []
    for start in range(0, len(squeezed) - 7, _PIECE_BYTES):
        piece = squeezed[start : start + _PIECE_BYTES + 7]
        windows = np.ndarray(len(piece) - 7, "<u8", piece, strides=(1,))
        is_end = windows * _FACTOR >> np.uint64(64 - _UNIT_BITS) == 0
        ends += (np.flatnonzero(is_end) + (start + 8)).tolist()
    if not ends or ends[-1] - ends[0] < _MIN_COMPARED * len(squeezed):
        return []
    return sorted({xxhash.xxh3_64_intdigest(squeezed[a:b]) for a, b in pairwise(ends)})


def pack_units(
    units: npt.NDArray[np.uint64],
    ranks: npt.NDArray[np.uint64],
    num_units: npt.NDArray[np.int64],
    num_shards: int,
) -> dict[int, bytes]:
    """Packed records of the units of documents by shard; `num_units` of each document."""
    records = np.empty(len(units), dtype=_UNIT)
    records["unit"], records["rank"] = units, np.repeat(ranks, num_units)
    records["num_units"] = np.repeat(num_units, num_units)
    return pack_by(records, shard_of(records["unit"], num_shards))


def find_contained(packed: Iterable[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """(batch, packed records) from the (batch, packed units) of one shard, in any order.

    A record says how many units of a document have another for the longest document with them.
    """
    records, owners = gather(packed, _UNIT)
    order = np.lexsort((records["rank"], -records["num_units"].astype(np.int64), records["unit"]))
    records, owners = records[order], owners[order]
    longest = records[first_of_run(run_starts(records["unit"]))]
    is_covered = records["num_units"] < longest["num_units"]
    covered = np.empty(np.count_nonzero(is_covered), dtype=_COVERED)
    covered["kept"], covered["covered"] = longest["rank"][is_covered], 1
    for name in ("rank", "num_units"):
        covered[name] = records[name][is_covered]
    answers, owners = _summed(covered, owners[is_covered])
    return [*pack_by(answers, owners).items()]


def _summed(
    records: npt.NDArray[np.void], owners: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.void], npt.NDArray[np.int64]]:
    """One record for each pair of documents, in order, and its owner."""
    order = np.lexsort((records["kept"], records["rank"]))
    records, owners = records[order], owners[order]
    starts = np.flatnonzero(run_starts(records["rank"], records["kept"]))
    sums = records[starts]
    sums["covered"] = np.add.reduceat(records["covered"], starts)
    return sums, owners[starts]


def unpack_contained(packed: Iterable[bytes]) -> dict[int, int]:
    """The ranks of documents all of whose units stand in longer ones, with that of the one that has
    most of them."""
    records = np.frombuffer(b"".join(packed), _COVERED)
    pairs, _ = _summed(records, np.zeros(len(records), np.int64))
    num_covered: Counter[int] = Counter()
    most: dict[int, tuple[int, int]] = {}
    contained: dict[int, int] = {}
    for rank, kept, covered, num_units in pairs.tolist():
        num_covered[rank] += covered
        most[rank] = max(most.get(rank, (0, 0)), (covered, -kept))
        if num_covered[rank] == num_units:
            contained[rank] = -most[rank][1]
    return contained
