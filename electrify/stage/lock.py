"""One writer of a stage folder at a time: a lock file that the system lifts when its holder dies.

A folder is replaced by renames. A kill between two of them leaves a folder under a name beside it;
whoever locks the stage next puts that back, or removes it.
"""

import errno
import json
import os
import shlex
import shutil
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from electrify.system.outcome import UserError
from electrify.system.progress import duration, warn

_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL)
_MAX_COMMAND = 100  # characters of the holder's command that are shown


@contextmanager
def stage_lock(folder: Path) -> Iterator[None]:
    """Hold the lock of a stage folder for as long as the block runs.

    `UserError` names the holder and the lock's age if another process has it. A file system
    without locks gets a warning.
    """
    from filelock import FileLock, Timeout  # here: it costs help half of its time

    path = lock_path(folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path, blocking=False, fallback_to_soft=False)
    try:
        lock.acquire()
    except Timeout:
        raise UserError(
            f"{folder} is being written by {_holder(path)}. Wait for it or stop it; or give this "
            "run another output_dir"
        ) from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        path.unlink(missing_ok=True)  # it locks nothing
        warn(f"{path.parent} is on a file system without locks: let no second run write there")
        _recover(folder)
        yield
        return
    try:
        command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
        owner = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.time()}
        path.write_text(json.dumps(owner | {"command": command[:_MAX_COMMAND]}), encoding="utf-8")
        _recover(folder)
        yield
    finally:
        path.unlink(missing_ok=True)  # before it is released: who waits looks whether it is there
        lock.release()


def _holder(path: Path) -> str:
    """The holder of a lock file, and for how long by clocks that may have been set back."""
    try:
        owner = json.loads(path.read_bytes())
        age = duration(max(0.0, time.time() - float(owner["since"])))
        return f"process {owner['pid']} on {owner['host']} ({owner['command']}), for {age}"
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return "another process that has just begun"


def recover(folder: Path) -> None:
    """Mend what a killed writer of a stage folder left: its lock file, a replacement half done.

    Nothing happens where another process holds the lock.
    """
    if any(map(os.path.lexists, (lock_path(folder), _old(folder), _removed(folder)))):
        # ValueError: it has a holder; OSError: the run may be read but not written
        with suppress(ValueError, OSError), stage_lock(folder):
            pass


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
    """Remove a stage folder, its name first."""
    _recover(folder)
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
    _delete(_removed(folder))
    if os.path.lexists(old):
        old.replace(_removed(folder) if os.path.lexists(folder) else folder)
    _delete(_removed(folder))


def _delete(path: Path) -> None:
    if path.is_symlink():  # to a folder on another disk, which stays
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)
