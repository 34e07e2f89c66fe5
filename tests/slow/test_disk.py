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
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from electrify.stage.folder import MANIFEST, read_manifest
from tests.slow.runs import (
    MAX_SECONDS,
    REPORT,
    STAGES,
    VERBS,
    arguments,
    finish,
    leftovers,
    printed,
    start,
    unsound,
)

ROUNDS = 3  # stages at which the disk is full; 7 are all
DISK_BYTES = 1 << 30
MOST_ROOM = 0.95  # of what a stage writes


@dataclass
class _Trial:
    """One run folder on the disk."""

    disk: Path
    sound: Path  # the run that nothing befell
    rng: random.Random
    faults: list[str] = field(default_factory=list)

    @property
    def run(self) -> Path:
        return self.disk / "run"

    @property
    def log(self) -> Path:
        return self.disk.with_name("run.log")

    def start(self, verb: str) -> subprocess.Popen[bytes]:
        words = arguments(verb, self.run) if verb != REPORT else [REPORT, str(self.run)]
        return start(words, self.log, ["tests.slow.unchecked_room"])

    def end(self, process: subprocess.Popen[bytes]) -> tuple[int, str]:
        return process.wait(timeout=MAX_SECONDS), printed(self.log)


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="mount takes root")
def test_a_disk_that_fails_ends_clearly_and_loses_nothing(
    rounds: int, rng: random.Random, tmp_path: Path
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    with _mounted(disk):
        trial = _Trial(disk, tmp_path / "sound" / "run", rng)
        finish(arguments("run", trial.sound), trial.log)
        finish([REPORT, str(trial.sound)], trial.log)
        stages = rng.sample((*STAGES, REPORT), len(STAGES) + 1)
        for stage in stages[:rounds]:
            _try(trial, stage)
        assert trial.faults == []


def _try(trial: _Trial, stage: str) -> None:
    """One stage, begun after the stages before it, failed and begun again."""
    _put_run_before(trial, stage)
    before, verb = _manifests(trial.run), VERBS.get(stage, stage)
    where = f"{stage}, {_leave_room(trial, stage)}"
    status, said = trial.end(trial.start(verb))
    _mount("-o", f"remount,size={DISK_BYTES}", str(trial.disk))
    _judge(trial, where, status, said)
    if _manifests(trial.run) != before:
        trial.faults.append(f"{where}: a stage before it is not as it was")
    status, said = trial.end(trial.start(verb))
    if status != 0:
        trial.faults.append(f"{where}: then status {status}: {said[-1000:]}")
        return
    for what in (*unsound(trial.run), *leftovers(trial.run), *_otherwise(trial, stage)):
        trial.faults.append(f"{where}: then {what}")


def _judge(trial: _Trial, where: str, status: int, said: str) -> None:
    errors = [line for line in said.splitlines() if line.startswith("error: ")]
    is_clear = (
        status == 1
        and len(errors) == 1
        and "Traceback" not in said
        and str(trial.run) in errors[0]
        and "the same command resumes" in errors[0]
    )
    if not is_clear:
        trial.faults.append(f"{where}: status {status}: {said[-1500:]}")
    else:
        print(f"{where}: {errors[0]}")
    for what in unsound(trial.run):
        trial.faults.append(f"{where}: {what}")


def _otherwise(trial: _Trial, stage: str) -> Iterator[str]:
    """How what the stage made is not as in the sound run."""
    if stage == REPORT:
        texts = [(r / "report.md").read_text(encoding="utf-8") for r in (trial.run, trial.sound)]
        if texts[0].replace(str(trial.run), str(trial.sound)) != texts[1]:
            yield "report.md differs"
        return
    digests = [read_manifest(run / stage)["digest"] for run in (trial.run, trial.sound)]
    if digests[0] != digests[1]:
        yield f"{stage} differs"


def _put_run_before(trial: _Trial, stage: str) -> None:
    shutil.rmtree(trial.run, ignore_errors=True)
    for name in STAGES[: STAGES.index(stage)] if stage != REPORT else STAGES:
        shutil.copytree(trial.sound / name, trial.run / name)


def _manifests(run: Path) -> dict[str, tuple[bytes, int]]:
    """The manifest of each finished stage, and when it was written."""
    paths = [run / stage / MANIFEST for stage in STAGES]
    return {
        path.parent.name: (path.read_bytes(), path.stat().st_mtime_ns)
        for path in paths
        if path.exists()
    }


def _leave_room(trial: _Trial, stage: str) -> str:
    folder = trial.sound / stage
    paths = folder.rglob("*") if stage != REPORT else trial.sound.glob("report.*")
    size = sum(path.stat().st_size for path in paths if path.is_file())
    room = int(size * trial.rng.uniform(0, MOST_ROOM))
    there = os.statvfs(trial.disk)
    used = (there.f_blocks - there.f_bfree) * there.f_frsize
    _mount("-o", f"remount,size={used + room}", str(trial.disk))
    return f"room for {room:,} of {size:,} bytes"


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
