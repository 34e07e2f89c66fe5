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

from pipeline.rules.characters import codes

# inclusive ranges of code points, from Blocks.txt of Unicode 15
_BLOCKS: dict[str, tuple[tuple[int, int], ...]] = {
    "Latn": (
        (0x41, 0x5A),
        (0x61, 0x7A),
        (0xAA, 0xAA),
        (0xBA, 0xBA),
        (0xC0, 0x2AF),
        (0x1D00, 0x1D25),
        (0x1E00, 0x1EFF),
        (0x2C60, 0x2C7F),
        (0xA722, 0xA7FF),
        (0xAB30, 0xAB6F),
        (0xFB00, 0xFB06),
        (0xFF21, 0xFF5A),
    ),
    "Grek": ((0x370, 0x3FF), (0x1F00, 0x1FFF)),
    "Cyrl": ((0x400, 0x52F), (0x1C80, 0x1C8F), (0x2DE0, 0x2DFF), (0xA640, 0xA69F)),
    "Armn": ((0x530, 0x58F), (0xFB13, 0xFB17)),
    "Hebr": ((0x590, 0x5FF), (0xFB1D, 0xFB4F)),
    "Arab": ((0x600, 0x6FF), (0x750, 0x77F), (0x870, 0x8FF), (0xFB50, 0xFDFF), (0xFE70, 0xFEFC)),
    "Syrc": ((0x700, 0x74F), (0x860, 0x86F)),
    "Thaa": ((0x780, 0x7BF),),
    "Deva": ((0x900, 0x97F), (0xA8E0, 0xA8FF)),
    "Beng": ((0x980, 0x9FF),),
    "Guru": ((0xA00, 0xA7F),),
    "Gujr": ((0xA80, 0xAFF),),
    "Orya": ((0xB00, 0xB7F),),
    "Taml": ((0xB80, 0xBFF),),
    "Telu": ((0xC00, 0xC7F),),
    "Knda": ((0xC80, 0xCFF),),
    "Mlym": ((0xD00, 0xD7F),),
    "Sinh": ((0xD80, 0xDFF),),
    "Thai": ((0xE00, 0xE7F),),
    "Laoo": ((0xE80, 0xEFF),),
    "Tibt": ((0xF00, 0xFFF),),
    "Mymr": ((0x1000, 0x109F), (0xA9E0, 0xA9FF), (0xAA60, 0xAA7F)),
    "Geor": ((0x10A0, 0x10FF), (0x1C90, 0x1CBF), (0x2D00, 0x2D2F)),
    "Hang": (
        (0x1100, 0x11FF),
        (0x3131, 0x318E),
        (0xA960, 0xA97F),
        (0xAC00, 0xD7FF),
        (0xFFA1, 0xFFDC),
    ),
    "Ethi": ((0x1200, 0x139F), (0x2D80, 0x2DDF), (0xAB00, 0xAB2F)),
    "Khmr": ((0x1780, 0x17FF),),
    "Mong": ((0x1800, 0x18AF),),
    "Kana": ((0x3041, 0x30FF), (0x31F0, 0x31FF), (0xFF66, 0xFF9F), (0x1B000, 0x1B16F)),
    "Hani": (
        (0x2E80, 0x2FDF),
        (0x3005, 0x3007),
        (0x3400, 0x4DBF),
        (0x4E00, 0x9FFF),
        (0xF900, 0xFAFF),
        (0x20000, 0x323AF),
    ),
}
SCRIPTS: tuple[str, ...] = (*_BLOCKS, "Zyyy")
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
    """The class of every character."""
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
    """Letters of all scripts."""
    return int(np.count_nonzero(classes(text) >= FIRST_SCRIPT))


