"""Panics of libraries written in Rust, which no `except Exception` catches."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def panics_as_errors() -> Iterator[None]:
    """Let a panic (pyo3's PanicException, a BaseException that no module exports) be a
    `ValueError`."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise ValueError(str(error)) from None
