"""What the quality rules look at: words, lines and hashes of a text, each computed once.

The words of a longer text are never cut out: where they begin and end, and a hash of each, come
from arrays of its characters at 4 ns a character, a quarter of what a list of them costs.
"""

from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from pipeline.rules.characters import ODD_SPACE, codes, kinds
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


def most_in_a_bin(keys: NDArray[np.uint64], size: int) -> int:
    """The most frequent run of `size` units stands in the text no more often; nearly as often."""
    if len(keys) < size:
        return 0
    return int(np.bincount(_bins(grams(keys, size))).max())


def _not_alone(hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Places of those that may stand twice: counting bins takes a tenth of the time of sorting."""
    bins = _bins(hashes)
    return np.flatnonzero(np.bincount(bins).take(bins) > 1)


def _bins(hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The first bits of each hash: four to eight bins for each of them."""
    bits = len(hashes).bit_length() + 2
    return (hashes >> np.uint64(64 - bits)).view(np.int64)


SHORT = 300  # characters, below which numpy takes longer to start than Python to finish
_GOLDEN = 0.6180339887  # multiples of it, modulo 1, fall evenly and in step with nothing
_BLOCK = 1 << 16  # characters hashed at once: what is computed stays in the cache
_BASE = 0x9E3779B97F4A7C15  # odd; the hash of a word is the sum of character * _BASE**n mod 2**64


class Parts:
    """A text with what several rules need of it."""

    def __init__(self, text: str, language: str) -> None:
        self.text, self.language = text, language
        self.spaced = has_spaces(language)
        if len(text) < SHORT:  # computed at once is faster than one by one
            words = text.split()
            num_characters = len("".join(words))
            self.__dict__.update(
                words=words,
                _spans=None,
                num_between_spaces=len(words),
                sample=words,
                num_characters=num_characters,
                num_words=len(words) if self.spaced else num_characters / 2,
            )

    @cached_property
    def words(self) -> list[str]:
        """What stands between spaces, also in a language without them."""
        return self.text.split()

    @cached_property
    def _spans(self) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """Where words begin and end; None where a list of words is cheaper, or spaces are odd."""
        if len(self.text) < SHORT or kinds(self.text) & ODD_SPACE:
            return None
        points = codes(self.text)
        spaces = np.flatnonzero((points == 32) | (points == 10))
        starts = np.concatenate(([0], spaces + 1))
        ends = np.append(spaces, len(points))
        filled = ends > starts
        return (starts, ends) if filled.all() else (starts[filled], ends[filled])

    @cached_property
    def sample(self) -> list[str]:
        """One word of every n, 300 or fewer: a share of them is within 6 % of that of all.

        Not every n-th: in a list of names every other word is a bullet.
        """
        step = self.num_between_spaces // 300 + 1
        if step == 1:
            return self.words
        order = np.arange(self.num_between_spaces // step)
        places = ((order + order * _GOLDEN % 1) * step).astype(np.int64)
        if self._spans is None or step < 4:  # cutting all is three times as fast a word
            return [self.words[place] for place in places.tolist()]
        starts, ends = self._spans
        text = self.text
        return [
            text[start:end]
            for start, end in zip(starts[places].tolist(), ends[places].tolist(), strict=True)
        ]

    def first_words(self, num: int) -> list[str]:
        if self._spans is None:
            return self.words[:num]
        return self.text[: self._spans[1][:num].max(initial=0)].split()

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        if self._spans is None:
            return np.fromiter(map(len, self.words), np.int64, len(self.words))
        return self._spans[1] - self._spans[0]

    @cached_property
    def num_between_spaces(self) -> int:
        return len(self.words) if self._spans is None else len(self._spans[0])

    @cached_property
    def num_words(self) -> float:
        """Words; in a language without spaces two characters are taken for one."""
        return self.num_between_spaces if self.spaced else self.num_characters / 2

    @cached_property
    def num_characters(self) -> int:
        """Characters that are no whitespace."""
        return len("".join(self.words)) if self._spans is None else int(self.lengths.sum())

    @cached_property
    def lines(self) -> list[str]:
        return [line for line in map(str.strip, self.text.split("\n")) if line]

    @cached_property
    def units(self) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Hash and length of each word; in a language without spaces, of each character."""
        if not self.spaced:
            points = codes("".join(self.words)).astype(np.uint64)
            return points, np.ones(len(points), dtype=np.int64)
        if self._spans is not None and self.lengths.max(initial=0) < _BLOCK:
            return _word_hashes(codes(self.text), *self._spans), self.lengths
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

    @cached_property
    def max_top_pair(self) -> int:
        """The most frequent pair of words stands in the text no more often."""
        return most_in_a_bin(self.units[0], self.size(2))

    @cached_property
    def longest_share(self) -> float:
        lengths = self.units[1]
        return float(lengths.max(initial=0)) / (self.num_characters or 1)

    @cached_property
    def duplicate_5grams(self) -> float:
        return repeated_fraction(*self.units, self.long_size(5))


def _word_hashes(
    points: NDArray[np.uint32], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """Sums over the places of a block, from which division takes the place of the word."""
    hashes = np.empty(len(starts), dtype=np.uint64)
    powers, inverse = _powers()
    first = 0
    while first < len(starts):
        begin = starts[first]
        behind = int(np.searchsorted(starts, begin + _BLOCK))
        begins, stops = starts[first:behind] - begin, ends[first:behind] - begin
        sums = np.cumsum(points[begin : ends[behind - 1]] * powers[: stops[-1]])
        of_block = hashes[first:behind]
        of_block[:] = sums[stops - 1]
        of_block[1:] -= sums[begins[1:] - 1]
        of_block *= inverse[begins]
        first = behind
    return hashes


@cache
def _powers() -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Powers of the base and of its inverse modulo 2^64, for a block and its last word: 2 MiB."""
    powers: NDArray[np.uint64] = np.full(2 * _BLOCK, _BASE, dtype=np.uint64).cumprod(
        dtype=np.uint64
    )
    one_off = np.full(2 * _BLOCK, pow(_BASE, -1, 2**64), dtype=np.uint64)
    return powers, one_off.cumprod(dtype=np.uint64)