def line_counts(text: str) -> NDArray[np.int64]:
    """Characters of each class in each line: shape (lines, NUM_CLASSES).

    About 300 bytes a line: cut a long text first.
    """
    of_character = classes(text)
    ends = np.append(np.flatnonzero(of_character == NEWLINE), len(of_character) - 1)
    if len(ends) > 1 and ends[-1] == ends[-2]:  # a newline at the very end: an empty last line
        lengths = np.append(np.diff(ends[:-1], prepend=-1), 0)
    else:
        lengths = np.diff(ends, prepend=-1)
    rows = np.repeat(np.arange(len(lengths)) * NUM_CLASSES, lengths)
    counts = np.bincount(rows + of_character, minlength=len(lengths) * NUM_CLASSES)
    return counts.reshape(len(lengths), NUM_CLASSES)


@lru_cache
def letter_of(scripts: frozenset[str]) -> re.Pattern[str]:
    """A pattern that finds any letter of the scripts."""
    is_letter = _is_of(scripts).take(_class_of_code_point())
    edges = np.flatnonzero(np.diff(is_letter, prepend=False, append=False))
    ranges = zip(edges[::2], edges[1::2] - 1, strict=True)
    inside = "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges)
    return re.compile(f"[{inside}]" if inside else r"(?!)")


@lru_cache
def _is_of(scripts: frozenset[str]) -> NDArray[np.bool_]:
    """By class of character: whether it is a letter of the scripts."""
    is_of = np.zeros(NUM_CLASSES, dtype=bool)
    is_of[[FIRST_SCRIPT + SCRIPTS.index(name) for name in scripts]] = True
    return is_of


_SEVERAL = tuple("az uz kk ky tk tt tg ug ku mn sr sh bs ro crh gag kaa ba".split())  # noqa: SIM905
_WITH_ARABIC = tuple("pa sd ks ms ha sw wo so su jv".split())  # noqa: SIM905
# languages as they are written in more than one script, or in another than langcodes' usual one
_WRITTEN_IN: dict[str, tuple[str, ...]] = {
    "ko": ("Hang",),
    "ja": ("Kana", "Hani"),
    "zh": ("Hani",),
    **dict.fromkeys(_SEVERAL, ("Latn", "Cyrl", "Arab")),
    **dict.fromkeys(_WITH_ARABIC, ("Latn", "Arab", "Guru", "Deva")),
}
_SCRIPTS_OF_CODE = {
    "Kore": ("Hang",),
    "Jpan": ("Kana", "Hani"),
    "Hans": ("Hani",),
    "Hant": ("Hani",),
}
# codes that stand for one language, or that models take for one another
_FAMILIES = tuple(
    frozenset(codes.split())
    for codes in (
        "no nb nn da",
        "hr sr bs sh cnr sr-ME",
        "id ms min bjn",
        "ar arz ary",
        "fa prs",
        "he iw",
        "jv jw su",
        "tl fil",
        "gl pt",
        "en sco",
        "es gl ast an ext",
        "zh zh-Hant wuu yue",
        "ro mo",
        "sq aln",
        "az azb crh",
        "uz uzs",
        "ku ckb kmr sdh",
        "lv ltg",
        "be ru",
        "mk bg",
        "cs sk",
        "oc ca",
        "tr crh",
        "ba tt",
    )
)


@lru_cache
def scripts_of(language: str) -> frozenset[str]:
    """The scripts a language is written in; empty where they are not known."""
    if language in _WRITTEN_IN:
        return frozenset(_WRITTEN_IN[language])
    likely = Language.get(language).maximize()
    # for a language it does not know langcodes answers as for English: Latin, US
    if likely.script is None or (likely.territory == "US" and language != "en"):
        return frozenset()
    return frozenset(_SCRIPTS_OF_CODE.get(likely.script, (likely.script,))) & frozenset(SCRIPTS)


@lru_cache
def family_of(language: str) -> frozenset[str]:
    """The codes a model may give a text of the language; empty where no model knows it."""
    detected = set(pycld2.DETECTED_LANGUAGES)
    known = {code for name, code in pycld2.LANGUAGES if name in detected}
    family = frozenset({language}).union(*(codes for codes in _FAMILIES if language in codes))
    return family if family & known else frozenset()


@lru_cache
def has_spaces(language: str) -> bool:
    """Is the language written with spaces between its words?"""
    return not scripts_of(language) & {"Kana", "Hani", "Thai", "Laoo", "Khmr", "Mymr", "Tibt"}
