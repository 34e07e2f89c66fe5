"""Rows of one raw file, of any kind and size, in bounded memory.

A row that cannot be read is yielded as a `Fault`, never passed over in silence.
"""

import bz2
import gzip
import json
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import fsspec
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from electrify.config_clean import Source

CHUNK_BYTES = 1 << 20
# Arrow loses the piece in which it meets a fault, so the pieces are small
_ZSTD_CHUNK_BYTES = 1 << 14
_HEAD_BYTES = 500  # of a row that cannot be read, kept for the record
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_READ_ERRORS = (OSError, EOFError, zlib.error, pa.ArrowException)


@dataclass(frozen=True, slots=True)
class Raw:
    """One document as the file has it. `row` counts lines or table rows from 1."""

    row: int
    text: str
    source: str | None = None
    url: str | None = None
    licence: str | None = None


@dataclass(frozen=True, slots=True)
class Fault:
    """One row, or the rest of a file, that cannot be read."""

    row: int
    reason: str
    detail: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class TooLong:
    """Stands for bytes that were read past and not kept."""

    num_bytes: int
    head: bytes


def read_file(path: str, source: Source, max_line_bytes: int) -> Iterator[Raw | Fault]:
    """The documents of one file in order, at most `source.max_documents`, and its faults.

    A fault of the file itself (`unreadable_file`) comes last; what was read before it stands. A
    text document is then given up if it was not yet at its end.
    """
    row = num_documents = 0
    limit = source.max_documents or float("inf")
    try:
        for item in _READERS[source.kind](path, source, max_line_bytes):
            row = item.row
            yield item
            num_documents += isinstance(item, Raw)
            if num_documents >= limit:
                return
    except _READ_ERRORS as error:
        yield Fault(row + 1, "unreadable_file", f"{type(error).__name__}: {error}")


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


def _joined(pieces: list[bytes], num_bytes: int, max_bytes: int) -> bytes | TooLong:
    joined = b"".join(pieces)
    return joined if num_bytes <= max_bytes else TooLong(num_bytes, joined[:_HEAD_BYTES])


def _chunks(path: str) -> Iterator[bytes]:
    """The bytes of a file, unpacked as its ending says, without a byte order mark."""
    with fsspec.open(path, "rb") as packed:
        read: Callable[[int], bytes]
        size = CHUNK_BYTES
        if path.endswith(".gz"):
            read = gzip.GzipFile(fileobj=packed).read1  # all there is before a fault
        elif path.endswith(".bz2"):
            if not packed.read(1):  # the one packing that takes an empty file for a broken one
                return
            packed.seek(0)
            read = bz2.BZ2File(packed).read1
        elif path.endswith((".zst", ".zstd")):
            read, size = pa.CompressedInputStream(packed, "zstd").read, _ZSTD_CHUNK_BYTES
        else:
            read = packed.read
        yield read(size).removeprefix(_BYTE_ORDER_MARK)
        while chunk := read(size):
            yield chunk


def _read_jsonl(path: str, source: Source, max_line_bytes: int) -> Iterator[Raw | Fault]:
    for row, line in enumerate(read_lines(_chunks(path), max_line_bytes), start=1):
        if isinstance(line, TooLong):
            yield _too_long(row, line, max_line_bytes)
        elif line and not line.isspace():
            yield _parse_json(row, line, source.text_field)


def _parse_json(row: int, line: bytes, text_field: str) -> Raw | Fault:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        # json.loads also takes lone surrogates ("\\ud83d") and NaN, which json.dumps writes
        try:
            value = json.loads(line.decode("utf-8"))
        except UnicodeDecodeError as bad:
            return _fault("invalid_utf8", row, line, str(bad))
        except (ValueError, RecursionError):
            return _fault("malformed_json", row, line, str(error))
    if not isinstance(value, dict):
        kind = type(value).__name__
        return _fault("malformed_json", row, line, f"a {kind}, not an object")
    if text_field not in value:
        keys = ", ".join(list(value)[:20])
        return _fault("missing_field", row, line, f"no field {text_field!r} (there are: {keys})")
    text = value[text_field]
    if not isinstance(text, str):
        kind = type(text).__name__
        return _fault("wrong_type", row, line, f"field {text_field!r} is {kind}, not a string")
    return Raw(row, text, _string(value, "source"), _string(value, "url"), _licence(value))


def _string(value: dict[str, Any], key: str) -> str | None:
    found = value.get(key)
    return found if isinstance(found, str) and found else None


def _licence(value: dict[str, Any]) -> str | None:
    return _string(value, "licence") or _string(value, "license")


def _read_text(path: str, source: Source, max_line_bytes: int) -> Iterator[Raw | Fault]:
    lines = read_lines(_chunks(path), max_line_bytes)
    for row, document in _TEXT_DOCUMENTS[source.document](lines, max_line_bytes):
        if isinstance(document, TooLong):
            yield _too_long(row, document, max_line_bytes)
            continue
        try:
            yield Raw(row, document.decode("utf-8"))
        except UnicodeDecodeError as error:
            yield _fault("invalid_utf8", row, document, str(error))


