"""Runs of one character, or of a unit of two, cut to a number of repeats.

A regular expression with back-references costs 20 ns a character. Comparing the text with itself
one or two places on, as arrays, costs 3; what equals is a string of ones to search in.
"""

import re
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from pipeline.rules.characters import DRAWN, DRAWN_LETTER, RULE, SHORT, TABLE, codes

Points = NDArray[np.uint32]

HIDDEN_STARS = 4  # by which pipeline/rules/markup/markdown.py knows a hidden name
MIN_RULE = 3  # of what rules are drawn with: "...", "---" and "===" mean something


def squeeze_repeats(max_repeats: int) -> Callable[[str], str]:
    """The rule for at most `max_repeats` (1 or more) of one character or unit in a row.

    Drawn out are Hangul, kana, Han, marks of feeling and pictures; units are of Hangul only
    ("ㅋㅎㅋㅎ"). ASCII letters and digits stay ("www", "0000"). Dots and lines are cut to three,
    dots to fewer where fewer repeats are asked for.
    """
    num_dots = min(MIN_RULE, max_repeats)
    run = b"\x01" * min(num_dots, max_repeats)
    any_run = len(run) - 1  # places that equal two places on, in either kind of run
    unit_run = b"\x01" * (2 * max_repeats)
    single = re.compile(rf"(.)\1{{{len(run)}}}", re.DOTALL)
    unit = re.compile(rf"([ㄱ-ㅣ가-힣])(?:.\1){{{max_repeats}}}")  # and what only looks like one

    def squeeze(text: str) -> str:
        if len(text) < SHORT:
            if not single.search(text) and not unit.search(text):
                return text
        elif not _equals_two_on(text, any_run):
            return text
        points = codes(text)
        if run in (points[1:] == points[:-1]).tobytes():
            text = _squeeze_single(text, points, max_repeats, num_dots)
            points = codes(text)
        if unit_run in (points[2:] == points[:-2]).tobytes():
            text = _squeeze_units(text, points, max_repeats)
        return text

    return squeeze


def _equals_two_on(text: str, num_places: int) -> bool:
    """Whether so many characters in a row equal those two places on."""
    points = codes(text)
    return b"\x01" * num_places in (points[2:] == points[:-2]).tobytes()


def _runs(equal: bytes, length: int) -> Iterator[tuple[int, int]]:
    """Start and end of each run of at least `length` ones."""
    needle, start = b"\x01" * length, 0
    while (start := equal.find(needle, start)) >= 0:
        end = equal.find(b"\x00", start)
        end = len(equal) if end < 0 else end
        yield start, end
        start = end


def _squeeze_single(text: str, points: Points, max_repeats: int, num_dots: int) -> str:
    kept, at = [], 0
    equal = (points[1:] == points[:-1]).tobytes()
    for start, end in _runs(equal, min(max_repeats, num_dots)):
        character, kind = text[start], int(TABLE[points[start]])
        if character == ".":
            limit = num_dots
        elif character == "*":
            limit = HIDDEN_STARS
        elif kind & RULE:
            limit = max(MIN_RULE, max_repeats) if character == "~" else MIN_RULE
        elif kind & DRAWN:
            limit = max_repeats
        else:
            continue
        if end - start >= limit:
            kept += [text[at:start], character * limit]
            at = end + 1
    return "".join([*kept, text[at:]])


def _squeeze_units(text: str, points: Points, max_repeats: int) -> str:
    letters = (TABLE[points] & DRAWN_LETTER) != 0
    equal = (points[2:] == points[:-2]) & letters[2:] & letters[1:-1] & letters[:-2]
    kept, at = [], 0
    for start, end in _runs(equal.tobytes(), 2 * max_repeats):
        kept += [text[at:start], text[start : start + 2] * max_repeats]
        at = end + 2 - (end - start) % 2
    return "".join([*kept, text[at:]])


# The preset for comments of news and video sites, after KcELECTRA's cleaning.
#
# Kept: Hangul with its jamo, Latin letters, digits, punctuation, symbols and emoji; the case too.
# Gone: Hanja and other scripts, the masks that a site puts over swear words ("OOO"), mentions.
# Repeats are cut to `COMMENT_REPEATS` by the rule of that name. https://github.com/Beomi/KcELECTRA

COMMENT_REPEATS = 2

_OTHER = re.compile(
    "[^\n -~\u00a0-\u024f\u1100-\u11ff\u2010-\u2027\u2030-\u205e\u200d\ufe0f\u20a0-\u20cf"
    "\u20e3\u2100-\u2bff\u3000-\u303f\u3131-\u318e\u3200-\u33ff가-힣\uff01-\uff5e\uffe0-\uffe6"
    "\U0001f000-\U0001faff\U000e0020-\U000e007f]+"
)
_SITE_MASK = re.compile(r"(?<![A-Za-z0-9])[O○◯〇]{3,}+(?![A-Za-z0-9])")
# an address has a name before its @
_MENTION = re.compile(r"(?<![\w.@/])@[\w가-힣][\w가-힣.\-]{1,38}+")


def clean_comment(text: str) -> str:
    """Characters of other scripts become a space; masks and mentions go."""
    if not text.isascii():
        text = _OTHER.sub(" ", text)
    if "@" in text:
        text = _MENTION.sub("", text)
    return _SITE_MASK.sub("", text)
