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
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from electrify.stage.folder import read_manifest
from tests.slow.runs import (
    MAX_SECONDS,
    REPORT,
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

ROUNDS = 3  # stages at which the disk is full; 7 are all
DISK_BYTES = 1 << 30
MOST_ROOM = 0.95  # of what a stage writes


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="mount takes root")
def test_a_disk_that_fails_ends_clearly_and_loses_nothing(
    rounds: int, rng: random.Random, sound: Path, tmp_path: Path
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    with _mounted(disk):
        stages = rng.sample((*STAGES, REPORT), len(STAGES) + 1)
        faults = []
        for stage in stages[:rounds]:
            room = rng.uniform(0, MOST_ROOM)
            faults += [
                f"{stage}, room for {room:.1%}: {of}" for of in _try(disk, sound, stage, room)
            ]
        assert faults == []


def _try(disk: Path, sound: Path, stage: str, room: float) -> Iterator[str]:
    """What is wrong with one stage, begun after the stages before it, failed and begun again."""
    run, log = disk / "run", disk.with_name("run.log")
    shutil.rmtree(run, ignore_errors=True)
    for name in STAGES[: STAGES.index(stage)] if stage != REPORT else STAGES:
        shutil.copytree(sound / name, run / name)
    words = [REPORT, str(run)] if stage == REPORT else arguments(VERBS[stage], run)
    before = finished(run)
    _leave_room(
        disk, sound.glob("report.*") if stage == REPORT else (sound / stage).rglob("*"), room
    )
    status = start(words, log, ["tests.slow.unchecked_room"]).wait(timeout=MAX_SECONDS)
    _mount("-o", f"remount,size={DISK_BYTES}", str(disk))
    said = printed(log)
    errors = [line for line in said.splitlines() if line.startswith("error: ")]
    print(f"{stage}: {errors}")
    is_clear = (
        str(run) in errors[0] and "the same command resumes" in errors[0] if errors else False
    )
    if status != 1 or len(errors) != 1 or not is_clear or "Traceback" in said:
        yield f"status {status}: {said[-1500:]}"
    yield from unsound(run)
    if finished(run) != before:
        yield "a stage before it is not as it was"
    finish(words, log)
    yield from unsound(run)
    yield from leftovers(run)
    if stage == REPORT:
        texts = [(of / "report.md").read_text(encoding="utf-8") for of in (run, sound)]
        is_equal = texts[0].replace(str(run), str(sound)) == texts[1]
    else:
        is_equal = len({read_manifest(of / stage)["digest"] for of in (run, sound)}) == 1
    if not is_equal:
        yield "then it is not as in the sound run"


def _leave_room(disk: Path, paths: Iterable[Path], room: float) -> None:
    """For that fraction of the files."""
    size = sum(path.stat().st_size for path in paths if path.is_file())
    there = os.statvfs(disk)
    used = (there.f_blocks - there.f_bfree) * there.f_frsize
    _mount("-o", f"remount,size={used + int(size * room)}", str(disk))


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
