"""The folder in which passes leave files for each other: local, or at any address fsspec knows.

Workers on several machines share nothing else. A file is made in a local folder and then published,
so it stands under its name whole or not at all: locally by renaming it, on an object store because
an upload appears at its end, elsewhere by renaming the upload. It is read from a local copy.

`cleaned-*` holds every row as the first pass left it, `changed-*` the rows that the second pass
changed or removed. A runner may repeat a pass, or run it twice at once: the second copy has the
same bytes.
"""

import shutil
import tempfile
import time
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import fsspec
import pyarrow as pa

from electrify.stage.folder import write_text
from electrify.storage.folder import OBJECT_STORES
from electrify.system.progress import warn
from pipeline.documents import DOCUMENT_SCHEMA, ParquetParts, read_batches, read_rows
from pipeline.report.counts import Tally, tally_from_json
from pipeline.runner import share_name

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
        if self.address.partition("://")[0] in OBJECT_STORES:
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


# rows kept and removed as they were read; `reason` is null where a row is kept so far
CLEANED_SCHEMA = pa.schema(
    [
        pa.field("rank", pa.uint64(), nullable=False),
        *(DOCUMENT_SCHEMA.field(name) for name in DOCUMENT_SCHEMA.names if name != "id"),
        pa.field("reason", pa.string()),
        pa.field("detail", pa.string()),
    ]
)
# `text` is null where it has not changed
CHANGED_SCHEMA = pa.schema(
    [
        CLEANED_SCHEMA.field("rank"),
        pa.field("text", pa.string()),
        CLEANED_SCHEMA.field("reason"),
        CLEANED_SCHEMA.field("detail"),
    ]
)
Pass = Literal["read", "compared", "written"]
PASSES: tuple[Pass, ...] = ("read", "compared", "written")
BENCHMARK_INDEX = "benchmark-index"  # the index of benchmark texts, where there are any
_MADE_BY: dict[str, Pass] = {"cleaned": "read", "changed": "compared"}
_SHARE_SECONDS = 5.0  # between two files that say how far a pass is
_ROW_GROUP_CHARACTERS = 1_000_000  # read once or twice and soon gone: small in memory


def tally_name(of_pass: Pass, group: int) -> str:
    """The tally of one pass over a group; it is there once the pass is done."""
    return f"{of_pass}-{group:06d}.json"


def error_name(group: int) -> str:
    """Why a group of files could not be read."""
    return f"error-{group:06d}.txt"


def write_tally(work: WorkFolder, of_pass: Pass, group: int, tally: Tally) -> None:
    """Say that the pass is done; its other files are there before."""
    work.write_text(tally_name(of_pass, group), tally.to_json())


class PassProgress:
    """Says in the work folder how far a pass over a group is, for a group may be one big file."""

    def __init__(self, work: WorkFolder, of_pass: Pass, group: int, total: float) -> None:
        self._work, self._marker, self._total = work, tally_name(of_pass, group), total
        self._done = 0.0
        self._next_seconds = time.monotonic() + _SHARE_SECONDS

    def add(self, amount: float) -> None:
        """Add finished work, in the unit of `total`."""
        self._done += amount
        if (now := time.monotonic()) < self._next_seconds:
            return
        self._next_seconds = now + _SHARE_SECONDS
        name = share_name(self._marker, min(1.0, self._done / max(self._total, 1.0)))
        with suppress(Exception):  # of any file system: a bar that stands is no reason to stop
            self._work.write_text(name, "")


@contextmanager
def cleaned_parts(work: WorkFolder, group: int) -> Iterator[ParquetParts]:
    """A writer of the first pass's rows."""
    with _work_parts(work, f"cleaned-{group:06d}", CLEANED_SCHEMA) as parts:
        yield parts


@contextmanager
def changed_parts(work: WorkFolder, group: int) -> Iterator[ParquetParts]:
    """A writer of the rows that the second pass changes."""
    with _work_parts(work, f"changed-{group:06d}", CHANGED_SCHEMA) as parts:
        yield parts


@contextmanager
def final_parts(
    work: WorkFolder, prefix: str, group: int, schema: pa.Schema
) -> Iterator[ParquetParts]:
    """A writer of files that stay: `prefix` is documents or removed."""
    with (
        work.scratch() as folder,
        ParquetParts(folder, f"{prefix}-{group:06d}", schema, publish=work.publish) as parts,
    ):
        yield parts


def cleaned_rows(
    work: WorkFolder, group: int, of_pass: Pass, columns: Sequence[str] | None = None
) -> Iterator[dict[str, Any]]:
    """Rows as the first pass left them, in order, for a later pass, whose progress they are."""
    progress: PassProgress | None = None
    for path in _paths(work, "cleaned", group):
        if progress is None:
            progress = PassProgress(work, of_pass, group, _num_rows(work, group))
        for row in read_rows([path], columns):
            yield row
            progress.add(1)


def current_rows(work: WorkFolder, group: int) -> Iterator[dict[str, Any]]:
    """Rows as the second pass left them, in the same order."""
    changes = _Changes(work, group)
    for row in cleaned_rows(work, group, "written"):
        yield changes.apply(row)


def chosen_texts(
    work: WorkFolder, group: int, numbers: Container[int]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """(number, row with rank, text and reason as the second pass left it) of the rows asked for."""
    changes = _Changes(work, group)
    number = 0
    for path in _paths(work, "cleaned", group):
        for batch in read_batches(path, ["rank", "text", "reason"]):
            places = [i for i in range(len(batch)) if number + i in numbers]
            if places:
                for place, row in zip(places, batch.take(places).to_pylist(), strict=True):
                    yield number + place, changes.apply(row)
            number += len(batch)


class _Changes:
    """The changes of a group, read beside its rows; both are in the order of ranks."""

    def __init__(self, work: WorkFolder, group: int) -> None:
        self._changes = (
            row for path in _paths(work, "changed", group) for row in read_rows([path])
        )
        self._next = next(self._changes, None)

    def apply(self, row: dict[str, Any]) -> dict[str, Any]:
        """The row with its change, if it has one."""
        if row["reason"] is not None:  # removed in the first pass, so never changed
            return row
        while self._next is not None and self._next["rank"] < row["rank"]:
            self._next = next(self._changes, None)
        if self._next is not None and self._next["rank"] == row["rank"]:
            row |= {name: value for name, value in self._next.items() if value is not None}
        return row


@contextmanager
def _work_parts(work: WorkFolder, prefix: str, schema: pa.Schema) -> Iterator[ParquetParts]:
    with (
        work.scratch() as folder,
        ParquetParts(
            folder,
            prefix,
            schema,
            compression="lz4",
            row_group_characters=_ROW_GROUP_CHARACTERS,
            publish=work.publish,
        ) as parts,
    ):
        yield parts


def _num_rows(work: WorkFolder, group: int) -> int:
    (text,) = work.read_texts([tally_name("read", group)])
    tally = tally_from_json(text)
    return tally.total("documents_in") + tally.total("malformed")


def _paths(work: WorkFolder, prefix: Literal["cleaned", "changed"], group: int) -> Iterator[Path]:
    """Local copies of the parts of a pass over a group, one after the other.

    A pass may have made no part, but then it says that it is done.
    """
    if not work.holds(tally_name(_MADE_BY[prefix], group)):
        raise ValueError(
            f"what was written to {work.address} is not there for every worker; set clean.work_dir "
            "to a folder that all workers see, such as gs://bucket/tmp"
        )
    for part in count():
        name = f"{prefix}-{group:06d}-{part:05d}.parquet"
        if not work.holds(name):
            return
        with work.fetch(name) as path:
            yield path
