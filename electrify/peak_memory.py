"""Peak resident memory in MB of 10^6 bytes: of a process so far, and of one part of its work."""

import resource
import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")  # writing 5 sets the kernel's high-water mark to what is now
_remembered_mb = 0  # marks that were set back since, here and in child processes


def peak_memory_mb() -> int:
    """Of this process and its children, whichever is larger, since their start."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    unit = 1 if sys.platform == "darwin" else 1024  # bytes
    peaks = (resource.getrusage(kind).ru_maxrss * unit // 10**6 for kind in kinds)
    return max(_remembered_mb, *peaks)


def remember_peak(megabytes: int) -> None:
    """Let `peak_memory_mb` count a peak that a child process, with a mark set back, has told."""
    global _remembered_mb
    _remembered_mb = max(_remembered_mb, megabytes)


def restart_peak() -> None:
    """Begin a part of the work, whose peak `peak_since_restart_mb` tells.

    Where the system has no such thing (it is Linux's), that is the peak since the start.
    """
    remember_peak(peak_memory_mb())
    try:
        _CLEAR.write_text("5")
    except OSError:
        return


def peak_since_restart_mb() -> int:
    """Of this process alone, since `restart_peak`."""
    try:
        lines = _STATUS.read_text(encoding="ascii").splitlines()
        kib = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
        return kib * 1024 // 10**6
    except (OSError, StopIteration):
        return peak_memory_mb()
