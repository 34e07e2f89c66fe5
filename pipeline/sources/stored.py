"""The bytes of raw files as they are stored, and unpacked: at any address, or in an archive.

`texts.tar.gz::folder/name.json` is a member of an archive. AI Hub and the National Institute of
Korean Language deliver corpora as zips of folders of JSON. A member is read as it is unpacked, and
nothing is written to disk. A storage that fails is an error that names the file, never a row that
is bad.
"""

import bz2
import gzip
import io
import lzma
import os
import re
import tarfile
import threading
import zipfile
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from pathlib import PurePosixPath
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import fsspec
import pyarrow as pa
from fsspec.implementations.local import LocalFileSystem

from electrify.stage.folder import fingerprint
from electrify.system.outcome import UserError
from electrify.system.progress import warn
from pipeline.sources.input_file import InputFile, packing

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_BUFFER_BYTES = 1 << 16
DAMAGED_ARCHIVE = (zipfile.BadZipFile, zlib.error, tarfile.TarError)


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
            stored = _open_member(address)
        elif "://" in address:
            stored = fsspec.open(address, "rb").open()
        else:  # fsspec takes :: in a name for a chain of file systems
            stored = LocalFileSystem().open(address, "rb")
    return io.BufferedReader(_Stored(file, stored), _BUFFER_BYTES)


class _Seekable(io.RawIOBase):
    """A file that is read, and knows the position of the next byte."""

    _position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position


class _Stored(_Seekable):
    """An open file of any storage that must hold as many bytes as were listed."""

    def __init__(self, file: InputFile, stored: IO[bytes]) -> None:
        self._input, self._stored = file, stored

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
        yield _unpack(packed, packing(file.path))


def _unpack(packed: io.BufferedReader, ending: str) -> Any:
    if not ending or not packed.peek(1):  # .bz2 and .xz take an empty file for a broken one
        return packed
    if ending in (".zst", ".zstd"):
        return io.BufferedReader(pa.CompressedInputStream(packed, "zstd"), ZSTD_CHUNK_BYTES)
    return _UNPACKERS[ending](packed)


# Archives

_ENDING = r"\.(?:zip|tar|t(?:ar\.)?(?:gz|bz2|xz|zst))"
_ARCHIVE = re.compile(rf".*({_ENDING})", re.IGNORECASE | re.DOTALL)
_MEMBER = re.compile(rf"(.*{_ENDING})::(.*)", re.IGNORECASE | re.DOTALL)
ARCHIVES_WITHIN = "archives within archives are not read: unpack the outer one"
_UTF8_NAME, _ENCRYPTED = 0x800, 0x1  # flags of a member of a zip
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
_MIN_ZIP_BYTES = 22
# text is packed to a tenth of its size, rarely to less than a hundredth
_MAX_RATIO, _SMALL_BYTES = 500, 100_000_000


def archive_ending(path: str) -> str:
    """ ".tar.gz" of "a.tar.gz"; empty for what is no archive."""
    match = _ARCHIVE.fullmatch(path)
    return match[1] if match else ""


def split_archive(path: str) -> tuple[str, str]:
    """An archive and what stands for its members, `*` for all; of any other path "" and itself."""
    if match := _MEMBER.fullmatch(path):
        return match[1], match[2]
    return (path, "*") if archive_ending(path) else ("", path)


def is_member(path: str) -> bool:
    return _MEMBER.fullmatch(path) is not None


def stream_of(path: str) -> str:
    """The packed tar of which a path is a member: who reads one reads all before it. Else ""."""
    archive, _ = split_archive(path)
    return archive if _tar_packing(archive) else ""


def list_members(archive: str, pattern: str = "*") -> list[tuple[str, int]]:
    """(path, bytes unpacked) of the files that a pattern matches; a star matches slashes.

    Those of a zip come by name, of a tar as they stand in it. Hidden files are left out, and those
    of macOS. `UserError` for members that are encrypted, or of a size that no text has. A warning
    counts links, devices and files with holes of a tar, and another archives: none is read.
    """
    members = []
    by_name, num_skipped = _listed(archive, _changed(archive))
    if num_skipped:
        _warn_of_skipped(archive, f"links and devices are not read ({num_skipped:,})")
    if num_archives := sum(bool(archive_ending(name)) for name in by_name):
        _warn_of_skipped(archive, f"{ARCHIVES_WITHIN} ({num_archives:,})")
    for name, member in by_name.items():
        if name == pattern or fnmatchcase(name, pattern):  # a name may hold [ or *
            if member.fault:
                raise UserError(f"{archive}::{name} {member.fault}")
            members.append((f"{archive}::{name}", member.num_bytes))
    return members


