"""A folder by its address: a path, `gs://bucket/run`, or any other that fsspec opens.

A file has its name there when it is whole: an object store shows an upload at its end, elsewhere
the upload is renamed. So every request may be repeated. gcsfs repeats most by itself; what is left
after its six tries, and file systems that ask once, are asked again here. What is forbidden (403)
or not there (404) is never asked twice.
"""

import asyncio
import base64
import hashlib
import logging
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from electrify.system.outcome import UserError
from electrify.system.progress import log

NUM_TRIES = 6
FIRST_WAIT_SECONDS = 1.0  # doubled after each try, times a random factor of 0.5 to 1
_OBJECT_STORES = frozenset({"gs", "gcs", "s3", "s3a", "abfs", "abfss", "az", "adl", "oss", "r2"})
_OTHER_WRITER = ": another process writes there; stop one of the two"
_AT_ONCE = 4  # transfers, of which gcsfs holds 50 MB each in memory
_PASSING_CODES = frozenset({408, 429, 500, 502, 503, 504})
_GCSFS_LOG = logging.getLogger("gcsfs")
T = TypeVar("T")


@dataclass(frozen=True)
class RemoteFile:
    """An entry of a listing; `md5` (hex) where the service knows it."""

    size: int
    md5: str | None

    def is_known_as(self, path: Path) -> bool:
        """Whether the service says that it has the content of a local file."""
        if self.md5 is None or self.size != path.stat().st_size:
            return False
        return self.md5 == md5_of(path)


