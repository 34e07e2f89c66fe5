"""Counts of words per language, in Beam.

An element is a row group of a documents file; texts never leave it. Its distinct words go with
their counts into a file, and what is shuffled are the places in these files by the word's hash.
"""

import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple
from uuid import uuid4

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from electrify.stage.folder import whole_file
from electrify.system.machine import num_cpus
from pipeline.documents import RowGroup, list_row_groups, read_columns
from pipeline.runner import is_in_process, make_pipeline, run_pipeline
from vocab.counts.counter import WordCounter, sum_counts
from vocab.counts.table import COUNT_SCHEMA
from vocab.pretokenize import CUT, Cuts, WordRules, morphemes_of

SECONDS_PER_MEGABYTE = 0.04  # of text, one core
MAX_STRINGS = 200_000  # remembered while counting: some 20 MB, of which most come again
NUM_SHARDS = 64  # files of counts, a word in one by its hash
_BATCH_BYTES = 1_000_000  # of text, read at once
_NUMBERS = np.random.default_rng(0).integers(2**32, size=256, dtype=np.uint32)


def write_word_counts(
    documents: Sequence[Path],
    output: Path,
    rules: WordRules,
    runner: str,
    beam_options: Sequence[str] = (),
) -> None:
    """Count the words of documents files into one parquet: language, word, its parts, count.

    Each distinct word is cut into its parts once, by the worker that sums its counts. The bytes do
    not depend on the runner or on the order in which row groups are read. `ValueError` if counts
    are missing where this process reads them.
    """
    # of a name of its own: what is left of an earlier attempt, or still runs, is never in it
    scratch = output.with_name(f"{output.name}.{uuid4().hex}")
    scratch.mkdir()
    groups = list_row_groups(documents)
    num_bytes = sum(group.num_bytes for group in groups)
    pipeline = make_pipeline(runner, beam_options, num_bytes, SECONDS_PER_MEGABYTE)
    places = (
        pipeline
        | "row groups" >> beam.Create(list(enumerate(groups)))
        | "spread" >> beam.Reshuffle()
        | "count" >> beam.FlatMap(_write_chunks, str(scratch), rules)
    )
    # one process has all cores for morphemes; of several, each has one
    num_threads = num_cpus() if is_in_process(pipeline) else 1
    shards = range(NUM_SHARDS)
    every = pipeline | "shards" >> beam.Create([(shard, None) for shard in shards])
    (
        (places, every)
        | "one file each" >> beam.Flatten()
        | "by hash" >> beam.GroupByKey()
        | "sum" >> beam.Map(_write_shard, str(scratch), rules, num_threads)
    )
    run_pipeline(pipeline)
    paths = [scratch / _shard_name(shard) for shard in shards]
    check_written(paths, "counts of words")
    with pq.ParquetWriter(output, COUNT_SCHEMA, compression="zstd") as writer:
        for path in paths:  # one at a time: never all words in memory
            if len(table := pq.read_table(path)):
                writer.write_table(table)
    shutil.rmtree(scratch)


def check_written(paths: Sequence[Path], what: str) -> None:
    """`ValueError` if files that workers have written are not where this process reads them."""
    if missing := [path for path in paths if not path.exists()]:
        raise ValueError(
            f"{what}: {len(missing)} of {len(paths)} files are not in {missing[0].parent}, such as "
            f"{missing[0].name}. Workers wrote elsewhere; give an output_dir that every worker and "
            "this process see, or set clean.runner to local"
        )


def count_row_group(
    group: RowGroup, rules: WordRules, max_strings: int = MAX_STRINGS
) -> Iterator[tuple[str, pa.Table]]:
    """Words of one row group with their counts, by language.

    Handed out whenever `max_strings` strings are remembered, so a word may come again.
    """
    counters: dict[str, WordCounter] = {}
    for batch in read_columns(group, ["text", "language"], _BATCH_BYTES):
        texts, languages = batch.column("text"), batch.column("language")
        for language in pc.unique(languages).to_pylist():
            if language not in counters:
                counters[language] = WordCounter(rules.lowercase, rules.split_digits)
            counters[language].add(texts.filter(pc.equal(languages, language)))
            if counters[language].num_strings > max_strings:
                yield language, counters.pop(language).words()
    while counters:
        language, counter = counters.popitem()
        yield language, counter.words()


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
    return sum_counts([_read_place(place) for place in sorted(places)]).sort_by("word")


def _read_place(place: Place) -> pa.Table:
    with open(place.path, "rb") as file:
        file.seek(place.offset)
        with pa.ipc.open_stream(file.read(place.size)) as stream:
            return stream.read_all()


def _write_chunks(
    element: tuple[int, RowGroup], folder: str, rules: WordRules
) -> list[tuple[int, Place]]:
    number, group = element
    path = Path(folder) / f"{number:06d}.arrow"
    with whole_file(path) as temporary, temporary.open("wb") as file:
        writer = ChunkWriter(file, str(path))
        for language, counts in count_row_group(group, rules):
            if len(counts):
                writer.write(language, counts)
    return writer.places


def _write_shard(
    element: tuple[int, Iterable[Place | None]], folder: str, rules: WordRules, num_threads: int
) -> None:
    shard, places = element
    by_language: dict[str, list[Place]] = {}
    for place in filter(None, places):
        by_language.setdefault(place.language, []).append(place)
    with (
        whole_file(Path(folder) / _shard_name(shard)) as temporary,
        pq.ParquetWriter(temporary, COUNT_SCHEMA, compression="zstd") as writer,
    ):
        for language, listed in sorted(by_language.items()):
            table = sum_places(listed)
            words = table["word"]
            columns = {
                "language": pa.repeat(pa.scalar(language, pa.string()), len(table)),
                "word": words,
                "cut": _marked(words, rules.cuts_of(language), num_threads),
                "count": table["count"],
            }
            writer.write_table(pa.table(columns, schema=COUNT_SCHEMA))


def _shard_name(shard: int) -> str:
    return f"{shard:05d}.parquet"


def _marked(words: pa.ChunkedArray, cuts: Cuts, num_threads: int) -> pa.Array:
    """The words with their parts marked; null where a word is one part."""
    if cuts == "none":
        return pa.nulls(len(words), pa.string())
    parts = morphemes_of(words.to_pylist(), cuts, num_threads)
    marked = [CUT.join(found) if len(found) > 1 else None for found in parts]
    return pa.array(marked, pa.string())
