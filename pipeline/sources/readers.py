"""Documents of one raw file, of any kind and size, in bounded memory.

A row that cannot be read is yielded as a `Fault`, never passed over in silence. A storage that
fails is no fault of the data: it raises `SourceError`.
"""

import csv
import lzma
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from xml.parsers.expat import ExpatError

import pyarrow as pa

from electrify.config.clean import Source
from pipeline.sources.hub import read_huggingface
from pipeline.sources.input_file import InputFile
from pipeline.sources.lines import guess_encoding, head_of
from pipeline.sources.raw import Fault, Raw
from pipeline.sources.tables import read_csv, read_parquet
from pipeline.sources.text import ENCODING_FAULTS, join_threads, read_jsonl, read_text
from pipeline.sources.wet import read_wet
from pipeline.sources.wikipedia import read_wikipedia

# What the contents of a file raise. UnicodeDecodeError: names of columns; MemoryError: a damaged
# size that nobody can allocate
DAMAGES = (
    OSError,
    EOFError,
    zlib.error,
    csv.Error,
    lzma.LZMAError,
    pa.ArrowException,
    ExpatError,
    UnicodeDecodeError,
    MemoryError,
)
_ENCODING_ROWS = 100  # so many rows at the head of a file tell whether its encoding is wrong

_READERS: dict[str, Callable[[InputFile, Source, int], Iterator[Raw | Fault]]] = {
    "jsonl": read_jsonl,
    "text": read_text,
    "csv": read_csv,
    "tsv": read_csv,
    "parquet": read_parquet,
    "wikipedia": read_wikipedia,
    "huggingface": read_huggingface,
    "wet": read_wet,
}


def read_file(file: InputFile, source: Source, max_line_bytes: int) -> Iterator[Raw | Fault]:
    """The documents of one file in order, at most `source.max_documents`, and its faults.

    A damaged file ends with a fault (`unreadable_file`) in place of its remaining rows. A text
    document is then given up if it was not yet at its end. Raises `SourceError` where the storage
    fails, `ValueError` where the hub does.
    """
    rows = _until_unreadable(file, source, max_line_bytes)
    if source.kind in ("jsonl", "text", "csv", "tsv"):
        rows = _with_encoding_hint(rows, file, source)
    if source.thread_field is not None:
        rows = join_threads(rows, max_line_bytes)
    num_documents = 0
    for item in rows:
        yield item
        num_documents += isinstance(item, Raw)
        if num_documents == source.max_documents:
            return


def _until_unreadable(
    file: InputFile, source: Source, max_line_bytes: int
) -> Iterator[Raw | Fault]:
    row = file.first_row
    try:
        for item in _READERS[source.kind](file, source, max_line_bytes):
            row = item.row
            yield item
    except DAMAGES as error:
        yield Fault(row + 1, "unreadable_file", f"{type(error).__name__}: {error}")


def _with_encoding_hint(
    rows: Iterator[Raw | Fault], file: InputFile, source: Source
) -> Iterator[Raw | Fault]:
    """Where most rows so far are not of the source's encoding, say which they may be of."""
    num_bad = 0
    hint: str | None = None
    for num_rows, item in enumerate(rows, start=1):
        if (
            isinstance(item, Fault)
            and item.reason in ENCODING_FAULTS
            and num_rows <= _ENCODING_ROWS
        ):
            num_bad += 1
            if num_bad * 2 > num_rows:
                hint = _encoding_hint(file, source) if hint is None else hint
                item = replace(item, detail=item.detail + hint)
        yield item


def _encoding_hint(file: InputFile, source: Source) -> str:
    try:
        guess = guess_encoding(head_of(file), source.language)
    except DAMAGES:
        guess = None
    return f"; the file reads as {guess}: set source.encoding" if guess else ""
