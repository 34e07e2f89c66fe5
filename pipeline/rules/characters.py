"""Which kinds of characters a text holds, found in one pass, so that rules may pass by.

A search with a character class costs 10 ns a character, and every rule would pay it; looking the
whole text up in a table costs a tenth of that, and is shared.
"""

import unicodedata
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.rules.data import read_table
from pipeline.rules.forms import FILLERS, FORM

# in data/characters.toml
_NAMED = ("lost", "control", "joiner", "hanja", "misread", "drawn", "rule")
LOST, CONTROL, JOINER, HANJA, MISREAD, DRAWN, RULE = (1 << bit for bit in range(len(_NAMED)))
ODD_SPACE = 128  # white space other than the space and the newline, and blank letters
VARIANT = 256  # of pipeline/rules/forms.py, and fillers of jamo
COMBINING = 512  # marks that stand over or under the letter before

BLANK_LETTERS = "\u2800\u3164\uffa0"


def _table() -> NDArray[np.uint16]:
    table = np.zeros(0x110000, dtype=np.uint16)
    kinds = read_table("characters")
    for bit, name in enumerate(_NAMED):
        for first, last in kinds[name]["ranges"]:
            table[first : last + 1] |= 1 << bit
        table[[*map(ord, kinds[name].get("each", ""))]] |= 1 << bit
        table[[*map(ord, kinds[name].get("without", ""))]] &= ~np.uint16(1 << bit)
    characters = [*map(chr, range(0x20000))]
    spaces = [ord(c) for c in characters if c.isspace() and c not in " \n"]
    table[[*spaces, *map(ord, BLANK_LETTERS)]] |= ODD_SPACE
    table[[*map(ord, (*FORM, *FILLERS))]] |= VARIANT
    table[[ord(c) for c in characters[0x300:] if unicodedata.combining(c)]] |= COMBINING
    return table


TABLE = _table()


def ranges_of(is_one: NDArray[Any]) -> str:
    """The code points of a mask as a pattern has them between brackets."""
    edges = np.flatnonzero(np.diff(is_one, prepend=False, append=False))
    ranges = zip(edges[::2], edges[1::2] - 1, strict=True)
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges)


def code_points(text: str) -> NDArray[np.uint32]:
    """The code points; lone surrogates too."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")


codes = lru_cache(maxsize=2)(code_points)  # of the text that the rules look at now


@lru_cache(maxsize=2)  # rules that change nothing hand on the same text
def kinds(text: str) -> int:
    """All kinds that stand in the text, as bits."""
    return int(np.bitwise_or.reduce(TABLE.take(codes(text))))
