"""The bytes of a raw file: unpacked as its ending says, cut into lines, in bounded memory."""

import bz2
import codecs
import gzip
import io
import itertools
import lzma
import re
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pipeline.sources.input_file import InputFile, open_source, packing
from pipeline.sources.raw import HEAD_BYTES, TooLong

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

# Text in other encodings than UTF-8: made UTF-8 as it is read, and guessed where it fails.

_SAMPLE_BYTES = 1 << 16
# codecs that a language's older files are written in, the most usual first
_LIKELY = {
    "ko": ("cp949",),
    "ja": ("cp932", "euc_jp", "iso2022_jp"),
    "zh": ("gb18030", "big5"),
    "ru": ("cp1251", "koi8_r"),
    "uk": ("cp1251", "koi8_u"),
    **dict.fromkeys(("ar", "fa"), ("cp1256",)),
    "he": ("cp1255",),
    "el": ("cp1253",),
    "tr": ("cp1254",),
    "vi": ("cp1258",),
    "th": ("cp874",),
    **dict.fromkeys(("pl", "cs", "hu"), ("cp1250", "iso8859_2")),
}
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),  # begins as the mark of UTF-16 does, so it is looked at first
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# what a text of the language is written in beside ASCII; other languages: Latin letters
_SCRIPTS = {
    "ko": ((0x1100, 0x11FF), (0x3130, 0x318F), (0xAC00, 0xD7A3)),
    "ja": ((0x3000, 0x30FF), (0x4E00, 0x9FFF)),
    "zh": ((0x3000, 0x303F), (0x4E00, 0x9FFF), (0xFF01, 0xFF5E)),
    "ru": ((0x0430, 0x045F), (0x0400, 0x042F)),
    "uk": ((0x0430, 0x045F), (0x0400, 0x042F), (0x0490, 0x0491)),
    "ar": ((0x0600, 0x06FF),),
    "fa": ((0x0600, 0x06FF),),
    "he": ((0x0590, 0x05FF),),
    "el": ((0x0370, 0x03FF),),
    "th": ((0x0E00, 0x0E7F),),
}
# Languages whose codecs are tried together. Han characters are common in many codecs, and Latin
# letters are what most codecs make of any byte.
_IN_TURN = (
    *(("ko",), ("ja",), ("zh",), ("ru", "uk", "ar", "fa", "he", "el", "th")),
    *(("tr",), ("vi",), ("pl", "cs", "hu"), ("en",)),
)
_LATIN = ((0x00C0, 0x024F), (0x0300, 0x036F), (0x2010, 0x201E))
# a sign beyond ASCII, with the ASCII letters beside it
_BEYOND_ASCII = re.compile(r"(?:(?<=([A-Za-z])))?([^\x00-\x7f])(?=([A-Za-z])?)")


def is_utf8(encoding: str) -> bool:
    """Whether the codec is UTF-8, with a byte order mark or without."""
    return codecs.lookup(encoding).name in ("utf-8", "utf-8-sig")


