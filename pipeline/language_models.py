"""The language of Latin, Cyrillic and Arabic lines, by two models that ship their data."""

import re
from collections.abc import Sequence

import py3langid
import pycld2

_MODEL_CHARACTERS = 300  # of a line, that a model sees
_NOT_LATIN = re.compile("[\u0400-\u052f\u0600-\u06ff]{3}")
_ASCII_WORDS = re.compile("[A-Za-z][A-Za-z0-9_.]*+")


def are_expected(family: frozenset[str], lines: Sequence[str]) -> bool:
    """Does pycld2 find hardly anything but the language in the lines together? 35 MB a second."""
    _, shares = cld2_shares("\n".join(map(shown_to_model, lines)))
    # not its own `reliable`: that is false wherever much of a text is names, and counts as nothing
    own = sum(share for code, share in shares if code in family)
    return own >= 50 and own >= 0.9 * sum(share for _, share in shares)


def language_of_line(line: str, family: frozenset[str]) -> str | None:
    """The code of a line, None where the models differ; `family` is what is expected.

    pycld2 alone (100,000 lines a CPU second) where it finds what is expected; otherwise py3langid
    (12,000) must say the same as pycld2, or the expected language where pycld2 is not sure.
    """
    line = shown_to_model(line)
    reliable, shares = cld2_shares(line)
    if _first_is(shares, family):
        return shares[0][0]
    first = shares[0][0] if reliable and shares else None
    second: str = py3langid.classify(line)[0]
    if first is None:
        return second if second in family else None
    return first if second == first else None


def is_expected(line: str, family: frozenset[str]) -> bool:
    """Does pycld2 find the expected language in at least half of the line?"""
    return _first_is(cld2_shares(shown_to_model(line))[1], family)


def _first_is(shares: Sequence[tuple[str, int]], family: frozenset[str]) -> bool:
    return bool(shares) and shares[0][0] in family and shares[0][1] >= 50


def shown_to_model(line: str) -> str:
    """The start of a line; of one in Cyrillic or Arabic without its Latin names."""
    line = line[:_MODEL_CHARACTERS]
    return _ASCII_WORDS.sub("", line) if _NOT_LATIN.search(line) else line


def cld2_shares(text: str) -> tuple[bool, list[tuple[str, int]]]:
    """Is it sure, and the codes with their percent of the text."""
    try:
        reliable, _, shares = pycld2.detect(text, isPlainText=True)
    except pycld2.error:  # characters that it takes for broken UTF-8
        return False, []
    return reliable, [(code, share) for _, code, share, _ in shares if code != "un"]
