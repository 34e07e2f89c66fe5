"""Rows of raw files as the readers give them."""

import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from electrify.config.clean import Source
from pipeline.sources.files import expand_sources
from pipeline.sources.input_file import InputFile
from pipeline.sources.raw import Fault, Raw
from pipeline.sources.readers import read_file

LINE_BYTES = 1_000_000
T = TypeVar("T")


def source_of(
    kind: Any = "jsonl", path: object = "*", language: str = "ko", **options: Any
) -> Source:
    return Source(kind=kind, language=language, path=str(path), **options)


def read_path(
    path: Path, kind: Any = "jsonl", max_line_bytes: int = LINE_BYTES, **options: Any
) -> list[Raw | Fault]:
    """All rows of one file, read as one part."""
    file = InputFile(str(path), path.stat().st_size, 0, 0)
    return list(read_file(file, source_of(kind, **options), max_line_bytes))


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
