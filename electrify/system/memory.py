"""Memory: its peak in MB of 10^6 bytes, of a process or a part of its work; and how glibc keeps it.

Training on a CPU frees and asks for the same tensors each step. By default glibc gives large blocks
back to the system, which must then clear every page again: half of the time of a small model's step
on two cores (1.7 -> 5.6 steps a second, measured).
"""

import ctypes
import platform
import resource
import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")  # writing 5 sets the kernel's high-water mark to what is now
# malloc.h of glibc
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -2, -4, -8
_TOP_PAD_BYTES = 64 * 2**20
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


def keep_freed_memory() -> bool:
    """Keep freed blocks for the next request, in this process; whether the C library can.

    Resident memory then stays at its peak, which a training step reaches again anyway. The
    environment's own settings (MALLOC_*) are overridden.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    settings = (
        (_M_MMAP_MAX, 0),  # no mapping of its own for a large block
        (_M_TRIM_THRESHOLD, -1),  # nothing is given back
        (_M_TOP_PAD, _TOP_PAD_BYTES),
        (_M_ARENA_MAX, 1),  # the backward pass, in a thread of its own, finds the same blocks
    )
    accepted = [mallopt(option, value) for option, value in settings]  # each, whatever the others
    return all(accepted)


def return_freed_memory() -> None:
    """Give freed pages back to the system, between parts of the work that have nothing in common.

    About a millisecond for each 100 MB; nothing where the C library is not glibc.
    """
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)
