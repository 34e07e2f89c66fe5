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
from vocab.pretokenize import count_words
from vocab.row_groups import RowGroup, list_row_groups, read_texts

NUM_SHARDS = 64
SECONDS_PER_MEGABYTE = 0.25  # of text, one core
_SCHEMA = pa.schema(
    [("language", pa.large_string()), ("word", pa.large_string()), ("count", pa.int64())]
)

LanguageWord = tuple[str, str]


def write_word_counts(
    documents: Sequence[Path],
    output: Path,
    lowercase: bool,
    runner: str,
    beam_options: Sequence[str] = (),
) -> None:
    """Count the words of documents files into one parquet: language, word, count, sorted.

    The bytes do not depend on the runner or on the order in which row groups are read.
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
        | "count" >> beam.FlatMap(_packed_counts, lowercase)
        | "by hash" >> beam.GroupByKey()
        | "sum" >> beam.Map(_write_shard, str(scratch))
    )
    run_pipeline(pipeline)
    tables = [pq.read_table(path) for path in sorted(scratch.glob("*.parquet"))]
    table = pa.concat_tables([_SCHEMA.empty_table(), *tables])
    pq.write_table(
        table.sort_by([("language", "ascending"), ("word", "ascending")]),
        output,
        compression="zstd",
    )
    shutil.rmtree(scratch)


def count_row_group(group: RowGroup, lowercase: bool) -> Counter[LanguageWord]:
    """Words of one row group with their counts, by (language, word)."""
    counts: Counter[LanguageWord] = Counter()
    for texts, languages in read_texts(group):
        by_language: dict[str, list[str]] = {}
        for text, language in zip(texts, languages, strict=True):
            by_language.setdefault(language, []).append(text)
        for language, listed in by_language.items():
            for word, count in count_words(listed, lowercase).items():
                counts[language, word] += count
    return counts


def pack(counts: Iterable[tuple[LanguageWord, int]]) -> bytes:
    """Counts as lines of text; a word holds no whitespace, so a tab can part the fields."""
    return "\n".join(f"{key[0]}\t{key[1]}\t{count}" for key, count in counts).encode()


def unpack(packed: bytes) -> Iterator[tuple[LanguageWord, int]]:
    """What `pack` was given."""
    for line in packed.decode().split("\n"):
        language, word, count = line.split("\t")
        yield (language, word), int(count)


def _packed_counts(group: RowGroup, lowercase: bool) -> Iterator[tuple[int, bytes]]:
    shards: dict[int, list[tuple[LanguageWord, int]]] = {}
    for key, count in count_row_group(group, lowercase).items():
        shard = xxhash.xxh3_64_intdigest(key[1].encode()) % NUM_SHARDS
        shards.setdefault(shard, []).append((key, count))
    for shard, listed in sorted(shards.items()):
        yield shard, pack(listed)


def _write_shard(element: tuple[int, Iterable[bytes]], folder: str) -> None:
    shard, values = element
    counts: Counter[LanguageWord] = Counter()
    for packed in values:
        for key, count in unpack(packed):
            counts[key] += count
    keys = sorted(counts)
    columns = [[key[0] for key in keys], [key[1] for key in keys], [counts[key] for key in keys]]
    arrays = [pa.array(column, kind.type) for column, kind in zip(columns, _SCHEMA, strict=True)]
    path = Path(folder) / f"{shard:05d}.parquet"
    temporary = path.with_suffix(".tmp")  # a bundle may run twice: the last rename wins
    pq.write_table(pa.table(arrays, schema=_SCHEMA), temporary, compression="zstd")
    temporary.replace(path)


def read_word_counts(path: Path) -> dict[str, dict[str, int]]:
    """The counts of each language's words, languages and words sorted."""
    table = pq.read_table(path)
    languages: dict[str, dict[str, int]] = {}
    rows = zip(*(table.column(name).to_pylist() for name in _SCHEMA.names), strict=True)
    for language, word, count in rows:
        languages.setdefault(language, {})[word] = count
    return languages
