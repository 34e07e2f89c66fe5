"""The folder that the workers of a Beam stage share with the process that starts them.

It is local, or at any address that fsspec opens. Workers on other machines share nothing else: what
they read is put there, and what they write is fetched from there.

A file is written once, under a name that depends on the work alone, so a later attempt finds it.
Arrays for the shards of a shuffle lie in files there; only where they lie travels through Beam.
"""

import hashlib
import json
import os
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, TypeVar

import apache_beam as beam
import pyarrow as pa

from electrify.config.run import BeamConfig
from electrify.stage.folder import digest_of, whole_file
from electrify.storage.folder import Folder
from electrify.system.machine import versions
from electrify.system.outcome import UserError
from electrify.system.progress import log, warn
from pipeline.documents import RowGroup, list_row_groups
from pipeline.runner import make_pipeline, run_pipeline, watch

T = TypeVar("T")
# versions of what shapes the results of workers; written first and removed first, so that a folder
# without it is one that was being removed
_README = "README"
_BESIDE = ".work"  # a folder of the run, of what unfinished stages have left
_CODE = ("electrify", "pipeline", "vocab")  # what workers run


class WorkFolder(Folder):
    """A folder that goes to workers by its address."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened, (self.address,)

    @property
    def poll_seconds(self) -> float:
        """Between two looks at how far workers are."""
        return 1.0 if self.local else 5.0

    @contextmanager
    def new_file(self, name: str) -> Iterator[Path]:
        """A local path to write to; at the end of the block the file is here, under its name."""
        with self.scratch() as folder:
            with whole_file(folder / name) as path:
                yield path
            self.publish(folder / name)

    @contextmanager
    def new_rows(self, name: str, schema: pa.Schema) -> Iterator[pa.RecordBatchFileWriter]:
        """A writer of record batches into an Arrow file, which workers read by `read_rows`."""
        options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
        with (
            self.new_file(name) as path,
            pa.OSFile(str(path), "wb") as sink,
            pa.ipc.new_file(sink, schema, options=options) as writer,
        ):
            yield writer

    def read_rows(
        self, name: str, schema: pa.Schema, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """The record batches of an Arrow file of this schema, in order, with some columns."""
        fields = [schema.get_field_index(column) for column in columns]
        options = pa.ipc.IpcReadOptions(included_fields=fields, use_threads=False)
        with (
            self.fetch(name) as path,
            pa.memory_map(str(path)) as source,
            pa.ipc.open_file(source, options=options) as file,
        ):
            for index in range(file.num_record_batches):
                yield file.get_batch(index)


@cache
def _opened(address: str) -> WorkFolder:
    """The folder in a worker: one object a process, so that `load_once` knows it again."""
    return WorkFolder(address)


@contextmanager
def work_folder(
    verb: str, work_dir: str | None, output: Path, plan: Mapping[str, Any]
) -> Iterator[WorkFolder]:
    """A folder of its own in `work_dir` or, without one, beside the local folder `output`.

    It is removed at the end; a failure to do so is a warning. After an error or a kill it stays:
    the same plan, by the same code and for the same output, resumes from it. So what is written
    under a name has to be the same each time. What other plans have left for it is removed. Raises
    `UserError` if the folder cannot be written.
    """
    parent = (work_dir or str(output.absolute().parent / _BESIDE)).removesuffix("/")
    # folders of many machines stand in a common one, and each knows its own again
    host = socket.gethostname() if work_dir else ""
    beginning = f"electrify-{verb}-{digest_of([host, str(output.absolute())])[:8]}-"
    name = beginning + digest_of([plan, code_versions()])[:16]
    with suppress(Exception):  # of any file system: there is no such folder yet
        for other in Folder(parent).names():
            if other.startswith(beginning) and other != name:
                log(f"{verb}: removes what was done with another config, inputs or code: {other}")
                _remove(Folder(f"{parent}/{other}"))
    address = f"{parent}/{name}"
    try:
        work = WorkFolder(address)
        if not work.exists(_README):
            work.remove_folder()
        work.write(_README, json.dumps(code_versions()).encode())
    except Exception as error:  # every file system has error types of its own
        raise UserError(
            f"the work folder {address} cannot be written: {type(error).__name__}: {error}. Check "
            "beam.work_dir, and the rights of this machine"
        ) from error
    if len(there := work.names()) > 1:
        log(f"{verb}: resumes from what an earlier attempt left in {address}")
        work.remove_all([name for name in there if name.endswith(".tmp")])
    try:
        yield work
    except BaseException:
        log(
            f"{verb}: what is done stays in {address}; while config and inputs are the same, the "
            "same command resumes from it"
        )
        raise
    _remove(work)


def _remove(work: Folder) -> None:
    try:
        work.remove(_README)
        work.remove_folder()
    except Exception as error:  # every file system has error types of its own
        warn(f"{work.address} could not be removed: {type(error).__name__}: {error}")
    if work.local is not None and work.local.parent.name == _BESIDE:
        with suppress(OSError):  # another stage has left something there
            work.local.parent.rmdir()


@lru_cache(maxsize=2)
def load_once(work: WorkFolder, name: str, load: Callable[[Path], T]) -> T:
    """What `load` makes of a file or folder, once a process: what is mapped stays readable when
    its file is removed."""
    with work.fetch(name) as path:
        return load(path)


def share_documents(
    work: WorkFolder, work_dir: str | None, documents: Sequence[Path]
) -> list[RowGroup]:
    """The row groups of documents files where workers open them: in a `work_dir` as copies."""
    groups = list_row_groups([path.absolute() for path in documents])
    if work_dir is None:
        return groups
    work.put_all({path.name: path for path in documents})
    return [group._replace(path=work.url(Path(group.path).name)) for group in groups]


WriteRowGroup = Callable[[RowGroup, Path, WorkFolder], None]


def write_row_groups(
    write: WriteRowGroup,
    documents: Sequence[Path],
    work: WorkFolder,
    options: BeamConfig,
    beam_options: Sequence[str],
    label: str,
    seconds_per_megabyte: float,
) -> list[str]:
    """Let workers write one file for each row group of documents files; the names, in order.

    `write` gets a local path; it takes so many seconds of one core. Files of an earlier attempt are
    kept.
    """
    groups = share_documents(work, options.work_dir, documents)
    num_bytes = sum(group.num_bytes for group in groups)
    pipeline = make_pipeline(options.runner, beam_options, num_bytes, seconds_per_megabyte)
    sizes = {f"{number:06d}": group.num_bytes / 1e6 for number, group in enumerate(groups)}
    (
        pipeline
        | "row groups" >> beam.Create([*zip(sizes, groups, strict=True)])
        | "spread" >> beam.Reshuffle()
        | "write" >> beam.Map(_write_once, write, work)
    )
    with watch(label, sizes, work.names, work.poll_seconds):
        run_pipeline(pipeline)
    return [*sizes]


def _write_once(named: tuple[str, RowGroup], write: WriteRowGroup, work: WorkFolder) -> None:
    name, group = named
    check_worker(work.address)
    if not work.exists(name):
        with work.new_file(name) as path:
            write(group, path, work)


Slice = tuple[str, int, int]  # a file in the work folder, first byte, number of bytes


def for_shards(
    work: WorkFolder, name: str, make: Callable[[], Iterable[Mapping[int, bytes]]]
) -> list[tuple[int, Slice]]:
    """(shard, where its array lies) of all arrays that `make` gives, which are written into a file
    of this name. What an earlier attempt has written is kept."""
    index = f"{name}.json"
    if not work.exists(index):
        sizes: list[tuple[int, int]] = []
        with work.new_file(name) as path, path.open("wb") as file:
            for by_shard in make():
                for shard, packed in by_shard.items():
                    file.write(packed)
                    sizes.append((shard, len(packed)))
        work.write(index, json.dumps(sizes).encode())
    slices, first = [], 0
    for shard, size in json.loads(work.read(index)):
        slices.append((shard, (name, first, size)))
        first += size
    return slices


def read_slice(work: WorkFolder, where: Slice) -> bytes:
    name, first, size = where
    return work.read_range(name, first, first + size)


Find = Callable[[Iterable[tuple[int, bytes]]], Iterable[Any]]


def in_shards(find: Find, work: WorkFolder) -> Any:
    """A transform: (shard, (batch, slice)) -> what `find` makes of all (batch, array) of a
    shard."""
    return "gather" >> beam.GroupByKey() | "find" >> beam.FlatMap(_find, find, work)


def _find(
    shard: tuple[int, Iterable[tuple[int, Slice]]], find: Find, work: WorkFolder
) -> Iterable[Any]:
    check_worker(work.address)
    return find([(batch, read_slice(work, where)) for batch, where in shard[1]])


def code_digest(root: Path) -> str:
    """Of the files that workers run; a checkout and its wheel, which has the configs, have one."""
    digest = hashlib.sha256()
    for path in sorted(path for name in _CODE for path in (root / name).rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.suffix in (".py", ".toml") and not name.startswith("electrify/configs/"):
            digest.update(name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


@cache
def code_versions() -> dict[str, str]:
    """Versions of what shapes a worker's results, and a digest of our own code."""
    digest = code_digest(Path(__file__).parents[1])
    # workers need no torch; what one minor version of Python pickles, its others read
    named = {name: v for name, v in versions().items() if name not in ("torch", "scikit-learn")}
    python = ".".join(named.pop("python").split(".")[:2])
    code = {"electrify": f"{named.pop('electrify', '?')} (code {digest[:8]})"}
    return code | {"python": python} | named


@cache
def check_worker(address: str) -> None:
    """Raise `UserError` if this process does not see the folder or has other code than the process
    that made it; asked once a process."""
    worker = f"the worker on {socket.gethostname()} (process {os.getpid()})"
    try:
        expected = json.loads(Folder(address).read(_README))
    except FileNotFoundError:
        raise UserError(
            f"{worker} does not see {address}: set beam.work_dir to a folder that all workers "
            "see, such as gs://bucket/tmp"
        ) from None
    except Exception as error:  # every file system has error types of its own
        said = " ".join(str(error).split())
        raise UserError(
            f"{worker} cannot read {address} ({type(error).__name__}: {said}): give its account "
            "the right to read, write and remove files there, then give the same command again"
        ) from error
    here = code_versions()
    if others := [
        f"{n} {here.get(n, '-')}, not {v}" for n, v in expected.items() if here.get(n) != v
    ]:
        raise UserError(
            f"{worker} has {'; '.join(others)}: install the wheel and the versions of the machine "
            "that starts the run on every worker, then give the same command again"
        )
