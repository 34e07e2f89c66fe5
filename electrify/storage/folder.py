"""A folder by its address: a path, `gs://bucket/run`, or any other that fsspec opens.

A file has its name there when it is whole: an object store shows an upload at its end, elsewhere
the upload is renamed. So every request may be repeated (`patiently`). What is forbidden (403) or
missing (404) is never asked twice.
"""

import asyncio
import logging
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from electrify.system.outcome import NO_ROOM, UserError
from electrify.system.progress import log

NUM_TRIES = 6
FIRST_WAIT_SECONDS = 1.0  # doubled after each try, times a random factor of 0.5 to 1
_OBJECT_STORES = frozenset({"gs", "gcs", "s3", "s3a", "abfs", "abfss", "az", "adl", "oss", "r2"})
_AT_ONCE = 4  # transfers, of which gcsfs holds 50 MB each in memory
_PASSING_CODES = frozenset({408, 429, 500, 502, 503, 504})
_GCSFS_LOG = logging.getLogger("gcsfs")
T = TypeVar("T")


class Folder:
    """Files by names relative to the address; errors are those of the file system.

    `UserError` for an address that fsspec does not know. It is pickled by its address.
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
        return f"{self.address}/{name}"

    def files(self, below: str = "") -> dict[str, int]:
        """The sizes of all files, or of those below a folder, by name.

        `FileNotFoundError` if there is no such bucket.
        """
        infos = self._ask("listing", below, self._infos)
        return {
            name.removeprefix(self._root).lstrip("/"): int(info["size"])
            for name, info in sorted(infos.items())
            if info["type"] == "file" and not name.endswith("/")
        }

    def names(self) -> list[str]:
        """The names of files and folders at the top."""
        paths = self._ask("listing", "", partial(self._fs.ls, detail=False))
        return sorted(path.rstrip("/").rpartition("/")[2] for path in paths)

    def exists(self, name: str) -> bool:
        return self._ask("reading", name, self._exists)

    def read(self, name: str) -> bytes:
        return bytes(self._ask("reading", name, self._fs.cat_file))

    def read_range(self, name: str, start: int, stop: int) -> bytes:
        """Some bytes of a file."""
        return bytes(self._ask("reading", name, self._fs.cat_file, start, stop))

    def read_all(self, names: Iterable[str]) -> list[bytes]:
        return [*_at_once(self.read, names)]

    def get_all(
        self, targets: Mapping[str, Path], done: Callable[[Path], None] = lambda path: None
    ) -> None:
        """Copy files, by name, to local paths; `done` is called with each."""

        def get(name: str, target: Path) -> None:
            target.parent.mkdir(parents=True, exist_ok=True)
            self._ask("reading", name, self._fs.get_file, str(target))

        for path, _ in zip(targets.values(), _at_once(get, targets, targets.values()), strict=True):
            done(path)

    def write(self, name: str, content: bytes) -> None:
        """Write a small file, whole or not at all."""
        self._ask("writing", name, self._put_whole, lambda path: self._fs.pipe_file(path, content))

    def put(self, source: Path, name: str) -> None:
        """Put a local file there, whole or not at all, in place of what has the name."""

        def send(path: str) -> None:
            try:
                self._fs.put_file(str(source), path)
            except FileNotFoundError as error:
                # 404: the answer to the end of an upload was lost; it is sent again
                if self._is_object_store and source.exists():
                    raise ConnectionError(str(error)) from error
                raise

        self._ask("writing", name, self._put_whole, send)

    def put_all(self, sources: Mapping[str, Path]) -> None:
        """`put` several files at once, by name."""
        list(_at_once(self.put, sources.values(), sources))

    def put_whole(self, below: str, sources: Mapping[str, Path], last: str) -> None:
        """Make a folder consist of these files, by name.

        It counts as there when it has the file `last`, which is removed first and sent last.
        """
        self.remove_folder(below, first=last)
        self.put_all({f"{below}/{name}": path for name, path in sources.items() if name != last})
        self.put(sources[last], f"{below}/{last}")

    def remove(self, name: str) -> None:
        with suppress(FileNotFoundError):  # or the answer to the first request was lost
            self._ask("removing", name, self._fs.rm_file)

    def remove_all(self, names: Iterable[str]) -> None:
        """Remove files, and folders with what they hold."""
        list(_at_once(self.remove_folder, names))

    def remove_folder(self, below: str = "", first: str = "") -> None:
        """Remove all below a folder, first the file without which the others do not count."""
        if first:
            self.remove(f"{below}/{first}")
        with suppress(FileNotFoundError):
            self._ask("removing", below, partial(self._fs.rm, recursive=True))

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
        with tempfile.TemporaryDirectory(prefix="electrify-") as folder:
            self.get_all({inner: Path(folder, inner) for inner in self.files(name)})
            yield Path(folder, name)

    def move_out(self, targets: Mapping[str, Path]) -> None:
        """Move files, by name, to local paths."""
        if self.local is None:
            return self.get_all(targets)
        for name, target in targets.items():
            shutil.move(self.local / name, target)  # renames, within a file system
        return None

    def _ask(self, doing: str, name: str, request: Callable[..., T], *arguments: Any) -> T:
        """Make a request about a path, again after what may pass."""
        path = f"{self._root}/{name}".rstrip("/")
        return patiently(lambda: request(path, *arguments), f"{doing} {self.url(name)}")

    def _exists(self, path: str) -> bool:
        """The file systems' own `exists` says no to any error, and so of what is there."""
        try:
            self._fs.info(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def _infos(self, path: str) -> dict[str, Any]:
        if not self._is_object_store:
            return {info["name"]: info for info in self._below(path)}
        return dict(self._fs.find(path, detail=True))

    def _below(self, path: str) -> Iterator[dict[str, Any]]:
        """All that stands below a folder; fsspec's `find` leaves out what it cannot list."""
        with suppress(FileNotFoundError, NotADirectoryError):  # there is none, or not any more
            for info in self._fs.ls(path, detail=True):
                if info["type"] != "directory":
                    yield info
                elif info["name"].rstrip("/") != path:
                    yield from self._below(info["name"].rstrip("/"))

    def _put_whole(self, path: str, send: Callable[[str], None]) -> None:
        if self._is_object_store:
            return send(path)
        self._fs.makedirs(path.rpartition("/")[0], exist_ok=True)
        waiting = f"{path}-{uuid4().hex}.tmp"
        send(waiting)
        try:
            self._fs.mv(waiting, path)
        except FileExistsError:  # of file systems that rename to no name in use
            self._fs.rm_file(path)
            self._fs.mv(waiting, path)
        return None


def _at_once(request: Callable[..., T], *arguments: Iterable[Any]) -> Iterator[T]:
    """Make several requests at once; their answers in order."""
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        yield from threads.map(request, *arguments)


def patiently(ask: Callable[[], T], what: str) -> T:
    """Do what `ask` does, again after what may pass; its last error is raised."""
    for number in range(NUM_TRIES - 1):
        try:
            return ask()
        except Exception as error:
            if not _is_passing(error):
                raise
            seconds = FIRST_WAIT_SECONDS * 2**number * random.uniform(0.5, 1)
            log(f"{what}: {type(error).__name__}: {error}; trying again in {seconds:.0f} s")
            time.sleep(seconds)
    return ask()


def _is_passing(error: BaseException) -> bool:
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
def explained(address: str, done: str) -> Iterator[None]:
    """Turn an error of the service into a `UserError` with the address and the next step."""
    try:
        yield
    except ValueError:
        raise
    except Exception as error:  # each file system has errors of its own
        if isinstance(error, OSError) and error.errno in NO_ROOM:  # of the disk here
            raise
        message = " ".join(str(error).split())  # a server's answer may have several lines
        advice = (
            "the service or the line to it fails; the same command resumes when it is back"
            if _is_passing(error)
            else "check that the address exists, and that the account of this machine has the "
            "right to read, write and remove files there"
        )
        raise UserError(
            f"{address} cannot be {done} ({type(error).__name__}: {message}): {advice}"
        ) from error
