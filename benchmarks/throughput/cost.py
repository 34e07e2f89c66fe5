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
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SAMPLE_SECONDS = 0.1
_LAST_WORDS = 2000  # characters of a failed command's output that are shown
_ORPHAN_SECONDS = 10.0
_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


@dataclass(frozen=True)
class Cost:
    """Of one command with all its processes; memory in MB of 10^6 bytes."""

    wall_seconds: float
    cpu_seconds: float
    peak_mb: float | None  # sum of proportional set sizes: shared pages are counted once
    peak_rss_mb: float | None  # sum of resident set sizes: shared pages count in every process


def cost_row(
    name: str, documents: int, num_bytes: int, cost: Cost, note: str | None = None
) -> dict[str, Any]:
    """A row of a report: what it cost to take so much text through a command."""
    megabytes = num_bytes / 1e6
    return {
        "name": name,
        "documents": documents,
        "megabytes": megabytes,
        "cpu_seconds": cost.cpu_seconds,
        "mb_per_cpu_second": megabytes / cost.cpu_seconds,
        "documents_per_cpu_second": documents / cost.cpu_seconds,
        "wall_seconds": cost.wall_seconds,
        "mb_per_second": megabytes / cost.wall_seconds,
        "peak_mb": cost.peak_mb,
        "peak_rss_mb": cost.peak_rss_mb,
        "note": note,
    }


def run_measured(command: Sequence[str], log: Path, cwd: Path | None = None) -> Cost:
    """Run a command to its end, its output into `log`; `ValueError` if it fails.

    Only one at a time: processor seconds are those of all children that ended meanwhile.
    """
    _adopt_orphans()
    others = set(_children().get(os.getpid(), ()))
    before = _children_seconds()
    started = time.perf_counter()
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=cwd)
        with _Watch(process.pid) as watch:
            status = process.wait()
    wall = time.perf_counter() - started
    _wait_for_orphans(others)
    if status:
        words = log.read_text(encoding="utf-8", errors="replace")[-_LAST_WORDS:]
        raise ValueError(f"{' '.join(command)} ended with status {status}; {log} says:\n{words}")
    return Cost(wall, _children_seconds() - before, watch.peak_pss / 1e6, watch.peak_rss / 1e6)


class _Watch:
    """Samples the memory of a process and all below it from a thread."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.seen: set[int] = set()
        self.peak_pss = self.peak_rss = 0
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
            tree = _descendants(self.pid, self.seen)
            self.seen |= tree
            sizes = [_memory(pid) for pid in tree]
            self.peak_pss = max(self.peak_pss, sum(pss for pss, _ in sizes))
            self.peak_rss = max(self.peak_rss, sum(rss for _, rss in sizes))


def _children() -> dict[int, list[int]]:
    """Processes by parent, as they are now."""
    children: dict[int, list[int]] = {}
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:  # it ended meanwhile
            continue
        parent = int(stat.rpartition(")")[2].split()[1])  # the name before it may hold anything
        children.setdefault(parent, []).append(pid)
    return children


def _descendants(root: int, seen: set[int]) -> set[int]:
    """The process, those below it, and those seen before that are still there."""
    children = _children()
    alive = {pid for pids in children.values() for pid in pids}
    found: set[int] = set()
    waiting = [root, *(seen & alive)]
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting += children.get(pid, [])
    return found


def _memory(pid: int) -> tuple[int, int]:
    """Proportional and resident set size in bytes; 0 for a process that ended."""
    pss = rss = 0
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("Pss:"):
                    pss = int(line.split()[1]) * 1024
                elif line.startswith("Rss:"):
                    rss = int(line.split()[1]) * 1024
    except OSError:
        pass
    return pss, rss


def _children_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _adopt_orphans() -> None:
    if not sys.platform.startswith("linux"):
        raise ValueError(
            f"costs are read from /proc, which {sys.platform} does not have; use Linux"
        )
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _wait_for_orphans(others: set[int]) -> None:
    """Reap what the command left to this process, for as long as it takes to end by itself."""
    until = time.monotonic() + _ORPHAN_SECONDS
    while time.monotonic() < until:
        left = set(_children().get(os.getpid(), ())) - others
        if not left:
            return
        for pid in left:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.01)
