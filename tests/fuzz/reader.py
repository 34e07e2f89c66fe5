"""A reader, sound inputs to begin with, and how it may refuse one."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Form = Literal["bytes", "json", "lines"]


@dataclass(frozen=True)
class Reader:
    """One reader with all it needs beside the input.

    `read` returns whatever tells one way through the code from another (hashable), or raises one of
    `errors`, whose message holds `named`. All else is a fault: so is an `AssertionError`, by which
    `read` says that a result is wrong.
    """

    seeds: tuple[bytes, ...]
    read: Callable[[bytes], object]
    words: tuple[bytes, ...] = ()  # that the format knows
    form: Form = "bytes"  # json and lines: changed as JSON, half of the time
    named: str = ""
    errors: tuple[type[Exception], ...] = (ValueError,)


Make = Callable[[Path], Reader]  # with a folder of its own


def of_file(
    path: Path,
    read: Callable[[Path], Any],
    seeds: Iterable[bytes],
    *,
    words: Iterable[bytes] = (),
    form: Form = "bytes",
    named: str | None = None,
) -> Reader:
    """A reader of a file, whose errors name it; its outcome is a length or a type."""
    path.parent.mkdir(parents=True, exist_ok=True)

    def run(data: bytes) -> object:
        path.write_bytes(data)
        value = read(path)
        return min(len(value), 8) if hasattr(value, "__len__") else type(value).__name__

    return Reader(tuple(seeds), run, tuple(words), form, path.name if named is None else named)
