"""Rows of raw files as the readers give them."""

import bz2
import csv
import gzip
import io
import json
import lzma
import tracemalloc
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from electrify.config.clean import Source
from pipeline.sources.files import expand_sources
from pipeline.sources.input_file import Fault, InputFile, Raw
from pipeline.sources.readers import read_file

LINE_BYTES = 1_000_000
T = TypeVar("T")
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lambda data: lzma.compress(data, preset=0),
    ".ZST": zstandard.ZstdCompressor().compress,
}


def source_of(
    kind: Any = "jsonl", path: object = "*", language: str = "ko", **options: Any
) -> Source:
    return Source(kind=kind, language=language, path=str(path), **options)


def write_files(root: Path, files: Mapping[str, str | bytes]) -> Path:
    """Files by their names, which may have folders."""
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data.encode() if isinstance(data, str) else data)
    return root


def write_zip(path: Path, files: Mapping[str, str | bytes]) -> Path:
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as made:
        for name, data in files.items():
            made.writestr(name, data)
    return path


def record(
    data: str | bytes,
    url: str = "https://a.example/1",
    kind: str = "conversion",
    length: object = None,
) -> bytes:
    """A record of a WARC or WET file."""
    body = data.encode() if isinstance(data, str) else data
    length = len(body) if length is None else length
    head = f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {url}\r\n"
    return f"{head}Content-Length: {length}\r\n\r\n".encode() + body + b"\r\n\r\n"


def table_of(rows: Iterable[Iterable[Any]], delimiter: str = ",") -> str:
    """Rows of cells as a spreadsheet writes them."""
    table = io.StringIO(newline="")
    csv.writer(table, delimiter=delimiter).writerows(rows)
    return table.getvalue()


def write_rows(path: Path, kind: str, rows: Sequence[dict[str, Any]]) -> Source:
    """Write the rows as a file or data set of a kind; the source that reads it."""
    if kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    elif kind == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif kind in ("csv", "tsv"):
        table = table_of([rows[0], *(row.values() for row in rows)], "\t" if kind == "tsv" else ",")
        path.write_text(table, encoding="utf-8", newline="")
    else:  # a folder of files for `datasets`
        pytest.importorskip("datasets").disable_progress_bars()
        path.mkdir(parents=True)
        half = -(-len(rows) // 2)
        for part, some in enumerate((rows[:half], rows[half:])):
            pq.write_table(pa.Table.from_pylist(some), path / f"part-{part}.parquet")
    return source_of(kind, path)


def file_of(path: Path) -> InputFile:
    return InputFile(str(path), path.stat().st_size)


def read_path(
    path: Path, kind: Any = "jsonl", max_line_bytes: int = LINE_BYTES, **options: Any
) -> list[Raw | Fault]:
    """All rows of one file, read as one part."""
    return list(read_file(file_of(path), source_of(kind, **options), max_line_bytes))


def read_data(
    folder: Path,
    data: str | bytes,
    kind: Any = "jsonl",
    max_line_bytes: int = LINE_BYTES,
    name: str = "a",
    **options: Any,
) -> list[Raw | Fault]:
    """All rows of a file with these bytes."""
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return read_path(path, kind, max_line_bytes, **options)


def reasons_of(items: Iterable[Raw | Fault]) -> list[str]:
    """The texts, and the reasons of faults in their place."""
    return [item.reason if isinstance(item, Fault) else item.text for item in items]


def read_files(
    files: Sequence[InputFile], source: Source, max_line_bytes: int = LINE_BYTES
) -> list[Raw | Fault]:
    return [item for file in files for item in read_file(file, source, max_line_bytes)]


def read_source(source: Source, max_line_bytes: int = LINE_BYTES) -> list[Raw | Fault]:
    return read_files(expand_sources([source]), source, max_line_bytes)


def with_peak(read: Callable[[], T]) -> tuple[T, int]:
    """What `read` returns, and the most bytes of Python's memory that it took."""
    tracemalloc.start()
    try:
        return read(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