class Folder:
    """Files by names relative to the address; errors are those of the file system.

    Raises `ValueError` for an address that fsspec does not know. Workers get it by its address.
    """

    def __init__(self, address: str) -> None:
        self.address = address.rstrip("/")
        import fsspec  # here: half of what listing runs would cost
        from fsspec.implementations.local import LocalFileSystem

        try:
            # others write there, so no listing is remembered
            self._fs, root = fsspec.core.url_to_fs(self.address, use_listings_cache=False)
        except (ValueError, ImportError) as error:
            raise UserError(
                f"{address!r} cannot be opened ({error}): give a folder, or an address such as "
                "gs://bucket/folder"
            ) from None
        self._root = root.rstrip("/")
        # the folder, if it is one of this machine
        self.local = Path(self._root) if isinstance(self._fs, LocalFileSystem) else None
        self._is_object_store = self.address.partition("://")[0] in _OBJECT_STORES
        if _GCSFS_LOG.level == logging.NOTSET:  # its errors come here; their traces hide ours
            _GCSFS_LOG.setLevel(logging.CRITICAL)

    def __reduce__(self) -> tuple[Any, ...]:
        return Folder, (self.address,)

    def url(self, name: str) -> str:
        """The address of a file."""
        return f"{self.address}/{name}"

    def files(self, below: str = "") -> dict[str, RemoteFile]:
        """All files, or those below a folder, by name. `FileNotFoundError` if there is no such
        bucket."""
        place = self._path(below).rstrip("/")

        def ask() -> dict[str, Any]:
            self._fs.invalidate_cache()
            if not self._is_object_store:
                return {info["name"]: info for info in self._below(place)}
            # folders are but names: it is the bucket that may be missing
            return {**self._fs.find(place, detail=True)}

        infos = patiently(ask, f"listing {self.address}")
        return {
            name.removeprefix(self._root).lstrip("/"): _remote_file(info)
            for name, info in sorted(infos.items())
            if info["type"] == "file" and not name.endswith("/")
        }

    def names(self) -> list[str]:
        """The names of files and folders at the top."""

        def ask() -> list[str]:
            self._fs.invalidate_cache()
            return [*self._fs.ls(self._root, detail=False)]

        paths = patiently(ask, f"listing {self.address}")
        return sorted(path.rstrip("/").rpartition("/")[2] for path in paths)

    def exists(self, name: str) -> bool:
        """Whether there is a file or folder of that name."""
        return self._type_of(name) is not None

    def read(self, name: str) -> bytes:
        """The content of a small file."""
        path = self._path(name)
        return bytes(patiently(lambda: self._fs.cat_file(path), f"reading {self.url(name)}"))

    def read_all(self, names: Sequence[str]) -> list[bytes]:
        """`read` several files at once."""
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            return [*threads.map(self.read, names)]

    def read_ranges(self, ranges: Sequence[tuple[str, int, int]]) -> list[bytes]:
        """Parts of files, at once: (name, first byte, byte behind the last)."""
        paths = [self._path(name) for name, _, _ in ranges]
        starts, ends = [[one[i] for one in ranges] for i in (1, 2)]

        def ask() -> list[bytes]:
            return [*self._fs.cat_ranges(paths, starts, ends, on_error="raise")]

        return patiently(ask, f"reading {self.address}")

    def get_all(
        self, targets: Mapping[str, Path], done: Callable[[Path], None] = lambda path: None
    ) -> None:
        """Copy files, by name, to local paths; `done` is told of each."""
        for folder in {path.parent for path in targets.values()}:
            folder.mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            for path in threads.map(self._get, targets, targets.values()):
                done(path)

    def write(self, name: str, content: bytes) -> None:
        """Write a small file, whole or not at all."""
        self._place(name, lambda path: self._fs.pipe_file(path, content))

    def create(self, name: str, content: bytes) -> bool:
        """Write a small file unless there is one: then False, also if it is this one whose answer
        was lost. `TypeError` where the file system cannot tell."""
        self._make_parent(name)

        def ask() -> bool:
            try:
                self._fs.pipe_file(self._path(name), content, mode="create")
            except FileExistsError:
                return False
            return True

        return patiently(ask, f"writing {self.url(name)}")

    def put(self, source: Path, name: str) -> None:
        """Put a local file there, whole or not at all, in place of what has the name."""

        def send(path: str) -> None:
            try:
                self._fs.put_file(str(source), path)
            except Exception as error:
                # 404: the answer to the end of an upload was lost, and the upload is over
                if not (is_passing(error) or isinstance(error, FileNotFoundError)):
                    raise
                if not self._has(path, source):
                    raise

        self._place(name, send)

    def put_all(self, sources: Mapping[str, Path]) -> None:
        """`put` several files at once, by name."""
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            list(threads.map(self.put, sources.values(), sources))

    def put_whole(self, below: str, sources: Mapping[str, Path], last: str) -> int:
        """Make a folder that of these files, by name; the number of bytes that were sent.

        The folder counts as there when it has the file `last`, which is removed first and sent
        last. A file that is known to be there is not sent. `ValueError` if another program writes.
        """
        there = self.files(below)
        targets = {f"{below}/{name}": path for name, path in sources.items()}
        marker = f"{below}/{last}"
        new = {
            name: path
            for name, path in targets.items()
            if name == marker or name not in there or not there[name].is_known_as(path)
        }
        for name in sorted(there.keys() - (targets.keys() - {marker}), key=marker.__ne__):
            self.remove(name)
        self.put_all({name: path for name, path in new.items() if name != marker})
        there = self.files(below)
        for name, path in targets.items():
            if name == marker:
                continue
            file = there.pop(name, None)
            if (
                file is None
                or file.size != path.stat().st_size
                or (name in new and file.md5 and not file.is_known_as(path))
            ):
                raise UserError(f"{self.url(name)} is not the file that was sent{_OTHER_WRITER}")
        if there:
            raise UserError(f"{self.url(min(there))} is not a file of this stage{_OTHER_WRITER}")
        self.put(targets[marker], marker)
        return sum(path.stat().st_size for path in new.values())

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""

        def ask() -> None:
            with suppress(FileNotFoundError):  # or the answer to the first asking was lost
                self._fs.rm_file(self._path(name))

        patiently(ask, f"removing {self.url(name)}")

    def remove_folder(self, below: str = "", first: str = "") -> None:
        """Remove all below a folder, first the file without which the others do not count."""
        if first:
            self.remove(f"{below}/{first}")

        def ask() -> None:
            self._fs.invalidate_cache()
            with suppress(FileNotFoundError):
                self._fs.rm(self._path(below).rstrip("/"), recursive=True)

        patiently(ask, f"removing {self.url(below)}")

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """A local folder for files to `publish`: this one, or one that goes again."""
        if self.local is not None:
            yield self.local
        else:
            with tempfile.TemporaryDirectory(prefix="electrify-") as folder:
                yield Path(folder)

    def publish(self, path: Path) -> None:
        """Move a whole file, or a folder of files, from `scratch` to here under its own name."""
        if self.local is not None:
            return
        files = [path] if path.is_file() else [file for file in path.iterdir() if file.is_file()]
        self.put_all({file.relative_to(path.parent).as_posix(): file for file in files})
        path.unlink() if path.is_file() else shutil.rmtree(path)

    @contextmanager
    def fetch(self, name: str) -> Iterator[Path]:
        """A local copy of a file or of a folder of files, for as long as it is used."""
        if self.local is not None:
            yield self.local / name
            return
        names = [name] if self._type_of(name) == "file" else self.files(name)
        with tempfile.TemporaryDirectory(prefix="electrify-") as folder:
            self.get_all({name: Path(folder, name) for name in names})
            yield Path(folder, name)

    def move_out(self, targets: Mapping[str, Path]) -> None:
        """Bring files, by name, to local places for good."""
        if self.local is None:
            return self.get_all(targets)
        for name, target in targets.items():
            shutil.move(self.local / name, target)  # renames, within a file system
        return None

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _type_of(self, name: str) -> str | None:
        """ "file", "directory" or, where there is neither, None.

        The file systems' own `exists` and `isfile` say no to any error, and so of what is there.
        """

        def ask() -> str | None:
            try:
                return str(self._fs.info(self._path(name))["type"])
            except (FileNotFoundError, NotADirectoryError):
                return None

        return patiently(ask, f"reading {self.url(name)}")

    def _below(self, place: str) -> Iterator[dict[str, Any]]:
        """All that stands below a folder; fsspec's `find` leaves out what it cannot list."""
        with suppress(FileNotFoundError, NotADirectoryError):  # there is none, or not any more
            for info in self._fs.ls(place, detail=True):
                if info["type"] != "directory":
                    yield info
                elif info["name"].rstrip("/") != place:
                    yield from self._below(info["name"].rstrip("/"))

    def _make_parent(self, name: str) -> None:
        if not self._is_object_store:
            self._fs.makedirs(self._path(name).rpartition("/")[0], exist_ok=True)

    def _get(self, name: str, target: Path) -> Path:
        path = self._path(name)
        patiently(lambda: self._fs.get_file(path, str(target)), f"reading {self.url(name)}")
        return target

    def _place(self, name: str, send: Callable[[str], None]) -> None:
        path = self._path(name)

        def ask() -> None:
            if self._is_object_store:
                return send(path)
            self._make_parent(name)
            waiting = f"{path}-{uuid4().hex}.tmp"
            send(waiting)
            try:
                self._fs.mv(waiting, path)
            except FileExistsError:  # of file systems that rename to no name in use
                self._fs.rm_file(path)
                self._fs.mv(waiting, path)
            return None

        patiently(ask, f"writing {self.url(name)}")

    def _has(self, path: str, source: Path) -> bool:
        try:
            return _remote_file(self._fs.info(path)).is_known_as(source)
        except Exception:  # then it is sent again
            return False


def _remote_file(info: Mapping[str, Any]) -> RemoteFile:
    md5 = info.get("md5Hash")  # which Cloud Storage tells in base64
    return RemoteFile(int(info["size"]), base64.b64decode(md5).hex() if md5 else None)


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


@contextmanager
def explained(address: str, done: str, hint: str = "") -> Iterator[None]:
    """Turn errors of the service into a `ValueError` that names the address and what to do."""
    try:
        yield
    except ValueError:
        raise
    except Exception as error:  # each file system has errors of its own
        said = " ".join(str(error).split())  # of several lines, where a server's answer is
        if is_passing(error):
            advice = "the service or the line to it fails; the same command goes on when it is back"
        elif isinstance(error, FileNotFoundError):
            advice = "check the address: is there such a bucket?"
        elif isinstance(error, PermissionError) or "forbidden" in said.lower():
            advice = "give this machine's account the right to read, write and remove files there"
        else:
            advice = "check the address, and the credentials of this machine"
        raise UserError(
            f"{address} cannot be {done} ({type(error).__name__}: {said}): {advice}{hint}"
        ) from error
