"""Counts of words per language, in Beam.

An element is a row group of a documents file; texts never leave it. What is shuffled are its
distinct words with their counts, packed into one value for each shard of the word's hash.
"""

import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from pipeline.runner import make_pipeline, run_pipeline
from vocab.count_table import COUNT_SCHEMA
from vocab.pretokenize import CUT, Cuts, WordCounter, WordRules, morphemes_of
from vocab.row_groups import RowGroup, list_row_groups, read_texts

NUM_SHARDS = 64
SECONDS_PER_MEGABYTE = 0.25  # of text, one core
MAX_STRINGS = 100_000  # distinct, remembered while counting: some 20 MB

LanguageWord = tuple[str, str]


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
    groups, num_bytes = list_row_groups(documents)
    pipeline = make_pipeline(runner, beam_options, num_bytes, SECONDS_PER_MEGABYTE)
    (
        pipeline
        | "row groups" >> beam.Create(groups)
        | "spread" >> beam.Reshuffle()
        | "count" >> beam.FlatMap(_packed_counts, rules)
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
) -> Iterator[tuple[str, Counter[str]]]:
    """Words of one row group with their counts, by language.

    Handed out whenever `max_strings` distinct strings are remembered, so a word may come again.
    """
    counters: dict[str, WordCounter] = {}
    for texts, languages in read_texts(group):
        for text, language in zip(texts, languages, strict=True):
            if language not in counters:
                counters[language] = WordCounter(rules.lowercase, rules.split_digits)
            counters[language].add(text)
            if len(counters[language]) > max_strings:
                yield language, counters.pop(language).words()
    while counters:
        language, counter = counters.popitem()
        yield language, counter.words()


def pack(counts: Iterable[tuple[LanguageWord, int]]) -> bytes:
    """Counts as lines of text; a word holds no whitespace, so a tab can part the fields."""
    return "\n".join(f"{key[0]}\t{key[1]}\t{count}" for key, count in counts).encode()


def unpack(packed: bytes) -> Iterator[tuple[LanguageWord, int]]:
    """What `pack` was given."""
    for line in packed.decode().split("\n"):
        language, word, count = line.split("\t")
        yield (language, word), int(count)


def _packed_counts(group: RowGroup, rules: WordRules) -> Iterator[tuple[int, bytes]]:
    for language, counts in count_row_group(group, rules):
        shards: list[list[tuple[LanguageWord, int]]] = [[] for _ in range(NUM_SHARDS)]
        while counts:
            word, count = counts.popitem()
            shard = xxhash.xxh3_64_intdigest(word.encode()) % NUM_SHARDS
            shards[shard].append(((language, word), count))
        for number, listed in enumerate(shards):
            if listed:
                yield number, pack(listed)
                listed.clear()


def _write_shard(element: tuple[int, Iterable[bytes]], folder: str, rules: WordRules) -> None:
    shard, values = element
    counts: Counter[LanguageWord] = Counter()
    for packed in values:
        for key, count in unpack(packed):
            counts[key] += count
    keys = sorted(counts)
    words = [key[1] for key in keys]
    columns = {
        "language": [key[0] for key in keys],
        "word": words,
        "cut": _marked(keys, rules),
        "count": [counts[key] for key in keys],
    }
    path = Path(folder) / f"{shard:05d}.parquet"
    temporary = path.with_suffix(".tmp")  # a bundle may run twice: the last rename wins
    pq.write_table(pa.table(columns, schema=COUNT_SCHEMA), temporary, compression="zstd")
    temporary.replace(path)


def _marked(keys: Sequence[LanguageWord], rules: WordRules) -> list[str | None]:
    marked: list[str | None] = [None] * len(keys)
    by_cuts: dict[Cuts, list[int]] = {}
    for row, (language, _) in enumerate(keys):
        by_cuts.setdefault(rules.cuts_of(language), []).append(row)
    for cuts, rows in by_cuts.items():
        parts = morphemes_of([keys[row][1] for row in rows], cuts)
        for row, found in zip(rows, parts, strict=True):
            marked[row] = CUT.join(found) if len(found) > 1 else None
    return marked
