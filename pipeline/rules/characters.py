"""Characters that have another form, and which kinds of characters a text holds."""

import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.rules.data import read_table

WIDE_ENDS = "。！？︒｡।॥؟۔།။።។៕։"  # of a sentence, with or without a space behind them
# what stands between two sentences; also behind "J." and "3."
SENTENCE_BREAK = re.compile(f"[\n\t]+|(?<=[.!?…{WIDE_ENDS}]) +|(?<=[{WIDE_ENDS}])")

# One form of each character, the same for cleaning and the tokenizer's normaliser: half-width
# jamo, full-width letters and digits, and the dots that Korean texts write for the middle dot. No
# form depends on a neighbour, and no form has another one. Full-width punctuation is right in
# Chinese and Japanese, so it stays.

FILLERS = "\u115f\u1160"  # of a missing lead, of a missing vowel
# letters and a symbol that people type as a space
BLANK_LETTERS = "\u2800\u3164\uffa0"
_HALF_WIDTH_JAMO = [chr(code) for code in range(0xFFA1, 0xFFDD)]
_FULL_WIDTH = [chr(code) for code in range(0xFF10, 0xFF5B) if chr(code).isalnum()]
FORM = (
    {
        jamo: chr(int(unicodedata.decomposition(jamo).split()[1], 16))
        for jamo in filter(unicodedata.decomposition, _HALF_WIDTH_JAMO)
    }
    | {character: chr(ord(character) - 0xFEE0) for character in _FULL_WIDTH}
    | dict.fromkeys("\u318d\u2027\uff65", "·")
)
# Which kinds of characters a text holds, found in one pass, so that rules may pass by.
#
# A look into a table costs 4 ns a character, as does the search that skips most texts.

# in data/characters.toml
_NAMED = ("lost", "control", "joiner", "hanja", "misread", "drawn", "line")
LOST, CONTROL, JOINER, HANJA, MISREAD, DRAWN, LINE_MARK = (1 << bit for bit in range(len(_NAMED)))
ODD_SPACE = 128  # white space other than the space and the newline, and blank letters
VARIANT = 256  # that has another form
COMBINING = 512  # marks that stand over or under the letter before
# of no kind that a rule asks for
_USUAL_ONLY = re.compile("[\n -~가-힣ㄱ-ㅣ·‘’“”…、。「」]*+")


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
    table[[*map(ord, FORM)]] |= VARIANT
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


def code_table(characters: Mapping[str, str]) -> NDArray[np.uint32]:
    """The code point that stands for each code point: that of another character, or itself."""
    table = np.arange(0x110000, dtype="<u4")
    table[[*map(ord, characters)]] = [*map(ord, characters.values())]
    return table


def translated(text: str, table: NDArray[np.uint32]) -> str:
    """As `str.translate`, in a tenth of its time."""
    return table.take(codes(text)).tobytes().decode("utf-32-le", "surrogatepass")


@lru_cache(maxsize=2)  # rules that change nothing hand on the same text
def kinds(text: str) -> int:
    """All kinds but DRAWN and LINE_MARK that stand in the text, as bits."""
    if _USUAL_ONLY.fullmatch(text):
        return 0
    return int(np.bitwise_or.reduce(TABLE.take(codes(text), mode="clip")))