def to_utf8(chunks: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """The same text as UTF-8 bytes. What the codec refuses becomes bytes that UTF-8 refuses.

    So a bad place stays a fault of its row, and lines are found by their newline byte whatever the
    encoding. `OSError` where the codec takes nothing, as UTF-16 without its mark.
    """
    decoder = codecs.getincrementaldecoder(encoding)("electrify_mark")
    try:
        for chunk in chunks:
            yield decoder.decode(chunk).encode("utf-8", "surrogatepass")
        if last := decoder.decode(b"", True):
            yield last.encode("utf-8", "surrogatepass")
    except UnicodeError as error:
        hint = f"; is it {encoding}-le or {encoding}-be?" if "BOM" in str(error) else ""
        raise OSError(f"not text in {encoding}: {error}{hint}") from error


def _mark(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "\udc80", error.end  # a lone surrogate, which strict UTF-8 does not take


codecs.register_error("electrify_mark", _mark)


def guess_encoding(data: bytes, *languages: str) -> str | None:
    """The codec in which the head of a file reads best as text of a language; none if none does."""
    sample = data[:_SAMPLE_BYTES]
    for mark, encoding in _MARKS:
        if sample.startswith(mark):
            return encoding
    if sample.count(0) > len(sample) // 5:  # a letter of ASCII has a zero beside it in UTF-16
        encoding = "utf-16-be" if sample[::2].count(0) * 2 > sample.count(0) else "utf-16-le"
        wide = _decoded(sample, encoding) or ""
        printable = sum(character.isprintable() or character.isspace() for character in wide)
        return encoding if wide and printable > 0.9 * len(wide) else None
    if not sample.isascii() and _decoded(sample, "utf-8") is not None:
        return "utf-8"
    best, chosen = 0.5, None
    for language in languages:
        for encoding in _LIKELY.get(language, ("cp1252",)):
            text = _decoded(sample, encoding)
            if text is not None and (score := _share(text, _SCRIPTS.get(language))) > best:
                best, chosen = score, encoding
    return chosen


def guess_any_encoding(data: bytes) -> str:
    """The codec in which the head of a file reads as text of any language; UTF-8 if none does."""
    if _decoded(data, "utf-8") is not None:
        return "utf-8"
    guesses = (guess_encoding(data, *languages) for languages in _IN_TURN)
    guess = next(filter(None, guesses), "utf-8")
    text = _decoded(data, guess)  # codecs of Turkish and others differ from cp1252 in a few letters
    return "cp1252" if text is not None and text == _decoded(data, "cp1252") else guess


def _decoded(sample: bytes, encoding: str) -> str | None:
    try:
        return codecs.getincrementaldecoder(encoding)().decode(sample)  # the last letter may be cut
    except UnicodeDecodeError:
        return None


def _share(text: str, spans: tuple[tuple[int, int], ...] | None) -> float:
    """The share of the signs beyond ASCII that are in the script, small letters counting most.

    Without `spans`: Latin letters. A letter of another script does not stand beside an ASCII
    letter: "größer" reads as "grцЯer" in cp1251.
    """
    beyond = _BEYOND_ASCII.findall(text)
    found = 0.0
    for before, character, after in beyond:
        code = ord(character)
        if any(first <= code <= last for first, last in spans or _LATIN) and (
            spans is None or not (before or after)
        ):
            found += 0.8 if character.isupper() else 1.0
    return found / len(beyond) if beyond else 0.0


CHUNK_BYTES = 1 << 20
# Arrow loses the piece in which it meets a fault, so the pieces are small
_ZSTD_CHUNK_BYTES = 1 << 14
_UNPACKERS: dict[str, Callable[[Any], Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_lines(chunks: Iterable[bytes], max_bytes: int) -> Iterator[bytes | TooLong]:
    """Lines without their newline. Of a line longer than `max_bytes` no more than that is held."""
    pieces: list[bytes] = []
    num_bytes = 0
    for chunk in chunks:
        for index, piece in enumerate(chunk.split(b"\n")):
            if index:  # the first piece goes on with the open line
                yield _joined(pieces, num_bytes, max_bytes)
                pieces, num_bytes = [], 0
            if num_bytes <= max_bytes:
                pieces.append(piece)
            num_bytes += len(piece)
    if num_bytes:
        yield _joined(pieces, num_bytes, max_bytes)


def read_chunks(file: InputFile) -> Generator[bytes, None, None]:
    """The bytes of a file, unpacked as its ending says (`packing`), or as they are."""
    with open_source(file) as packed:
        if not packed.peek(1):  # .bz2 and .xz take an empty file for a broken one
            return
        read: Callable[[int], bytes] = packed.read
        size = CHUNK_BYTES
        ending = packing(file.path)
        if ending in (".zst", ".zstd"):
            read, size = pa.CompressedInputStream(packed, "zstd").read, _ZSTD_CHUNK_BYTES
        elif ending:
            read = _UNPACKERS[ending](packed).read1  # all there is before a fault
        while chunk := read(size):
            yield chunk


class Unpacked(io.RawIOBase):
    """The bytes of a file as `read_chunks` gives them, for a buffered reader."""

    def __init__(self, file: InputFile) -> None:
        self._chunks = read_chunks(file)
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        self._left = self._left or memoryview(next(self._chunks, b""))
        view = memoryview(buffer)
        size = min(len(view), len(self._left))
        view[:size], self._left = self._left[:size], self._left[size:]
        return size


def head_of(file: InputFile) -> bytes:
    """The first bytes of a file, unpacked."""
    chunks = read_chunks(file)
    try:
        return next(chunks, b"")
    finally:
        chunks.close()


def read_text_lines(
    file: InputFile, encoding: str, max_bytes: int
) -> Iterator[tuple[int, bytes | TooLong]]:
    """Lines of a file, or of its part, as UTF-8 without a byte order mark, and where each begins.

    A line is of the part in which its first byte stands. The place is in bytes of the file as it
    is unpacked, and as UTF-8 where it is in another encoding.
    """
    chunks: Iterator[bytes]
    if file.num_parts > 1:
        chunks, offset = _part_chunks(file)
    else:
        chunks, offset = read_chunks(file), 0
    if not is_utf8(encoding):
        chunks = to_utf8(chunks, encoding)
    for line in read_lines(chunks, max_bytes):
        length = line.num_bytes if isinstance(line, TooLong) else len(line)
        yield offset, _without_mark(line) if not offset else line
        offset += length + 1
        if file.stop and offset >= file.stop:
            return


def _part_chunks(file: InputFile) -> tuple[Iterator[bytes], int]:
    """The bytes from the first line that begins in the part on, and where that line begins."""
    start, stop = file.start, file.stop or sys.maxsize
    if not start:
        return _raw_chunks(file, 0), 0
    chunks = _raw_chunks(file, start - 1)  # a line may begin at `start` itself
    offset = start - 1
    for chunk in chunks:
        newline = chunk.find(b"\n")
        begin = offset + newline + 1
        if newline >= 0 and begin < stop:
            return itertools.chain([chunk[newline + 1 :]], chunks), begin
        offset += len(chunk)
        if newline >= 0 or offset >= stop:  # one line covers the part: it is read where it begins
            break
    return iter(()), stop


def _raw_chunks(file: InputFile, start: int) -> Iterator[bytes]:
    with open_source(file) as opened:
        opened.seek(start)
        while chunk := opened.read(CHUNK_BYTES):
            yield chunk


def _joined(pieces: list[bytes], num_bytes: int, max_bytes: int) -> bytes | TooLong:
    joined = b"".join(pieces)
    return joined if num_bytes <= max_bytes else TooLong(num_bytes, joined[:HEAD_BYTES])


def _without_mark(line: bytes | TooLong) -> bytes | TooLong:
    if isinstance(line, TooLong):
        return TooLong(line.num_bytes, line.head.removeprefix(_BYTE_ORDER_MARK))
    return line.removeprefix(_BYTE_ORDER_MARK)
