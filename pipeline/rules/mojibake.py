"""UTF-8 (or CP949) that was read as Latin-1 or Windows-1252, turned back.

ftfy runs at 3 MB/s, so only lines with a byte sequence of UTF-8 written as Latin letters reach it,
and it decides: "l'âge", "Ân", "Straße“" hold such pairs too and are left.
"""

import re

import ftfy
import numpy as np

from pipeline.rules.characters import MISREAD, SHORT, codes, kinds

# what the bytes 80 to BF look like when read as Windows-1252 or Latin-1
_TRAIL = (
    "\u0080-\u00bf\u0152\u0153\u0160\u0161\u0178\u017d\u017e\u0192\u02c6\u02dc\u2013\u2014"
    "\u2018-\u201a\u201c-\u201e\u2020-\u2022\u2026\u2030\u2039\u203a\u20ac\u2122"
)
# a lead byte with as many trail bytes as it asks for; A0 often became a space
_SEQUENCE = re.compile(
    f"[\u00c2-\u00f4](?:(?<=[\u00c2-\u00df])[{_TRAIL}]|(?<=[\u00e0-\u00ef])[{_TRAIL} ]{{2}}"
    f"|(?<=[\u00f0-\u00f4])[{_TRAIL}]{{3}})"
)
_FEW = 50  # characters to a lead byte, above which one match each is faster than a search
# Nothing is guessed: no U+FFFD for what is lost, no entities, quotes or widths (other rules do).
_CONFIG = ftfy.TextFixerConfig(
    unescape_html=False,
    replace_lossy_sequences=False,
    fix_c1_controls=False,
    fix_line_breaks=False,
    uncurl_quotes=False,
    fix_latin_ligatures=False,
    fix_character_width=False,
    remove_terminal_escapes=False,
    remove_control_chars=False,
    normalization=None,
)
_LATIN_RUN = re.compile("[\u00a1-\u00fe]{6,}")
_HANGUL_ONLY = re.compile("[가-힣]+")
# four syllables or more in UTF-8 read as Latin-1; ftfy leaves some ("ê°\u00a0" four times)
_SYLLABLES = re.compile("(?:[\u00ea-\u00ed][\u0080-\u00bf]{2}){4,}")


def repair_mojibake(text: str) -> str:
    """Repair the lines that hold UTF-8 read as Latin-1 or Windows-1252."""
    if text.isascii() or not kinds(text) & MISREAD or not _has_sequence(text):
        return text
    return "\n".join(
        _repair_line(line) if _SEQUENCE.search(line) else line for line in text.split("\n")
    )


def _has_sequence(text: str) -> bool:
    """As a search, but looking only where lead bytes are, if they are few."""
    if len(text) < SHORT:
        return _SEQUENCE.search(text) is not None
    places = np.flatnonzero(codes(text) - 0xC2 <= 0xF4 - 0xC2)
    if len(places) * _FEW > len(text):
        return _SEQUENCE.search(text) is not None
    return any(_SEQUENCE.match(text, place) for place in places.tolist())


def _repair_line(line: str) -> str:
    line = _SYLLABLES.sub(_from_utf8, line)
    for _ in range(4):  # text may have been misread more than once
        repaired = ftfy.fix_encoding(line, _CONFIG)
        if repaired == line or "\n" in repaired:
            break
        line = repaired
    return line


def _from_utf8(run: re.Match[str]) -> str:
    try:
        decoded = run[0].encode("latin-1").decode("utf-8")
    except UnicodeDecodeError:
        return run[0]
    return decoded if _HANGUL_ONLY.fullmatch(decoded) else run[0]


def repair_korean_mojibake(text: str) -> str:
    """As `repair_mojibake`, and CP949 read as Latin-1: "¾È³çÇÏ¼¼¿ä" is "안녕하세요".

    Only runs of three syllables or more that are Hangul to the last byte; UTF-8 never is, for its
    lead bytes are beyond the Hangul rows of KS X 1001.
    """
    if text.isascii() or not kinds(text) & MISREAD:
        return text
    return repair_mojibake(_LATIN_RUN.sub(_from_cp949, text))


def _from_cp949(run: re.Match[str]) -> str:
    try:
        decoded = run[0].encode("latin-1").decode("euc-kr")
    except UnicodeDecodeError:
        return run[0]
    varied = len(set(decoded)) > 1  # "ÀÀÀÀÀÀ" is a cry, not 응응응
    return decoded if varied and _HANGUL_ONLY.fullmatch(decoded) else run[0]
