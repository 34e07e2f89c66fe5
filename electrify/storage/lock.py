"""One writer at a time: a lock file on this machine, a lock object at an address.

The system lifts the lock of a file when its holder dies. An object stays: a holder on a machine
that was lost is told from one at work by a person, who then gives `--break-lock`.
"""

import errno
import json
import os
import shlex
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from electrify.storage.folder import Folder
from electrify.system.outcome import UserError
from electrify.system.progress import duration, warn

LOCKS = ".locks"  # folder of lock objects at an address
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL)
_MAX_COMMAND = 100  # characters of the holder's command that are shown


@contextmanager
def local_lock(path: Path, what: Path) -> Iterator[None]:
    """Hold a lock file for as long as the block runs; `what` is locked by it.

    `ValueError` names the holder and the lock's age if another process has it. A file system
    without locks gets a warning.
    """
    from filelock import FileLock, Timeout  # here: it costs help half of its time

    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path, blocking=False, fallback_to_soft=False)
    try:
        lock.acquire()
    except Timeout:
        try:
            who = describe(json.loads(path.read_bytes()))
        except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
            who = "another process that has just begun"
        raise UserError(_refusal(what, who)) from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        path.unlink(missing_ok=True)  # it locks nothing
        warn(f"{path.parent} is on a file system without locks: let no second run write there")
        yield
        return
    try:
        path.write_text(json.dumps(_this_process()), encoding="utf-8")
        yield
    finally:
        path.unlink(missing_ok=True)  # before it is released: who waits looks whether it is there
        lock.release()


@contextmanager
def lock_at(
    place: Folder, name: str, local_id: str, break_lock: bool
) -> Iterator[Callable[[], None]]:
    """Hold the lock object of a name for as long as the block runs.

    `ValueError` names the holder and the lock's age if another machine has it, unless `break_lock`.
    `local_id` tells this machine's folder of the run from all others; the caller holds its local
    lock, so that an object with this id is of a process that died. Yields a check, which raises
    `ValueError` if the lock was broken meanwhile.
    """
    path = f"{LOCKS}/{name}"
    owner = json.dumps(_this_process() | {"local_id": local_id}).encode()

    def is_ours(content: bytes | None) -> bool:
        if content is None:
            return False
        holder = _parse(content)
        # machines may share the folder with `local_id`, on a file system without locks
        return (holder.get("local_id"), holder["host"]) == (local_id, socket.gethostname())

    def check() -> None:
        if not is_ours(_read(place, path)):
            raise UserError(
                f"{place.url(name)}: another process took over the lock and may write there. The "
                "work of this process stays on this machine; stop one of the two processes"
            )

    while not _create(place, path, owner):
        if (content := _read(place, path)) is None:  # it has just been released
            continue
        if is_ours(content):  # of a process that died, or the answer to creating it was lost
            place.write(path, owner)
            break
        who = describe(_parse(content))
        if not break_lock:
            raise UserError(
                f"{_refusal(place.url(name), who)}. If that process no longer runs, for example "
                "because its machine was lost, add --break-lock"
            )
        warn(f"{name}: took over the lock of {who} (--break-lock)")
        place.remove(path)
    try:
        yield check
    finally:
        try:
            if is_ours(_read(place, path)):
                place.remove(path)
        except Exception as error:  # each file system has errors of its own
            warn(
                f"{place.url(path)} could not be removed ({error}): remove it by hand, or add "
                "--break-lock to the next command"
            )


def describe(owner: Mapping[str, Any]) -> str:
    """The holder, and for how long by clocks that may differ or have been set back."""
    age = duration(max(0.0, time.time() - float(owner["since"])))
    return f"process {owner['pid']} on {owner['host']} ({owner.get('command')}), for {age}"


def _create(place: Folder, path: str, owner: bytes) -> bool:
    try:
        return place.create(path, owner)
    except TypeError:
        warn(f"{place.address} has no safe locks: let no second run start there at the same time")
        place.write(path, owner)
        return True


def _read(place: Folder, path: str) -> bytes | None:
    try:
        return place.read(path)
    except FileNotFoundError:
        return None


def _parse(content: bytes) -> dict[str, Any]:
    """A lock's owner; one that nobody knows where the content is of another form."""
    try:
        owner: dict[str, Any] = json.loads(content)
        describe(owner)
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return {"pid": "?", "host": "an unknown machine", "since": time.time()}
    return owner


def _this_process() -> dict[str, Any]:
    words = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
    return {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "command": words if len(words) <= _MAX_COMMAND else f"{words[:_MAX_COMMAND]}...",
        "since": time.time(),
    }


def _refusal(place: object, who: str) -> str:
    return (
        f"{place} is being written by {who}. Wait for it or stop it; or give this run another "
        "output_dir"
    )
