"""Distinct words with their counts, in batches, so that a table of them need not fit in memory.

This file needs no pyarrow: a host that only trains has none.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.rules.characters import code_points
from vocab.pretokenize import CUT
from vocab.sampling import sampling_shares

BATCH_WORDS = 16_384
# Sums of counts are taken in double precision, exact up to here.
_MAX_TOTAL = 2**52

Counts = NDArray[np.int64]


class WordBatch(NamedTuple):
    """Some distinct words; CUT stands in a word where no piece may cross."""

    words: list[str]
    counts: Counts
    languages: list[str]


Batches = Callable[[], Iterator[WordBatch]]


def language_totals(batches: Batches) -> tuple[dict[str, int], dict[str, int]]:
    """Of each language, all words and distinct words."""
    total: Counter[str] = Counter()
    distinct: Counter[str] = Counter()
    for batch in batches():
        for language, rows in _rows_by_language(batch).items():
            total[language] += int(batch.counts[rows].sum())
            distinct[language] += len(rows)
    return dict(sorted(total.items())), dict(sorted(distinct.items()))


def weighted(batches: Batches, temperature: float, total: Mapping[str, int]) -> Batches:
    """The same words, counted as if text were drawn from languages by p ~ n^temperature.

    `total` are all words of each language. The language that loses most keeps its counts, so that
    no rare word is rounded away; the others are multiplied. Where the sum would pass 2^52, all are
    scaled down, and never below one.
    """
    shares = sampling_shares(total, temperature)
    factors = {language: shares[language] / total[language] for language in total}
    least = min(factors.values(), default=1.0)
    factors = {language: factor / least for language, factor in factors.items()}
    grown = sum(factors[language] * total[language] for language in total)
    if grown > _MAX_TOTAL:
        factors = {name: factor * _MAX_TOTAL / grown for name, factor in factors.items()}
    if all(factor == 1.0 for factor in factors.values()):
        return batches

    def read() -> Iterator[WordBatch]:
        for batch in batches():
            counts = batch.counts.copy()
            for language, rows in _rows_by_language(batch).items():
                scaled = np.rint(counts[rows] * factors[language]).astype(np.int64)
                counts[rows] = np.maximum(scaled, 1)
            yield batch._replace(counts=counts)

    return read


def _rows_by_language(batch: WordBatch) -> dict[str, NDArray[np.intp]]:
    names = dict.fromkeys(batch.languages)
    if len(names) == 1:
        return {name: np.arange(len(batch.languages)) for name in names}
    languages = np.array(batch.languages, dtype=object)
    return {name: np.flatnonzero(languages == name) for name in sorted(names)}


@dataclass(frozen=True)
class CharacterCounts:
    """What a pass over the words finds."""

    characters: dict[str, int]
    num_words: int
    min_count: int  # of the words that take part


def count_characters(batches: Batches, max_words: int) -> CharacterCounts:
    """How often each character occurs, and the count below which words are left out.

    At most `max_words` of the most frequent words are kept. The bound is on the count, not on the
    rank, so that no word is cut by its spelling.
    """
    sums = np.zeros(0x110000)
    counts = [np.empty(0, np.int64)]
    for batch in batches():
        points, of = word_points(batch.words)
        found = np.bincount(points, batch.counts[of])
        sums[: len(found)] += found
        counts.append(batch.counts)
    sums[[ord("\n"), ord(CUT)]] = 0
    characters = {chr(point): int(sums[point]) for point in np.flatnonzero(sums)}
    every = np.concatenate(counts)
    if len(every) <= max_words:
        return CharacterCounts(
            characters, len(every), int(every.min(initial=2**62)) if len(every) else 0
        )
    every.sort()
    threshold = int(every[-max_words - 1]) + 1
    return CharacterCounts(characters, int((every >= threshold).sum()), threshold)


def word_points(words: list[str]) -> tuple[NDArray[np.uint32], NDArray[np.intp]]:
    """The characters of the words, each word led by a newline, and whose word each belongs to."""
    points = code_points("\n" + "\n".join(words))
    return points, np.cumsum(points == ord("\n")) - 1
