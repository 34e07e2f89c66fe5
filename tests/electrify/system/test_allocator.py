"""Blocks that are freed stay with the process, so that the next ones cost no page faults."""

import platform
import subprocess
import sys

import pytest

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
