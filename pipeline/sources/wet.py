"""WARC records, and Common Crawl's WET files: records of kind `conversion`, the text of a page."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from electrify.config.clean import Source
from pipeline.sources.input_file import InputFile
from pipeline.sources.raw import HEAD_BYTES, Fault, Raw, TooLong, bad_row, too_long
from pipeline.sources.stored import unpacked

_VERSION = b"WARC/"
_MAX_HEADER_LINE = 1 << 16
_MAX_HEADERS = 200
_TEXT, _ABOUT = "conversion", "warcinfo"  # kinds of records
_HEAD_RECORDS = 100  # from which on a file without a text is given up


@dataclass(frozen=True, slots=True)
class Record:
    """What a WARC record holds."""

    row: int
    data: bytes
    url: str | None
    source_id: str | None


def read_wet(file: InputFile, source: Source, max_line_bytes: int) -> Iterator[Raw | Fault]:
    """One document a record of kind `conversion` that has text; the row counts all records."""
    with unpacked(file) as stream:
        for record in read_records(stream, _TEXT, max_line_bytes):
            if isinstance(record, Fault):
                yield record
                continue
            try:
                text = record.data.decode("utf-8")
            except UnicodeDecodeError as error:
                yield bad_row(
                    record.row,
                    "invalid_utf8",
                    str(error),
                    record.data,
                    source_id=record.source_id,
                )
            else:
                if text.strip():
                    yield Raw(record.row, text, url=record.url, source_id=record.source_id)


def read_records(stream: BinaryIO, wanted: str, max_line_bytes: int) -> Iterator[Record | Fault]:
    """The records of one kind, a fault for each that is malformed, and one for a file without."""
    kinds: Counter[str] = Counter()
    row = 0
    line = _line(stream)
    while line:
        if not line.strip():  # two newlines end a record
            line = _line(stream)
            continue
        row += 1
        is_record = line.startswith(_VERSION)
        headers = _headers(stream) if is_record else {}
        length = headers.get(b"content-length", b"")
        if not length.isdigit() or len(length) > 18:
            lacks = "Content-Length in the header" if is_record else "WARC record begins here"
            yield bad_row(row, "malformed_warc", f"no {lacks}", line)
            while (line := _line(stream)) and not line.startswith(_VERSION):
                pass
            continue
        kinds[(_header(headers, b"warc-type") or "none").lower()] += 1
        item = _record(row, headers, stream, int(length), wanted, max_line_bytes)
        if item is not None:
            yield item
        line = b"" if not kinds[wanted] and row >= _HEAD_RECORDS else _line(stream)
    others = {kind: count for kind, count in kinds.items() if kind != _ABOUT}
    if others and not kinds[wanted]:
        shown = ", ".join(f"{count} of kind {kind}" for kind, count in others.items())
        yield Fault(
            row + 1,
            "unreadable_file",
            f'its records are {shown}, none of kind {wanted}: kind = "wet" reads the texts of WET '
            'files (*.warc.wet.gz), kind = "warc" the pages of WARC files',
        )


def _line(stream: BinaryIO) -> bytes:
    """The next line with its newline, cut at `_MAX_HEADER_LINE`; empty at the end."""
    return stream.readline(_MAX_HEADER_LINE)


def _record(
    row: int,
    headers: dict[bytes, bytes],
    stream: BinaryIO,
    length: int,
    kind: str,
    max_bytes: int,
) -> Record | Fault | None:
    wanted = headers.get(b"warc-type", b"").lower() == kind.encode()
    is_long = length > max_bytes
    keep = 0 if not wanted else min(HEAD_BYTES, length) if is_long else length
    data = stream.read(keep)
    left = length - len(data)
    while left and (piece := stream.read(min(left, _MAX_HEADER_LINE))):
        left -= len(piece)
    source_id = _header(headers, b"warc-record-id")
    if not wanted:
        return None
    if is_long:
        return too_long(row, TooLong(length, data), max_bytes, source_id=source_id)
    if len(data) < length:
        detail = f"the file ends {length - len(data):,} bytes before the record does"
        return bad_row(row, "unreadable_file", detail, data, source_id=source_id)
    return Record(row, data, _header(headers, b"warc-target-uri"), source_id)


def _header(headers: dict[bytes, bytes], name: bytes) -> str | None:
    return headers.get(name, b"").decode("utf-8", "replace") or None


def _headers(stream: BinaryIO) -> dict[bytes, bytes]:
    headers: dict[bytes, bytes] = {}
    for _ in range(_MAX_HEADERS):
        line = _line(stream)
        if not line.strip():
            break
        name, _, value = line.partition(b":")
        headers[name.strip().lower()] = value.strip()
    return headers
