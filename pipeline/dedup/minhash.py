"""MinHash from text: shingles by script, signatures and band keys, many texts at a time in numpy.

A text is folded (case, NFKC, digits of any script) and cut into units: words, that is runs of
letters, marks, digits and underscores; or single characters where more than half of the letters
belong to a script written without spaces (Han, Kana, Thai, Lao, Khmer, Burmese, Tibetan). Korean is
written with spaces: its units are words. A shingle is five units in a row, of a shorter text all of
it. Numbers are kept apart: a review of 1 point is none of 10 points.

Cost: about 25 operations of numpy for each character of a batch and three for each shingle and
permutation; a Python loop over words would take ten times as long.
"""

import re
import sys
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pipeline.rules.characters import code_points
from pipeline.rules.data import read_table

SHINGLE_UNITS = 5
CHARACTERS_AT_ONCE = 1 << 18  # to hash at once: 20 MB of arrays, and few calls of numpy a text
_SEED = 0xE1EC7
# The largest of the odd constants of splitmix64; odd, so that multiplying loses nothing.
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_UNIT_FACTOR = np.uint64(0xBF58476D1CE4E5B9)
_SHINGLE_FACTOR = np.uint64(0x94D049BB133111EB)
_MAX_POWER = 1 << 12
_POWERS = np.cumprod(np.full(_MAX_POWER, _UNIT_FACTOR), dtype=np.uint64)
_BLANK = re.compile("[ \n]")
_SPACELESS_BLOCKS: list[tuple[int, int]] = read_table("scripts")["spaceless"]

Keys = npt.NDArray[np.uint64]
Halves = npt.NDArray[np.uint32]
Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Shingles:
    """The shingles of several texts: text i has `hashes[offsets[i] : offsets[i + 1]]`."""

    hashes: Keys
    offsets: Offsets

    def distinct(self, index: int) -> Keys:
        """The set of one text, sorted."""
        return np.unique(self.hashes[self.offsets[index] : self.offsets[index + 1]])


def shingle(texts: Sequence[str]) -> Shingles:
    """64-bit hashes of the shingles of each text, in order, with repetitions.

    A text longer than `CHARACTERS_AT_ONCE` is cut into pieces of that length: memory stays bounded,
    and the few shingles across the cuts are lost.
    """
    if all(len(text) <= CHARACTERS_AT_ONCE for text in texts):
        return _shingle(texts)
    hashes: list[Keys] = []
    counts = []
    for text in texts:
        starts = range(0, max(1, len(text)), CHARACTERS_AT_ONCE)
        pieces = [_shingle([text[i : i + CHARACTERS_AT_ONCE]]).hashes for i in starts]
        counts.append(sum(map(len, pieces)))
        hashes += pieces
    return Shingles(np.concatenate(hashes), np.concatenate(([0], np.cumsum(counts))))


def band_keys(shingles: Shingles, num_bands: int, rows_per_band: int) -> Keys:
    """(text, band): equal where all minima of the band are; 0 for a text without shingles.

    Two texts of Jaccard similarity s agree in a band with probability s ** rows_per_band.
    """
    lengths = np.diff(shingles.offsets)
    is_full = lengths > 0
    starts = shingles.offsets[:-1][is_full]
    keys = np.zeros((len(lengths), num_bands), dtype=np.uint64)
    factors, summands = _permutations(num_bands * rows_per_band)
    hashes = (shingles.hashes >> np.uint64(32)).astype(np.uint32)  # enough to draw minima from
    permuted = np.empty_like(hashes)
    for band in range(num_bands):
        key = np.full(len(starts), band + 1, dtype=np.uint64)
        for row in range(band * rows_per_band, (band + 1) * rows_per_band):
            np.multiply(hashes, factors[row], out=permuted)
            np.add(permuted, summands[row], out=permuted)
            key = (key ^ np.minimum.reduceat(permuted, starts)) * _SHINGLE_FACTOR
            key ^= key >> np.uint64(32)
        keys[is_full, band] = splitmix64(key)
    return keys


