"""Hangul syllables as letters, the keys of a Korean keyboard, and sentences with their morphemes.

The arithmetic of syllables is that of the Unicode Standard, section 3.12.
"""

import re
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from electrify.system.outcome import UserError

LEADS = "ㄱㄲㄴㄷㄸㄹㅁㅂㅃㅅㅆㅇㅈㅉㅊㅋㅌㅍㅎ"
VOWELS = "ㅏㅐㅑㅒㅓㅔㅕㅖㅗㅘㅙㅚㅛㅜㅝㅞㅟㅠㅡㅢㅣ"
TAILS = ("", *"ㄱㄲㄳㄴㄵㄶㄷㄹㄺㄻㄼㄽㄾㄿㅀㅁㅂㅄㅅㅆㅇㅈㅊㅋㅌㅍㅎ")
# the letters of the Korean two-set layout (KS X 5002) without Shift, row by row
_KEYBOARD = ("ㅂㅈㄷㄱㅅㅛㅕㅑㅐㅔ", "ㅁㄴㅇㄹㅎㅗㅓㅏㅣ", "ㅋㅌㅊㅍㅠㅜㅡ")
_WORD = re.compile(r"\S+")
Span = tuple[int, int]


def is_syllable(character: str) -> bool:
    return "가" <= character <= "힣"


def letters_of(syllable: str) -> tuple[str, str, str]:
    """Initial consonant, vowel and final consonant ("" if it has none) of a syllable."""
    number = ord(syllable) - ord("가")
    return LEADS[number // 588], VOWELS[number // 28 % 21], TAILS[number % 28]


def syllable_of(lead: str, vowel: str, tail: str = "") -> str:
    """The inverse of `letters_of`."""
    number = (LEADS.index(lead) * 21 + VOWELS.index(vowel)) * 28 + TAILS.index(tail)
    return chr(ord("가") + number)


def has_final_consonant(word: str) -> bool:
    """Whether the last syllable ends in a consonant; False if the last character is none."""
    return is_syllable(word[-1]) and letters_of(word[-1])[2] != ""


_PLACES = {key: (y, x) for y, keys in enumerate(_KEYBOARD) for x, key in enumerate(keys)}
# (rows further down, columns further right); a row stands half a key right of that above it
_STEPS = {(0, -1), (0, 1), (-1, 0), (-1, 1), (1, -1), (1, 0)}
_BESIDE = {
    key: [other for other, (y, x) in _PLACES.items() if (y - row, x - column) in _STEPS]
    for key, (row, column) in _PLACES.items()
}


def neighbours(letter: str) -> tuple[str, ...]:
    """The consonants beside a consonant on the keyboard, or the vowels beside a vowel.

    Empty for a letter that takes Shift or two keys.
    """
    beside = _BESIDE.get(letter, ())
    return tuple(key for key in beside if (key in VOWELS) == (letter in VOWELS))


class KoreanSentence(NamedTuple):
    """A text whose words stand between single spaces, with its morphemes: tokens of kiwi, which
    have `form`, `tag` (of the Sejong tag set), `start` and `end`. They may share a syllable: `갔`
    is 가 + 았."""

    text: str
    morphemes: Sequence[Any]


def word_spans(text: str) -> list[Span]:
    return [match.span() for match in _WORD.finditer(text)]


def analyse(texts: Sequence[str]) -> list[KoreanSentence]:
    return list(map(KoreanSentence, texts, kiwi().tokenize(list(texts))))


@cache
def kiwi() -> Any:
    """kiwipiepy's analyser; `ValueError` where it is not installed."""
    try:
        from kiwipiepy import Kiwi
    except ModuleNotFoundError as error:
        raise UserError("no kiwipiepy: run pip install 'electrify[benchmarks]'") from error
    return Kiwi(num_workers=1)
