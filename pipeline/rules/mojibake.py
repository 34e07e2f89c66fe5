"""UTF-8 that was read as Latin-1 or Windows-1252, turned back line by line.

ftfy decides. It runs at 3 MB/s, so only lines with a byte sequence of UTF-8 written as Latin
letters reach it: "l'âge", "Ân", "Straße“" hold such pairs too and are left.
"""

import re

import ftfy

from pipeline.rules.characters import MISREAD, kinds
from pipeline.rules.data import compile_all, read_table

_TABLE = read_table("mojibake")
_RE = compile_all(_TABLE["patterns"], _TABLE["parts"])
# nothing is guessed for what is lost
_CONFIG = ftfy.TextFixerConfig(replace_lossy_sequences=False, fix_c1_controls=False)
_TO_BYTES = {
    ord(character): byte
    for byte in range(0x80, 0xA0)
    if len(character := bytes([byte]).decode("cp1252", "ignore"))
}


def repair_mojibake(text: str) -> str:
    """The text as it was written, where lines show that they were misread."""
    if text.isascii() or not kinds(text) & MISREAD or not _RE["sequence"].search(text):
        return text
    lines = text.split("\n")
    repaired = "\n".join([_repair_line(x) if _RE["sequence"].search(x) else x for x in lines])
    # where no line was misread, "Crusoé\xa0»" is three letters and not one of Han
    return text if repaired == text else _RE["sequence"].sub(_from_wide, repaired)


def _repair_line(line: str) -> str:
    line = _RE["syllables"].sub(lambda run: _decoded(run[0]) or run[0], line)
    for _ in range(4):  # text may have been misread more than once
        repaired = ftfy.fix_encoding(line, _CONFIG)
        if repaired == line or "\n" in repaired:
            break
        line = repaired
    return line


def _from_wide(part: re.Match[str]) -> str:
    """ "á»™" and "â€™", which are text in no language."""
    words = _decoded(part[0])
    return words if words and words >= "\u1e00" else part[0]


def _decoded(text: str) -> str | None:
    try:
        return text.translate(_TO_BYTES).encode("latin-1").decode("utf-8")
    except UnicodeError:
        return None