def _shingle(texts: Sequence[str]) -> Shingles:
    by_code = tables()
    codes: npt.NDArray[Any] = code_points("\n".join(texts))
    text_starts = _starts(texts)
    others = np.flatnonzero(~by_code.is_simple.take(codes))
    if len(others):
        texts = [*texts]
        of_texts = np.searchsorted(text_starts, others, side="right") - 1
        indices, firsts = np.unique(of_texts, return_index=True)
        for index, positions in zip(indices.tolist(), np.split(others, firsts[1:]), strict=True):
            texts[index] = _fold_words(texts[index], positions - text_starts[index])
        codes, text_starts = code_points("\n".join(texts)), _starts(texts)
    values = by_code.values.take(codes)
    positions = np.flatnonzero(values)
    bounds = np.searchsorted(positions, text_starts)  # of the texts among the characters of words
    starts_unit = np.ones(len(positions), dtype=bool)
    starts_unit[1:] = values[positions[1:] - 1] == 0
    spaceless = np.flatnonzero(by_code.is_spaceless.take(codes))
    if len(spaceless):
        letters = np.concatenate(([0], np.cumsum(by_code.is_letter.take(codes))))
        num_letters = np.diff(letters[np.minimum(text_starts, len(codes))])
        by_character = np.diff(np.searchsorted(spaceless, text_starts)) * 2 > num_letters
        starts_unit |= np.repeat(by_character, np.diff(bounds))
    starts = np.flatnonzero(starts_unit)
    units = _hash_units(values[positions], starts)
    return _roll(units, np.searchsorted(starts, bounds))


