"""Freed blocks stay with a process that trains, and leave one that cleans."""

import platform
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from electrify.system.memory import keep_little_memory, return_freed_memory

_PROGRAM = """
import resource, sys
from electrify.system.memory import keep_freed_memory
if sys.argv[1] == "keep":
    assert keep_freed_memory()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(3):
    block = bytearray(80_000_000)  # cleared when it is made: each page is touched
    del block
before = faults()
for _ in range(5):
    block = bytearray(b"1") * 80_000_000
    del block
print(faults() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="it tunes glibc alone")
def test_large_blocks_are_used_again():
    def faults(mode: str) -> int:
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM, mode], capture_output=True, text=True, check=True
        )
        return int(done.stdout)

    # by how much depends on the size of a page
    assert 5 * faults("keep") < faults("default")


def _resident_mb():
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / 1e6


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="read from /proc")
def test_holes_in_the_heap_are_given_back():
    blocks = [bytes(4000 + i % 7) for i in range(20_000)]
    last = blocks[-1]  # at the top of the heap, so nothing below it goes back by itself
    before = _resident_mb()
    del blocks[:-1]
    return_freed_memory()
    assert _resident_mb() < before - 50
    assert last


def test_arrow_uses_the_same_heap():
    keep_little_memory()
    assert pa.default_memory_pool().backend_name == "system"
