"""One writer of a stage at an address: a lock object that its holder renews, so that a machine that
was lost is told from one at work by its silence, without comparing clocks.

`.locks/<stage>-<number>`: who holds the stage. It is made on condition that there is none of that
name (a generation precondition, on Cloud Storage), and the highest number holds: who takes over
from a silent holder makes the next, which only one of several can.

The owner that a lock names, for whoever comes second, has the same form for locks of this machine.
"""

import json
import os
import re
import shlex
import socket
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from electrify.storage.folder import RemoteFolder
from electrify.system.progress import duration, log, warn

LOCKS = ".locks"
RENEW_SECONDS = 15.0
# A holder that was not heard of for so long is taken to be lost. Long, since a library that keeps
# Python's lock to itself (kiwipiepy does, for half a minute) stops the thread that renews
SILENCE_SECONDS = 300.0
_POLL_SECONDS = 2.0
_MAX_COMMAND = 100  # characters of the holder's command that are shown
_BOOT_ID, _PROCESSES = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/pid")


class RemoteLock:
    """A lock that is held, and renewed by a thread of its own."""

    def __init__(self, place: RemoteFolder, stage: str, number: int, owner: dict[str, Any]) -> None:
        self._place, self._stage, self._number, self._owner = place, stage, number, owner
        self._over = threading.Event()
        self._lost_to: str | None = None
        self._thread = threading.Thread(target=self._renew, daemon=True)
        self._thread.start()

    def check(self) -> None:
        """`ValueError` if another writer has taken over meanwhile."""
        if self._lost_to is not None:
            raise ValueError(
                f"{self._place.address}: nothing was heard of this process for "
                f"{SILENCE_SECONDS:.0f} s, and {self._lost_to} has taken over {self._stage}. "
                "What was made here is kept here; stop one of the two"
            )

    def release(self) -> None:
        """Let others write."""
        self._over.set()
        self._thread.join()
        try:
            self._place.remove(lock_name(self._stage, self._number))
        except Exception as error:  # each file system has errors of its own
            warn(
                f"the lock of {self._stage} at {self._place.address} could not be removed "
                f"({error}); it counts for {SILENCE_SECONDS:.0f} s more"
            )

    def _renew(self) -> None:
        while not self._over.wait(RENEW_SECONDS):
            try:
                numbers = _numbers(self._place, self._stage)
                if numbers and numbers[-1] > self._number:
                    owner = _read(self._place, self._stage, numbers[-1])
                    self._lost_to = describe(owner) if owner else "another process"
                    return
                self._owner["renewed"] += 1
                name = lock_name(self._stage, self._number)
                self._place.write(name, json.dumps(self._owner).encode())
            except Exception as error:  # the work goes on; the next time is soon
                log(f"the lock of {self._stage} could not be renewed: {error}")


def lock(place: RemoteFolder, stage: str) -> RemoteLock:
    """Hold a stage of the run at an address, until `release`.

    `ValueError` names the holder and the lock's age if another process is at work on it, which is
    found out within `RENEW_SECONDS`. One of which nothing is heard for `SILENCE_SECONDS`, or that
    has died on this machine, is taken over from.
    """
    owner = this_process() | {"token": uuid4().hex, "machine": machine(), "renewed": 0}
    watched: tuple[int, Mapping[str, Any], float] | None = None
    while True:
        numbers = _numbers(place, stage)
        number = numbers[-1] if numbers else 0
        holder = _read(place, stage, number) if number else None
        if holder is not None and holder["token"] == owner["token"]:  # the answer was lost
            return RemoteLock(place, stage, number, owner)
        if holder is not None and not _is_dead(holder):
            if watched is None or watched[0] != number:
                watched = number, holder, time.monotonic()
                log(f"{stage}: locked by {describe(holder)}; waiting for a sign of life")
            elif holder["renewed"] != watched[1]["renewed"]:
                raise ValueError(refusal(place.url(stage), describe(holder)))
            if time.monotonic() - watched[2] < SILENCE_SECONDS:
                time.sleep(min(_POLL_SECONDS, RENEW_SECONDS / 2))
                continue
        if holder is not None:
            warn(f"{stage}: {describe(holder)} is no longer there; going on in its place")
        if _create(place, lock_name(stage, number + 1), owner):
            for old in numbers:
                place.remove(lock_name(stage, old))
            return RemoteLock(place, stage, number + 1, owner)


def lock_name(stage: str, number: int) -> str:
    """The lock object's name below the address."""
    return f"{LOCKS}/{stage}-{number:06d}"


def _create(place: RemoteFolder, name: str, owner: Mapping[str, Any]) -> bool:
    content = json.dumps(owner).encode()
    try:
        return place.create(name, content)
    except NotImplementedError:
        warn(f"{place.address} has no safe locks: let no second run start there at the same time")
        place.write(name, content)
        return True


def _numbers(place: RemoteFolder, stage: str) -> list[int]:
    pattern = re.compile(rf"{re.escape(LOCKS)}/{re.escape(stage)}-(\d{{6}})")
    matches = map(pattern.fullmatch, place.list(LOCKS))
    return sorted(int(match[1]) for match in matches if match)


def _read(place: RemoteFolder, stage: str, number: int) -> dict[str, Any] | None:
    """The owner; None if the lock has just been released, or says nothing that is known."""
    try:
        owner: dict[str, Any] = json.loads(place.read(lock_name(stage, number)))
        owner["token"], owner["pid"], owner["host"], owner["machine"], owner["renewed"]
        float(owner["since"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
    return owner


def machine() -> str:
    """Tells this machine's processes, of one boot and one container, from all others."""
    try:
        return f"{_BOOT_ID.read_text().strip()} {os.stat(_PROCESSES).st_ino}"
    except OSError:
        return ""


def _is_dead(owner: Mapping[str, Any]) -> bool:
    if not machine() or owner["machine"] != machine():
        return False
    try:
        os.kill(owner["pid"], 0)
    except ProcessLookupError:
        return True
    except OSError:  # it is another user's
        pass
    return False


def this_process() -> dict[str, Any]:
    """The owner of a lock that is taken now."""
    return {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "command": _command(),
        "since": time.time(),
    }


def describe(owner: Mapping[str, Any]) -> str:
    """The owner, and for how long by clocks that may differ or have been set back."""
    age = duration(max(0.0, time.time() - float(owner["since"])))
    return f"process {owner['pid']} on {owner['host']} ({owner.get('command')}), for {age}"


def refusal(place: object, who: str) -> str:
    """What to say where somebody else is at work."""
    return (
        f"{place} is being written by {who}. Wait for it or stop it; or give this run another "
        "output_dir"
    )


def _command() -> str:
    words = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
    return words if len(words) <= _MAX_COMMAND else f"{words[:_MAX_COMMAND]}..."
