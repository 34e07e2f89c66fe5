"""The encoding of a text file: recognised by its mark, guessed from its bytes, read as text."""

import codecs
import io
import math
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

from electrify.storage.files import read_toml
from electrify.system.outcome import UserError

_SAMPLE_BYTES = 1 << 13
_HEAD_BYTES = 1 << 26  # of a file that is read line by line
_TABLES: dict[str, Any] = read_toml(Path(__file__).with_name("encodings.toml"))
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # begins as the mark of UTF-16 does, so it is looked at first
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SYMBOLS = "«»“”„‚‘’‹›–—…·•§©®™°€£¥¢№½²³±×µ\xa0\xad´"  # of all languages
# Costs of characters: negative logarithms of how usual they are, roughly.
_ASCII_COST, _SYMBOL_COST, _RARE_COST, _CAPITAL_COST = 3.0, 3.3, 9.0, 1.6
_OTHER_LANGUAGE = 1.3  # the factor by which text costs more where it is not the expected language
# files that are said to be in the first are often in the second, which has more characters
_WIDER = {"euc_kr": "cp949", "shift_jis": "cp932", "gb2312": "gb18030", "gbk": "gb18030"}
_BROKEN_FRACTION = 0.1  # of the characters beyond ASCII, up to which text is broken UTF-8


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


def decode_file(data: bytes, location: object) -> tuple[str, str]:
    """The text of a whole file and its encoding, by its mark or as guessed; every line end is \\n.

    Raises `ValueError` with the `location` and the line that is not of the encoding.
    """
    encoding = guess_encoding(data)
    return "".join(_decoded_lines(io.BytesIO(data), encoding, location)), encoding


def text_lines(path: Path) -> tuple[Iterator[str], str]:
    """The lines of a file, each with its end as `decode_file` has it and read when it is asked for,
    and the encoding, as guessed from the first 64 MB."""
    with path.open("rb") as file:
        encoding = guess_encoding(file.read(_HEAD_BYTES))

    def lines() -> Iterator[str]:
        with path.open("rb") as file:
            yield from _decoded_lines(file, encoding, path)

    return lines(), encoding


def _decoded_lines(file: BinaryIO, encoding: str, location: object) -> Iterator[str]:
    number = 0
    try:
        if not (is_utf8(encoding) or reads_lines_alone(encoding)):
            with io.TextIOWrapper(file, encoding) as text_file:
                yield from text_file
            return
        if file.read(len(codecs.BOM_UTF8)) != codecs.BOM_UTF8:
            file.seek(0)
        for line in file:
            number += 1
            text = decode_line(line, encoding).replace("\r\n", "\n")
            yield from io.StringIO(text.replace("\r", "\n")) if "\r" in text else [text]
    except UnicodeDecodeError as error:
        where = f"{location}: line {number}" if number else location
        raise UserError(f"{where} is not text in {encoding}: {error}; save it as UTF-8") from None


def guess_encoding(data: bytes, language: str = "") -> str:
    """The codec in which the head of a file reads best, which may be in `language`.

    Where some lines are UTF-8, it is the codec of the other lines.
    """
    if marked := marked_encoding(data):
        return marked
    if _decoded(data, "utf-8") is not None:
        return "utf-8"
    text = data.decode("utf-8", "replace")
    num_beyond = len(text) - len(text.encode("ascii", "ignore"))
    if text.count("\ufffd") < _BROKEN_FRACTION * num_beyond:
        return "utf-8"
    lines = data.splitlines(keepends=True)
    others = [line for line in lines if _decoded(line, "utf-8") is None]
    sample = b"".join(others)[:_SAMPLE_BYTES]
    lowest, chosen = math.inf, "utf-8"
    for rank, (encoding, languages) in enumerate(_TABLES["codecs"].items(), start=1):
        text = sample.decode(encoding, "replace")
        counts = {sign: n for sign, n in Counter(text).items() if not sign.isascii()}
        num_ascii = len(text) - sum(counts.values())
        fixed_cost = _ASCII_COST * num_ascii + math.log(rank)
        for other in languages:
            costs = _costs(other)
            cost = sum(costs.get(sign, _RARE_COST) * n for sign, n in counts.items())
            full_cost = fixed_cost + cost * (1 if other == language else _OTHER_LANGUAGE)
            if full_cost < lowest:
                lowest, chosen = full_cost, encoding
    return chosen


@cache
def _costs(language: str) -> dict[str, float]:
    """The cost of each usual character beyond ASCII; that of a letter grows with its rank."""
    letters = _TABLES["letters"][language]
    total = sum(1 / rank for rank in range(4, len(letters) + 4))
    costs = {letter: math.log(rank * total) for rank, letter in enumerate(letters, start=4)}
    capitals = {letter.upper(): cost + _CAPITAL_COST for letter, cost in costs.items()}
    return dict.fromkeys(_SYMBOLS, _SYMBOL_COST) | capitals | costs


def _decoded(sample: bytes, encoding: str) -> str | None:
    try:
        return codecs.getincrementaldecoder(encoding)().decode(sample)  # the last letter may be cut
    except UnicodeDecodeError:
        return None