@cache  # what runs a stage lists an archive several times
def _warn_of_skipped(archive: str, what: str) -> None:
    warn(f"{archive}: {what}")


def member_mark(path: str) -> str:
    """Size and checksum of a member, as a zip has them; a tar has those of itself alone."""
    archive, name = split_archive(path)
    with _LOCK:  # many threads ask at once
        if _is_zip(archive):
            info = _member(path).place
            return f"{info.file_size} {info.CRC:08x}"
        return f"{_digest(archive, _changed(archive))} {name}"


class _Member(NamedTuple):
    num_bytes: int
    place: Any  # what opens it: ZipInfo, or the first byte in the tar as it is unpacked
    fault: str = ""


_LOCK = threading.Lock()
_OPEN = threading.local()  # the tar that a thread reads: no two may move in one stream


def _open_member(path: str) -> IO[bytes]:
    archive, name = split_archive(path)
    member = _member(path)
    if _is_zip(archive):
        return _zip(archive, _changed(archive)).open(member.place)
    info = tarfile.TarInfo(name)
    info.offset_data, info.size = member.place, member.num_bytes
    opened = _tar(archive).extractfile(info)
    assert opened is not None
    return opened


def _is_zip(archive: str) -> bool:
    return archive.lower().endswith(".zip")


def _tar_packing(archive: str) -> str:
    """ ".gz" of "a.tar.gz" and "a.tgz"."""
    match = re.search(r"\.t(?:ar\.)?(gz|bz2|xz|zst)$", archive, re.IGNORECASE)
    return f".{match[1].lower()}" if match else ""


def _changed(archive: str) -> int | None:
    """When a local archive was changed; of an address it is not known."""
    return None if "://" in archive else os.stat(archive).st_mtime_ns


def _member(path: str) -> _Member:
    archive, name = split_archive(path)
    return _listed(archive, _changed(archive))[0][name]


@lru_cache(maxsize=64)
def _digest(archive: str, changed: int | None) -> str:
    return fingerprint(archive)


@lru_cache(maxsize=2)  # members are read one behind the other
def _zip(archive: str, changed: int | None) -> zipfile.ZipFile:
    stored = open_source(InputFile(archive, 0))
    if stored.seek(0, os.SEEK_END) < _MIN_ZIP_BYTES:  # zipfile would seek to before its start
        raise zipfile.BadZipFile("File is not a zip file")
    return zipfile.ZipFile(stored)


def _tar(archive: str) -> tarfile.TarFile:
    key = archive, _changed(archive)
    if getattr(_OPEN, "key", None) != key:
        file = InputFile(archive, 0)
        ending = _tar_packing(archive)
        raw = io.BufferedReader(_Unpacked(file, ending)) if ending else open_source(file)
        # a name that is no UTF-8 keeps its bytes, as surrogates
        _OPEN.tar = tarfile.open(fileobj=raw, mode="r:", encoding="utf-8", errors="surrogateescape")  # noqa: SIM115
        _OPEN.key = key
    opened: tarfile.TarFile = _OPEN.tar
    return opened


@lru_cache(maxsize=2)
def _listed(archive: str, changed: int | None) -> tuple[dict[str, _Member], int]:
    """The members by name, and how many are not read."""
    members, skipped = (_zip_members if _is_zip(archive) else _tar_members)(archive)
    usual = {
        name: member
        for name, member in members.items()
        if member.num_bytes
        and not any(part.startswith((".", "__MACOSX")) for part in {*name.split("/")} - {".."})
    }
    return usual, skipped


