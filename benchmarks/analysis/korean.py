"""Hangul syllables as letters, the keys of a Korean keyboard, and sentences with their morphemes.

The arithmetic of syllables is that of the Unicode Standard, section 3.12.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from electrify.storage.files import read_toml
from electrify.system.outcome import UserError

LEADS = "ㄱㄲㄴㄷㄸㄹㅁㅂㅃㅅㅆㅇㅈㅉㅊㅋㅌㅍㅎ"
VOWELS = "ㅏㅐㅑㅒㅓㅔㅕㅖㅗㅘㅙㅚㅛㅜㅝㅞㅟㅠㅡㅢㅣ"
TAILS = ("", *"ㄱㄲㄳㄴㄵㄶㄷㄹㄺㄻㄼㄽㄾㄿㅀㅁㅂㅄㅅㅆㅇㅈㅊㅋㅌㅍㅎ")
_WORD, _HANGUL, _LETTER = re.compile(r"\S+"), re.compile("[가-힣]"), re.compile(r"[^\W\d_]")
_MIN_WORDS, _MIN_HANGUL = 4, 0.8  # words; fraction of the letters
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


def keys_beside(rows: Sequence[str]) -> dict[str, str]:
    """The keys beside each key of any keyboard: in its row, and the two nearest above and below."""
    places = {key: (y, x) for y, keys in enumerate(rows) for x, key in enumerate(keys)}
    # (rows further down, columns further right); a row stands half a key right of that above it
    steps = {(0, -1), (0, 1), (-1, 0), (-1, 1), (1, -1), (1, 0)}
    return {
        key: "".join(other for other, (y, x) in places.items() if (y - row, x - column) in steps)
        for key, (row, column) in places.items()
    }


_BESIDE = keys_beside(read_toml(Path(__file__).with_name("keyboard.toml"))["rows"])


def neighbours(letter: str) -> tuple[str, ...]:
    """The consonants beside a consonant on the keyboard, or the vowels beside a vowel.

    Empty for a letter that takes Shift or two keys.
    """
    beside = _BESIDE.get(letter, "")
    return tuple(key for key in beside if (key in VOWELS) == (letter in VOWELS))


@cache
def mistyped(syllable: str) -> list[tuple[str, str, str]]:
    """(letter, its neighbour, the syllable with it) for every key beside one of the syllable's."""
    letters = letters_of(syllable)
    return [
        (letters[place], key, syllable_of(*(key if n == place else letters[n] for n in range(3))))
        for place, allowed in enumerate((LEADS, VOWELS, TAILS))
        for key in neighbours(letters[place])
        if key in allowed
    ]


class Morpheme(NamedTuple):
    """A morpheme with its part of speech in the Sejong tag set, and its characters.

    Morphemes may share a syllable: `갔` is 가 + 았.
    """

    form: str
    tag: str
    start: int
    end: int


@dataclass(frozen=True)
class KoreanSentence:
    """A text whose words stand between single spaces, with its morphemes."""

    text: str
    morphemes: tuple[Morpheme, ...]


def word_spans(text: str) -> list[Span]:
    return [match.span() for match in _WORD.finditer(text)]


def korean_sentences(texts: Iterable[str], max_characters: int) -> list[str]:
    """The different texts of four words or more, mostly of Hangul, with single spaces, in NFC."""
    sentences: dict[str, None] = {}
    for text in texts:
        line = unicodedata.normalize("NFC", " ".join(text.split()))
        is_korean = len(_HANGUL.findall(line)) >= _MIN_HANGUL * max(1, len(_LETTER.findall(line)))
        if is_korean and len(line) <= max_characters and line.count(" ") + 1 >= _MIN_WORDS:
            sentences[line] = None
    return list(sentences)


def analyse(texts: Sequence[str]) -> list[KoreanSentence]:
    """Each text with its morphemes; tags are without kiwi's mark of irregular verbs."""
    return [
        KoreanSentence(
            text,
            tuple(
                Morpheme(token.form, token.tag.split("-")[0], token.start, token.start + token.len)
                for token in tokens
            ),
        )
        for text, tokens in zip(texts, kiwi().tokenize(list(texts)), strict=True)
    ]


@cache
def kiwi() -> Any:
    """kiwipiepy's analyser; `ValueError` where it is not installed."""
    try:
        from kiwipiepy import Kiwi
    except ModuleNotFoundError as error:
        raise UserError("no kiwipiepy: run pip install 'electrify[benchmarks]'") from error
    return Kiwi(num_workers=1)
