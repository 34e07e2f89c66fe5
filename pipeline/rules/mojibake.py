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
# nothing is guessed for what is lost
_CONFIG = ftfy.TextFixerConfig(replace_lossy_sequences=False, fix_c1_controls=False)
# four syllables or more in UTF-8 read as Latin-1; ftfy leaves some ("ê°\u00a0" four times)
_SYLLABLES = re.compile("(?:[\u00ea-\u00ed][\u0080-\u00bf]{2}){4,}")

# by language: an encoding, characters of which its text has one (empty: any), runs that may be text
# in it, and such a run when it is decoded
_HANGUL, _KANA, _HAN = (re.compile(f"[{letters}]+") for letters in ("가-힣", "ぁ-ヺー", "一-龥"))
_LEGACY = {
    # UTF-8 is never Hangul to the last byte: its lead bytes are beyond the Hangul of KS X 1001
    "ko": [("cp949", "", re.compile("[\u00a1-\u00fe]{6,}"), _HANGUL)],
    "ja": [
        ("cp932", "\x82\x83‚ƒ", re.compile("(?:[\x82\x83‚ƒ][^\x00-\x3f]){2,}"), _KANA),
        ("euc_jp", "¤¥", re.compile("(?:[¤¥][\u00a1-\u00f6]){3,}"), _KANA),
    ],
    "zh": [("gb18030", "", re.compile("(?:[\u00b0-\u00d7][\u00a1-\u00fe]){3,}"), _HAN)],
}
_OTHER_SCRIPTS = frozenset(["ko", "ja", "zh", "ru", "ar", "hi"])  # whose lines are seldom Latin
_TO_BYTES = {
    ord(character): byte
    for byte in range(0x80, 0xA0)
    if len(character := bytes([byte]).decode("cp1252", "ignore"))
}
_HIGH_RUN = re.compile("[\u00a1-\u00fe]{2,}")  # of the encodings that take no bytes of ASCII
_MISREAD = re.compile(f"[\u00c2-\u00f4][{_TRAIL}]|{_HIGH_RUN.pattern}")
_ANY_BYTE = re.compile(f"[\u0080-\u00ff{_TRAIL}]")
# A lead byte is followed by trail bytes, so a space is A0. Where no controls are left it may be the
# space behind a byte that was lost.
_SPACED = re.compile(f"[\u00c2-\u00df] |[\u00e0-\u00ef](?: [{_TRAIL}]|[{_TRAIL}] )")
_CONTROLS = re.compile("[\u0081\u008d\u008f\u0090\u009d]")
_WIDE = re.compile("[\u0900-\ud7ff\uf900-\ufaff\uff00-\uffef]")


def repair_mojibake(text: str, language: str) -> str:
    """The text as it was written, if long runs show in which encoding that was."""
    if text.isascii() or not kinds(text) & MISREAD:
        return text
    legacy = _LEGACY.get(language, [])
    for encoding, characters, runs, decoded in legacy:
        has_one = not characters or any(character in text for character in characters)
        if has_one and any(_is_text(run[0], encoding, decoded) for run in runs.finditer(text)):
            return _decoded(text, encoding, is_utf8=False) or text
    if not _SEQUENCE.search(text):
        return text
    lines = text.split("\n")
    repaired = "\n".join([_repair_line(x) if _SEQUENCE.search(x) else x for x in lines])
    if repaired == text:
        return text
    if language not in _OTHER_SCRIPTS:
        return _decoded(text, "utf-8", is_utf8=True) or _SEQUENCE.sub(_from_wide, repaired)
    whole = text
    if _CONTROLS.search(text):
        whole = _SPACED.sub(lambda sequence: sequence[0].replace(" ", "\xa0"), text)
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
    misread = _ANY_BYTE if encoding == "cp932" else _MISREAD
    for at, line in enumerate(lines):
        if not misread.search(line):
            continue
        raw = _bytes(line)
        if raw is None:  # it has letters that no byte is: parts of the line were misread
            lines[at] = _decoded_parts(line, encoding, is_utf8)
            continue
        is_end = at == len(lines) - 1
        words = _decode(raw, "utf-8", is_end)
        if words is None or not (is_utf8 or _WIDE.search(words)):
            words = _decode(raw, encoding, is_end)
            if words is None or (is_utf8 and _HAN.search(words)):
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
        if not words or (" " in part[0] and not _WIDE.search(words)):
            return part[0]
        # "È¯" is U+022F in UTF-8, and 환 in CP949
        return part[0] if encoding != "utf-8" and "\u0100" <= words < "\u0900" else words

    def from_legacy(part: re.Match[str]) -> str:
        words = _decode(_bytes(part[0]), encoding)
        return words if words and not _HAN.search(words) else part[0]

    parts = [(_SEQUENCE, from_utf8)]
    if encoding not in ("utf-8", "cp932"):
        parts.insert(is_utf8, (_HIGH_RUN, from_legacy))
    for pattern, decoded in parts:
        line = pattern.sub(decoded, line)
    return line


def _repair_line(line: str) -> str:
    line = _SYLLABLES.sub(_from_utf8, line)
    for _ in range(4):  # text may have been misread more than once
        repaired = ftfy.fix_encoding(line, _CONFIG)
        if repaired == line or "\n" in repaired:
            break
        line = repaired
    return line


def _from_utf8(run: re.Match[str]) -> str:
    words = _decode(_bytes(run[0]), "utf-8")
    return words if words and _HANGUL.fullmatch(words) else run[0]
