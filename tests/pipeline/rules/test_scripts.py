"""Letters by script, against the names of Unicode."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.rules.scripts import (
    FIRST_SCRIPT,
    NEWLINE,
    NUM_CLASSES,
    SCRIPTS,
    letter_of,
    line_counts,
    num_letters,
    own_letters,
    script_counts,
)

_NAMES = {
    "Latn": "LATIN",
    "Grek": "GREEK",
    "Cyrl": "CYRILLIC",
    "Hang": "HANGUL",
    "Arab": "ARABIC",
    "Deva": "DEVANAGARI",
    "Thai": "THAI",
    "Hebr": "HEBREW",
    "Armn": "ARMENIAN",
}
_OTHER_NAMES = ("MODIFIER", "COPTIC", "FULLWIDTH", "FEMININE", "MASCULINE", "GREEK")
_EVERY = "".join(map(chr, range(0x40000)))
_TEXTS = st.text(
    st.sampled_from("aZ가ㄱ漢テあрहिไא 1.,\n{}éǅ") | st.characters(codec=None), max_size=60
)


def test_letters_of_the_blocks_bear_the_names_of_their_scripts():
    for script, name in _NAMES.items():
        for code in range(0xFFFF):
            character = chr(code)
            if not unicodedata.category(character).startswith("L"):
                continue
            named = unicodedata.name(character, "").removeprefix("HALFWIDTH ")
            if script_counts(character).get(script):
                # a few blocks hold letters of others: phonetic signs in the Latin ones
                assert named.split(" ")[0] in {name, *_OTHER_NAMES}, (script, hex(code))


@given(_TEXTS)
def test_counts_of_lines_add_up_to_those_of_the_text(text):
    lines = text.split("\n")
    counts = line_counts(text)
    assert counts.shape == (len(lines), NUM_CLASSES)
    for line, row in zip(lines, counts, strict=True):
        of_line = script_counts(line)
        assert {SCRIPTS[i]: int(n) for i, n in enumerate(row[FIRST_SCRIPT:]) if n} == of_line
        assert row.sum() - row[NEWLINE] == len(line)


@pytest.mark.parametrize("scripts", [{"Hang"}, {"Deva"}, {"Kana", "Hani"}, {"Arab"}, set(SCRIPTS)])
def test_a_pattern_finds_the_letters_that_are_counted(scripts):
    letters = {character for character in _EVERY if scripts & set(script_counts(character))}
    assert set(letter_of(frozenset(scripts)).findall(_EVERY)) == letters


@pytest.mark.parametrize("repeats", [1, 4, 5, 30])
def test_a_text_has_the_share_of_letters_of_its_repetitions(repeats):
    """Vowel signs, number signs and the middle dot count alike in short and long texts."""
    text = "यह हिन्दी में लिखा है, ① ½ Ⅷ and this is English: ア・イ。\n"
    deva = frozenset({"Deva"})
    assert own_letters(text * repeats, deva) == repeats * script_counts(text)["Deva"]
    assert num_letters(text * repeats) == repeats * sum(script_counts(text).values())


def test_digits_symbols_and_lone_accents_are_no_letters():
    assert script_counts("12 ³ ½ + _ \u0301 。 ~ \ud800") == {}
    assert script_counts("") == {}
