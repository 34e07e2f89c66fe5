"""Text that was read with the wrong encoding, turned back: a whole document or nothing of it.

UTF-8 that was read as Latin-1 or Windows-1252, in all languages; the older encodings of Korean,
Japanese and Chinese that were read so. A long run of such characters shows what happened to the
document. Then every line that was misread must decode, or the document stays as it is.

ftfy looks at UTF-8. It runs at 3 MB/s, so only lines with a byte sequence of UTF-8 written as Latin
letters reach it, and it decides: "l'âge", "Ân", "Straße“" hold such pairs too and are left.
"""

import re

import ftfy

from pipeline.rules.characters import MISREAD, kinds
from pipeline.rules.data import compile_all, read_table

_TABLE = read_table("mojibake")
_RE = compile_all(_TABLE["patterns"], _TABLE["parts"])
# nothing is guessed for what is lost
_CONFIG = ftfy.TextFixerConfig(replace_lossy_sequences=False, fix_c1_controls=False)
# by language: an encoding, characters, runs and their letters
_LEGACY: dict[str, list[tuple[str, str, re.Pattern[str], re.Pattern[str]]]] = {
    language: [
        (row["encoding"], row["characters"], re.compile(row["runs"]), re.compile(row["letters"]))
        for row in encodings
    ]
    for language, encodings in _TABLE["legacy"].items()
}
_TO_BYTES = {
    ord(character): byte
    for byte in range(0x80, 0xA0)
    if len(character := bytes([byte]).decode("cp1252", "ignore"))
}


def repair_mojibake(text: str, language: str) -> str:
    """The text as it was written, if long runs show in which encoding that was."""
    if text.isascii() or not kinds(text) & MISREAD:
        return text
    legacy = _LEGACY.get(language, [])
    for encoding, characters, runs, decoded in legacy:
        has_one = not characters or any(character in text for character in characters)
        if has_one and any(_is_text(run[0], encoding, decoded) for run in runs.finditer(text)):
            return _decoded(text, encoding, is_utf8=False) or text
    if not _RE["sequence"].search(text):
        return text
    lines = text.split("\n")
    repaired = "\n".join([_repair_line(x) if _RE["sequence"].search(x) else x for x in lines])
    if repaired == text:
        return text
    if language not in _TABLE["other_scripts"]:
        return _decoded(text, "utf-8", is_utf8=True) or _RE["sequence"].sub(_from_wide, repaired)
    whole = text
    if _RE["controls"].search(text):
        whole = _RE["spaced"].sub(lambda sequence: sequence[0].replace(" ", "\xa0"), text)
    return _decoded(whole, "cp949" if language == "ko" else "utf-8", is_utf8=True) or text


def _is_text(run: str, encoding: str, letters: re.Pattern[str]) -> bool:
    words = _decode(_bytes(run), encoding) or ""
    # "ÀÀÀÀÀÀ" is a cry, not 응응응
    return len(set(words)) > 1 and letters.fullmatch(words) is not None


def _bytes(text: str) -> bytes | None:
    try:
        return text.translate(_TO_BYTES).encode("latin-1")
    except UnicodeEncodeError:
        return None


def _decode(raw: bytes | None, encoding: str, is_end: bool = False) -> str | None:
    if raw is None:
        return None
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError as error:
        # texts are cut in the middle of a character
        return raw[: error.start].decode(encoding) if is_end and error.end == len(raw) else None


def _decoded(text: str, encoding: str, is_utf8: bool) -> str | None:
    """Each misread line as it was in UTF-8 or in the encoding; None if one was in neither.

    `is_utf8` says what the long runs were. The other is then a part of the document at most.
    """
    lines = text.split("\n")
    misread = _RE["any_byte"] if encoding == "cp932" else _RE["misread"]
    for at, line in enumerate(lines):
        if not misread.search(line):
            continue
        raw = _bytes(line)
        if raw is None:  # it has letters that no byte is: parts of the line were misread
            lines[at] = _decoded_parts(line, encoding, is_utf8)
            continue
        is_end = at == len(lines) - 1
        words = _decode(raw, "utf-8", is_end)
        if words is None or not (is_utf8 or _RE["wide"].search(words)):
            words = _decode(raw, encoding, is_end)
            if words is None or (is_utf8 and _RE["han"].search(words)):
                return None
        lines[at] = _repair_line(words)  # it may have been misread more than once
    return "\n".join(lines)


def _from_wide(part: re.Match[str]) -> str:
    """ "á»™" and "â€™", which are text in no language."""
    words = _decode(_bytes(part[0]), "utf-8")
    return words if words and words >= "\u1e00" else part[0]


def _decoded_parts(line: str, encoding: str, is_utf8: bool) -> str:
    def from_utf8(part: re.Match[str]) -> str:
        words = _decode(_bytes(part[0].replace(" ", "\xa0")), "utf-8")
        if not words or (" " in part[0] and not _RE["wide"].search(words)):
            return part[0]
        # "È¯" is U+022F in UTF-8, and 환 in CP949
        return part[0] if encoding != "utf-8" and "\u0100" <= words < "\u0900" else words

    def from_legacy(part: re.Match[str]) -> str:
        words = _decode(_bytes(part[0]), encoding)
        return words if words and not _RE["han"].search(words) else part[0]

    parts = [(_RE["sequence"], from_utf8)]
    if encoding not in ("utf-8", "cp932"):
        parts.insert(is_utf8, (_RE["high_run"], from_legacy))
    for pattern, decoded in parts:
        line = pattern.sub(decoded, line)
    return line


def _repair_line(line: str) -> str:
    line = _RE["syllables"].sub(_from_utf8, line)
    for _ in range(4):  # text may have been misread more than once
        repaired = ftfy.fix_encoding(line, _CONFIG)
        if repaired == line or "\n" in repaired:
            break
        line = repaired
    return line


def _from_utf8(run: re.Match[str]) -> str:
    words = _decode(_bytes(run[0]), "utf-8")
    return words if words and _RE["hangul"].fullmatch(words) else run[0]
