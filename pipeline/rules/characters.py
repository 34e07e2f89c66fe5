"""Which kinds of characters a text holds, found in one pass, so that rules may pass by.

A search with a character class costs 10 ns a character, and every rule would pay it; looking the
whole text up in a table costs a tenth of that, and is shared.
"""

import unicodedata
from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pipeline.rules.forms import FILLERS, FORM

LOST = 1  # surrogates, U+FFFD, noncharacters
CONTROL = 2
JOINER = 4
ODD_SPACE = 8  # white space other than the space and the newline, and blank letters
VARIANT = 16  # of pipeline/rules/forms.py, and fillers of jamo
HANJA = 256
MISREAD = 512  # Latin letters that are lead bytes of UTF-8 when read as Latin-1
# of the rule for repeats
DRAWN = 1024  # people draw it out
DRAWN_LETTER = 2048  # Hangul
RULE = 4096  # rules are drawn with it
COMBINING = 8192  # marks that stand over or under the letter before

BLANK_LETTERS = "\u2800\u3164\uffa0"
_NUMERALS = "一二三四五六七八九十百千万〇零"


def _table() -> NDArray[np.uint16]:
    table = np.zeros(0x110000, dtype=np.uint16)

    def mark(kind: int, *spans: tuple[int, int]) -> None:
        for first, last in spans:
            table[first : last + 1] |= kind

    def mark_each(kind: int, characters: Iterable[str]) -> None:
        for character in characters:
            table[ord(character)] |= kind

    mark(LOST, (0xD800, 0xDFFF), (0xFFFD, 0xFFFF))
    mark(CONTROL, (0x00, 0x08), (0x0E, 0x1F), (0x7F, 0x84), (0x86, 0x9F), (0xAD, 0xAD))
    mark(CONTROL, (0x180E, 0x180E), (0x200B, 0x200B), (0x200E, 0x200F), (0x202A, 0x202E))
    mark(CONTROL, (0x2060, 0x206F), (0xFEFF, 0xFEFF), (0xFFF9, 0xFFFB))
    mark(JOINER, (0x200C, 0x200D))
    mark_each(ODD_SPACE, (c for c in map(chr, range(0x10000)) if c.isspace() and c not in " \n"))
    mark_each(ODD_SPACE, BLANK_LETTERS)
    mark_each(VARIANT, (*FORM, *FILLERS))
    mark(HANJA, (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x323AF))
    mark(MISREAD, (0xC2, 0xF4))
    mark(DRAWN_LETTER, (0x3131, 0x3163), (0xAC00, 0xD7A3))
    mark(DRAWN, (0x3131, 0x3163), (0xAC00, 0xD7A3), (0x3041, 0x3096), (0x30A1, 0x30FA))
    mark(DRAWN, (0x4E00, 0x9FFF), (0x1F300, 0x1FAFF))
    mark_each(DRAWN, "!?~^,;…·ㆍ。、！？～♡♥❤★☆♪♬※ーｰ")
    mark_each(COMBINING, filter(unicodedata.combining, map(chr, range(0x300, 0x20000))))
    for numeral in _NUMERALS:
        table[ord(numeral)] &= ~np.uint16(DRAWN)
    mark_each(RULE, ".-=_*#~+/\\|─━═―—•◆■□●○◇▶▷")
    return table


TABLE = _table()


def code_points(text: str) -> NDArray[np.uint32]:
    """The code points; lone surrogates too."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")


codes = lru_cache(maxsize=2)(code_points)  # of the text that the rules look at now


@lru_cache(maxsize=2)  # rules that change nothing hand on the same text
def kinds(text: str) -> int:
    """All kinds that stand in the text, as bits."""
    return int(np.bitwise_or.reduce(TABLE.take(codes(text))))
