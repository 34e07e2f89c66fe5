"""One writer of a stage folder at a time: a lock that the system lifts when its holder dies."""

import errno
import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from pathlib import Path

from electrify.lock_owner import describe, refusal, this_process
from electrify.progress import warn

_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL)


@contextmanager
def stage_lock(folder: Path) -> Iterator[None]:
    """Hold the lock of a stage folder.

    `ValueError` names the holder and the lock's age if another process has it. What a killed
    process leaves is a file that locks nothing. A file system without locks gets a warning.
    """
    path = lock_path(folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    file = _acquire(path, folder)
    if file is None:
        yield
        return
    try:
        _write_owner(file)
        yield
    finally:
        path.unlink(missing_ok=True)  # before the lock is lifted: `_acquire` looks whether it is
        file.close()


def remove_left_lock(folder: Path) -> None:
    """Remove the lock file of a stage folder if who left it is no more."""
    path = lock_path(folder)
    if path.exists():
        # ValueError: it has a holder; OSError: the run may be read but not written
        with suppress(ValueError, OSError), stage_lock(folder):
            pass


def lock_path(folder: Path) -> Path:
    """The file beside a stage folder that its writer holds."""
    return folder.with_name(f".{folder.name}.lock")


def _acquire(path: Path, folder: Path) -> TextIOWrapper | None:
    while True:
        file = path.open("a+", encoding="utf-8")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            message = _refusal(file, folder)
            file.close()
            raise ValueError(message) from None
        except OSError as error:
            file.close()
            if error.errno not in _NO_LOCKS:
                raise
            warn(f"{path.parent} is on a file system without locks: let no second run write there")
            return None
        if path.exists() and os.path.samestat(path.stat(), os.fstat(file.fileno())):
            return file
        file.close()  # of a holder that removed it meanwhile


def _write_owner(file: TextIOWrapper) -> None:
    file.truncate(0)
    json.dump(this_process(), file)
    file.flush()


def _refusal(file: TextIOWrapper, folder: Path) -> str:
    file.seek(0)
    try:
        who = describe(json.load(file))
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        who = "another process that has just begun"
    return refusal(folder, who)
