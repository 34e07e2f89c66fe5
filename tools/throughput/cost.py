"""What a command costs: seconds by the clock and processor seconds of all its processes (Linux).

Processes that outlive their parent are handed to this one (PR_SET_CHILD_SUBREAPER), so that their
seconds count too: a pool's fork server is never waited for by the program that started it.
"""

import ctypes
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

import electrify
from electrify.system.outcome import UserError

CHECKOUT = Path(electrify.__file__).parents[1]
_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


@dataclass(frozen=True)
class Cost:
    """Of one command with all its processes."""

    wall_seconds: float
    cpu_seconds: float


def run_measured(
    command: Sequence[str], log: Path, checkout: Path = CHECKOUT, **environment: str
) -> Cost:
    """Run a command with the code of a checkout, its output into `log`; `UserError` if it fails.

    Only one at a time: processor seconds are those of all children that ended meanwhile.
    """
    environment |= {"PYTHONPATH": str(checkout)}
    before = _children_seconds()
    with log.open("wb") as output, _waiting_for_orphans():
        started = time.perf_counter()
        done = subprocess.run(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=checkout,
            env=os.environ | environment,
        )
        wall = time.perf_counter() - started
    if done.returncode:
        words = log.read_text(encoding="utf-8", errors="replace")[-2000:]
        raise UserError(f"{' '.join(command)}: status {done.returncode}; {log} says:\n{words}")
    return Cost(wall, _children_seconds() - before)


def _children_seconds() -> float:
    """Processor seconds of all children that have ended and were waited for."""
    times = psutil.Process().cpu_times()
    return float(times.children_user + times.children_system)


@contextmanager
def _waiting_for_orphans() -> Iterator[None]:
    """Wait for all processes that a command of the block leaves behind, while they end by
    themselves; what is there before stays."""
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    before = {*psutil.Process().children(recursive=True)}
    yield
    until = time.monotonic() + 10.0
    while time.monotonic() < until:
        left = {*psutil.Process().children(recursive=True)} - before
        if not left:
            break
        psutil.wait_procs(left, timeout=0.01)
    prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
