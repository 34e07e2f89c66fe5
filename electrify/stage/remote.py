"""A run whose `output_dir` is an address: stages work in a local folder, and are kept there.

The local folder is a copy in part: of a stage that stands at the address alone it has the manifest,
then what is small, and all of it once a stage reads it (`SPARSE`). Stages come by pull.py and go by
push.py.
"""

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from electrify.stage.folder import MANIFEST, file_sha256, write_json, write_text
from electrify.storage.files import read_json
from electrify.storage.folder import RemoteFolder, advice, md5_of
from electrify.storage.lock import RemoteLock

WORK_DIR = "ELECTRIFY_WORK_DIR"  # environment variable: local folders of such runs go there
STATE = ".remote"  # in the local folder: the address, and what of it was here
_ADDRESS = "address"
# what takes room; figures and texts are the rest
_DATA = re.compile(r"(^|/)(checkpoint-\d+|tensorboard|wandb)/|\.(parquet|npy|safetensors|bin)$")


def is_address(place: str) -> bool:
    """Whether a run is named by an address, not by a folder of this machine."""
    return "://" in place


def is_data(name: str) -> bool:
    """Whether a file of a stage is of the kind that only its next stage reads."""
    return _DATA.search(name) is not None


def local_folder(address: str) -> Path:
    """Where a run at an address works: below `ELECTRIFY_WORK_DIR`, else the user's cache folder."""
    address = address.rstrip("/")
    label = hashlib.sha256(address.encode()).hexdigest()[:12]
    name = re.sub(r"[^\w.-]", "-", address.rpartition("/")[2])
    return local_folders() / label / name


def local_folders() -> Path:
    """The folder of all runs at addresses, each two levels below."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(os.environ.get(WORK_DIR) or f"{cache}/electrify/runs").expanduser().absolute()


def address_of(folder: Path) -> str | None:
    """The address of the run whose local folder this is."""
    try:
        return (folder / STATE / _ADDRESS).read_text(encoding="utf-8").strip()
    except (FileNotFoundError, NotADirectoryError):
        return None


def remember_address(folder: Path, address: str) -> None:
    """Make the local folder of the run at an address."""
    (folder / STATE).mkdir(parents=True, exist_ok=True)
    write_text(folder / STATE / _ADDRESS, address.rstrip("/") + "\n")


def remote_run(folder: Path) -> "RemoteRun | None":
    """The run that has this local folder; None where the folder is the run itself."""
    address = address_of(folder)
    return None if address is None else _remote_run(folder, address)


@lru_cache  # it holds locks, and remembers what it has sent
def _remote_run(folder: Path, address: str) -> "RemoteRun":
    return RemoteRun(folder, RemoteFolder(address))


def names_below(address: str) -> list[str]:
    """The names of all files below an address; `ValueError` if it cannot be read."""
    place = RemoteFolder(address)
    with RemoteRun(local_folder(address), place).explained("read"):
        return sorted(place.list())


class RemoteRun:
    """A run at an address, its local folder, and what this process knows of both."""

    def __init__(self, folder: Path, place: RemoteFolder) -> None:
        self.folder, self.place = folder, place
        self.locks: dict[str, RemoteLock] = {}  # held ones, by stage
        self.sent: dict[str, tuple[int, int]] = {}  # by name: `version_of` the file that was sent
        self.last_sent: float | None = None  # of an unfinished stage, as `time.monotonic` says

    def is_known(self, stage: str) -> bool:
        """Whether the local manifest is as it was when it last was the same as there."""
        return self._mark(stage).get("here") == file_sha256(self.folder / stage / MANIFEST)

    def known_there(self, stage: str) -> str | None:
        """The MD5 of the manifest there when it was last seen."""
        return self._mark(stage).get("there")

    def note(self, stage: str, there: str | None = None) -> None:
        """Both sides have the same, the manifest there with the MD5 `there`, or that of here."""
        path = self.folder / stage / MANIFEST
        mark = {"there": there or md5_of(path), "here": file_sha256(path)}
        write_json(self._mark_path(stage), mark)

    def forget(self, stage: str) -> None:
        """It is not there."""
        self._mark_path(stage).unlink(missing_ok=True)

    @contextmanager
    def explained(self, done: str) -> Iterator[None]:
        """Turn errors of the service into `ValueError`s that name the address and what to do."""
        try:
            yield
        except ValueError:
            raise
        except Exception as error:  # each file system has errors of its own
            said = " ".join(str(error).split())  # of several lines, where a server's answer is
            raise ValueError(
                f"{self.place.address} cannot be {done} ({type(error).__name__}: {said}): "
                f"{advice(error)}. What is finished here stays in {self.folder}"
            ) from error

    def _mark(self, stage: str) -> dict[str, str]:
        try:
            mark: dict[str, str] = read_json(self._mark_path(stage))
        except (FileNotFoundError, ValueError):
            return {}
        return mark

    def _mark_path(self, stage: str) -> Path:
        return self.folder / STATE / f"{stage}.json"


def version_of(path: Path) -> tuple[int, int]:
    """Changes when the file does: its size and time."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns
