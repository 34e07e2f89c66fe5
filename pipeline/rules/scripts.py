"""Letters of a text by script, and what a language code stands for: its scripts, models' codes.

Letters are told by Unicode block; numpy on code points, about 5 ns a character.

A script is named by its ISO 15924 code. `Kana` is Hiragana and Katakana; `Zyyy` is any letter of a
block not listed. Marks of Indic scripts, Thai and the like count as letters: they spell vowels.
"""

import re
import unicodedata
from functools import lru_cache

import numpy as np
import pycld2
from langcodes import Language
from numpy.typing import NDArray

from pipeline.rules.characters import codes, ranges_of
from pipeline.rules.data import read_table

_TABLE = read_table("scripts")
_BLOCKS: dict[str, list[tuple[int, int]]] = _TABLE["blocks"]
SCRIPTS: tuple[str, ...] = (*_BLOCKS, "Zyyy")
LANGUAGE_OF_SCRIPT: dict[str, str] = _TABLE["language_of_script"]
# classes of characters that are no letters; the scripts follow
_OTHER, SPACE, NEWLINE, CODE = range(4)
FIRST_SCRIPT = 4
NUM_CLASSES = FIRST_SCRIPT + len(SCRIPTS)
_CODE_CHARACTERS = "{}[]()<>=;_/\\|#$@*+~^&%`"
_LAST_LETTER = 0x323AF  # beyond are no letters (Unicode 15)


@lru_cache
def _class_of_code_point() -> NDArray[np.uint8]:
    """Table from code point to class: 1.1 MB of which a text touches a few pages."""
    scripts = np.full(0x110000, SCRIPTS.index("Zyyy"), dtype=np.uint8)
    for index, ranges in enumerate(_BLOCKS.values()):
        for first, last in ranges:
            scripts[first : last + 1] = index
    kinds = [unicodedata.category(chr(code))[0] for code in range(_LAST_LETTER + 1)]
    kind = np.array(kinds, dtype="U1")
    # marks outside of the blocks stand on letters that are counted themselves
    is_letter = (kind == "L") | ((kind == "M") & (scripts[: len(kind)] != SCRIPTS.index("Zyyy")))
    is_letter[0x3007] = True  # the ideographic zero is a number by class
    table = np.full(0x110000, _OTHER, dtype=np.uint8)
    table[: len(kind)][is_letter] = scripts[: len(kind)][is_letter] + FIRST_SCRIPT
    table[[ord(character) for character in " \t\u00a0\u3000"]] = SPACE
    table[ord("\n")] = NEWLINE
    table[[ord(character) for character in _CODE_CHARACTERS]] = CODE
    return table


@lru_cache(maxsize=1)  # several rules ask it of a text
def classes(text: str) -> NDArray[np.uint8]:
    return _class_of_code_point().take(codes(text))


def script_counts(text: str) -> dict[str, int]:
    """How many letters each script has, scripts without any left out."""
    counts = np.bincount(classes(text), minlength=NUM_CLASSES)[FIRST_SCRIPT:]
    return {SCRIPTS[index]: int(counts[index]) for index in np.flatnonzero(counts)}


@lru_cache(maxsize=1)  # several rules ask it of a text
def own_letters(text: str, scripts: frozenset[str]) -> int:
    """How many letters of the text are of the scripts."""
    return int(np.count_nonzero(_is_of(scripts).take(classes(text))))


@lru_cache(maxsize=1)
def num_letters(text: str) -> int:
    return int(np.count_nonzero(classes(text) >= FIRST_SCRIPT))


def line_counts(text: str) -> NDArray[np.int64]:
    """Characters of each class in each line: shape (lines, NUM_CLASSES).

    About 300 bytes a line: cut a long text first.
    """
    of_character = classes(text)
    ends = np.append(np.flatnonzero(of_character == NEWLINE), len(of_character) - 1)
    lengths = np.diff(ends, prepend=-1)
    rows = np.repeat(np.arange(len(lengths)) * NUM_CLASSES, lengths)
    counts = np.bincount(rows + of_character, minlength=len(lengths) * NUM_CLASSES)
    return counts.reshape(len(lengths), NUM_CLASSES)


@lru_cache
def letter_of(scripts: frozenset[str]) -> re.Pattern[str]:
    """A pattern that finds any letter of the scripts."""
    inside = ranges_of(_is_of(scripts).take(_class_of_code_point()))
    return re.compile(f"[{inside}]" if inside else r"(?!)")


@lru_cache
def _is_of(scripts: frozenset[str]) -> NDArray[np.bool_]:
    """By class of character: whether it is a letter of the scripts."""
    is_of = np.zeros(NUM_CLASSES, dtype=bool)
    is_of[[FIRST_SCRIPT + SCRIPTS.index(name) for name in scripts]] = True
    return is_of


_WRITTEN_IN = {
    language: frozenset(scripts)
    for languages, scripts in _TABLE["written_in"].items()
    for language in languages.split()
}
_FAMILIES = tuple(frozenset(family.split()) for family in _TABLE["families"])
_DETECTED = frozenset(pycld2.DETECTED_LANGUAGES)
MODEL_CODES = frozenset(code for name, code in pycld2.LANGUAGES if name in _DETECTED)


@lru_cache
def scripts_of(language: str) -> frozenset[str]:
    """The scripts a language is written in; empty where they are not known."""
    if language in _WRITTEN_IN:
        return _WRITTEN_IN[language]
    likely = Language.get(language).maximize()
    # for a language it does not know langcodes answers as for English: Latin, US
    if likely.script is None or (likely.territory == "US" and language != "en"):
        return frozenset()
    return frozenset(_TABLE["stands_for"].get(likely.script, [likely.script])) & frozenset(SCRIPTS)


@lru_cache
def family_of(language: str) -> frozenset[str]:
    """The codes a model may give a text of the language; empty where no model knows it."""
    family = frozenset({language}).union(*(codes for codes in _FAMILIES if language in codes))
    return family if family & MODEL_CODES else frozenset()


@lru_cache
def has_spaces(language: str) -> bool:
    """Is the language written with spaces between its words?"""
    return not scripts_of(language) & {"Kana", "Hani", "Thai", "Laoo", "Khmr", "Mymr", "Tibt"}
