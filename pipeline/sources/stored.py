"""The bytes of raw files as they are stored, and unpacked: at any address, or in an archive.

`texts.zip::folder/name.json` is a member of an archive. AI Hub and the National Institute of Korean
Language deliver corpora as zips of folders of JSON. A member is read as it is unpacked, and
nothing is written to disk. A storage that fails is an error that names the file, never a row that
is bad.
"""

import bz2
import gzip
import io
import lzma
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from pathlib import PurePosixPath
from typing import IO, TYPE_CHECKING, Any

import fsspec
import pyarrow as pa
from fsspec.implementations.local import LocalFileSystem

from electrify.system.outcome import UserError
from electrify.system.progress import warn
from pipeline.sources.input_file import InputFile, packing

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_BUFFER_BYTES = 1 << 16
DAMAGED_ARCHIVE = (zipfile.BadZipFile, zlib.error)


@contextmanager
def reading(address: str) -> Iterator[None]:
    """Raise `UserError` for what the storage raises; every file system has its own types.

    A damaged archive, or member of one, is a fault of the data.
    """
    try:
        yield
    except (UserError, *DAMAGED_ARCHIVE):
        raise
    except Exception as error:
        said = " ".join(str(error).split())  # of several lines, where a server's answer is
        reason = f"{type(error).__name__}: {said}".rstrip(": ")
        raise UserError(
            f"{address} cannot be read: {reason}. No part of a source is left "
            "out: see that every worker can open it, then run the stage again"
        ) from error


def open_source(file: InputFile) -> io.BufferedReader:
    """The file's bytes as they are stored. Opening and reading raise `UserError`, or what a
    damaged archive raises."""
    address = file.address
    with reading(address):
        if is_member(address):
            archive, name = split_archive(address)
            changed = _changed(archive)
            stored = _zip(archive, changed).open(_members(archive, changed)[name])
        elif "://" in address:
            stored = fsspec.open(address, "rb").open()
        else:  # fsspec takes :: in a name for a chain of file systems
            stored = LocalFileSystem().open(address, "rb")
    return io.BufferedReader(_Stored(file, stored), _BUFFER_BYTES)


class _Stored(io.RawIOBase):
    """An open file of any storage that must hold as many bytes as were listed."""

    def __init__(self, file: InputFile, stored: IO[bytes]) -> None:
        self._input, self._stored, self._position = file, stored, 0

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


# Arrow loses the piece in which it meets a fault, so the pieces are small
ZSTD_CHUNK_BYTES = 1 << 14
_UNPACKERS: dict[str, Callable[[Any], Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


@contextmanager
def unpacked(file: InputFile) -> Iterator[Any]:
    """The open file, unpacked as its ending says (`packing`), or as it is."""
    with open_source(file) as packed:
        ending = packing(file.path)
        if not ending or not packed.peek(1):  # .bz2 and .xz take an empty file for a broken one
            yield packed
        elif ending in (".zst", ".zstd"):
            yield io.BufferedReader(pa.CompressedInputStream(packed, "zstd"), ZSTD_CHUNK_BYTES)
        else:
            yield _UNPACKERS[ending](packed)


# Archives

_MEMBER = re.compile(r"(.*\.zip)::(.*)", re.IGNORECASE | re.DOTALL)
ARCHIVES_WITHIN = "archives within archives are not read: unpack the outer one"
_UTF8_NAME, _ENCRYPTED = 0x800, 0x1  # flags of a member
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
_MIN_ZIP_BYTES = 22
# text is packed to a tenth of its size, rarely to less than a hundredth
_MAX_RATIO, _SMALL_BYTES = 500, 100_000_000


def is_archive(path: str) -> bool:
    return path.lower().endswith(".zip")


def split_archive(path: str) -> tuple[str, str]:
    """An archive and what stands for its members, `*` for all; of any other path "" and itself."""
    if match := _MEMBER.fullmatch(path):
        return match[1], match[2]
    return (path, "*") if is_archive(path) else ("", path)


def is_member(path: str) -> bool:
    return _MEMBER.fullmatch(path) is not None


def list_members(archive: str, pattern: str = "*") -> list[tuple[str, int]]:
    """(path, bytes unpacked) of the files that a pattern matches, by name; a star matches slashes.

    Hidden files are left out, and those of macOS. `UserError` for members that are encrypted, or of
    a size that no text has. A warning counts archives: none is read.
    """
    members = []
    by_name = _members(archive, _changed(archive))
    if num_archives := sum(map(is_archive, by_name)):
        _warn_of_archives(archive, num_archives)
    for name, info in by_name.items():
        if name == pattern or fnmatchcase(name, pattern):  # a name may hold [ or *
            if fault := _fault(info):
                raise UserError(f"{archive}::{name} {fault}")
            members.append((f"{archive}::{name}", info.file_size))
    return members


@cache  # what runs a stage lists an archive several times
def _warn_of_archives(archive: str, number: int) -> None:
    warn(f"{archive}: {ARCHIVES_WITHIN} ({number:,})")


def _changed(archive: str) -> int | None:
    """When a local archive was changed; of an address it is not known."""
    return None if "://" in archive else os.stat(archive).st_mtime_ns


@lru_cache(maxsize=2)  # members are read one behind the other
def _zip(archive: str, changed: int | None) -> zipfile.ZipFile:
    stored = open_source(InputFile(archive, 0))
    if stored.seek(0, os.SEEK_END) < _MIN_ZIP_BYTES:  # zipfile would seek to before its start
        raise zipfile.BadZipFile("File is not a zip file")
    return zipfile.ZipFile(stored)


os.register_at_fork(after_in_child=_zip.cache_clear)  # a worker opens files of its own


@lru_cache(maxsize=2)
def _members(archive: str, changed: int | None) -> dict[str, zipfile.ZipInfo]:
    """The files that have bytes and are not hidden, by name."""
    members = {_name(info): info for info in _zip(archive, changed).infolist()}
    return {
        name: info
        for name, info in sorted(members.items())
        if info.file_size
        and not info.is_dir()
        and not any(part.startswith((".", "__MACOSX")) for part in {*name.split("/")} - {".."})
    }


def _fault(info: zipfile.ZipInfo) -> str:
    """Why a member is not read; empty if it is."""
    if info.flag_bits & _ENCRYPTED:
        return "is encrypted: unpack the archive with its password"
    if info.compress_type not in _METHODS:
        return "is packed by a method that is not read, maybe Deflate64: unpack the archive"
    if info.file_size > max(_SMALL_BYTES, _MAX_RATIO * info.compress_size):
        return (
            f"unpacks from {info.compress_size:,} to {info.file_size:,} bytes, which no text does: "
            "look at it, and unpack it yourself"
        )
    return ""


def _name(info: zipfile.ZipInfo) -> str:
    """Windows writes names in the encoding of its language, and zipfile reads them as cp437."""
    raw = info.filename.encode("utf-8")
    if not info.flag_bits & _UTF8_NAME:
        with suppress(UnicodeEncodeError):
            raw = info.filename.encode("cp437")
    for encoding in ("utf-8", "cp949"):
        with suppress(UnicodeDecodeError):
            return str(PurePosixPath(raw.decode(encoding).replace("\\", "/")))
    return str(PurePosixPath(raw.decode("cp437")))
