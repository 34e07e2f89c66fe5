"""Memory of a process: its peak in MB of 10^6 bytes, and whether it keeps what it has freed."""

import ctypes
import platform
import resource
import sys
from contextlib import suppress
from functools import cache
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


def remember_peak_of(process: int | None) -> None:
    """Let `peak_memory_mb` count a process that runs now, and that this one will not wait for."""
    with suppress(OSError, StopIteration):
        remember_peak(_high_water_mb(Path(f"/proc/{process}/status")))


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
        return _high_water_mb(_STATUS)
    except (OSError, StopIteration):
        return peak_memory_mb()


def _high_water_mb(status: Path) -> int:
    lines = status.read_text(encoding="utf-8").splitlines()
    kib = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    return kib * 1024 // 10**6


# malloc.h of glibc, which alone has these calls; elsewhere the functions below do nothing
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -2, -3, -4, -8
_TOP_PAD_BYTES = 64 << 20
_KEPT_BYTES = 16 << 20  # at the top of the heap, for the next batch of texts
_MAPPED_BYTES = 4 << 20  # a bigger block is a mapping of its own and goes when it is freed


def keep_freed_memory() -> bool:
    """Keep freed blocks for the next request, in this process; whether the C library can.

    Training on a CPU frees and asks for the same tensors each step. By default glibc gives large
    blocks back to the system, which must then clear every page again: half of the time of a small
    model's step on two cores (1.7 -> 5.6 steps a second, measured). Resident memory stays at its
    peak. The environment's own settings (MALLOC_*) are overridden.
    """
    return _set_malloc(
        (_M_MMAP_MAX, 0),  # no mapping of its own for a large block
        (_M_TRIM_THRESHOLD, -1),  # nothing is given back
        (_M_TOP_PAD, _TOP_PAD_BYTES),
        (_M_ARENA_MAX, 1),  # the backward pass, in a thread of its own, finds the same blocks
    )


@cache
def keep_little_memory() -> None:
    """Once a process, early: one heap for all threads, and Arrow's columns in it too.

    Allocators keep what is freed, and each process keeps its own: by default both thresholds grow
    up to 32 and 64 MB. Peak for 273 MB of text in one process: 580 MB in place of 830.
    """
    if _set_malloc(
        (_M_ARENA_MAX, 1),
        (_M_TRIM_THRESHOLD, _KEPT_BYTES),
        (_M_MMAP_THRESHOLD, _MAPPED_BYTES),
    ):
        import pyarrow as pa

        pa.set_memory_pool(pa.system_memory_pool())


def return_freed_memory() -> None:
    """Give freed pages back to the system; about a millisecond for each 100 MB of heap."""
    if pyarrow := sys.modules.get("pyarrow"):
        pyarrow.default_memory_pool().release_unused()
    if libc := _glibc():
        libc.malloc_trim(0)


def _set_malloc(*settings: tuple[int, int]) -> bool:
    """Make each setting, whatever the others; whether the C library took all."""
    libc = _glibc()
    accepted = [libc.mallopt(*setting) for setting in settings] if libc else [0]
    return all(accepted)


@cache
def _glibc() -> ctypes.CDLL | None:
    return ctypes.CDLL(None) if platform.libc_ver()[0] == "glibc" else None
