"""Characters that have another form, and which kinds of characters a text holds."""

import unicodedata
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.rules.data import read_table

WIDE_ENDS = "。！？︒｡।॥؟۔།။።។៕։"  # of a sentence, with or without a space behind them

# Characters that have another form: half-width and lone jamo, full-width letters, middle dots.
#
# Cleaning and the tokenizer's normaliser are both made from these definitions, so a text has the
# same form for both. The patterns use only what Python, Oniguruma and JavaScript read alike;
# look-behind of one length is one such restriction. All look at neighbours only, never at the
# language of a text. The text is in NFC and has no `FILLERS`.

_LEADS, _VOWELS, _TAILS = (
    "\u1100-\u115e\ua960-\ua97c",
    "\u1161-\u11a7\ud7b0-\ud7c6",
    "\u11a8-\u11ff\ud7cb-\ud7fb",
)
FILLERS = "\u115f\u1160"  # of a missing lead, of a missing vowel
# letters and a symbol that people type as a space, and a line end that few programs know as one
_BLANKS = "\u3164\uffa0\u2800\x85"
_DOTS = "\u30fb\uff65\u2027\u2219\u22c5\u2022"
_ARAEA = "\u318d"
_MAX_RUN = 16  # marks


def _characters(*spans: tuple[int, int]) -> str:
    return "".join(chr(code) for first, last in spans for code in range(first, last + 1))


_HALF_WIDTH = "".join(filter(unicodedata.decomposition, _characters((0xFFA1, 0xFFDC))))
_MODERN_LEADS, _MODERN_VOWELS, _MODERN_TAILS = (
    _characters(span) for span in ((0x1100, 0x1112), (0x1161, 0x1175), (0x11A8, 0x11C2))
)
_FULL_WIDTH_WORD = _characters((0xFF10, 0xFF19), (0xFF21, 0xFF3A), (0xFF41, 0xFF5A))
# right in Chinese and Japanese; only after Hangul, or after others there, are they a slip
_FULL_WIDTH_MARKS = _characters(
    (0xFF01, 0xFF0F), (0xFF1A, 0xFF20), (0xFF3B, 0xFF40), (0xFF5B, 0xFF5E)
)

# The form of each. Every one is one character.
FORM = (
    dict(
        zip(
            _MODERN_LEADS + _MODERN_VOWELS + _MODERN_TAILS,
            "ㄱㄲㄴㄷㄸㄹㅁㅂㅃㅅㅆㅇㅈㅉㅊㅋㅌㅍㅎ"
            "ㅏㅐㅑㅒㅓㅔㅕㅖㅗㅘㅙㅚㅛㅜㅝㅞㅟㅠㅡㅢㅣ"
            "ㄱㄲㄳㄴㄵㄶㄷㄹㄺㄻㄼㄽㄾㄿㅀㅁㅂㅄㅅㅆㅇㅈㅊㅋㅌㅍㅎ",
            strict=True,
        )
    )
    | {c: chr(int(unicodedata.decomposition(c).split()[1], 16)) for c in _HALF_WIDTH}
    | dict.fromkeys(_BLANKS, " ")
    | dict.fromkeys(_DOTS + _ARAEA, "\u00b7")
    | {c: chr(ord(c) - 0xFEE0) for c in _FULL_WIDTH_MARKS + _FULL_WIDTH_WORD}
)

_SYLLABLES = "가-힣"
_LETTERS = f"ㄱ-\u3163\u3165-ㆎ{_HALF_WIDTH}"  # jamo of the compatibility block, now or after
_HANGUL = _SYLLABLES + _LETTERS + _MODERN_LEADS + _MODERN_VOWELS + _MODERN_TAILS
_WORD = f"0-9A-Za-z{_FULL_WIDTH_WORD}"


def _behind(*each: str) -> str:
    return "|".join(f"(?<={one})" for one in each)


def _not_behind(*each: str) -> str:
    return "".join(f"(?<!{one})" for one in each)


_MARK = f"[{_FULL_WIDTH_MARKS}]"
_ACCENT = "[\u0300-\u036f]"
_LEAD, _VOWEL, _TAIL = f"[{_LEADS}]", f"[{_VOWELS}]", f"[{_TAILS}]"
# U+318D is the dot of laws and newspapers, but between jamo it is the old vowel (arae-a)
_JAMO = f"[{_LETTERS}\u1100-\u11ff]"
# What is behind the character, which is the last one there, and before the rest of the text. A lead
# with a vowel is an Old Korean syllable and stays, with its tails: NFC has composed all others.
# A letter or mark with an accent stays, for the accent would compose with the other form.
_CASES = (
    f"(?<=[{_HALF_WIDTH}{_BLANKS}])",
    f"(?<=[{_FULL_WIDTH_WORD}])(?!{_ACCENT})",
    f"(?<=[{_HANGUL}{_FULL_WIDTH_MARKS}]{_MARK})"
    f"(?:{_behind(*(f'[{_HANGUL}]{_MARK}{{{n}}}' for n in range(1, _MAX_RUN + 1)))})"
    f"(?!{_ACCENT})",
    f"(?<=[{_DOTS}])(?:(?<=[{_SYLLABLES}{_WORD})）」’”].)(?=[{_SYLLABLES}])"
    f"|(?<=[{_SYLLABLES}].)(?=[{_WORD}(「‘“]))",
    f"(?<={_ARAEA})(?<!{_JAMO}.)(?!{_JAMO})",
    f"(?<=[{_MODERN_LEADS}])(?!{_LEAD}{{0,2}}{_VOWEL})",
    f"(?<=[{_MODERN_VOWELS}])" + _not_behind(*(_LEAD + n * _VOWEL + "." for n in range(3))),
    f"(?<=[{_MODERN_TAILS}])"
    + _not_behind(*(_LEAD + v * _VOWEL + t * _TAIL + "." for v in (1, 2, 3) for t in (0, 1, 2))),
)
VARIANT_PATTERN = f"[{''.join(FORM)}]"
# Behind a `VARIANT_PATTERN`: the empty string where the other form stands for it.
HAS_FORM = f"(?:{'|'.join(_CASES)})"


# Which kinds of characters a text holds, found in one pass, so that rules may pass by.
#
# A search with a character class costs 10 ns a character, and every rule would pay it; looking the
# whole text up in a table costs a tenth of that, and is shared.

# in data/characters.toml
_NAMED = ("lost", "control", "joiner", "hanja", "misread", "drawn", "line")
LOST, CONTROL, JOINER, HANJA, MISREAD, DRAWN, LINE_MARK = (1 << bit for bit in range(len(_NAMED)))
ODD_SPACE = 128  # white space other than the space and the newline, and blank letters
VARIANT = 256  # that has another form, and fillers of jamo
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
