"""Members of zip archives as files: `texts.zip::folder/name.json`.

AI Hub and the National Institute of Korean Language deliver corpora as zips of folders of JSON. A
member is read as it is unpacked, and nothing is written to disk.
"""

import os
import re
import zipfile
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import PurePosixPath
from typing import IO

import fsspec

from electrify.system.outcome import UserError

_MEMBER = re.compile(r"(.*\.zip)::(.*)", re.IGNORECASE | re.DOTALL)
_UTF8_NAME, _ENCRYPTED = 0x800, 0x1  # flags of a member
# text is packed to a tenth of its size, rarely to less than a hundredth
_MAX_RATIO, _SMALL_BYTES = 500, 100_000_000


def split_archive(path: str) -> tuple[str, str]:
    """An archive and what stands for its members, `*` for all; of any other path "" and itself."""
    if match := _MEMBER.fullmatch(path):
        return match[1], match[2]
    return (path, "*") if path.lower().endswith(".zip") else ("", path)


def is_member(path: str) -> bool:
    return _MEMBER.fullmatch(path) is not None


def list_members(archive: str, pattern: str = "*") -> list[tuple[str, int]]:
    """(path, bytes unpacked) of the files that a pattern matches, by name; a star matches slashes.

    Hidden files are left out, and those of macOS. `UserError` for members that are encrypted, or of
    a size that no text has.
    """
    found = []
    for name, info in sorted(_members(archive).items()):
        if info.is_dir() or not info.file_size:
            continue
        if name != pattern and not fnmatchcase(name, pattern):  # a name may hold [ or *
            continue
        if any(part.startswith((".", "__MACOSX")) for part in PurePosixPath(name).parts):
            continue
        if info.flag_bits & _ENCRYPTED:
            raise UserError(f"{archive}::{name} is encrypted: unpack the archive with its password")
        if info.file_size > max(_SMALL_BYTES, _MAX_RATIO * info.compress_size):
            raise UserError(
                f"{archive}::{name} unpacks from {info.compress_size:,} to {info.file_size:,} "
                "bytes, which no text does: look at it, and unpack it yourself"
            )
        found.append((f"{archive}::{name}", info.file_size))
    return found


def open_member(path: str) -> IO[bytes]:
    archive, name = split_archive(path)
    return _opened(archive).open(_members(archive)[name])


def member_mark(path: str) -> str:
    """Size and checksum of a member, as the archive has them."""
    archive, name = split_archive(path)
    info = _members(archive)[name]
    return f"{info.file_size} {info.CRC:08x}"


def _opened(archive: str) -> zipfile.ZipFile:
    return _open(archive, _changed(archive))[0]


def _members(archive: str) -> dict[str, zipfile.ZipInfo]:
    return _open(archive, _changed(archive))[1]


def _changed(archive: str) -> int | None:
    """When a local archive was changed; of an address it is not known."""
    return None if "://" in archive else os.stat(archive).st_mtime_ns


@lru_cache(maxsize=2)  # members are read one behind the other: the list of them is read once
def _open(archive: str, changed: int | None) -> tuple[zipfile.ZipFile, dict[str, zipfile.ZipInfo]]:
    opened = zipfile.ZipFile(fsspec.open(archive, "rb").open())
    return opened, {_name(info): info for info in opened.infolist()}


def _name(info: zipfile.ZipInfo) -> str:
    """Windows writes names in the encoding of its language, and zipfile reads them as cp437."""
    if not info.flag_bits & _UTF8_NAME:
        with suppress(UnicodeEncodeError):
            stored = info.filename.encode("cp437")
            for encoding in ("utf-8", "cp949"):
                with suppress(UnicodeDecodeError):
                    return stored.decode(encoding).replace("\\", "/")
    return info.filename.replace("\\", "/")
