"""Web pages, as files or as the records of a WARC file: the main text of each, by trafilatura.

Menus, footers and comments of readers are left out. The encoding is the page's own, or found out.
"""

import gzip
import http.client
import io
import zlib
from collections.abc import Iterator
from typing import Any

from electrify.config.clean import Source
from electrify.system.outcome import UserError
from pipeline.sources.input_file import InputFile
from pipeline.sources.raw import HEAD_BYTES, Fault, Raw, TooLong, too_long
from pipeline.sources.stored import unpacked
from pipeline.sources.wet import read_records

_RESPONSE = "response"
_HTML = ("text/html", "application/xhtml+xml")


def read_html(file: InputFile, source: Source, max_bytes: int) -> Iterator[Raw | Fault]:
    """The page of a file; one without a main text is an empty document."""
    with unpacked(file) as stream:
        data = stream.read(max_bytes + 1)
        if len(data) > max_bytes:
            yield too_long(
                1, TooLong(max(file.file_bytes, len(data)), data[:HEAD_BYTES]), max_bytes
            )
        else:
            text, url, date = main_text(data)
            yield Raw(1, text, url=url, date=date)


def read_warc(file: InputFile, source: Source, max_bytes: int) -> Iterator[Raw | Fault]:
    """One document a page that a server sent; the row counts all records."""
    with unpacked(file) as stream:
        for record in read_records(stream, _RESPONSE, max_bytes):
            if isinstance(record, Fault):
                yield record
            elif (page := _page(record.data)) is not None:
                text, _, date = main_text(page)
                yield Raw(record.row, text, url=record.url, source_id=record.source_id, date=date)


def main_text(page: bytes) -> tuple[str, str | None, str | None]:
    """The main text of a page, a paragraph a line, and the address and date that it gives."""
    try:
        import trafilatura  # here: it and its libraries are an extra
    except ModuleNotFoundError as error:
        raise UserError(
            f"web pages need {error.name}: pip install 'electrify[web]', or write their text out"
        ) from None
    # precision: else short pages come with their menus
    extracted: Any = trafilatura.bare_extraction(
        page, include_comments=False, favor_precision=True, with_metadata=True
    )
    if not extracted:
        return "", None, None
    return extracted.text or "", extracted.url, extracted.date


class _Sent(io.BytesIO):
    """The bytes of a response, where http.client wants a socket."""

    def makefile(self, *_: object) -> "_Sent":
        return self


def _page(response: bytes) -> bytes | None:
    """The page in an HTTP response, unpacked; None for anything else than a page."""
    parsed = http.client.HTTPResponse(_Sent(response))  # type: ignore[arg-type]
    try:
        parsed.begin()
        kind = (parsed.getheader("Content-Type") or "").partition(";")[0].strip().lower()
        if parsed.status != http.client.OK or kind not in _HTML:
            return None
        body = parsed.read()
    except (http.client.HTTPException, ValueError):
        # Common Crawl stores bodies unpacked, below headers that say otherwise
        body = response.partition(b"\r\n\r\n")[2]
    try:
        return gzip.decompress(body) if body.startswith(b"\x1f\x8b") else body
    except (OSError, EOFError, zlib.error):
        return None
