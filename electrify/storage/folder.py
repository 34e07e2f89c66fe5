"""A folder at an address that fsspec opens (`gs://bucket/run`), patient with a service that fails.

gcsfs asks six times by itself where it is refused for a while (429, 5xx, a line that breaks) and
waits 1, 2, 4 s and so on. What it does not know to be passing, what is left of it after six tries,
and file systems that ask once are asked again here, as a whole: every request may be repeated, for
a file is put there whole, and one whose answer was lost is looked for before it is sent again. What
is forbidden (403) or not there (404) is never asked twice.
"""

import asyncio
import base64
import hashlib
import logging
import random
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from electrify.system.progress import log

NUM_TRIES = 6
FIRST_WAIT_SECONDS = 1.0  # doubled after each try, times a random factor of 0.5 to 1
# an upload appears at its end; elsewhere it is renamed when it is whole
OBJECT_STORES = frozenset({"gs", "gcs", "s3", "s3a", "abfs", "abfss", "az", "adl", "oss", "r2"})
_AT_ONCE = 4  # of which gcsfs holds 50 MB each in memory
_PASSING_CODES = frozenset({408, 429, 500, 502, 503, 504})
_GCSFS_LOG = logging.getLogger("gcsfs")
T = TypeVar("T")


@dataclass(frozen=True)
class RemoteFile:
    """What a listing tells of a file; `md5` (hex) where the service knows it."""

    size: int
    md5: str | None


class RemoteFolder:
    """Files by names relative to the address; errors are those of the file system.

    Raises `ValueError` for an address that fsspec does not know.
    """

    def __init__(self, address: str) -> None:
        self.address = address.rstrip("/")
        import fsspec  # here: half of what listing runs would cost

        try:
            # others write there, so nothing is remembered of it
            self.files, root = fsspec.core.url_to_fs(self.address, use_listings_cache=False)
        except (ValueError, ImportError) as error:
            raise ValueError(
                f"{address!r} cannot be opened ({error}): give a folder, or an address such as "
                "gs://bucket/folder"
            ) from None
        self.root = root.rstrip("/")
        if _GCSFS_LOG.level == logging.NOTSET:  # its errors come here; their traces hide ours
            _GCSFS_LOG.setLevel(logging.CRITICAL)

    def list(self, below: str = "") -> dict[str, RemoteFile]:
        """All files, or those below a folder, by name. `FileNotFoundError` if there is no such
        bucket."""
        place = f"{self.root}/{below}".rstrip("/")

        def ask() -> dict[str, Any]:
            self.files.invalidate_cache()
            try:
                infos: dict[str, Any] = self.files.find(place, detail=True)
            except FileNotFoundError:
                if self._is_object_store:  # where folders are but names: it is the bucket
                    raise
                return {}
            return infos

        infos = patiently(ask, f"listing {self.address}")
        return {
            name.removeprefix(self.root).lstrip("/"): RemoteFile(int(info["size"]), _md5_of(info))
            for name, info in sorted(infos.items())
            if info["type"] == "file" and not name.endswith("/")
        }

    def read(self, name: str) -> bytes:
        """The content of a small file."""
        path = self._path(name)
        return bytes(patiently(lambda: self.files.cat_file(path), f"reading {self.url(name)}"))

    def get(self, name: str, target: Path) -> None:
        """Copy a file to a local path."""
        path = self._path(name)
        patiently(lambda: self.files.get_file(path, str(target)), f"reading {self.url(name)}")

    def put(self, source: Path, name: str) -> None:
        """Put a local file there, whole or not at all, in place of what has the name."""

        def ask() -> None:
            try:
                self._put(source, name)
            except Exception as error:
                # 404: the answer to the end of an upload was lost, and the upload is over
                if not (is_passing(error) or isinstance(error, FileNotFoundError)):
                    raise
                if not self._is_there(source, name):
                    raise

        patiently(ask, f"writing {self.url(name)}")

    def write(self, name: str, content: bytes) -> None:
        """Write a small file."""
        self._make_parent(name)
        patiently(
            lambda: self.files.pipe_file(self._path(name), content), f"writing {self.url(name)}"
        )

    def create(self, name: str, content: bytes) -> bool:
        """Write a small file unless there is one: then False, also if it is this one whose answer
        was lost. `NotImplementedError` where the file system cannot tell."""
        self._make_parent(name)

        def ask() -> bool:
            try:
                self.files.pipe_file(self._path(name), content, mode="create")
            except FileExistsError:
                return False
            except TypeError as error:  # it knows no modes
                raise NotImplementedError(str(error)) from None
            return True

        return patiently(ask, f"writing {self.url(name)}")

    def remove(self, name: str) -> None:
        """Take a file away, if it is there."""

        def ask() -> None:
            with suppress(FileNotFoundError):  # or the answer to the first asking was lost
                self.files.rm_file(self._path(name))

        patiently(ask, f"removing {self.url(name)}")

    def remove_folder(self, below: str, first: Iterable[str] = ()) -> None:
        """Take away all below a folder; at once those of the names in `first`, without which the
        others count for nothing."""
        marks = {f"{below}/{name}" for name in first}
        for name in sorted(self.list(below), key=lambda name: (name not in marks, name)):
            self.remove(name)
        if not self._is_object_store:  # folders are things of their own
            path = self._path(below)
            patiently(
                lambda: self.files.exists(path) and self.files.rm(path, recursive=True),
                f"removing {self.url(below)}",
            )

    def put_all(self, sources: Mapping[str, Path]) -> None:
        """`put` several files at once, by name."""
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            list(threads.map(lambda name: self.put(sources[name], name), sources))

    def get_all(self, targets: Mapping[str, Path]) -> None:
        """`get` several files at once, by name."""
        for folder in {path.parent for path in targets.values()}:
            folder.mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            list(threads.map(lambda name: self.get(name, targets[name]), targets))

    def url(self, name: str) -> str:
        """The address of a file."""
        return f"{self.address}/{name}"

    @property
    def _is_object_store(self) -> bool:
        return self.address.partition("://")[0] in OBJECT_STORES

    def _path(self, name: str) -> str:
        return f"{self.root}/{name}"

    def _put(self, source: Path, name: str) -> None:
        path = self._path(name)
        if self._is_object_store:
            self.files.put_file(str(source), path)
            return
        self._make_parent(name)
        waiting = f"{path}-{uuid4().hex}.tmp"
        self.files.put_file(str(source), waiting)
        self.files.mv(waiting, path)

    def _make_parent(self, name: str) -> None:
        if not self._is_object_store:
            self.files.makedirs(self._path(name).rpartition("/")[0], exist_ok=True)

    def _is_there(self, source: Path, name: str) -> bool:
        try:
            info = self.files.info(self._path(name))
        except Exception:  # then it is sent again
            return False
        return is_same(RemoteFile(int(info["size"]), _md5_of(info)), source)


