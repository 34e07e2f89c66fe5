"""The folder that the workers of a Beam stage share with the process that starts them.

It is local, or at any address that fsspec opens. Workers on other machines share nothing else: what
they read is put there, and what they write is fetched from there. A worker process that opens it is
asked first whether it has the same code, and whether it may read and write there.
"""

import hashlib
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from electrify.stage.folder import digest_of, whole_file
from electrify.stage.provenance import versions
from electrify.storage.folder import Folder
from electrify.system.outcome import UserError
from electrify.system.progress import log, warn
from pipeline.documents import RowGroup, list_row_groups
from pipeline.runner import POLL_SECONDS, WorkerError

_README = "README"
_BESIDE = ".work"  # a folder of the run, of what unfinished stages have left
_REMOTE_POLL_SECONDS = 5.0
_CODE = ("electrify", "pipeline", "vocab")  # what workers run


class WorkFolder(Folder):
    """A folder that goes to workers by its address, with the versions of this process."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _open_in_worker, (self.address, tuple(code_versions().items()))

    @property
    def poll_seconds(self) -> float:
        """Between two looks at how far workers are."""
        return POLL_SECONDS if self.local else _REMOTE_POLL_SECONDS

    @contextmanager
    def new_file(self, name: str) -> Iterator[Path]:
        """A local path to write to; at the end of the block the file is here, under its name."""
        with self.scratch() as folder:
            with whole_file(folder / name) as path:
                yield path
            self.publish(folder / name)


def _new_work_folder(address: str) -> WorkFolder:
    """Make the folder; `ValueError` if it cannot be written."""
    try:
        work = WorkFolder(address)
        work.write(_README, b"Files that the workers of `electrify` share during a stage.\n")
    except Exception as error:  # every file system has error types of its own
        raise UserError(
            f"the work folder {address} cannot be written: {type(error).__name__}: {error}. Check "
            "beam.work_dir, and the rights of this machine"
        ) from error
    return work


@contextmanager
def work_folder(
    verb: str, work_dir: str | None, place: Path, plan: Mapping[str, Any]
) -> Iterator[WorkFolder]:
    """A folder of its own in `work_dir` or, without one, beside the local folder `place`.

    It is removed at the end; a failure to do so is a warning. After an error or a kill it stays:
    the same plan, by the same code and for the same place, goes on in it. So what is written there
    under a name has to be the same each time. What other plans have left for that place is removed.
    """
    parent = (work_dir or str(place.absolute().parent / _BESIDE)).removesuffix("/")
    # folders of many machines stand in a common one, and each knows its own again
    host = socket.gethostname() if work_dir else ""
    beginning = f"electrify-{verb}-{digest_of([host, str(place.absolute())])[:8]}-"
    name = beginning + digest_of([plan, code_versions()])[:16]
    _remove_others(parent, beginning, name)
    work = _new_work_folder(f"{parent}/{name}")
    if len(work.names()) > 1:
        log(f"{verb}: goes on with what an earlier attempt left in {work.address}")
    is_done = False
    try:
        yield work
        is_done = True
    finally:
        if is_done:
            _remove(work)
        else:
            log(
                f"{verb}: what is done stays in {work.address}; while config and inputs are the "
                "same, the same command goes on with it"
            )


def _remove_others(parent: str, beginning: str, kept: str) -> None:
    with suppress(Exception):  # of any file system: there is no such folder yet
        for name in Folder(parent).names():
            if name.startswith(beginning) and name != kept:
                _remove(Folder(f"{parent}/{name}"))


def _remove(work: Folder) -> None:
    try:
        work.remove_folder()
    except Exception as error:  # every file system has error types of its own
        warn(f"{work.address} could not be removed: {type(error).__name__}: {error}")
    if work.local is not None and work.local.parent.name == _BESIDE:
        with suppress(OSError):  # another stage has left something there
            work.local.parent.rmdir()


def share_documents(
    work: WorkFolder, work_dir: str | None, documents: Sequence[Path]
) -> list[RowGroup]:
    """The row groups of documents files where workers open them: in a `work_dir` as copies."""
    groups = list_row_groups([path.absolute() for path in documents])
    if work_dir is None:
        return groups
    work.put_all({path.name: path for path in documents})
    return [group._replace(path=work.url(Path(group.path).name)) for group in groups]


def check_written(work: WorkFolder, names: Sequence[str], what: str) -> None:
    """`ValueError` if files that workers have written are not where this process reads them."""
    there = set(work.names())
    if missing := [name for name in names if name not in there]:
        raise UserError(
            f"{what}: {len(missing)} of {len(names)} files are not in {work.address}, such as "
            f"{missing[0]}. Workers wrote elsewhere; set beam.work_dir to a folder that every "
            "worker and this process see, such as gs://bucket/tmp, or beam.runner to local"
        )


@cache
def code_versions() -> dict[str, str]:
    """Versions of what shapes a worker's results, and a digest of our own code."""
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for path in sorted(path for name in _CODE for path in (root / name).rglob("*")):
        if path.suffix in (".py", ".toml"):
            digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    # workers need no torch; what one minor version of Python pickles, its others read
    named = {name: of for name, of in versions().items() if name not in ("torch", "scikit-learn")}
    python = ".".join(named.pop("python").split(".")[:2])
    code = {"electrify": f"{named.pop('electrify', '?')} (code {digest.hexdigest()[:8]})"}
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
    """The folder of a worker that cannot take part: `WorkerError` for whatever is asked of it.

    Opening it is no error: that would be before the worker asks for data, and Spark waits minutes
    for this to hand out some, without the worker's line.
    """

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def __getattr__(self, name: str) -> Any:
        raise WorkerError(self._reason)

    def __reduce__(self) -> tuple[Any, ...]:
        return _Closed, (self._reason,)  # Beam's worker pickles what it has read once more
