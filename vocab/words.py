"""Distinct words with their counts, in batches, so that a table of them need not fit in memory."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.rules.characters import code_points
from vocab.pretokenize import CUT

COUNT_SCHEMA = pa.schema(
    [
        ("language", pa.string()),
        ("word", pa.string()),
        ("cut", pa.string()),  # the word with its parts marked; null where it is one part
        ("count", pa.int64()),
    ]
)
BATCH_WORDS = 16_384

Counts = NDArray[np.int64]


class WordBatch(NamedTuple):
    """Some distinct words; CUT stands in a word where no piece may cross."""

    words: list[str]
    counts: Counts
    languages: list[str]


Batches = Callable[[], Iterator[WordBatch]]


def read_batches(path: Path) -> Iterator[WordBatch]:
    """Words of a file of `write_word_counts`, BATCH_WORDS at a time."""
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(BATCH_WORDS, use_threads=False):
            yield WordBatch(
                pc.coalesce(batch.column("cut"), batch.column("word")).to_pylist(),
                _counts(batch.column("count")),
                batch.column("language").to_pylist(),
            )


def _counts(column: pa.Array) -> NDArray[np.int64]:
    """As Arrow's to_numpy(), which would import pandas: 45 MB."""
    counts = np.frombuffer(column.buffers()[1], np.int64)
    return counts[column.offset : column.offset + len(column)]


def language_totals(batches: Batches) -> tuple[dict[str, int], dict[str, int]]:
    """Of each language, all words and distinct words."""
    total: Counter[str] = Counter()
    distinct: Counter[str] = Counter()
    for batch in batches():
        for language, rows in rows_by_language(batch).items():
            total[language] += int(batch.counts[rows].sum())
            distinct[language] += len(rows)
    return dict(sorted(total.items())), dict(sorted(distinct.items()))


def weighted(batches: Batches, fractions: Mapping[str, float], total: Mapping[str, int]) -> Batches:
    """The same words, counted as if languages made these fractions of the text.

    `total` are all words of each language. The language that loses most keeps its counts, so that
    no rare word is rounded away; the others are multiplied.
    """
    factors = {language: fractions[language] / total[language] for language in total}
    least = min(factors.values(), default=1.0)
    factors = {language: factor / least for language, factor in factors.items()}
    if all(factor == 1.0 for factor in factors.values()):
        return batches

    def read() -> Iterator[WordBatch]:
        for batch in batches():
            counts = batch.counts.copy()
            for language, rows in rows_by_language(batch).items():
                counts[rows] = np.rint(counts[rows] * factors[language]).astype(np.int64)
            yield batch._replace(counts=counts)

    return read


def rows_by_language(batch: WordBatch) -> dict[str, NDArray[np.intp]]:
    names = dict.fromkeys(batch.languages)
    if len(names) == 1:
        return {name: np.arange(len(batch.languages)) for name in names}
    languages = np.array(batch.languages, dtype=object)
    return {name: np.flatnonzero(languages == name) for name in sorted(names)}


def count_characters(batches: Batches, max_words: int) -> tuple[dict[str, int], int]:
    """How often each character occurs, and the count below which words are left out.

    At most `max_words` of the most frequent words are kept. The bound is on the count, not on the
    rank, so that no word is cut by its spelling.
    """
    sums = np.zeros(0x110000)
    counts = [np.empty(0, np.int64)]
    for batch in batches():
        points, row_of_point = word_points(batch.words)
        counted = np.bincount(points, batch.counts[row_of_point])
        sums[: len(counted)] += counted
        counts.append(batch.counts)
    sums[[ord("\n"), ord(CUT)]] = 0
    characters = {chr(point): int(sums[point]) for point in np.flatnonzero(sums)}
    every = np.sort(np.concatenate(counts))
    return characters, int(every[-max_words - 1]) + 1 if len(every) > max_words else 0


def word_points(words: list[str]) -> tuple[NDArray[np.uint32], NDArray[np.intp]]:
    """The characters of the words, each word led by a newline, and whose word each belongs to."""
    points = code_points("\n" + "\n".join(words))
    return points, np.cumsum(points == ord("\n")) - 1
