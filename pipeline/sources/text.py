"""Plain text, whose documents are lines, blocks or the file, and threads of rows."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import cast

from electrify.config.clean import Source
from pipeline.sources.input_file import InputFile
from pipeline.sources.lines import read_text_lines
from pipeline.sources.raw import HEAD_BYTES, Fault, Raw, TooLong, bad_row, encoding_fault, too_long

_Lines = Iterable[tuple[int, bytes | TooLong]]  # with the byte at which each begins
_Documents = Iterator[tuple[int, int, bytes | TooLong]]  # row, that byte, bytes


def read_text(file: InputFile, source: Source, max_line_bytes: int) -> Iterator[Raw | Fault]:
    """Plain text; `source.document` says what a document is."""
    lines = read_text_lines(file, source.encoding, max_line_bytes)
    for row, offset, document in _TEXT_DOCUMENTS[source.document](lines, max_line_bytes):
        if isinstance(document, TooLong):
            yield too_long(row, document, max_line_bytes, offset)
            continue
        try:
            yield Raw(row, document.decode("utf-8"))
        except UnicodeDecodeError as error:
            yield bad_row(row, *encoding_fault(error, source.encoding), document, offset)


def _line_documents(lines: _Lines, max_bytes: int) -> _Documents:
    for row, (offset, line) in enumerate(lines, start=1):
        if isinstance(line, TooLong) or line.strip():
            yield row, offset, line


def _block_documents(lines: _Lines, max_bytes: int, ends_at_blank: bool = True) -> _Documents:
    """Lines between blank lines, or all lines; the row is that of the first."""
    block: list[bytes | TooLong] = []
    num_bytes = first_offset = 0
    first_row = 1
    for row, (offset, line) in enumerate(lines, start=1):
        if ends_at_blank and not isinstance(line, TooLong) and not line.strip():
            if block:
                yield first_row, first_offset, _assembled(block, num_bytes, max_bytes)
                block, num_bytes = [], 0
            continue
        if not block:
            first_row, first_offset = row, offset
        if num_bytes <= max_bytes:
            block.append(line)
        num_bytes += (line.num_bytes if isinstance(line, TooLong) else len(line)) + 1
    if block:
        yield first_row, first_offset, _assembled(block, num_bytes, max_bytes)


def _assembled(document: list[bytes | TooLong], num_bytes: int, max_bytes: int) -> bytes | TooLong:
    if num_bytes > max_bytes + 1:
        first = document[0]
        return TooLong(num_bytes, first.head if isinstance(first, TooLong) else first[:HEAD_BYTES])
    return b"\n".join(cast(list[bytes], document))


_TEXT_DOCUMENTS: dict[str, Callable[[_Lines, int], _Documents]] = {
    "line": _line_documents,
    "block": _block_documents,
    "file": partial(_block_documents, ends_at_blank=False),
}


# Documents from rows: the rows of one thread, as comments have it, joined by newlines.

# Faults inside a thread wait for its end, so that rows come out in order; so many at most wait.
_MAX_WAITING = 1000


def join_threads(rows: Iterable[Raw | Fault], max_bytes: int) -> Iterator[Raw | Fault]:
    """Rows that follow one another with the same `thread` as one document, at the first's row.

    A row without a thread stays alone. A document that would pass `max_bytes` of UTF-8 is ended and
    the thread goes on as another, so that no text is lost and memory stays bounded.
    """
    first: Raw | None = None
    texts: list[str] = []
    num_bytes = 0
    waiting: list[Fault] = []
    for row in rows:
        if isinstance(row, Fault):
            waiting.append(row)
            if first is not None and len(waiting) < _MAX_WAITING:
                continue
        elif first is not None and row.thread == first.thread is not None:
            size = _num_bytes(row.text)
            if num_bytes + 1 + size <= max_bytes:
                texts.append(row.text)
                num_bytes += 1 + size
                continue
        yield from _document(first, texts)
        yield from waiting
        first, texts, num_bytes, waiting = None, [], 0, []
        if isinstance(row, Raw):
            first, texts, num_bytes = row, [row.text], _num_bytes(row.text)
    yield from _document(first, texts)
    yield from waiting


def _document(first: Raw | None, texts: list[str]) -> Iterator[Raw]:
    if first is not None:
        yield replace(first, text="\n".join(texts))


def _num_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
