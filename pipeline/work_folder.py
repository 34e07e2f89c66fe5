"""The folder in which passes leave files for each other: local, or at any address fsspec knows.

Workers on several machines share nothing else. A file is made in a local folder and then published,
so it stands under its name whole or not at all: locally by renaming it, on an object store because
an upload appears at its end, elsewhere by renaming the upload. It is read from a local copy.
"""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import fsspec

from electrify.artifacts import write_text
from electrify.progress import warn

_OBJECT_STORES = frozenset({"gs", "gcs", "s3", "s3a", "abfs", "abfss", "az", "adl", "oss", "r2"})
_AT_ONCE = 64  # requests


@dataclass(frozen=True)
class WorkFolder:
    """A folder by its address; this is all that travels to a worker."""

    address: str  # absolute local path, or with ://

    @property
    def is_local(self) -> bool:
        """Whether files are made and read in place."""
        return "://" not in self.address

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """A local folder for files to `publish`; one that goes again, unless all is local."""
        if self.is_local:
            yield Path(self.address)
        else:
            with tempfile.TemporaryDirectory(prefix="electrify-") as folder:
                yield Path(folder)

    def publish(self, path: Path) -> None:
        """Move a whole file, or a folder of files, from `scratch` to here under its own name."""
        if self.is_local:
            return
        if path.is_dir():
            for file in path.iterdir():
                self._upload(file, f"{path.name}/{file.name}")
            shutil.rmtree(path)
        else:
            self._upload(path, path.name)
            path.unlink()

    @contextmanager
    def fetch(self, name: str) -> Iterator[Path]:
        """A local copy of a file or of a folder of files, for as long as it is used."""
        if self.is_local:
            yield Path(self.address, name)
            return
        filesystem, root = self._connect()
        with tempfile.TemporaryDirectory(prefix="electrify-") as folder:
            target = Path(folder, name)
            if filesystem.isfile(f"{root}/{name}"):
                filesystem.get_file(f"{root}/{name}", str(target))
            else:
                target.mkdir()
                for source in filesystem.ls(f"{root}/{name}", detail=False):
                    filesystem.get_file(source, str(target / source.rpartition("/")[2]))
            yield target

    def holds(self, name: str) -> bool:
        """Whether a file or folder of that name is there."""
        if self.is_local:
            return Path(self.address, name).exists()
        filesystem, root = self._connect()
        return bool(filesystem.exists(f"{root}/{name}"))

    def names(self) -> list[str]:
        """The names of all files, sorted: one request."""
        if self.is_local:
            folder = Path(self.address)
            return sorted(path.name for path in folder.iterdir()) if folder.exists() else []
        filesystem, root = self._connect()
        return sorted(path.rpartition("/")[2] for path in filesystem.ls(root, detail=False))

    def write_text(self, name: str, text: str) -> None:
        """Write a small file."""
        with self.scratch() as folder:
            write_text(folder / name, text)
            self.publish(folder / name)

    def read_texts(self, names: Sequence[str]) -> Iterator[str]:
        """The contents of small files, in order."""
        if self.is_local:
            for name in names:
                yield Path(self.address, name).read_text(encoding="utf-8")
            return
        filesystem, root = self._connect()
        for start in range(0, len(names), _AT_ONCE):
            paths = [f"{root}/{name}" for name in names[start : start + _AT_ONCE]]
            contents = filesystem.cat(paths)
            for path in paths:
                yield contents[path].decode()

    def move_out(self, names: Sequence[str], targets: Sequence[Path]) -> None:
        """Bring files to local places for good."""
        if self.is_local:
            for name, target in zip(names, targets, strict=True):
                shutil.move(Path(self.address, name), target)  # renames, within a file system
            return
        filesystem, root = self._connect()
        for start in range(0, len(names), _AT_ONCE):
            stop = start + _AT_ONCE
            filesystem.get(
                [f"{root}/{name}" for name in names[start:stop]], [*map(str, targets[start:stop])]
            )

    def remove(self) -> None:
        """Remove it with all that is in it."""
        if self.is_local:
            shutil.rmtree(self.address, ignore_errors=True)
            return
        try:
            filesystem, root = self._connect()
            filesystem.rm(root, recursive=True)
        except Exception as error:  # every file system has error types of its own
            warn(f"{self.address} could not be removed: {type(error).__name__}: {error}")

    def _upload(self, path: Path, name: str) -> None:
        filesystem, root = self._connect()
        target = f"{root}/{name}"
        if self.address.partition("://")[0] in _OBJECT_STORES:
            filesystem.put_file(str(path), target)
            return
        waiting = f"{target}-{uuid4().hex}.tmp"
        filesystem.put_file(str(path), waiting)
        try:
            filesystem.mv(waiting, target)
        except Exception:
            if not filesystem.exists(target):
                raise
            filesystem.rm_file(waiting)  # the same work done twice was faster: the same bytes

    def _connect(self) -> tuple[Any, str]:
        """The file system (fsspec keeps it) and the folder's path; others write, so none cached."""
        filesystem, root = fsspec.core.url_to_fs(self.address, use_listings_cache=False)
        return filesystem, root.rstrip("/")


def new_work_folder(work_dir: str | None, otherwise: Path) -> WorkFolder:
    """A folder of its own in `work_dir` or, without one, in the local folder `otherwise`.

    Its name was never used, so nothing that a worker remembers of another run is about it. Raises
    `ValueError` if `work_dir` cannot be written.
    """
    name = f"electrify-clean-{uuid4().hex}"
    if work_dir is None or "://" not in work_dir:
        folder = (Path(work_dir) if work_dir else otherwise).absolute() / name
        try:
            folder.mkdir(parents=True)
        except OSError as error:
            raise _unwritable(work_dir, error) from error
        return WorkFolder(str(folder))
    address = f"{work_dir.rstrip('/')}/{name}"
    try:
        filesystem, path = fsspec.core.url_to_fs(address)
        work = WorkFolder(path if "file" in filesystem.protocol else address)
        filesystem.makedirs(path, exist_ok=True)
        work.write_text("README", "Files of a run of `electrify clean`; it removes them.\n")
    except Exception as error:  # every file system has error types of its own
        raise _unwritable(work_dir, error) from error
    return work


def _unwritable(work_dir: str | None, error: Exception) -> ValueError:
    return ValueError(
        f"clean.work_dir = {work_dir!r} cannot be written: {type(error).__name__}: {error}"
    )
