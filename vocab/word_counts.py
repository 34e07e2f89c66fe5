"""Counts of words per language, in Beam.

An element is a row group of a documents file; texts never leave it. Its distinct words go with
their counts into a file, and what is shuffled are the places in these files by the word's hash.
"""

import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.documents import RowGroup, list_row_groups
from pipeline.runner import make_pipeline, run_pipeline
from vocab.count_chunks import ChunkWriter, Place, sum_places
from vocab.count_table import COUNT_SCHEMA
from vocab.pretokenize import CUT, Cuts, WordRules, morphemes_of
from vocab.row_groups import read_columns
from vocab.word_counter import WordCounter

SECONDS_PER_MEGABYTE = 0.04  # of text, one core
MAX_STRINGS = 200_000  # remembered while counting: some 20 MB, of which most come again
_BATCH_BYTES = 1_000_000  # of text, read at once


def write_word_counts(
    documents: Sequence[Path],
    output: Path,
    rules: WordRules,
    runner: str,
    beam_options: Sequence[str] = (),
) -> None:
    """Count the words of documents files into one parquet: language, word, its parts, count.

    Each distinct word is cut into its parts once, by the worker that sums its counts. The bytes do
    not depend on the runner or on the order in which row groups are read.
    """
    scratch = output.with_name(output.name + ".shards")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    groups = list_row_groups(documents)
    num_bytes = sum(group.num_bytes for group in groups)
    pipeline = make_pipeline(runner, beam_options, num_bytes, SECONDS_PER_MEGABYTE)
    (
        pipeline
        | "row groups" >> beam.Create(list(enumerate(groups)))
        | "spread" >> beam.Reshuffle()
        | "count" >> beam.FlatMap(_write_chunks, str(scratch), rules)
        | "by hash" >> beam.GroupByKey()
        | "sum" >> beam.Map(_write_shard, str(scratch), rules)
    )
    run_pipeline(pipeline)
    with pq.ParquetWriter(output, COUNT_SCHEMA, compression="zstd") as writer:
        for path in sorted(scratch.glob("*.parquet")):  # one at a time: never all words in memory
            writer.write_table(pq.read_table(path))
    shutil.rmtree(scratch)


def count_row_group(
    group: RowGroup, rules: WordRules, max_strings: int = MAX_STRINGS
) -> Iterator[tuple[str, pa.Table]]:
    """Words of one row group with their counts, by language.

    Handed out whenever `max_strings` strings are remembered, so a word may come again.
    """
    counters: dict[str, WordCounter] = {}
    for batch in read_columns(group, _BATCH_BYTES):
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


def _write_chunks(
    element: tuple[int, RowGroup], folder: str, rules: WordRules
) -> list[tuple[int, Place]]:
    number, group = element
    with ChunkWriter(Path(folder) / f"{number:06d}.arrow") as writer:
        for language, counts in count_row_group(group, rules):
            if len(counts):
                writer.write(language, counts)
    return writer.places


def _write_shard(element: tuple[int, Iterable[Place]], folder: str, rules: WordRules) -> None:
    shard, places = element
    by_language: dict[str, list[Place]] = {}
    for place in places:
        by_language.setdefault(place.language, []).append(place)
    path = Path(folder) / f"{shard:05d}.parquet"
    temporary = path.with_suffix(".tmp")  # a bundle may run twice: the last rename wins
    with pq.ParquetWriter(temporary, COUNT_SCHEMA, compression="zstd") as writer:
        for language, listed in sorted(by_language.items()):
            table = sum_places(listed)
            words = table["word"]
            columns = {
                "language": pa.repeat(pa.scalar(language, pa.string()), len(table)),
                "word": words,
                "cut": _marked(words, rules.cuts_of(language)),
                "count": table["count"],
            }
            writer.write_table(pa.table(columns, schema=COUNT_SCHEMA))
    temporary.replace(path)


def _marked(words: pa.ChunkedArray, cuts: Cuts) -> pa.Array:
    """The words with their parts marked; null where a word is one part."""
    if cuts == "none":
        return pa.nulls(len(words), pa.string())
    parts = morphemes_of(words.to_pylist(), cuts)
    marked = [CUT.join(found) if len(found) > 1 else None for found in parts]
    return pa.array(marked, pa.string())
