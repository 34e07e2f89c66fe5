"""Hangul syllables as letters, and the letters that stand side by side on a keyboard.

The arithmetic of syllables is that of the Unicode Standard, section 3.12.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from electrify.storage.files import read_toml

LEADS = "ㄱㄲㄴㄷㄸㄹㅁㅂㅃㅅㅆㅇㅈㅉㅊㅋㅌㅍㅎ"
VOWELS = "ㅏㅐㅑㅒㅓㅔㅕㅖㅗㅘㅙㅚㅛㅜㅝㅞㅟㅠㅡㅢㅣ"
TAILS = ("", *"ㄱㄲㄳㄴㄵㄶㄷㄹㄺㄻㄼㄽㄾㄿㅀㅁㅂㅄㅅㅆㅇㅈㅊㅋㅌㅍㅎ")
_FIRST, _LAST = "가", "힣"


def is_syllable(character: str) -> bool:
    """Whether it is one of the 11,172 composed syllables."""
    return _FIRST <= character <= _LAST


def letters_of(syllable: str) -> tuple[str, str, str]:
    """Initial consonant, vowel and final consonant ("" if it has none) of a syllable."""
    number = ord(syllable) - ord(_FIRST)
    return LEADS[number // 588], VOWELS[number // 28 % 21], TAILS[number % 28]


def syllable_of(lead: str, vowel: str, tail: str = "") -> str:
    """The inverse of `letters_of`."""
    number = (LEADS.index(lead) * 21 + VOWELS.index(vowel)) * 28 + TAILS.index(tail)
    return chr(ord(_FIRST) + number)


def has_final_consonant(word: str) -> bool:
    """Whether the last syllable ends in a consonant; False if the last character is none."""
    return is_syllable(word[-1]) and letters_of(word[-1])[2] != ""


def keys_beside(rows: Sequence[str]) -> dict[str, str]:
    """The keys beside each key of any keyboard: in its row, and the two nearest above and below."""
    places = {
        key: (row, column) for row, keys in enumerate(rows) for column, key in enumerate(keys)
    }
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
    found = []
    for place, allowed in enumerate((LEADS, VOWELS, TAILS)):
        for key in neighbours(letters[place]):
            if key in allowed:
                typed = (*letters[:place], key, *letters[place + 1 :])
                found.append((letters[place], key, syllable_of(*typed)))
    return found
