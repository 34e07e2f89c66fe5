"""The encoding of a text file: recognised by its mark, guessed from its bytes, read as text."""

import codecs
import re
from functools import cache
from pathlib import Path
from typing import Any

from electrify.storage.files import read_toml
from electrify.system.outcome import UserError

_SAMPLE_BYTES = 1 << 16
_TABLES: dict[str, Any] = read_toml(Path(__file__).with_name("encodings.toml"))
_KANA = "".join(map(chr, (*range(0x3041, 0x3097), *range(0x30A1, 0x30FB))))
_USUAL = {language: frozenset(letters) for language, letters in _TABLES["usual"].items()}
_USUAL["ja"] |= frozenset(_KANA)
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # begins as the mark of UTF-16 does, so it is looked at first
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_MIN_FRACTION, _MIN_USUAL_FRACTION = 0.5, 0.2
# Languages whose codecs are tried together; Latin letters are what most codecs make of any byte.
_IN_TURN = (
    *(("ko", "ja", "zh"), ("ru", "uk", "ar", "fa", "he", "el", "th")),
    *(("tr",), ("vi",), ("pl", "cs", "hu"), ("en",)),
)
_LATIN = ((0x00C0, 0x024F), (0x0300, 0x036F), (0x2010, 0x201E))
# a sign beyond ASCII, with the ASCII letters beside it
_BEYOND_ASCII = re.compile(r"(?:(?<=([A-Za-z])))?([^\x00-\x7f])(?=([A-Za-z])?)")
# the second has half-width katakana and rarer characters, too
_ESCAPED = ("iso2022_jp", "iso2022_jp_ext", "iso2022_kr")
# files that are said to be in the first are often in the second, which has more characters
_WIDER = {"euc_kr": "cp949", "shift_jis": "cp932", "gb2312": "gb18030", "gbk": "gb18030"}
_MIXED_FRACTION = 0.05  # of the lines beyond ASCII, from which another encoding is looked for


def is_utf8(encoding: str) -> bool:
    """Whether the codec is UTF-8, with a byte order mark or without."""
    return codecs.lookup(encoding).name in ("utf-8", "utf-8-sig")


def marked_encoding(head: bytes) -> str | None:
    """The encoding that a byte order mark names; None without one."""
    return next((encoding for mark, encoding in _MARKS if head.startswith(mark)), None)


@cache
def reads_lines_alone(encoding: str) -> bool:
    """Whether a line can be decoded without the others: ASCII is ASCII, and there is no state."""
    name = codecs.lookup(encoding).name
    if name.startswith(("utf-7", "hz", "iso2022")):
        return False
    try:
        return bytes(range(128)).decode(encoding)[:0x5C] == bytes(range(0x5C)).decode("ascii")
    except UnicodeError:
        return False


def decode_line(line: bytes, encoding: str, errors: str = "strict") -> str:
    """A line of a file in this encoding. A line that is UTF-8 is read as UTF-8: people put files of
    both together. Raises `UnicodeDecodeError`."""
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        pass
    else:
        # two bytes of CP949 may be UTF-8 by chance; three in its order hardly are
        if line.isascii() or max(text) >= "\u0800" or not is_east_asian(encoding):
            return text
    wider = _WIDER.get(codecs.lookup(encoding).name, encoding)
    try:
        return line.decode(encoding)
    except UnicodeDecodeError:
        return line.decode(wider, errors)


@cache
def is_east_asian(encoding: str) -> bool:
    """Whether the codec has Han characters."""
    return "一".encode(encoding, "ignore") != b""


def decode_file(data: bytes) -> tuple[str, str]:
    """The text of a whole file and its encoding, by its mark or as guessed; every line end is \\n.

    Raises `ValueError` with the line that is not of the encoding.
    """
    encoding = marked_encoding(data) or guess_any_encoding(data)
    if not (is_utf8(encoding) or reads_lines_alone(encoding)):
        return _with_newlines(data.decode(encoding)), encoding
    lines = []
    for number, line in enumerate(data.removeprefix(codecs.BOM_UTF8).split(b"\n"), start=1):
        try:
            lines.append(decode_line(line, encoding))
        except UnicodeDecodeError as error:
            raise UserError(f"line {number} is not text in {encoding}: {error}") from None
    return _with_newlines("\n".join(lines)), encoding


