"""Common Crawl's WET files: WARC records of kind `conversion`, the text of one page each."""

from collections.abc import Iterable, Iterator

from electrify.config.clean import Source
from pipeline.sources.input_file import InputFile
from pipeline.sources.lines import read_chunks
from pipeline.sources.raw import HEAD_BYTES, Fault, Raw, TooLong, bad_row, too_long

_VERSION = b"WARC/"
_MAX_HEADER_LINE = 1 << 16
_MAX_HEADERS = 200


class _Stream:
    """Bytes from chunks, by the line and by the number; at most one chunk more is held."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._held = b""
        self._at = 0

    def line(self) -> bytes | None:
        """The next line with its newline, cut at `_MAX_HEADER_LINE`; none at the end."""
        while (end := self._held.find(b"\n", self._at)) < 0:
            if len(self._held) - self._at > _MAX_HEADER_LINE or not self._more():
                break
        stop = min(end + 1 or len(self._held), self._at + _MAX_HEADER_LINE)
        line = self._held[self._at : stop]
        self._at = stop
        return line or None

    def take(self, num_bytes: int, keep: int) -> bytes:
        """Go on by so many bytes, or to the end; the first `keep` of them."""
        pieces: list[bytes] = []
        kept = 0
        while num_bytes:
            if self._at == len(self._held) and not self._more():
                break
            piece = self._held[self._at : self._at + num_bytes]
            self._at += len(piece)
            num_bytes -= len(piece)
            if kept < keep:
                pieces.append(piece[: keep - kept])
                kept += len(pieces[-1])
        return b"".join(pieces)

    def _more(self) -> bool:
        chunk = next(self._chunks, b"")
        self._held = self._held[self._at :] + chunk
        self._at = 0
        return bool(chunk)


def read_wet(file: InputFile, source: Source, max_line_bytes: int) -> Iterator[Raw | Fault]:
    """One document a record of kind `conversion` that has text; the row counts all records."""
    stream = _Stream(read_chunks(file))
    row = 0
    line = stream.line()
    while line is not None:
        if not line.strip():  # two newlines end a record
            line = stream.line()
            continue
        row += 1
        if not line.startswith(_VERSION):
            yield bad_row(row, "malformed_warc", "no WARC record begins here", line)
            line = _next_version(stream)
            continue
        headers = _headers(stream)
        length = headers.get(b"content-length", b"")
        if not length.isdigit() or len(length) > 18:
            yield bad_row(row, "malformed_warc", "no Content-Length in the header", line)
            line = _next_version(stream)
            continue
        item = _record(row, headers, stream, int(length), max_line_bytes)
        if item is not None:
            yield item
        line = stream.line()


def _record(
    row: int, headers: dict[bytes, bytes], stream: _Stream, length: int, max_bytes: int
) -> Raw | Fault | None:
    wanted = headers.get(b"warc-type", b"").lower() == b"conversion"
    is_long = length > max_bytes
    keep = 0 if not wanted else HEAD_BYTES if is_long else length
    data = stream.take(length, keep)
    source_id = _header(headers, b"warc-record-id")
    if not wanted:
        return None
    if is_long:
        return too_long(row, TooLong(length, data), max_bytes, source_id=source_id)
    if len(data) < length:
        detail = f"the file ends {length - len(data):,} bytes before the record does"
        return bad_row(row, "unreadable_file", detail, data, source_id=source_id)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        return bad_row(row, "invalid_utf8", str(error), data, source_id=source_id)
    if not text.strip():
        return None
    return Raw(row, text, url=_header(headers, b"warc-target-uri"), source_id=source_id)


def _header(headers: dict[bytes, bytes], name: bytes) -> str | None:
    return headers.get(name, b"").decode("utf-8", "replace") or None


def _headers(stream: _Stream) -> dict[bytes, bytes]:
    headers: dict[bytes, bytes] = {}
    for _ in range(_MAX_HEADERS):
        line = stream.line()
        if line is None or not line.strip():
            break
        name, _, value = line.partition(b":")
        headers[name.strip().lower()] = value.strip()
    return headers


def _next_version(stream: _Stream) -> bytes | None:
    while (line := stream.line()) is not None and not line.startswith(_VERSION):
        pass
    return line
