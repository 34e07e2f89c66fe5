"""Noise that text from a crawl has, in any language."""

import html
import re

from numpy.random import Generator

from benchmarks.probes.perturb.places import change_words, substitute

_SIGNS = re.compile(r"[ &<>\"'…·“”‘’]")
_NAMED = {" ": "&nbsp;", "…": "&hellip;", "·": "&middot;"} | {
    "“": "&ldquo;", "”": "&rdquo;", "‘": "&lsquo;", "’": "&rsquo;"
}  # fmt: skip
_BETWEEN = re.compile(r"(?<=\S)(?=\S)")
_INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff"


def html_entities(text: str, strength: float, rng: Generator) -> str:
    return substitute(
        _SIGNS, lambda match: _NAMED.get(match[0]) or html.escape(match[0]), text, strength, rng
    )


def zero_width(text: str, strength: float, rng: Generator) -> str:
    return substitute(
        _BETWEEN, lambda match: str(rng.choice(list(_INVISIBLE))), text, strength, rng
    )


def mojibake(text: str, strength: float, rng: Generator) -> str:
    """Words whose bytes in UTF-8 are read as Windows-1252; ASCII quotes are taken for curly ones
    first, of which such text mostly has the trace."""
    curly = text.replace("'", "’") if text.isascii() else text
    return change_words(curly, _misread, strength, rng).replace("’", "'" if text.isascii() else "’")


def _misread(word: str) -> str:
    """Bytes that Windows-1252 has no letter for are read as Latin-1 has them."""
    return "".join(
        bytes([byte]).decode("cp1252", errors="ignore") or chr(byte) for byte in word.encode()
    )
