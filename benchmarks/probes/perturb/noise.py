"""Noise that text from a crawl has, in any language."""

import html
import re

from numpy.random import Generator

from benchmarks.probes.perturb.places import of_words, substitution

_SIGNS = re.compile(r"[ &<>\"'…·“”‘’]")
_NAMED = {" ": "&nbsp;", "…": "&hellip;", "·": "&middot;"} | {
    "“": "&ldquo;", "”": "&rdquo;", "‘": "&lsquo;", "’": "&rsquo;"
}  # fmt: skip
_BETWEEN = re.compile(r"(?<=\S)(?=\S)")
_INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff"


html_entities = substitution(_SIGNS, lambda m, rng: _NAMED.get(m[0]) or html.escape(m[0]))
zero_width = substitution(_BETWEEN, lambda match, rng: str(rng.choice(list(_INVISIBLE))))


def mojibake(text: str, strength: float, rng: Generator) -> str:
    """Words whose bytes in UTF-8 are read as Windows-1252; ASCII quotes are taken for curly ones
    first, of which such text mostly has the trace."""
    curly = text.replace("'", "’") if text.isascii() else text
    found = _misread(curly, strength, rng)
    return found.replace("’", "'") if text.isascii() else found


# bytes that Windows-1252 has no letter for are read as Latin-1 has them
_misread = of_words(
    lambda word, rng: "".join(
        bytes([byte]).decode("cp1252", errors="ignore") or chr(byte) for byte in word.encode()
    )
)
