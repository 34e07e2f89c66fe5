"""Who holds a lock, as the lock itself tells it to whoever comes second."""

import os
import shlex
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from electrify.system.progress import duration

_MAX_COMMAND = 100  # characters of it that are told


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