def fold(text: str) -> str:
    """The text without case, in NFKC."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return unicodedata.normalize("NFKC", folded)


def _fold_words(text: str, positions: Offsets) -> str:
    """The text with the words folded that have characters at these positions: nothing joins a space
    or a newline."""
    pieces: list[str] = []
    copied = 0
    for position in positions.tolist():
        if position >= copied:
            space = text.rfind(" ", copied, position)
            start = max(space, text.rfind("\n", max(space, copied), position), copied - 1) + 1
            blank = _BLANK.search(text, position)
            end = blank.start() if blank else len(text)
            pieces += text[copied:start], fold(text[start:end])
            copied = end
    return "".join([*pieces, text[copied:]])


def _starts(texts: Sequence[str]) -> Offsets:
    """Of the texts when they are joined by newlines, and behind the last one."""
    return np.cumsum([0, *(len(text) + 1 for text in texts)])


def _hash_units(values: Keys, starts: Offsets) -> Keys:
    """A polynomial in the characters of each unit: sum of value x factor ** position."""
    lengths = np.diff(starts, append=len(values))
    position = np.arange(len(values), dtype=np.int32)
    position -= np.repeat(starts.astype(np.int32), lengths)
    position &= _MAX_POWER - 1
    return splitmix64(np.add.reduceat(values * _POWERS.take(position), starts))


def _roll(units: Keys, bounds: Offsets) -> Shingles:
    """Combine `SHINGLE_UNITS` units in a row; `bounds` are of the texts among the units."""
    num_units = np.diff(bounds)
    counts = np.where(num_units >= SHINGLE_UNITS, num_units - SHINGLE_UNITS + 1, num_units > 0)
    offsets = np.concatenate(([0], np.cumsum(counts)))
    padded = np.concatenate((units, np.zeros(SHINGLE_UNITS, dtype=np.uint64)))
    # where each shingle starts among the units
    firsts = np.arange(offsets[-1]) + np.repeat(bounds[:-1] - offsets[:-1], counts)
    rolled, short = units, []  # of texts of fewer units, where their one shingle is, and its hash
    for length in range(1, SHINGLE_UNITS):
        texts = np.flatnonzero(num_units == length)
        short.append((offsets[texts], rolled[bounds[texts]]))
        rolled = rolled * _SHINGLE_FACTOR + padded[length : length + len(units)]
    hashes = rolled[firsts]
    for positions, whole in short:
        hashes[positions] = whole
    return Shingles(splitmix64(hashes), offsets)


def splitmix64(values: Keys) -> Keys:
    """The finaliser of SplitMix64 (Steele et al. 2014): every bit of a value reaches every bit.

    `values` is an array: NumPy lets products of arrays wrap round without a warning.
    """
    values = (values ^ (values >> np.uint64(30))) * _UNIT_FACTOR
    values = (values ^ (values >> np.uint64(27))) * _SHINGLE_FACTOR
    mixed: Keys = values ^ (values >> np.uint64(31))
    return mixed


@lru_cache(maxsize=4)
def _permutations(count: int) -> tuple[Halves, Halves]:
    """Odd factors and summands of x -> a x + b modulo 2 ** 32, a permutation of 32-bit hashes."""
    counters = np.arange(1, 2 * count + 1, dtype=np.uint64) * _GOLDEN + np.uint64(_SEED)
    numbers = (splitmix64(counters) >> np.uint64(32)).astype(np.uint32)
    return numbers[:count] | np.uint32(1), numbers[count:]


class _Tables(NamedTuple):
    """By code point, of the folded character."""

    values: Keys  # hash of the character; 0: between words
    is_spaceless: npt.NDArray[np.bool_]
    is_letter: npt.NDArray[np.bool_]
    # folded alike in every text, to one character or to characters that stand between words
    is_simple: npt.NDArray[np.bool_]


@lru_cache(maxsize=1)
def tables() -> _Tables:
    categories = [unicodedata.category(chr(code))[0] for code in range(sys.maxunicode + 1)]
    kinds = np.frombuffer("".join(categories).encode(), dtype="S1")
    is_letter = (kinds == b"L") | (kinds == b"M")
    codes = np.arange(sys.maxunicode + 1, dtype=np.uint64)
    decimals = [c for c in np.flatnonzero(kinds == b"N").tolist() if chr(c).isdecimal()]
    codes[decimals] = [ord("0") + unicodedata.decimal(chr(code)) for code in decimals]
    values = splitmix64((codes + np.uint64(1)) * _GOLDEN)
    is_word = is_letter | (kinds == b"N")
    is_word[ord("_")] = True
    values[~is_word] = 0
    is_spaceless = np.zeros_like(is_letter)
    for first, last in _SPACELESS_BLOCKS:
        is_spaceless[first : last + 1] = True
    is_spaceless &= is_letter
    folded = np.arange(sys.maxunicode + 1)
    is_simple = np.zeros_like(is_letter)
    for code in chain.from_iterable(_FOLDED_ONCE):
        characters = [ord(character) for character in fold(chr(code))]
        if _joins(chr(code)) or any(map(_joins, map(chr, characters))):
            continue
        if len(characters) == 1 or not is_word[characters].any():
            is_simple[code] = True
            folded[code] = characters[0] if len(characters) == 1 else ord("\n")
    return _Tables(values[folded], is_spaceless[folded], is_letter[folded], is_simple)


# the characters that texts have: the first plane without surrogates, and pictures
_FOLDED_ONCE = (range(0xD800), range(0xE000, 0x10000), range(0x1F000, 0x1FB00))


def _joins(character: str) -> bool:
    """May it change its position, or make one character with what stands before it?"""
    return unicodedata.combining(character) != 0 or character in _seconds()


@lru_cache(maxsize=1)
def _seconds() -> frozenset[str]:
    """Second characters of canonical compositions in the first plane, and those of Hangul."""
    pairs = (unicodedata.decomposition(chr(code)).split() for code in range(0x10000))
    canonical = {chr(int(p[1], 16)) for p in pairs if len(p) == 2 and p[0][0] != "<"}
    return frozenset(canonical) | frozenset(map(chr, range(0x1161, 0x11C3)))
