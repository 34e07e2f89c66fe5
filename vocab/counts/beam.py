"""Counts of words per language, in Beam.

An element is a row group of a documents file; texts never leave it. Its distinct words go with
their counts into a file, and what is shuffled are the places in these files by the word's hash.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from electrify.storage.folder import Folder
from electrify.system.machine import num_cpus
from pipeline.documents import RowGroup, read_columns
from pipeline.runner import is_in_process, make_pipeline, run_pipeline, watch
from pipeline.work_folder import WorkFolder, check_written, share_documents, work_folder
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
    plan: Mapping[str, Any],
    runner: str,
    beam_options: Sequence[str] = (),
    work_dir: str | None = None,
) -> None:
    """Count the words of documents files into one parquet: language, word, its parts, count.

    Each distinct word is cut into its parts once, by the worker that sums its counts. The bytes do
    not depend on the runner or on the order in which row groups are read. An attempt that was
    stopped goes on if the stage's `plan` is the same. `ValueError` if counts are missing where this
    process reads them.
    """
    with work_folder("train-vocab", work_dir, output.parent, plan) as work:
        groups = share_documents(work, work_dir, documents)
        num_bytes = sum(group.num_bytes for group in groups)
        pipeline = make_pipeline(runner, beam_options, num_bytes, SECONDS_PER_MEGABYTE)
        _build(pipeline, groups, work, rules)
        names = [_shard_name(shard) for shard in range(NUM_SHARDS)]
        sizes = {_places_name(n): group.num_bytes / 1e6 for n, group in enumerate(groups)}
        of_shard = num_bytes / 1e6 / NUM_SHARDS
        phases = [
            ("train-vocab: counting words", sizes),
            ("train-vocab: adding counts", dict.fromkeys(names, of_shard)),
        ]
        with watch(phases, "MB", work.names, work.poll_seconds):
            run_pipeline(pipeline)
        check_written(work, names, "counts of words")
        with pq.ParquetWriter(output, COUNT_SCHEMA, compression="zstd") as writer:
            for name in names:  # one at a time: never all words in memory
                with work.fetch(name) as path:
                    if len(table := pq.read_table(path)):
                        writer.write_table(table)


def _build(
    pipeline: beam.Pipeline, groups: Sequence[RowGroup], work: WorkFolder, rules: WordRules
) -> None:
    places = (
        pipeline
        | "row groups" >> beam.Create(list(enumerate(groups)))
        | "spread" >> beam.Reshuffle()
        | "count" >> beam.FlatMap(_write_chunks, work, rules)
    )
    # one process has all cores for morphemes; of several, each has one
    num_threads = num_cpus() if is_in_process(pipeline) else 1
    every = pipeline | "shards" >> beam.Create([(shard, None) for shard in range(NUM_SHARDS)])
    (
        (places, every)
        | "one file each" >> beam.Flatten()
        | "by hash" >> beam.GroupByKey()
        | "sum" >> beam.Map(_write_shard, work, rules, num_threads)
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
    name: str  # of a file in the work folder
    offset: int
    size: int


class ChunkWriter:
    """Writes to an open file, which will have a name in the work folder."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file, self._name = file, name
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
                place = Place(language, self._name, self._file.tell(), len(blob))
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


def sum_places(work: Folder, places: Iterable[Place]) -> pa.Table:
    """The words at these places, each once, with the sums of their counts, sorted."""
    ranges = [(place.name, place.offset, place.offset + place.size) for place in sorted(places)]
    tables = [pa.ipc.open_stream(blob).read_all() for blob in work.read_ranges(ranges)]
    return sum_counts(tables).sort_by("word")


def _write_chunks(
    element: tuple[int, RowGroup], work: WorkFolder, rules: WordRules
) -> list[tuple[int, Place]]:
    number, group = element
    name, kept = f"{number:06d}.arrow", _places_name(number)
    if work.exists(kept):  # by an earlier attempt
        return [(shard, Place(*place)) for shard, place in json.loads(work.read(kept))]
    with work.new_file(name) as path, path.open("wb") as file:
        writer = ChunkWriter(file, name)
        for language, counts in count_row_group(group, rules):
            if len(counts):
                writer.write(language, counts)
    work.write(kept, json.dumps(writer.places).encode())
    return writer.places


def _write_shard(
    element: tuple[int, Iterable[Place | None]],
    work: WorkFolder,
    rules: WordRules,
    num_threads: int,
) -> None:
    shard, places = element
    if work.exists(_shard_name(shard)):  # by an earlier attempt
        return
    by_language: dict[str, list[Place]] = {}
    for place in filter(None, places):
        by_language.setdefault(place.language, []).append(place)
    with (
        work.new_file(_shard_name(shard)) as path,
        pq.ParquetWriter(path, COUNT_SCHEMA, compression="zstd") as writer,
    ):
        for language, listed in sorted(by_language.items()):
            table = sum_places(work, listed)
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


def _places_name(number: int) -> str:
    """Where the words of a row group lie; it is there once they are counted."""
    return f"{number:06d}.places.json"


def _marked(words: pa.ChunkedArray, cuts: Cuts, num_threads: int) -> pa.Array:
    """The words with their parts marked; null where a word is one part."""
    if cuts == "none":
        return pa.nulls(len(words), pa.string())
    parts = morphemes_of(words.to_pylist(), cuts, num_threads)
    marked = [CUT.join(found) if len(found) > 1 else None for found in parts]
    return pa.array(marked, pa.string())
