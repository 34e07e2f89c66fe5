"""Counts of words on disk between two steps: those of a row group, parted by the word's hash.

Only places in these files travel through the shuffle, so memory does not follow the corpus.
"""

from collections.abc import Iterable
from typing import BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vocab.counts.counter import sum_counts

NUM_SHARDS = 64
_NUMBERS = np.random.default_rng(0).integers(2**32, size=256, dtype=np.uint32)


class Place(NamedTuple):
    """Where the words of one language and shard lie."""

    language: str
    path: str
    offset: int
    size: int


class ChunkWriter:
    """Writes to an open file, which will be found at `path`."""

    def __init__(self, file: BinaryIO, path: str) -> None:
        self._file, self._path = file, path
        self.places: list[tuple[int, Place]] = []  # shard, place

    def write(self, language: str, words: pa.Table) -> None:
        """Add distinct words of a language with their counts."""
        words = words.combine_chunks()
        shards = shards_of(words["word"].chunk(0)) if len(words) else np.empty(0, np.uint8)
        order = np.argsort(shards, kind="stable")
        ends = np.searchsorted(shards[order], np.arange(NUM_SHARDS), "right").tolist()
        words = words.take(pa.array(order)).combine_chunks()
        start = 0
        for shard, end in enumerate(ends):
            if end > start:
                blob = _serialized(words.slice(start, end - start))
                place = Place(language, self._path, self._file.tell(), len(blob))
                self._file.write(blob)
                self.places.append((shard, place))
                start = end


def shards_of(words: pa.StringArray) -> NDArray[np.uint8]:
    """Which of NUM_SHARDS each word belongs to: by the sum of a random number for each byte."""
    _, offsets, data = words.buffers()
    ends = np.frombuffer(offsets, np.int32)[words.offset : words.offset + len(words) + 1]
    found = np.frombuffer(data or b"", np.uint8)[ends[0] : ends[-1]]
    sums = np.zeros(len(found) + 1, np.uint32)
    np.cumsum(_NUMBERS[found], dtype=np.uint32, out=sums[1:])
    shards: NDArray[np.uint8] = (np.diff(sums[ends - ends[0]]) >> 16).astype(np.uint8) % NUM_SHARDS
    return shards


def _serialized(words: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
    with pa.ipc.new_stream(sink, words.schema, options=options) as stream:
        stream.write_table(words)
    blob: bytes = sink.getvalue().to_pybytes()
    return blob


def sum_places(places: Iterable[Place]) -> pa.Table:
    """The words at these places, each once, with the sums of their counts, sorted."""
    return sum_counts([_read(place) for place in sorted(places)]).sort_by("word")


def _read(place: Place) -> pa.Table:
    with open(place.path, "rb") as file:
        file.seek(place.offset)
        with pa.ipc.open_stream(file.read(place.size)) as stream:
            return stream.read_all()
