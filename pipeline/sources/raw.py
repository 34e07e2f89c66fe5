"""What reading a raw file gives, row by row: a document, or the fault that hides it."""

from dataclasses import dataclass

from electrify.storage.encodings import is_utf8

KNOWN_FIELDS = ("source", "url", "licence", "license", "date")
HEAD_BYTES = 500  # of a row that cannot be read, kept for the record


@dataclass(frozen=True, slots=True)
class Raw:
    """One document as the file has it. `row` counts lines, table rows, pages or records from 1."""

    row: int
    text: str
    source: str | None = None
    url: str | None = None
    licence: str | None = None
    thread: str | None = None  # rows that follow one another with the same value are one document
    source_id: str | None = None  # the id that the source itself gives
    language: str | None = None  # as the row names it
    date: str | None = None


@dataclass(frozen=True, slots=True)
class Fault:
    """One row, or the rest of a file, that cannot be read."""

    row: int
    reason: str
    detail: str
    text: str = ""
    offset: int | None = None  # of the row's first byte in its file, where lines are read
    source_id: str | None = None


@dataclass(frozen=True, slots=True)
class TooLong:
    """Stands for bytes that were read past and not kept."""

    num_bytes: int
    head: bytes


def bad_row(
    row: int,
    reason: str,
    detail: str,
    data: bytes,
    offset: int | None = None,
    source_id: str | None = None,
) -> Fault:
    """A fault that shows how the row begins."""
    head = data[:HEAD_BYTES].decode("utf-8", "replace")
    return Fault(row, reason, detail, head, offset, source_id)


def too_long(
    row: int, line: TooLong, max_bytes: int, offset: int | None = None, source_id: str | None = None
) -> Fault:
    """The fault of a row that was read past."""
    detail = f"{line.num_bytes:,} bytes; clean.max_line_bytes = {max_bytes:,}"
    return bad_row(row, "line_too_long", detail, line.head, offset, source_id)


def encoding_fault(error: UnicodeDecodeError, encoding: str) -> tuple[str, str]:
    """Reason and detail of a row whose bytes are not of the source's encoding."""
    if is_utf8(encoding):
        return "invalid_utf8", str(error)
    return "wrong_encoding", f"bytes that are not {encoding}"