_Documents = Iterator[tuple[int, bytes | TooLong]]


def _line_documents(lines: Iterable[bytes | TooLong], max_bytes: int) -> _Documents:
    for row, line in enumerate(lines, start=1):
        if isinstance(line, TooLong) or line.strip():
            yield row, line


def _block_documents(lines: Iterable[bytes | TooLong], max_bytes: int) -> _Documents:
    """Lines between blank lines; the row is that of the first."""
    block: list[bytes | TooLong] = []
    num_bytes = 0
    first_row = 1
    for row, line in enumerate(lines, start=1):
        if not isinstance(line, TooLong) and not line.strip():
            if block:
                yield first_row, _assembled(block, num_bytes, max_bytes)
                block, num_bytes = [], 0
            continue
        first_row = first_row if block else row
        num_bytes += _add_line(block, line, num_bytes, max_bytes)
    if block:
        yield first_row, _assembled(block, num_bytes, max_bytes)


def _file_documents(lines: Iterable[bytes | TooLong], max_bytes: int) -> _Documents:
    file: list[bytes | TooLong] = []
    num_bytes = 0
    for line in lines:
        num_bytes += _add_line(file, line, num_bytes, max_bytes)
    if file:
        yield 1, _assembled(file, num_bytes, max_bytes)


def _add_line(
    document: list[bytes | TooLong], line: bytes | TooLong, num_bytes: int, max_bytes: int
) -> int:
    """Add the line unless the document is too long already; the line's bytes."""
    if num_bytes <= max_bytes:
        document.append(line)
    return (line.num_bytes if isinstance(line, TooLong) else len(line)) + 1


def _assembled(document: list[bytes | TooLong], num_bytes: int, max_bytes: int) -> bytes | TooLong:
    if num_bytes > max_bytes + 1:
        first = document[0]
        return TooLong(num_bytes, first.head if isinstance(first, TooLong) else first[:_HEAD_BYTES])
    return b"\n".join(cast(list[bytes], document))


def _read_parquet(path: str, source: Source, max_line_bytes: int) -> Iterator[Raw | Fault]:
    name = source.text_field
    # buffered: else Arrow reads a column chunk whole, which may be most of the file
    with fsspec.open(path, "rb") as file, pq.ParquetFile(file, buffer_size=CHUNK_BYTES) as table:
        schema = table.schema_arrow
        if name not in schema.names:
            there = ", ".join(schema.names[:20])
            yield Fault(1, "missing_field", f"no column {name!r} (there are: {there})")
            return
        if not _is_string(schema.field(name).type):
            kind = schema.field(name).type
            yield Fault(1, "wrong_type", f"column {name!r} is {kind}, not a string")
            return
        known = ("source", "url", "licence", "license")
        extra = [n for n in known if n in schema.names and _is_string(schema.field(n).type)]
        columns = list(dict.fromkeys([name, *extra]))
        row = 0
        for batch in table.iter_batches(batch_size=256, columns=columns):
            # as bytes: Arrow does not check UTF-8 and would raise for the whole batch
            values = {c: batch.column(c).cast(pa.large_binary()).to_pylist() for c in columns}
            for index in range(batch.num_rows):
                row += 1
                record = {column: values[column][index] for column in columns}
                yield _parquet_row(row, record, name, max_line_bytes)


def _is_string(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def _parquet_row(
    row: int, record: dict[str, bytes | None], name: str, max_bytes: int
) -> Raw | Fault:
    data = record[name]
    if data is None:
        return Fault(row, "wrong_type", f"column {name!r} is null, not a string")
    if len(data) > max_bytes:
        too_long = TooLong(len(data), data[:_HEAD_BYTES])
        return _too_long(row, too_long, max_bytes)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        return _fault("invalid_utf8", row, data, str(error))
    rest = {k: v.decode("utf-8", "replace") for k, v in record.items() if v is not None}
    return Raw(row, text, _string(rest, "source"), _string(rest, "url"), _licence(rest))


def _fault(reason: str, row: int, data: bytes, detail: str) -> Fault:
    return Fault(row, reason, detail, data[:_HEAD_BYTES].decode("utf-8", "replace"))


def _too_long(row: int, data: TooLong, max_bytes: int) -> Fault:
    detail = f"{data.num_bytes:,} bytes; clean.max_line_bytes = {max_bytes:,}"
    return _fault("line_too_long", row, data.head, detail)


_READERS: dict[str, Callable[[str, Source, int], Iterator[Raw | Fault]]] = {
    "jsonl": _read_jsonl,
    "text": _read_text,
    "parquet": _read_parquet,
}
_TEXT_DOCUMENTS: dict[str, Callable[[Iterable[bytes | TooLong], int], _Documents]] = {
    "line": _line_documents,
    "block": _block_documents,
    "file": _file_documents,
}