def is_same(there: RemoteFile, here: Path) -> bool:
    """Whether a file there is known to have the content of a local one."""
    if there.md5 is None or there.size != here.stat().st_size:
        return False
    return there.md5 == md5_of(here)


def md5_of(path: Path) -> str:
    """In hex; what Cloud Storage keeps of each object, no safeguard against ill will."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def patiently(ask: Callable[[], T], what: str) -> T:
    """Do what `ask` does, again after what may pass; its last error is raised."""
    for number in range(NUM_TRIES - 1):
        try:
            return ask()
        except Exception as error:
            if not is_passing(error):
                raise
            seconds = FIRST_WAIT_SECONDS * 2**number * random.uniform(0.5, 1)
            log(f"{what}: {type(error).__name__}: {error}; trying again in {seconds:.0f} s")
            time.sleep(seconds)
    return ask()


def is_passing(error: BaseException) -> bool:
    """Whether asking again may help: too many requests, a server at fault, a broken line."""
    if isinstance(error, ConnectionError | TimeoutError | asyncio.TimeoutError):
        return True
    code = getattr(error, "code", None) or getattr(error, "status", None)
    if isinstance(code, int | str) and str(code).isdigit():
        return int(code) in _PASSING_CODES
    if "gcsfs" in sys.modules:
        from gcsfs.retry import is_retriable

        return bool(is_retriable(error))
    return False


def advice(error: BaseException) -> str:
    """What a user can do about what `patiently` raised."""
    if is_passing(error):
        return "the service or the line to it fails; the same command goes on when it is back"
    if isinstance(error, FileNotFoundError):
        return "check the address: is there such a bucket?"
    if isinstance(error, PermissionError) or "forbidden" in str(error).lower():
        return "give this machine's account the right to read, write and remove objects there"
    return "check the address, and the credentials of this machine"


def _md5_of(info: Mapping[str, Any]) -> str | None:
    """Cloud Storage tells it in base64."""
    md5 = info.get("md5Hash")
    return base64.b64decode(md5).hex() if md5 else None
