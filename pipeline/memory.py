"""Memory that is free goes back to the system: allocators keep it by default, process by process.

On 273 MB of text in one process the peak falls from 830 to 5xx MB. Only glibc has these calls;
elsewhere they do nothing.
"""

import ctypes
from functools import lru_cache

import pyarrow as pa

_M_ARENA_MAX = -8  # malloc.h


@lru_cache(maxsize=1)
def keep_little_memory() -> None:
    """Once a process, early: one heap for all threads, and Arrow's columns in it too."""
    if libc := _glibc():
        libc.mallopt(_M_ARENA_MAX, 1)
        pa.set_memory_pool(pa.system_memory_pool())


def return_memory() -> None:
    """Give free pages back; about a millisecond for each 100 MB of heap."""
    pa.default_memory_pool().release_unused()
    if libc := _glibc():
        libc.malloc_trim(0)


@lru_cache(maxsize=1)
def _glibc() -> ctypes.CDLL | None:
    try:
        libc = ctypes.CDLL(None)
        libc.malloc_trim, libc.mallopt  # noqa: B018 - raises where there are none
    except (AttributeError, OSError, TypeError):  # TypeError: Windows
        return None
    return libc