def _zip_members(archive: str) -> tuple[dict[str, _Member], int]:
    members: dict[str, _Member] = {}
    for info in _zip(archive, _changed(archive)).infolist():
        fault = _bomb(info.file_size, info.compress_size)
        if info.flag_bits & _ENCRYPTED:
            fault = "is encrypted: unpack the archive with its password"
        elif info.compress_type not in _METHODS:
            fault = "is packed by a method that is not read, maybe Deflate64: unpack the archive"
        if not info.is_dir():
            members[_zip_name(info)] = _Member(info.file_size, info, fault)
    return dict(sorted(members.items())), 0


def _tar_members(archive: str) -> tuple[dict[str, _Member], int]:
    """The files of a tar; of two with one name the later one, which replaces the other."""
    members: dict[str, _Member] = {}
    skipped = 0
    _OPEN.key = None  # from its start
    tar = _tar(archive)
    while info := tar.next():
        tar.members.clear()  # type: ignore[attr-defined]  # it would keep them all
        if info.isreg() and not info.issparse():
            name = _decoded(info.name.encode("utf-8", "surrogateescape"), "latin-1")
            members.pop(name, None)
            members[name] = _Member(info.size, info.offset_data)
        else:
            skipped += not info.isdir()
    assert tar.fileobj is not None
    tar.fileobj.seek(tar.offset)  # tarfile takes anything that is no header for the end
    if (block := tar.fileobj.read(tarfile.BLOCKSIZE)) != bytes(tarfile.BLOCKSIZE):
        what = "no header of a member" if block else "no mark of the end"
        raise tarfile.ReadError(f"there is {what} at byte {tar.offset:,}")
    return members, skipped


def _bomb(num_bytes: int, packed_bytes: int) -> str:
    """What is wrong with a file that becomes larger than text does; empty if nothing."""
    if num_bytes <= max(_SMALL_BYTES, _MAX_RATIO * packed_bytes):
        return ""
    return (
        f"unpacks from {packed_bytes:,} to {num_bytes:,} bytes, which no text does: look at it, "
        "and unpack it yourself"
    )


def _zip_name(info: zipfile.ZipInfo) -> str:
    """Windows writes names in the encoding of its language, and zipfile reads them as cp437."""
    if not info.flag_bits & _UTF8_NAME:
        with suppress(UnicodeEncodeError):
            return _decoded(info.filename.encode("cp437"), "cp437")
    return _decoded(info.filename.encode("utf-8"), "")


def _decoded(name: bytes, otherwise: str) -> str:
    for encoding in ("utf-8", "cp949"):
        with suppress(UnicodeDecodeError):
            return str(PurePosixPath(name.decode(encoding).replace("\\", "/")))
    return str(PurePosixPath(name.decode(otherwise)))


class _Unpacked(_Seekable):
    """A packed tar in which one can seek: shortly back in what is kept, further back by reading it
    from its start."""

    _CHUNK_BYTES, _NUM_KEPT = 1 << 20, 16

    def __init__(self, file: InputFile, ending: str) -> None:
        self._file, self._ending = file, ending
        self._start()

    def _start(self) -> None:
        self._packed = open_source(self._file)
        self._stream = _unpack(self._packed, self._ending)
        self._chunks: deque[bytes] = deque(maxlen=self._NUM_KEPT)
        self._num_chunks = 0

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        assert whence != os.SEEK_END, "nobody knows where it ends"
        self._position = offset + (self._position if whence == os.SEEK_CUR else 0)
        return self._position

    def readinto(self, buffer: "WriteableBuffer") -> int:
        view = memoryview(buffer)
        number, first = divmod(self._position, self._CHUNK_BYTES)
        data = self._chunk(number)[first : first + len(view)]
        view[: len(data)] = data
        self._position += len(data)
        return len(data)

    def _chunk(self, number: int) -> bytes:
        if number < self._num_chunks - len(self._chunks):
            self._start()
        while number >= self._num_chunks:
            try:
                chunk = self._stream.read(self._CHUNK_BYTES)
            except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
                raise tarfile.ReadError(f"{type(error).__name__}: {error}") from error
            if not chunk:
                return b""
            self._chunks.append(chunk)
            self._num_chunks += 1
            if fault := _bomb(self._num_chunks * self._CHUNK_BYTES, self._packed.tell()):
                raise UserError(f"{self._file.path} {fault}")
        return self._chunks[number - self._num_chunks]
