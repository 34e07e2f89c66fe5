"""One writer of a stage folder at a time: a lock that the system lifts when its holder dies.

A folder is replaced by renames. A kill between two of them leaves a folder under a name beside it;
whoever locks the stage next puts that back, or removes it.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from electrify.storage.lock import local_lock


@contextmanager
def stage_lock(folder: Path) -> Iterator[None]:
    """Hold the lock of a stage folder; `ValueError` names who has it (`local_lock`)."""
    with local_lock(lock_path(folder), folder):
        _recover(folder)
        yield


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
