"""What the quality rules look at: words, lines and hashes of a text, each computed once."""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pipeline.rules.characters import codes
from pipeline.rules.scripts import has_spaces

# How much of a text repeats itself, from hashes of its words: numpy, no dictionary of n-grams.


def grams(keys: NDArray[np.uint64], size: int) -> NDArray[np.uint64]:
    """A hash of every run of `size` units: sum of key_i * odd^i modulo 2^64, mixed."""
    powers = np.cumprod(np.full(size, 0x9E3779B97F4A7C15, dtype=np.uint64))
    mixed = keys * np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(31)
    num = len(keys) - size + 1
    hashes: NDArray[np.uint64] = mixed[:num] * powers[0]
    for index in range(1, size):
        hashes += mixed[index : index + num] * powers[index]
    return hashes


def repeated_fraction(keys: NDArray[np.uint64], lengths: NDArray[np.int64], size: int) -> float:
    """Share of the characters that lie in a run of `size` units that stood earlier in the text.

    Never more for a larger size: a repeated long run is made of repeated short ones.
    """
    if len(keys) <= size:
        return 0.0
    hashes = grams(keys, size)
    chosen = _not_alone(hashes)
    ordered = np.sort(hashes[chosen])  # 5 times faster than argsort
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    if not len(repeated):
        return 0.0
    at = np.minimum(np.searchsorted(repeated, hashes[chosen]), len(repeated) - 1)
    places = chosen[repeated[at] == hashes[chosen]]
    order = places[np.argsort(hashes[places], kind="stable")]
    again = order[1:][hashes[order[1:]] == hashes[order[:-1]]]
    # +1 where a repeated run starts, -1 behind it: inside is where the sum is positive
    edges = np.bincount(again, minlength=len(keys) + 1)
    edges -= np.bincount(again + size, minlength=len(keys) + 1)
    inside = np.cumsum(edges)[:-1] > 0
    return float(lengths[inside].sum() / lengths.sum())


def top_fraction(keys: NDArray[np.uint64], lengths: NDArray[np.int64], size: int) -> float:
    """Share of the characters in the most frequent run of `size` units; the longest of a tie.

    Overlapping runs count as often as they stand, as with Gopher; 0 if none stands twice.
    """
    if len(keys) <= size:
        return 0.0
    hashes = grams(keys, size)
    ordered = np.sort(hashes[_not_alone(hashes)])
    if not len(ordered):
        return 0.0
    edges = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    starts = np.concatenate(([0], edges))
    counts = np.concatenate((edges, [len(ordered)])) - starts
    highest = int(counts.max())
    if highest == 1:
        return 0.0
    most = ordered[starts[counts == highest]]
    at = np.minimum(np.searchsorted(most, hashes), len(most) - 1)
    places = np.flatnonzero(most[at] == hashes)
    ends = np.cumsum(lengths)
    longest = int((ends[places + size - 1] - ends[places] + lengths[places]).max())
    return min(1.0, longest * highest / int(ends[-1]))


def _not_alone(hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Places of those that may stand twice: counting bins takes a tenth of the time of sorting.

    The first bits of each hash are its bin: there are four to eight for each of them.
    """
    bits = len(hashes).bit_length() + 2
    bins = (hashes >> np.uint64(64 - bits)).view(np.int64)
    return np.flatnonzero(np.bincount(bins).take(bins) > 1)


class Parts:
    """A text with what several rules need of it."""

    def __init__(self, text: str, language: str) -> None:
        self.text, self.language = text, language
        self.spaced = has_spaces(language)

    @cached_property
    def words(self) -> list[str]:
        """What stands between spaces, also in a language without them."""
        return self.text.split()

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        return np.fromiter(map(len, self.words), np.int64, len(self.words))

    @cached_property
    def num_words(self) -> float:
        """Words; in a language without spaces two characters are taken for one."""
        return len(self.words) if self.spaced else self.num_characters / 2

    @cached_property
    def num_characters(self) -> int:
        """Characters that are no whitespace."""
        return len("".join(self.words))

    @cached_property
    def lines(self) -> list[str]:
        return [line for line in map(str.strip, self.text.split("\n")) if line]

    @cached_property
    def units(self) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Hash and length of each word; in a language without spaces, of each character."""
        if not self.spaced:
            points = codes("".join(self.words)).astype(np.uint64)
            return points, np.ones(len(points), dtype=np.int64)
        # Python's string hash differs from run to run; only whether two are equal is looked at
        hashes = np.fromiter(map(hash, self.words), np.int64, len(self.words))
        return hashes.view(np.uint64), self.lengths

    def size(self, num_words: int) -> int:
        """n words as a number of units: as `num_words` takes them."""
        return num_words if self.spaced else 2 * num_words

    def long_size(self, num_words: int) -> int:
        """As `size`, of five words and more: in a language without spaces three characters a word.

        Runs of characters begin within words, too, so that short ones repeat in any good text.
        """
        return num_words if self.spaced else 3 * num_words
