"""Syllables and keys."""

import unicodedata

from benchmarks.analysis.korean import (
    VOWELS,
    has_final_consonant,
    is_syllable,
    letters_of,
    neighbours,
    syllable_of,
)

SYLLABLES = [chr(code) for code in range(0xAC00, 0xD7A4)]
KEYS = "ㅂㅈㄷㄱㅅㅛㅕㅑㅐㅔㅁㄴㅇㄹㅎㅗㅓㅏㅣㅋㅌㅊㅍㅠㅜㅡ"


def test_letters_are_those_of_unicode():
    for syllable in SYLLABLES:
        letters = letters_of(syllable)
        assert syllable_of(*letters) == syllable
        # conjoining jamo of the canonical decomposition, as compatibility jamo
        parts = unicodedata.normalize("NFD", syllable)
        assert len(parts) == len([letter for letter in letters if letter])
        for part, letter in zip(parts, letters, strict=False):
            assert unicodedata.name(part).split()[-1] == unicodedata.name(letter).split()[-1]
    assert [is_syllable(c) for c in "가힣ㄱa"] == [True, True, False, False]
    assert [has_final_consonant(word) for word in ("학교", "집", "b")] == [False, True, False]


def test_neighbours_are_mutual_and_of_one_sort():
    for key in KEYS:
        assert neighbours(key)
        for other in neighbours(key):
            assert key in neighbours(other)
            assert (key in VOWELS) == (other in VOWELS)
    assert set(neighbours("ㄴ")) == {"ㅁ", "ㅇ", "ㅈ", "ㄷ", "ㅋ", "ㅌ"}
    assert neighbours("ㄲ") == neighbours("ㅘ") == ()
