"""Runs of one character, or of a unit of two, cut to a number of repeats; comments of websites."""

import re
from collections.abc import Callable

from pipeline.rules.characters import DRAWN, RULE, TABLE

HIDDEN_STARS = 4  # by which pipeline/rules/markup/markdown.py knows a hidden name
MIN_RULE = 3  # of what rules are drawn with: "...", "---" and "===" mean something


def squeeze_repeats(max_repeats: int) -> Callable[[str], str]:
    """The rule for at most `max_repeats` (1 or more) of one character or unit in a row.

    Drawn out are Hangul, kana, Han, marks of feeling and pictures; units are of Hangul only
    ("ㅋㅎㅋㅎ"). ASCII letters and digits stay ("www", "0000"). Dots and lines are cut to three,
    dots to fewer where fewer repeats are asked for.
    """
    num_dots = min(MIN_RULE, max_repeats)
    single = re.compile(rf"(.)\1{{{num_dots},}}", re.DOTALL)
    unit = re.compile(rf"([ㄱ-ㅣ가-힣]{{2}})\1{{{max_repeats},}}")

    def cut(run: re.Match[str]) -> str:
        character = run[1]
        kind = int(TABLE[ord(character)])
        if character == ".":
            limit = num_dots
        elif character == "*":
            limit = HIDDEN_STARS
        elif kind & RULE:
            limit = max(MIN_RULE, max_repeats) if character == "~" else MIN_RULE
        elif kind & DRAWN:
            limit = max_repeats
        else:
            return run[0]
        return run[0][:limit]

    return lambda text: unit.sub(lambda run: run[1] * max_repeats, single.sub(cut, text))


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
