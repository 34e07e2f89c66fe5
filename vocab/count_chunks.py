"""Counts of words on disk between two steps: those of a row group, parted by the word's hash.

Only places in these files travel through the shuffle, so memory does not follow the corpus.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa
import xxhash

NUM_SHARDS = 64
_FIELDS = ("word", "count")


class Place(NamedTuple):
    """Where the words of one language and shard lie."""

    language: str
    path: str
    offset: int
    size: int


class ChunkWriter:
    """Writes one file, which has its name only when it is whole."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._temporary = path.with_suffix(".tmp")  # a bundle may run twice: the last rename wins
        self._file = self._temporary.open("wb")
        self.places: list[tuple[int, Place]] = []  # shard, place

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._file.close()
        if kind is None:
            self._temporary.replace(self._path)

    def write(self, language: str, counts: Mapping[str, int]) -> None:
        """Add counts of words of a language."""
        shards = np.fromiter(map(shard_of, counts), np.uint8, len(counts))
        order = np.argsort(shards, kind="stable")
        ends = np.searchsorted(shards[order], np.arange(NUM_SHARDS), "right").tolist()
        batch = pa.record_batch(
            [pa.array(counts, pa.large_string()), pa.array(counts.values(), pa.int64())], _FIELDS
        ).take(pa.array(order))
        start = 0
        for shard, end in enumerate(ends):
            if end > start:
                blob = _serialized(batch.slice(start, end - start))
                place = Place(language, str(self._path), self._file.tell(), len(blob))
                self._file.write(blob)
                self.places.append((shard, place))
                start = end


def shard_of(word: str) -> int:
    """Which of NUM_SHARDS a word belongs to."""
    return xxhash.xxh3_64_intdigest(word.encode()) % NUM_SHARDS


def _serialized(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as stream:
        stream.write_batch(batch)
    blob: bytes = sink.getvalue().to_pybytes()
    return blob


def sum_places(places: Iterable[Place]) -> pa.Table:
    """The words at these places, each once, with the sums of their counts, sorted."""
    tables = [_read(place) for place in sorted(places)]
    summed = pa.concat_tables(tables).group_by("word", use_threads=False)
    table = summed.aggregate([("count", "sum")]).rename_columns(list(_FIELDS))
    return table.sort_by("word")


def _read(place: Place) -> pa.Table:
    with open(place.path, "rb") as file:
        file.seek(place.offset)
        with pa.ipc.open_stream(file.read(place.size)) as stream:
            return stream.read_all()
