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
    own_letters,
    script_counts,
)
from tests.pipeline.cases import read_cases

CASES = read_cases(__file__)

_NAMES = CASES["names"]
_EVERY = "".join(map(chr, range(0x10000)))
_TEXTS = st.text(
    st.sampled_from("aZ가ㄱ漢テあрहिไא 1.,\n{}éǅ") | st.characters(codec=None), max_size=60
)


@given(_TEXTS)
def test_counts_of_lines_add_up_to_those_of_the_text(text):
    lines = text.split("\n")
    counts = line_counts(text)
    assert counts.shape == (len(lines), NUM_CLASSES)
    for line, row in zip(lines, counts, strict=True):
        of_line = script_counts(line)
        assert {SCRIPTS[i]: int(n) for i, n in enumerate(row[FIRST_SCRIPT:]) if n} == of_line
        assert row.sum() - row[NEWLINE] == len(line)


@pytest.mark.parametrize(("script", "name"), _NAMES.items())
def test_a_pattern_finds_the_letters_of_a_script(script, name):
    letters = letter_of(frozenset({script})).findall(_EVERY)
    assert own_letters(_EVERY, frozenset({script})) == len(letters)
    names = [unicodedata.name(letter, "").removeprefix("HALFWIDTH ") for letter in letters]
    # a few blocks hold letters of others: phonetic signs in the Latin ones
    assert sum(named.startswith(name) for named in names) > 0.7 * len(letters) > 20


def test_digits_symbols_and_lone_accents_are_no_letters():
    assert script_counts("12 ³ ½ + _ \u0301 。 ~ \ud800") == {}
    assert script_counts("") == {}
