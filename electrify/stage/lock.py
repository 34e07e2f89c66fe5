"""One writer of a stage folder at a time: a lock that the system lifts when its holder dies.

A folder is replaced by renames. A kill between two of them leaves a folder under a name beside it;
whoever locks the stage next puts that back, or removes it.
"""

import errno
import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from pathlib import Path

from electrify.storage.lock import describe, refusal, this_process
from electrify.system.progress import warn

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
        _recover(folder)
        yield
        return
    try:
        _write_owner(file)
        _recover(folder)
        yield
    finally:
        path.unlink(missing_ok=True)  # before the lock is lifted: `_acquire` looks whether it is
        file.close()


def recover(folder: Path) -> None:
    """Mend what a killed writer of a stage folder left: its lock file, a replacement half done.

    Nothing happens where another process holds the lock.
    """
    if any(map(os.path.lexists, (lock_path(folder), _old(folder), _removed(folder)))):
        # ValueError: it has a holder; OSError: the run may be read but not written
        with suppress(ValueError, OSError), stage_lock(folder):
            pass


def recover_run(run: Path) -> None:
    """`recover` every stage of a run whose replacement was cut off."""
    for path in [*run.glob(".*.old"), *run.glob(".*.removed")]:
        recover(run / path.stem[1:])


def replace_folder(folder: Path, new: Path) -> None:
    """Give a whole folder the name of a stage folder; the one that has it goes.

    The stage is whole at every instant, but between two renames, which `recover` takes back.
    """
    _recover(folder)
    if os.path.lexists(folder):
        folder.replace(_old(folder))
    new.replace(folder)
    _recover(folder)


def remove_folder(folder: Path) -> None:
    """Remove a stage folder at once: what a kill leaves of it has another name."""
    _delete(_removed(folder))
    folder.replace(_removed(folder))
    _delete(_removed(folder))


def lock_path(folder: Path) -> Path:
    """The file beside a stage folder that its writer holds."""
    return folder.with_name(f".{folder.name}.lock")


def _old(folder: Path) -> Path:
    """Where the whole old folder waits until the new one has its name."""
    return folder.with_name(f".{folder.name}.old")


def _removed(folder: Path) -> Path:
    """Where a folder is deleted, of which files may be missing."""
    return folder.with_name(f".{folder.name}.removed")


def _recover(folder: Path) -> None:
    old = _old(folder)
    if os.path.lexists(old):
        if os.path.lexists(folder):
            _delete(_removed(folder))
            old.replace(_removed(folder))
        else:
            old.replace(folder)
    _delete(_removed(folder))


def _delete(path: Path) -> None:
    if path.is_symlink():  # to a folder on another disk, which stays
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)


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
            path.unlink(missing_ok=True)  # it locks nothing
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
