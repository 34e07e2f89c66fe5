"""The folder that the workers of a Beam stage share with the process that starts them.

It is local, or at any address that fsspec opens. Workers on other machines share nothing else: what
they read is put there, and what they write is fetched from there. A worker process that opens it is
asked first whether it has the same code, and whether it may read and write there.

A file is written once, under a name that depends on the work alone, so a later attempt finds it.
What goes to shards are packed arrays. Where the folder is local they lie there in files and only
where they lie travels through Beam, whose local runner holds in memory, twice, what it shuffles.
"""

import hashlib
import json
import os
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import apache_beam as beam

from electrify.config.run import BeamConfig
from electrify.stage.folder import digest_of, whole_file
from electrify.storage.folder import Folder
from electrify.system.machine import versions
from electrify.system.outcome import UserError
from electrify.system.progress import log, warn
from pipeline.documents import RowGroup, list_row_groups
from pipeline.runner import make_pipeline, run_pipeline, watch

T = TypeVar("T")
_README = "README"
_BESIDE = ".work"  # a folder of the run, of what unfinished stages have left
_CODE = ("electrify", "pipeline", "vocab")  # what workers run


class WorkFolder(Folder):
    """A folder that goes to workers by its address, with the versions of this process."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _open_in_worker, (self.address, tuple(code_versions().items()))

    @property
    def poll_seconds(self) -> float:
        """Between two looks at how far workers are."""
        return 0.5 if self.local else 5.0

    @contextmanager
    def new_file(self, name: str) -> Iterator[Path]:
        """A local path to write to; at the end of the block the file is here, under its name."""
        with self.scratch() as folder:
            with whole_file(folder / name) as path:
                yield path
            self.publish(folder / name)


@contextmanager
def work_folder(
    verb: str, work_dir: str | None, output: Path, plan: Mapping[str, Any], keep: bool = False
) -> Iterator[WorkFolder]:
    """A folder of its own in `work_dir` or, without one, beside the local folder `output`.

    It is removed at the end, unless `keep`; a failure to do so is a warning. After an error or a
    kill it stays: the same plan, by the same code and for the same output, resumes from it. So what
    is written under a name has to be the same each time. What other plans have left for it is
    removed. Raises `UserError` if the folder cannot be written.
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
        work.write(_README, b"Files that the workers of `electrify` share during a stage.\n")
    except Exception as error:  # every file system has error types of its own
        raise UserError(
            f"the work folder {address} cannot be written: {type(error).__name__}: {error}. Check "
            "beam.work_dir, and the rights of this machine"
        ) from error
    if len(work.names()) > 1:
        log(f"{verb}: resumes from what an earlier attempt left in {address}")
    try:
        yield work
    except BaseException:
        log(
            f"{verb}: what is done stays in {address}; while config and inputs are the same, the "
            "same command resumes from it"
        )
        raise
    if keep:
        megabytes = sum(work.files().values()) / 1e6
        log(
            f"{verb}: {megabytes:,.1f} MB stay in {address}: with other limits the text is not "
            "read again"
        )
    else:
        _remove(work)


def _remove(work: Folder) -> None:
    try:
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
    with watch([(label, sizes)], work.names, work.poll_seconds):
        run_pipeline(pipeline)
    return [*sizes]


def _write_once(named: tuple[str, RowGroup], write: WriteRowGroup, work: WorkFolder) -> None:
    name, group = named
    if not work.exists(name):
        with work.new_file(name) as path:
            write(group, path, work)


# an array, or where it lies: file in the work folder, first byte, number of bytes
Packed = bytes | tuple[str, int, int]


def pack_for_shards(by_shard: Mapping[int, bytes], work: Folder) -> list[tuple[int, Packed]]:
    """(shard, its packed array or where that lies)."""
    if work.local is None or not by_shard:
        return [*by_shard.items()]
    name = f"shuffle-{uuid4().hex}"
    return _in_file(name, _write_joined(by_shard, work, name), work)


