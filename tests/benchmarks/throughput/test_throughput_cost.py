"""Costs of a command with all its processes."""

import sys
from pathlib import Path

import pytest

from benchmarks.throughput.cost import run_measured

_BURN = "import time\nwhile time.process_time() < 0.4: pass\n"
# starts another process and ends at once, as a pool's fork server is left behind
_ORPHAN = f"""
import subprocess, sys
subprocess.Popen([sys.executable, "-c", {_BURN!r}])
"""
_HOLD = "x = b'x' * 150_000_000\nimport time\ntime.sleep(1.5)\n"
_HOLD_TWICE = f"""
import subprocess, sys
held = [subprocess.Popen([sys.executable, "-c", {_HOLD!r}]) for _ in range(2)]
for process in held:
    process.wait()
"""


@pytest.mark.parametrize("program", [_BURN, _ORPHAN])
def test_seconds_of_orphans_count(tmp_path: Path, program: str) -> None:
    cost = run_measured([sys.executable, "-c", program], tmp_path / "log")
    assert 0.39 < cost.cpu_seconds < 1.5


def test_memory_is_summed_over_processes(tmp_path: Path) -> None:
    cost = run_measured([sys.executable, "-c", _HOLD_TWICE], tmp_path / "log")
    assert 300 < cost.peak_mb < 360


def test_a_failed_command_says_its_last_words(tmp_path: Path) -> None:
    program = "print('last words'); raise SystemExit(3)"
    with pytest.raises(ValueError, match=r"(?s)status 3.*last words"):
        run_measured([sys.executable, "-c", program], tmp_path / "log")
