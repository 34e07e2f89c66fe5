"""What a command costs: time, processor seconds and memory of all its processes (Linux).

Processes that outlive their parent are handed to this one (PR_SET_CHILD_SUBREAPER), so that their
seconds count too: a pool's fork server is never waited for by the program that started it.
"""

import ctypes
import os
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

import electrify
from electrify.system.outcome import UserError

CHECKOUT = Path(electrify.__file__).parents[1]
_SAMPLE_SECONDS = 0.5  # ten times a second slowed what it measured by 7 %, on two cores
_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


@dataclass(frozen=True)
class Cost:
    """Of one command with all its processes."""

    wall_seconds: float
    cpu_seconds: float
    peak_mb: float | None  # of 10^6 bytes: proportional set sizes, which count shared pages once

    def row(self, name: str, num_bytes: int, ours: "Cost | None" = None) -> dict[str, Any]:
        """A row of a report: the cost to take so much text through a command; `ours` for a peer."""
        return {
            "system": name,
            "cpu_seconds": self.cpu_seconds,
            "mb_per_cpu_second": num_bytes / 1e6 / self.cpu_seconds,
            "wall_seconds": self.wall_seconds,
            "peak_mb": self.peak_mb,
            "ours_is_times_as_fast": self.cpu_seconds / ours.cpu_seconds if ours else None,
        }


def run_measured(
    command: Sequence[str], log: Path, checkout: Path = CHECKOUT, **environment: str
) -> Cost:
    """Run a command with the code of a checkout, its output into `log`; `UserError` if it fails.

    Only one at a time: processor seconds are those of all children that ended meanwhile.
    """
    before, ended = children_seconds(), threading.Event()
    environment |= {"PYTHONPATH": str(checkout)}
    with log.open("wb") as output, waiting_for_orphans() as others:
        peaks = [0]

        def watch() -> None:
            while not ended.wait(_SAMPLE_SECONDS):
                peaks[0] = max(peaks[0], sum(map(_memory, _descendants() - others)))

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        started = time.perf_counter()
        try:
            done = subprocess.run(
                command,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=checkout,
                env=os.environ | environment,
            )
        finally:
            ended.set()
            thread.join()
        wall = time.perf_counter() - started
    if done.returncode:
        words = log.read_text(encoding="utf-8", errors="replace")[-2000:]
        raise UserError(f"{' '.join(command)}: status {done.returncode}; {log} says:\n{words}")
    return Cost(wall, children_seconds() - before, peaks[0] / 1e6)


def _descendants() -> set[psutil.Process]:
    """All processes below this one."""
    return set(psutil.Process().children(recursive=True))


def _memory(process: psutil.Process) -> int:
    """Proportional set size in bytes; 0 for a process that ended."""
    with suppress(psutil.Error):
        return int(process.memory_full_info().pss)
    return 0


def children_seconds() -> float:
    """Processor seconds of all children that have ended and were waited for."""
    times = psutil.Process().cpu_times()
    return float(times.children_user + times.children_system)


@contextmanager
def waiting_for_orphans() -> Iterator[set[psutil.Process]]:
    """Wait for all processes that a command of the block leaves behind, while they end by
    themselves; what is there before is given, and stays."""
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    others = _descendants()
    yield others
    until = time.monotonic() + 10.0
    while (left := _descendants() - others) and time.monotonic() < until:
        psutil.wait_procs(left, timeout=0.01)
    prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
