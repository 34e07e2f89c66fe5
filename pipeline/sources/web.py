"""Common Crawl's records: pages (WARC) and their texts (WET).

The main text of a page is found by trafilatura: menus, footers and comments of readers are left
out. The encoding is the page's own, or found out.
"""

import gzip
import http.client
import io
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

from electrify.config.clean import Source
from electrify.system.outcome import UserError
from pipeline.sources.input_file import (
    HEAD_BYTES,
    Fault,
    InputFile,
    Raw,
    TooLong,
    bad_row,
    text_of,
    too_long,
)
from pipeline.sources.stored import unpacked

_HTML = ("text/html", "application/xhtml+xml")
_TEXT, _RESPONSE, _ABOUT = "conversion", "response", "warcinfo"  # kinds of records
_HEAD_RECORDS = 100  # from which on a file without a text is given up
_KIND_CHARACTERS = 40  # that a message shows


def read_warc(file: InputFile, source: Source, max_bytes: int) -> Iterator[Raw | Fault]:
    """One document a page that a server sent; the row counts all records."""
    for record in _read_records(file, _RESPONSE, max_bytes):
        if isinstance(record, Fault):
            yield record
        elif (page := _page(record.data)) is not None:
            text = _main_text(page)
            yield Raw(record.row, text, url=record.url, source_id=record.source_id)


def read_wet(file: InputFile, source: Source, max_bytes: int) -> Iterator[Raw | Fault]:
    """One document a record of kind `conversion` that has text; the row counts all records."""
    for record in _read_records(file, _TEXT, max_bytes):
        if isinstance(record, Fault):
            yield record
            continue
        row, data, url, source_id = record
        text = text_of(row, data, source, max_bytes)
        if isinstance(text, Fault):
            yield replace(text, source_id=source_id)
        elif text.strip():
            yield Raw(row, text, url=url, source_id=source_id)


def _main_text(page: bytes) -> str:
    """The main text of a page, a paragraph a line; empty of one without."""
    try:
        import trafilatura  # here: it and its libraries are an extra
    except ModuleNotFoundError as error:
        raise UserError(
            f"web pages need {error.name}: pip install 'electrify[web]', or write their text out"
        ) from None
    # precision: else short pages come with their menus
    extracted: Any = trafilatura.bare_extraction(page, include_comments=False, favor_precision=True)
    return (extracted and extracted.text) or ""


class _Sent(io.BytesIO):
    """The bytes of a response, where http.client wants a socket."""

    def makefile(self, *_: object) -> "_Sent":
        return self


def _page(response: bytes) -> bytes | None:
    """The page in an HTTP response, unpacked; None for anything else than a page."""
    response = re.sub(rb"^HTTP/[23](\.0)? ", b"HTTP/1.1 ", response)
    parsed = http.client.HTTPResponse(_Sent(response))  # type: ignore[arg-type]
    try:
        parsed.begin()
    except (http.client.HTTPException, ValueError):
        return None
    kind = (parsed.getheader("Content-Type") or "").partition(";")[0].strip().lower()
    if parsed.status != http.client.OK or kind not in _HTML:
        return None
    # Common Crawl stores bodies unpacked, below headers that say otherwise
    body = response.partition(b"\r\n\r\n")[2]
    with suppress(http.client.HTTPException, ValueError):
        body = parsed.read() if parsed.chunked else body
    try:
        return gzip.decompress(body) if body.startswith(b"\x1f\x8b") else body
    except (OSError, EOFError, zlib.error):
        return None


# Records


class _Record(NamedTuple):
    row: int
    data: bytes
    url: str | None
    source_id: str | None


class _Pieces:
    """What fastwarc reads: what there is before a fault, of a stream that may not tell where."""

    def __init__(self, stream: Any) -> None:
        self._stream, self._position = stream, 0

    def read(self, size: int = -1) -> bytes:
        data: bytes = self._stream.read1(size)
        self._position += len(data)
        return data

    def tell(self) -> int:
        return self._position

    def close(self) -> None:
        self._stream.close()


def _read_records(file: InputFile, wanted: str, max_bytes: int) -> Iterator[_Record | Fault]:
    """The records of one kind, and a fault for a file without.

    `OSError` where no record begins that should: the rest of the file is damaged. So it is, with a
    fault, after a header without a length, in which a file may end.
    """
    from fastwarc.warc import ArchiveIterator

    kinds: Counter[str] = Counter()
    row = 0
    with unpacked(file) as stream:
        version, line_feed, _ = stream.peek(HEAD_BYTES).partition(b"\n")
        if line_feed and version.startswith(b"WARC/") and not version.endswith(b"\r"):
            detail = "its line ends are LF, where WARC has CR LF: take the file as it was published"
            yield bad_row(1, "unreadable_file", detail, version)
            return
        pieces: Any = _Pieces(stream)
        for row, record in enumerate(ArchiveIterator(pieces, parse_http=False), start=1):
            kind = (record.headers.get("WARC-Type") or "none").lower()
            kinds[kind.partition("\n")[0][:_KIND_CHARACTERS]] += 1
            length = record.headers.get("Content-Length") or ""
            if not length.strip().isdecimal():
                detail = "the header of the record has no Content-Length, or the file ends in it"
                source_id = record.headers.get("WARC-Record-ID") or None
                yield replace(bad_row(row, "unreadable_file", detail, b""), source_id=source_id)
                return
            if kind == wanted:
                yield _record(row, record, max_bytes)
            elif row >= _HEAD_RECORDS and not kinds[wanted]:
                break
    others = {kind: count for kind, count in kinds.items() if kind != _ABOUT}
    if others and not kinds[wanted]:
        shown = ", ".join(f"{count} of kind {kind}" for kind, count in others.items())
        yield Fault(
            row + 1,
            "unreadable_file",
            f'its records are {shown}, none of kind {wanted}: kind = "wet" reads the texts of WET '
            'files (*.warc.wet.gz), kind = "warc" the pages of WARC files',
        )


def _record(row: int, record: Any, max_bytes: int) -> _Record | Fault:
    length, headers = record.content_length, record.headers
    source_id = headers.get("WARC-Record-ID") or None
    data = record.reader.read(length if length <= max_bytes else HEAD_BYTES)
    if length > max_bytes:
        return replace(too_long(row, TooLong(length, data), max_bytes), source_id=source_id)
    if len(data) < length:
        detail = f"the file ends {length - len(data):,} bytes before the record does"
        return replace(bad_row(row, "unreadable_file", detail, data), source_id=source_id)
    return _Record(row, data, headers.get("WARC-Target-URI") or None, source_id)
