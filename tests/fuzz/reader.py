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
    read: Callable[[Path], object],
    seeds: Iterable[bytes],
    *,
    words: Iterable[bytes] = (),
    form: Form = "bytes",
    errors: tuple[type[Exception], ...] = (ValueError,),
    named: str | None = None,
    pack: Callable[[bytes], bytes] | None = None,
) -> Reader:
    """A reader of a file, whose errors name it. `pack` makes of an input what stands in the file.
    Reading lazily counts as reading: an iterator is run to its end."""
    path.parent.mkdir(parents=True, exist_ok=True)

    def run(data: bytes) -> object:
        path.write_bytes(data if pack is None else pack(data))
        return outcome(read(path))

    where = path.name if named is None else named
    return Reader(tuple(seeds), run, tuple(words), form, where, errors)


def outcome(value: Any) -> object:
    """How many there are of an iterator or a collection, coarsely; else the value's type."""
    if hasattr(value, "__next__"):
        value = list(value)
    try:
        return min(len(value), 8)
    except TypeError:
        return type(value).__name__
