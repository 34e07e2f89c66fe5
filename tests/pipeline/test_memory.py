"""Freed memory goes back to the system."""

import sys
from pathlib import Path

import pyarrow as pa
import pytest

from pipeline.memory import keep_little_memory, return_memory


def _resident_mb():
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / 1e6


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="read from /proc")
def test_holes_in_the_heap_are_given_back():
    blocks = [bytes(4000 + i % 7) for i in range(20_000)]
    last = blocks[-1]  # at the top of the heap, so nothing below it goes back by itself
    before = _resident_mb()
    del blocks[:-1]
    return_memory()
    assert _resident_mb() < before - 50
    assert last


def test_arrow_uses_the_same_heap():
    keep_little_memory()
    assert pa.default_memory_pool().backend_name == "system"
