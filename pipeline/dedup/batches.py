"""The hashes of a batch of documents, and what of them it sends to the shards of each shuffle.

All hashes are made while the text is at hand, in the first pass, and lie beside it in the work
folder. Only documents that may be near duplicates are read again, for their shingles.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from electrify.config.clean import CleanConfig
from pipeline.dedup.exact import line_hashes, pack_hashes, pack_lines, text_hash, without_case
from pipeline.dedup.minhash import Keys, Offsets, band_keys, shingle
from pipeline.dedup.near import (
    Candidate,
    is_small,
    pack_bands,
    pack_candidates,
    part_of,
    sketch_size,
    unpack_members,
)
from pipeline.dedup.records import NumShards, unpack_removed
from pipeline.documents import ROW_SCHEMA, Row
from pipeline.sources.input_file import ROW_BITS
from pipeline.work_folder import Slice, WorkFolder, for_shards

_WAITING_HASHES = 1 << 22  # of sketches that wait to be sent: 32 MB
# Of the texts that stay: the hash, those of their long lines in order, and the key in each MinHash
# band, only in the first where one will do (`is_small`).
HASHED_SCHEMA = pa.schema(
    [
        *ROW_SCHEMA,
        pa.field("text_hash", pa.binary(16)),
        pa.field("line_hashes", pa.list_(pa.uint64())),
        pa.field("band_keys", pa.list_(pa.uint64())),
    ]
)
_NO_KEYS: Keys = np.empty(0, np.uint64)
ToShard = tuple[int, tuple[int, Slice]]  # shard, and of which batch where the array lies
Answers = tuple[int, Mapping[str, Iterable[bytes]]]  # of shards, to a batch
Make = Callable[[], Iterable[Mapping[int, bytes]]]


def rows_name(batch: int) -> str:
    """The file of the rows of a batch in the work folder."""
    return f"rows-{batch:010d}"


def hash_rows(rows: Sequence[Row], config: CleanConfig) -> pa.RecordBatch:
    """The rows in columns, with the hashes of those that stay."""
    is_kept = np.array([row["reason"] is None for row in rows])
    kept = [row for row in rows if row["reason"] is None]
    texts = [row["text"] for row in kept]
    folded = [without_case(text) for text in texts]
    hashes = np.zeros((len(rows), 2), ">u8")
    hashes[is_kept] = np.frombuffer(b"".join(map(text_hash, folded)), ">u8").reshape(-1, 2)
    lines: list[list[int]] = [[]] * len(texts)
    if config.line_dedup.enabled:
        least = config.line_dedup.min_characters
        lines = [line_hashes(t, case, least) for t, case in zip(texts, folded, strict=True)]
    of_lines = np.fromiter((line for of_text in lines for line in of_text), np.uint64)
    bands, num_bands = _NO_KEYS, np.zeros(len(texts), np.int64)
    if config.near_dedup.enabled and texts:
        bands, num_bands = _band_keys(texts, config)
    columns = pa.RecordBatch.from_pylist([*rows], schema=ROW_SCHEMA).columns
    return pa.RecordBatch.from_arrays(
        [
            *columns,
            pa.FixedSizeBinaryArray.from_buffers(
                pa.binary(16), len(rows), [None, pa.py_buffer(hashes.tobytes())]
            ),
            _lists(of_lines, np.array([*map(len, lines)], np.int64), is_kept),
            _lists(bands, num_bands, is_kept),
        ],
        schema=HASHED_SCHEMA,
    )


def _lists(values: Keys, counts: Offsets, is_kept: NDArray[np.bool_]) -> pa.ListArray:
    """A list for each row; `counts` of values for those that stay, none for the others."""
    lengths = np.zeros(len(is_kept), np.int64)
    lengths[is_kept] = counts
    ends = np.cumsum(lengths, dtype=np.int32)
    offsets = np.concatenate([np.zeros(1, np.int32), ends])
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values))


def _band_keys(texts: Sequence[str], config: CleanConfig) -> tuple[Keys, Offsets]:
    """The keys of all texts, and how many each has: of all bands, of the first if one will do, or
    none."""
    near = config.near_dedup
    shingles = shingle(texts)
    num_shingles = np.diff(shingles.offsets)
    num_keys = np.where(is_small(num_shingles, near.similarity), 1, near.num_bands)
    num_keys[num_shingles == 0] = 0
    keys = band_keys(shingles, near.num_bands, near.rows_per_band)
    return keys[np.arange(near.num_bands) < num_keys[:, None]], num_keys


def send_texts(batch: int, work: WorkFolder, shards: NumShards) -> Iterator[ToShard]:
    """The hashes of the texts that stay."""

    def make() -> Iterator[dict[int, bytes]]:
        rows = _kept(batch, ("text_hash",), (), work)
        hashes = b"".join(rows["text_hash"].to_pylist())
        yield pack_hashes(hashes, rows["rank"].to_numpy(), shards.texts)

    return _sent("texts", batch, make, work)


def send_bands(
    answers: Answers, config: CleanConfig, work: WorkFolder, shards: NumShards
) -> Iterable[ToShard]:
    """The band keys of the documents that are no duplicates."""
    if not config.near_dedup.enabled:
        return ()
    batch = answers[0]

    def make() -> Iterator[dict[int, bytes]]:
        rows = _kept(batch, ("band_keys", "number"), _removed(answers), work)
        keys, counts = _flat(rows["band_keys"])
        yield pack_bands(keys, counts, rows["number"].to_numpy(), shards.bands)

    return _sent("bands", batch, make, work)


def send_sketches(
    members: tuple[int, Iterable[bytes]], config: CleanConfig, work: WorkFolder, shards: NumShards
) -> Iterable[ToShard]:
    """The shingles of the documents of a batch that share a band with others."""
    batch, packed = members

    def make() -> Iterator[dict[int, bytes]]:
        component_of = unpack_members(packed)
        waiting: list[Candidate] = []
        first = 0
        for rows in work.read_rows(rows_name(batch), HASHED_SCHEMA, ["rank", "text"]):
            indices = [p for p in range(len(rows)) if first + p in component_of]
            components = [component_of[first + index] for index in indices]
            first += len(rows)
            if indices:
                waiting += _candidates(rows.take(pa.array(indices)), components, config)
            if sum(len(one.hashes) for one in waiting) > _WAITING_HASHES:
                yield pack_candidates(waiting, shards.sketches)
                waiting = []
        yield pack_candidates(waiting, shards.sketches)

    return _sent("sketches", batch, make, work)


def _candidates(
    rows: pa.RecordBatch, components: Sequence[tuple[int, int]], config: CleanConfig
) -> Iterator[Candidate]:
    ranks, texts = (rows.column(name).to_pylist() for name in ("rank", "text"))
    shingles = shingle(texts)
    keys = band_keys(shingles, config.near_dedup.num_bands, config.near_dedup.rows_per_band)
    for index, (rank, text) in enumerate(zip(ranks, texts, strict=True)):
        component, component_size = part_of(*components[index], rank)
        distinct = shingles.distinct(index)
        hashes = distinct[: sketch_size(component_size)].copy()  # frees the others
        yield Candidate(component, rank, len(text), len(distinct), keys[index], hashes)


def send_lines(
    answers: Answers, config: CleanConfig, work: WorkFolder, shards: NumShards
) -> Iterable[ToShard]:
    """The lines of the documents that no other replaces."""
    if not config.line_dedup.enabled:
        return ()
    batch = answers[0]

    def make() -> Iterator[dict[int, bytes]]:
        rows = _kept(batch, ("line_hashes",), _removed(answers), work)
        lines, counts = _flat(rows["line_hashes"])
        ranks = rows["rank"].to_numpy()
        # 32 bits that tell documents apart
        upper = (ranks >> np.uint64(ROW_BITS)) * np.uint64(0x9E3779B1)
        numbers = np.repeat((ranks + upper).astype(np.uint32), counts)
        yield pack_lines(lines, numbers, config.line_dedup.max_documents, shards.lines)

    return _sent("lines", batch, make, work)


def _removed(answers: Answers) -> Collection[int]:
    """The ranks of the documents of a batch that are removed for others."""
    names = [name for name in ("duplicates", "near_duplicates") if name in answers[1]]
    return {rank for name in names for rank in unpack_removed(answers[1][name])}


def _sent(kind: str, batch: int, make: Make, work: WorkFolder) -> Iterator[ToShard]:
    for shard, where in for_shards(work, f"{kind}-{batch:010d}", make):
        yield shard, (batch, where)


def _kept(
    batch: int, columns: Sequence[str], removed: Collection[int], work: WorkFolder
) -> pa.Table:
    """Columns of the rows that stay but for those of the ranks `removed`, with their ranks;
    "number" counts the rows of the batch."""
    gone = np.array([*removed], np.uint64)
    stored = ["rank", "reason", *(name for name in columns if name != "number")]
    tables, first = [], 0
    for rows in work.read_rows(rows_name(batch), HASHED_SCHEMA, stored):
        numbers = pa.array(np.arange(first, first + len(rows)))
        first += len(rows)
        is_kept = pc.is_null(rows.column("reason"))
        if len(gone):
            is_kept = pc.and_(is_kept, pa.array(~np.isin(rows.column("rank"), gone)))
        tables.append(rows.append_column("number", numbers).filter(is_kept))
    return pa.Table.from_batches(tables).select(["rank", *columns])


def _flat(lists: pa.ChunkedArray) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """The values of a column of lists, and how many each has."""
    joined = lists.combine_chunks()
    counts = pc.fill_null(pc.list_value_length(joined), 0).to_numpy().astype(np.int64)
    return joined.flatten().to_numpy(), counts
