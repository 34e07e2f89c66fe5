"""The bytes of a raw file as UTF-8 and cut into lines, in bounded memory.

Plain text, whose documents are lines, blocks or the file.
"""

import codecs
import itertools
import sys
from collections.abc import Generator, Iterable, Iterator
from dataclasses import replace
from typing import cast

from electrify.config.clean import Source
from electrify.storage.encodings import decode_line, is_utf8, marked_encoding, reads_lines_alone
from pipeline.sources.input_file import HEAD_BYTES, Fault, InputFile, Raw, TooLong, packing, text_of
from pipeline.sources.stored import ZSTD_CHUNK_BYTES, unpacked

# Text in other encodings than UTF-8, made UTF-8 as it is read.


def to_utf8(chunks: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """The same text as UTF-8 bytes. What the codec refuses becomes bytes that UTF-8 refuses.

    So a bad place stays a fault of its row, and lines are found by their newline byte whatever the
    encoding. A line that is UTF-8 already stays as it is, where the codec reads lines alone.
    `OSError` where the codec takes nothing, as UTF-16 without its mark.
    """
    if reads_lines_alone(encoding):
        yield from _lines_to_utf8(chunks, encoding)
        return
    decoder = codecs.getincrementaldecoder(encoding)("electrify_mark")
    try:
        for chunk in chunks:
            yield decoder.decode(chunk).encode("utf-8", "surrogatepass")
        if last := decoder.decode(b"", True):
            yield last.encode("utf-8", "surrogatepass")
    except UnicodeError as error:
        hint = f"; is it {encoding}-le or {encoding}-be?" if "BOM" in str(error) else ""
        raise OSError(f"not text in {encoding}: {error}{hint}") from error


def _lines_to_utf8(chunks: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    rest = b""
    for chunk in chunks:
        rest += chunk
        end = rest.rfind(b"\n") + 1
        if not end and len(rest) > CHUNK_BYTES:  # these bytes are never the second of a letter
            end = max(map(rest.rfind, (b" ", b'"', b",", b"\0"))) + 1
        yield _to_utf8(rest[:end], encoding)
        rest = rest[end:]
    yield _to_utf8(rest, encoding)


def _to_utf8(data: bytes, encoding: str) -> bytes:
    if data.isascii():
        return data
    lines = (decode_line(line, encoding, "electrify_mark") for line in data.split(b"\n"))
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def _mark(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "\udc80", error.end  # a lone surrogate, which strict UTF-8 does not take


codecs.register_error("electrify_mark", _mark)


CHUNK_BYTES = 1 << 20


def read_lines(
    chunks: Iterable[bytes], max_bytes: int, offset: int = 0, stop: int = 0
) -> Iterator[tuple[int, bytes | TooLong]]:
    """Where each line begins, and the line without its newline and byte order mark, of chunks that
    begin at `offset`; the last begins before `stop`.

    Of a line longer than `max_bytes` no more than that is held.
    """
    pieces: list[bytes] = []
    num_bytes = 0
    for chunk in chunks:
        for index, piece in enumerate(chunk.split(b"\n")):
            if index:  # the first piece goes on with the open line
                yield offset, _joined(pieces, num_bytes, max_bytes, offset)
                offset += num_bytes + 1
                if stop and offset >= stop:
                    return
                pieces, num_bytes = [], 0
            if num_bytes <= max_bytes:
                pieces.append(piece)
            num_bytes += len(piece)
    if num_bytes:
        yield offset, _joined(pieces, num_bytes, max_bytes, offset)


def _joined(pieces: list[bytes], num_bytes: int, max_bytes: int, offset: int) -> bytes | TooLong:
    line = b"".join(pieces)
    if not offset:
        line = line.removeprefix(codecs.BOM_UTF8)
    return line if num_bytes <= max_bytes else TooLong(num_bytes, line[:HEAD_BYTES])


def read_chunks(file: InputFile, start: int = 0) -> Generator[bytes, None, None]:
    """The bytes of a file as `unpacked` gives them: all there is before a fault.

    `start` is a place in a file that is not packed.
    """
    with unpacked(file) as stream:
        if start:
            stream.seek(start)
        size = ZSTD_CHUNK_BYTES if packing(file.path).startswith(".zst") else CHUNK_BYTES
        while chunk := stream.read1(size):
            yield chunk


def head_of(file: InputFile) -> bytes:
    """The first bytes of a file, unpacked: `CHUNK_BYTES`, or all that it has before a fault.

    Raises what reading it raises where there are none.
    """
    head, chunks = _gather(read_chunks(file))
    return head or next(filter(None, chunks), b"")


def _gather(chunks: Iterator[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """The first `CHUNK_BYTES` together, and all chunks; what fails there fails behind them."""
    pieces: list[bytes] = []
    num_bytes = 0
    try:
        for piece in chunks:
            pieces.append(piece)
            num_bytes += len(piece)
            if num_bytes >= CHUNK_BYTES:
                break
    except Exception as error:
        chunks = _fail(error)
    head = b"".join(pieces)
    return head, itertools.chain([head], chunks)


def _fail(error: Exception) -> Iterator[bytes]:
    yield b""
    raise error


def read_text_chunks(file: InputFile, encoding: str) -> tuple[bytes, Iterator[bytes]]:
    """The head of a whole file and all its chunks, as UTF-8.

    A byte order mark counts more than `encoding`.
    """
    head, chunks = _gather(read_chunks(file))
    encoding = marked_encoding(head) or encoding
    if not is_utf8(encoding):
        head, chunks = _gather(to_utf8(chunks, encoding))
    if b"\r" in head[:-1] and b"\n" not in head:  # lines as old spreadsheets end them
        head, chunks = head.replace(b"\r", b"\n"), (c.replace(b"\r", b"\n") for c in chunks)
    return head, chunks


def read_text_lines(
    file: InputFile, encoding: str, max_bytes: int
) -> Iterator[tuple[int, bytes | TooLong]]:
    """Lines of a file, or of its part, as UTF-8 without a byte order mark, and where each begins.

    A line is of the part in which its first byte stands. The place is in bytes of the file as it
    is unpacked, and as UTF-8 where it is in another encoding.
    """
    if file.num_parts > 1:
        chunks, offset = _part_chunks(file)
    else:
        chunks, offset = read_text_chunks(file, encoding)[1], 0
    return read_lines(chunks, max_bytes, offset, file.stop)


def _part_chunks(file: InputFile) -> tuple[Iterator[bytes], int]:
    """The bytes from the first line that begins in the part on, and where that line begins."""
    stop = file.stop or sys.maxsize
    if not file.start:
        return read_chunks(file), 0
    offset = file.start - 1  # a line may begin at `start` itself
    chunks = read_chunks(file, offset)
    for chunk in chunks:
        newline = chunk.find(b"\n")
        begin = offset + newline + 1
        if newline >= 0 and begin < stop:
            return itertools.chain([chunk[newline + 1 :]], chunks), begin
        offset += len(chunk)
        if newline >= 0 or offset >= stop:  # one line covers the part: it is read where it begins
            break
    return iter(()), stop


# Plain text


def read_text(file: InputFile, source: Source, max_line_bytes: int) -> Iterator[Raw | Fault]:
    """Plain text; `source.document` says what a document is."""
    lines = read_text_lines(file, source.encoding, max_line_bytes)
    for row, offset, document in _documents(lines, source.document, max_line_bytes):
        text = text_of(row, document, source, max_line_bytes)
        yield Raw(row, text) if isinstance(text, str) else replace(text, offset=offset)


def _documents(
    lines: Iterable[tuple[int, bytes | TooLong]], document: str, max_bytes: int
) -> Iterator[tuple[int, int, bytes | TooLong]]:
    """The row and offset of the first line of each document, and its bytes."""
    block: list[bytes | TooLong] = []
    num_bytes = num_lines = first_offset = 0
    first_row = 1
    for row, (offset, line) in enumerate(lines, start=1):
        if document != "file" and not isinstance(line, TooLong) and not line.strip():
            if block:
                yield first_row, first_offset, _assembled(block, num_bytes, num_lines, max_bytes)
                block, num_bytes, num_lines = [], 0, 0
            continue
        if document == "line":
            yield row, offset, line
            continue
        if not block:
            first_row, first_offset = row, offset
        if num_bytes <= max_bytes:
            block.append(line)
        num_bytes += (line.num_bytes if isinstance(line, TooLong) else len(line)) + 1
        num_lines += 1
    if block:
        yield first_row, first_offset, _assembled(block, num_bytes, num_lines, max_bytes)


def _assembled(
    document: list[bytes | TooLong], num_bytes: int, num_lines: int, max_bytes: int
) -> bytes | TooLong:
    if num_bytes > max_bytes + 1:
        first = document[0]
        return TooLong(num_bytes, first.head if isinstance(first, TooLong) else first, num_lines)
    return b"\n".join(cast(list[bytes], document))
