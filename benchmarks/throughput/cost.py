"""What a command costs: time, processor seconds and memory of all its processes (Linux).

Processes that outlive their parent are handed to this one (PR_SET_CHILD_SUBREAPER), so that their
seconds count too: a pool's fork server is never waited for by the program that started it.
"""

import contextlib
import ctypes
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SAMPLE_SECONDS = 0.5  # ten times a second slowed what it measured by 7 %, on two cores
_LAST_WORDS = 2000  # characters of a failed command's output that are shown
_ORPHAN_SECONDS = 10.0
_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


@dataclass(frozen=True)
class Cost:
    """Of one command with all its processes."""

    wall_seconds: float
    cpu_seconds: float
    peak_mb: float | None  # of 10^6 bytes: proportional set sizes, which count shared pages once


def cost_row(name: str, documents: int, num_bytes: int, cost: Cost) -> dict[str, Any]:
    """A row of a report: what it cost to take so much text through a command."""
    megabytes = num_bytes / 1e6
    return {
        "name": name,
        "documents": documents,
        "megabytes": megabytes,
        "cpu_seconds": cost.cpu_seconds,
        "mb_per_cpu_second": megabytes / cost.cpu_seconds,
        "wall_seconds": cost.wall_seconds,
        "mb_per_second": megabytes / cost.wall_seconds,
        "peak_mb": cost.peak_mb,
    }


def ratios(peer: dict[str, Any], ours: dict[str, Any]) -> dict[str, float]:
    """Processor and wall seconds of the peer by those of ours."""
    return {f"ratio_of_{name}": peer[name] / ours[name] for name in ("cpu_seconds", "wall_seconds")}


def run_measured(command: Sequence[str], log: Path, cwd: Path | None = None) -> Cost:
    """Run a command to its end, its output into `log`; `ValueError` if it fails.

    Only one at a time: processor seconds are those of all children that ended meanwhile.
    """
    if not sys.platform.startswith("linux"):
        raise ValueError(
            f"costs are read from /proc, which {sys.platform} does not have; use Linux"
        )
    before = children_seconds()
    with log.open("wb") as output, waiting_for_orphans() as others, _Watch(others) as watch:
        started = time.perf_counter()
        status = subprocess.run(
            command, stdout=output, stderr=subprocess.STDOUT, cwd=cwd
        ).returncode
        wall = time.perf_counter() - started
    if status:
        words = log.read_text(encoding="utf-8", errors="replace")[-_LAST_WORDS:]
        raise ValueError(f"{' '.join(command)} ended with status {status}; {log} says:\n{words}")
    return Cost(wall, children_seconds() - before, watch.peak / 1e6)


class _Watch:
    """Samples the memory of all processes below this one but `others` from a thread."""

    def __init__(self, others: set[int]) -> None:
        self.others, self.peak = others, 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "_Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(SAMPLE_SECONDS):
            self.peak = max(self.peak, sum(map(_memory, _descendants() - self.others)))


def _descendants() -> set[int]:
    """All processes below this one."""
    children: dict[int, list[int]] = {}
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        with contextlib.suppress(OSError):  # it ended meanwhile
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
            parent = int(stat.rpartition(")")[2].split()[1])  # the name before may hold anything
            children.setdefault(parent, []).append(pid)
    below, waiting = set(), children.get(os.getpid(), [])
    while waiting:
        below.add(pid := waiting.pop())
        waiting += children.get(pid, [])
    return below


def _memory(pid: int) -> int:
    """Proportional set size in bytes; 0 for a process that ended."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return 0


def children_seconds() -> float:
    """Processor seconds of all children that have ended and were waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@contextmanager
def waiting_for_orphans() -> Iterator[set[int]]:
    """Wait for all processes that a command of the block leaves behind, while they end by
    themselves; what is there before is given, and stays."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    others = _descendants()
    yield others
    until = time.monotonic() + _ORPHAN_SECONDS
    while (left := _descendants() - others) and time.monotonic() < until:
        for pid in left:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.01)
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