def once(
    work: Folder, name: str, make: Callable[[], Iterable[Mapping[int, bytes]]]
) -> Iterator[list[tuple[int, Packed]]]:
    """What `make` gives, for shards; files in the work folder keep it for a later attempt.

    The file called `name` is written last: it says that all that `make` writes is there.
    """
    if not work.exists(name):
        parts = [_write_joined(of, work, f"{name}-{number}") for number, of in enumerate(make())]
        work.write(name, json.dumps(parts).encode())
    for number, sizes in enumerate(json.loads(work.read(name))):
        yield _in_file(f"{name}-{number}", sizes, work)


def _write_joined(by_shard: Mapping[int, bytes], work: Folder, name: str) -> list[tuple[int, int]]:
    """Write arrays into a file, if there are any; their shards and sizes."""
    if by_shard:
        work.write(name, b"".join(by_shard.values()))
    return [(shard, len(packed)) for shard, packed in by_shard.items()]


def _in_file(name: str, sizes: Sequence[tuple[int, int]], work: Folder) -> list[tuple[int, Packed]]:
    """Places of the arrays in a local file; of one elsewhere the arrays."""
    content = work.read(name) if sizes and work.local is None else None
    firsts = accumulate((size for _, size in sizes), initial=0)
    return [
        (shard, (name, first, size) if content is None else content[first : first + size])
        for (shard, size), first in zip(sizes, firsts, strict=False)
    ]


Find = Callable[[Iterable[tuple[int, bytes]]], Iterable[Any]]


def in_shards(find: Find, work: Folder) -> Any:
    """A transform: (shard, (batch, packed array)) -> what `find` makes of all pairs of a shard."""
    return "gather" >> beam.GroupByKey() | "find" >> beam.FlatMap(_find, find, work)


def _find(
    shard: tuple[int, Iterable[tuple[int, Packed]]], find: Find, work: Folder
) -> Iterable[Any]:
    return find([(batch, unpack(packed, work)) for batch, packed in shard[1]])


def unpack(packed: Packed, work: Folder) -> bytes:
    if isinstance(packed, bytes):
        return packed
    assert work.local is not None
    name, first, size = packed
    with (work.local / name).open("rb") as file:
        file.seek(first)
        return file.read(size)


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
    named = {name: of for name, of in versions().items() if name not in ("torch", "scikit-learn")}
    python = ".".join(named.pop("python").split(".")[:2])
    code = {"electrify": f"{named.pop('electrify', '?')} (code {digest[:8]})"}
    return code | {"python": python} | named


@cache
def _open_in_worker(address: str, expected: tuple[tuple[str, str], ...]) -> "WorkFolder | _Closed":
    """The folder in a worker process, asked once in each whether it can take part."""
    worker = f"the worker on {socket.gethostname()} (process {os.getpid()})"
    here = code_versions()
    if others := [f"{n} {here.get(n, '-')}, not {of}" for n, of in expected if here.get(n) != of]:
        return _Closed(
            f"{worker} has {'; '.join(others)}: install the wheel and the versions of the machine "
            "that starts the run on every worker, then give the same command again"
        )
    try:
        work = WorkFolder(address)
        is_there = work.exists(_README)
        if is_there and work.local is None:
            work.write(f"worker-{socket.gethostname()}-{os.getpid()}", b"")
    except Exception as error:  # every file system has error types of its own
        said = " ".join(str(error).split())
        return _Closed(
            f"{worker} cannot read and write {address} ({type(error).__name__}: {said}): give its "
            "account the right to read, write and remove files there, then give the same command "
            "again"
        )
    if not is_there:
        return _Closed(
            f"{worker} does not see {address}: set beam.work_dir to a folder that all workers "
            "see, such as gs://bucket/tmp"
        )
    return work


class _Closed:
    """The folder of a worker that cannot take part: `UserError` for whatever is asked of it.

    Opening it is no error: that would be before the worker asks for data, and Spark waits minutes
    for this to hand out some, without the worker's line.
    """

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def __getattr__(self, name: str) -> Any:
        raise UserError(self._reason)

    def __reduce__(self) -> tuple[Any, ...]:
        return _Closed, (self._reason,)  # Beam's worker pickles what it has read once more
