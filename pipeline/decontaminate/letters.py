"""A text as its letters and digits alone, in numpy: what is compared with benchmark texts.

Case, spacing, punctuation and width (NFKC) are put aside character by character, so every letter
knows where it stood. A character that NFKC or case folding makes several of gives its first letter
only, and of a letter repeated in a row two are left: laughter of any length is one laugh. What
matters is that corpus and benchmark texts are treated alike.
"""

import unicodedata
from functools import cache

import numpy as np
from numpy.typing import NDArray

from pipeline.rules.characters import code_points

Letters = NDArray[np.uint32]
Keys = NDArray[np.uint64]
Ints = NDArray[np.int64]
BREAK = "\0"  # between texts read at once: a letter that no other text has
_BREAK_LETTER = 1
_WIDE = 0x2E80  # from here on a character is about a syllable or a word: kana, Han, Hangul
_BASE = 0x9E3779B97F4A7C15  # odd; sums of letter * _BASE**n mod 2**64
_MIX = 0xD6E8FEB86659FD93


def read_letters(text: str) -> tuple[Letters, Ints]:
    """The letters of a text, folded, and the place of each in it."""
    folded = _folded_letters()[code_points(text)]
    places = np.flatnonzero(folded)
    letters = folded[places]
    is_kept = np.ones(len(letters), dtype=bool)
    is_kept[2:] = (letters[2:] != letters[1:-1]) | (letters[2:] != letters[:-2])
    return letters[is_kept], places[is_kept]


def is_wide(letters: Letters) -> bool:
    """Whether at least half of the letters are East Asian."""
    return bool(2 * np.count_nonzero(letters >= _WIDE) >= len(letters))


def gram_keys(letters: Letters, width: int) -> Keys:
    """A hash of each `width` letters in a row, where `width` is 4, 8 or 12.

    Polynomials by doubling: h8[i] = h4[i] * B**4 + h4[i + 4]; two to four passes over the text.
    """
    assert width in (4, 8, 12)
    if len(letters) < width:
        return np.empty(0, dtype=np.uint64)
    fourth = np.uint64(pow(_BASE, 4, 2**64))
    twos = _joined(letters.astype(np.uint64), np.uint64(_BASE), 1)
    fours = _joined(twos, np.uint64(pow(_BASE, 2, 2**64)), 2)
    keys = fours
    for have in range(4, width, 4):
        keys = keys[: len(letters) - have - 3] * fourth
        keys += fours[have:]
    keys = keys ^ (keys >> np.uint64(29))
    keys *= np.uint64(_MIX)
    return keys


def _joined(keys: Keys, power: np.uint64, distance: int) -> Keys:
    joined = keys[:-distance] * power
    joined += keys[distance:]
    return joined


@cache
def _folded_letters() -> Letters:
    """By code point: the folded letter or digit, 0 for all else."""
    table = np.zeros(0x110000, dtype=np.uint32)
    for code in range(1, 0x110000):
        if chr(code).isalnum():
            folded = unicodedata.normalize("NFKC", chr(code)).casefold()
            table[code] = next((ord(c) for c in folded if c.isalnum()), 0)
    table[ord(BREAK)] = _BREAK_LETTER
    return table
