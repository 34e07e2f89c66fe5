"""Hangul syllables as letters, and the letters that stand side by side on a keyboard.

The arithmetic of syllables is that of the Unicode Standard, section 3.12.
"""

import tomllib
from functools import cache
from pathlib import Path

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


@cache
def neighbours(letter: str) -> tuple[str, ...]:
    """The consonants beside a consonant on the keyboard, or the vowels beside a vowel.

    Empty for a letter that takes Shift or two keys.
    """
    path = Path(__file__).with_name("keyboard.toml")
    places = {
        key: (number, column + number / 2)
        for number, row in enumerate(tomllib.loads(path.read_text(encoding="utf-8"))["rows"])
        for column, key in enumerate(row)
    }
    if letter not in places:
        return ()
    row, column = places[letter]
    return tuple(
        key
        for key, (other_row, other_column) in places.items()
        if key != letter
        and abs(other_row - row) <= 1
        and abs(other_column - column) <= 1
        and (key in VOWELS) == (letter in VOWELS)
    )


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
