"""The bytes of a raw file: unpacked as its ending says, cut into lines, in bounded memory."""

import bz2
import gzip
import itertools
import lzma
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

import pyarrow as pa

from pipeline.encodings import is_utf8, to_utf8
from pipeline.input_file import InputFile
from pipeline.raw import HEAD_BYTES, TooLong
from pipeline.source_bytes import open_source

CHUNK_BYTES = 1 << 20
# Arrow loses the piece in which it meets a fault, so the pieces are small
_ZSTD_CHUNK_BYTES = 1 << 14
_UNPACKERS: dict[str, Callable[[Any], Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
}
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
    """The bytes of a file, unpacked as its ending says (`PACKED_ENDINGS`), or as they are."""
    with open_source(file) as packed:
        if not packed.peek(1):  # .bz2 and .xz take an empty file for a broken one
            return
        read: Callable[[int], bytes] = packed.read
        size = CHUNK_BYTES
        if file.path.endswith((".zst", ".zstd")):
            read, size = pa.CompressedInputStream(packed, "zstd").read, _ZSTD_CHUNK_BYTES
        for ending, unpack in _UNPACKERS.items():
            if file.path.endswith(ending):
                read = unpack(packed).read1  # all there is before a fault
        while chunk := read(size):
            yield chunk


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
