"""Documents from rows: the rows of one thread, as comments have it, joined by newlines."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from pipeline.raw import Fault, Raw

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