def _with_newlines(text: str) -> str:
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def guess_encoding(data: bytes, *languages: str) -> str | None:
    """The codec in which the head of a file reads best as text of a language; None if in none."""
    sample = data[:_SAMPLE_BYTES]
    if sure := marked_encoding(sample) or _guess_wide(sample) or _guess_escaped(data):
        return sure
    if not sample.isascii() and _decoded(sample, "utf-8") is not None:
        return "utf-8"
    best, chosen = 0.0, None
    for language in languages:
        for encoding in _TABLES["codecs"].get(language, ["cp1252"]):
            text = _decoded(sample, encoding)
            if text is not None and (score := _fraction(text, language)) > best:
                best, chosen = score, encoding
    return chosen


def guess_any_encoding(data: bytes) -> str:
    """The codec in which the head of a file reads as text of any language; UTF-8 if in none.

    Where some lines are UTF-8, the codec of the others.
    """
    if sure := marked_encoding(data) or _guess_wide(data[:_SAMPLE_BYTES]) or _guess_escaped(data):
        return sure
    if _decoded(data, "utf-8") is not None:
        return "utf-8"
    lines = [line for line in data.split(b"\n") if not line.isascii()]
    others = [line for line in lines if _decoded(line, "utf-8") is None]
    if len(others) < _MIXED_FRACTION * len(lines):
        return "utf-8"
    data = b"\n".join(others)
    guesses = (guess_encoding(data, *languages) for languages in _IN_TURN)
    guess = next(filter(None, guesses), "utf-8")
    text = _decoded(data, guess)  # codecs of Turkish and others differ from cp1252 in a few letters
    return "cp1252" if text is not None and text == _decoded(data, "cp1252") else guess


def _guess_wide(sample: bytes) -> str | None:
    """UTF-16 without its mark: blanks and line ends have a zero byte, which no other text has."""
    if 0 not in sample:
        return None
    is_utf8 = _decoded(sample, "utf-8") is not None

    def num_ascii(encoding: str) -> int:
        """0 where the sample is not text in this encoding."""
        text = _decoded(sample, encoding) or ""
        shown = sum(character.isprintable() or character.isspace() for character in text)
        # Cyrillic and others in UTF-16 read as UTF-8, too; UTF-8 with a stray zero byte reads as
        # Han characters of many blocks
        blocks = {ord(character) >> 8 for character in text}
        is_text = shown > 0.9 * len(text) and not (is_utf8 and len(blocks) > 8)
        return sum(map(str.isascii, text)) if is_text else 0

    best = max(("utf-16-le", "utf-16-be"), key=num_ascii)
    return best if num_ascii(best) else None


def _guess_escaped(data: bytes) -> str | None:
    """A codec of ASCII bytes in which escape sequences switch the character set (ISO 2022)."""
    if b"\x1b$" not in data or not data.isascii():
        return None
    for encoding in _ESCAPED:
        if not (_decoded(data, encoding) or "").isascii():
            return encoding
    return None


def _decoded(sample: bytes, encoding: str) -> str | None:
    try:
        return codecs.getincrementaldecoder(encoding)().decode(sample)  # the last letter may be cut
    except UnicodeDecodeError:
        return None


def _fraction(text: str, language: str) -> float:
    """The fraction of the signs beyond ASCII that the language has; 0 where it is too small.

    Small letters count most. A letter of another script than Latin does not stand beside an ASCII
    letter: "größer" reads as "grцЯer" in cp1251.
    """
    beyond = _BEYOND_ASCII.findall(text)
    if not beyond:
        return 0.0
    if usual := _USUAL.get(language):
        num_usual = sum(character in usual for _, character, _ in beyond)
        num_others = sum(one.isalpha() and one not in usual for _, one, _ in beyond)
        fraction = num_usual / max(1, num_usual + num_others)
        return fraction if fraction > _MIN_USUAL_FRACTION else 0.0
    score = 0.0
    spans = _TABLES["blocks"].get(language, _LATIN)
    for before, character, after in beyond:
        code = ord(character)
        if any(first <= code <= last for first, last in spans) and (
            spans is _LATIN or not (before or after)
        ):
            score += 0.8 if character.isupper() else 1.0
    return score / len(beyond) if score > _MIN_FRACTION * len(beyond) else 0.0
