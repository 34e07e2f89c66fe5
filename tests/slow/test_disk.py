"""A disk that is full: a clear end, nothing lost.

Each stage of a run is started on a small disk in memory (tmpfs) with room for a random part of what
the stage writes; once there is room the same command must come to the same bytes. It needs root.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from electrify.stage.folder import read_manifest
from tests.slow.runs import (
    MAX_SECONDS,
    STAGES,
    VERBS,
    arguments,
    finish,
    finished,
    leftovers,
    printed,
    start,
    unsound,
)

ROUNDS = 3  # stages at which the disk is full; 6 are all
DISK_BYTES = 1 << 30
MOST_ROOM = 0.95  # of what a stage writes
# as `electrify`, but it does not ask before it begins whether the disk has room
UNCHECKED = (
    "import sys\nfrom electrify import check, cli\n"
    "check.check_output = lambda *_: None\nsys.exit(cli.main())"
)


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="mount takes root")
def test_a_disk_that_fails_ends_clearly_and_loses_nothing(
    rounds: int, rng: random.Random, sound: Path, tmp_path: Path
) -> None:
    """Each stage begins after the stages before it, fails and begins again."""
    disk, log = tmp_path / "disk", tmp_path / "run.log"
    run = disk / "run"
    disk.mkdir()
    with _mounted(disk):
        for stage in rng.sample(STAGES, len(STAGES))[:rounds]:
            shutil.rmtree(run, ignore_errors=True)
            for name in STAGES[: STAGES.index(stage)]:
                shutil.copytree(sound / name, run / name)
            words, before = arguments(VERBS[stage], run), finished(run)
            size = sum(p.stat().st_size for p in (sound / stage).rglob("*") if p.is_file())
            _leave_room(disk, int(size * rng.uniform(0, MOST_ROOM)))
            status = start(words, log, ["-c", UNCHECKED]).wait(timeout=MAX_SECONDS)
            _mount("-o", f"remount,size={DISK_BYTES}", str(disk))
            said = printed(log)
            (error,) = (line for line in said.splitlines() if line.startswith("error: "))
            assert str(run) in error
            assert "the same command resumes" in error
            assert (status, "Traceback" in said) == (1, False), said[-1500:]
            assert unsound(run) == []
            assert finished(run) == before
            finish(words, log)
            assert [*unsound(run), *leftovers(run)] == []
            digests = {read_manifest(of / stage)["digest"] for of in (run, sound)}
            assert len(digests) == 1, f"{stage} is not as in the sound run"


def _leave_room(disk: Path, num_bytes: int) -> None:
    there = os.statvfs(disk)
    used = (there.f_blocks - there.f_bfree) * there.f_frsize
    _mount("-o", f"remount,size={used + num_bytes}", str(disk))


@contextmanager
def _mounted(disk: Path) -> Iterator[None]:
    _mount("-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(disk))
    previous = signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=False)
        signal.signal(signal.SIGTERM, previous)


def _mount(*words: str) -> None:
    done = subprocess.run(["mount", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"mount {' '.join(words)}: {done.stderr.strip()}")
