"""The stored bytes of a raw file: a storage that fails is an error that names the file."""

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

import fsspec

from pipeline.sources.input_file import InputFile

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_BUFFER_BYTES = 1 << 16


class SourceError(ValueError):
    """A raw file cannot be opened or read. It says nothing about the file's contents."""


def open_source(file: InputFile) -> io.BufferedReader:
    """The file's bytes as they are stored. Opening and reading raise `SourceError` alone."""
    with reading(file.address):
        stored = fsspec.open(file.address, "rb").open()
    return io.BufferedReader(_Stored(file, stored), _BUFFER_BYTES)


@contextmanager
def reading(address: str) -> Iterator[None]:
    """Raise `SourceError` for what the storage raises; every file system has its own types."""
    try:
        yield
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".rstrip(": ")
        raise SourceError(
            f"{address} cannot be read: {reason}. No part of a source is left out: see that every "
            "worker can open it, then run the stage again"
        ) from error


class _Stored(io.RawIOBase):
    """An open file of any storage that must hold as many bytes as were listed."""

    def __init__(self, file: InputFile, stored: IO[bytes]) -> None:
        self._input, self._stored = file, stored
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if whence == os.SEEK_CUR:
            offset, whence = self._position + offset, os.SEEK_SET
        if (offset, whence) != (self._position, os.SEEK_SET):  # a stream cannot seek at all
            with reading(self._input.address):
                self._stored.seek(offset, whence)
                self._position = self._stored.tell()
        return self._position

    def readinto(self, buffer: "WriteableBuffer") -> int:
        view = memoryview(buffer)
        with reading(self._input.address):
            data = self._stored.read(len(view))
            if not data and len(view) and self._position < self._input.file_bytes:
                raise EOFError(
                    f"it ends after {self._position:,} of {self._input.file_bytes:,} bytes"
                )
        view[: len(data)] = data
        self._position += len(data)
        if self._input.on_read is not None:
            self._input.on_read(len(data))
        return len(data)

    def close(self) -> None:
        self._stored.close()
        super().close()
