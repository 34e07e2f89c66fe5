"""Kill a run at random moments and start it again: it must end as one that nobody killed.

A round is one signal: in four of five SIGKILL to the whole process group, else SIGTERM, which must
end with status 143. A moment is a random time within a stage, or that a file begins to be written
there; the end of the stage at the latest.
"""

import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from electrify.stage.folder import MANIFEST, read_manifest
from tests.slow.runs import (
    MAX_SECONDS,
    POLL_SECONDS,
    REPORT,
    STAGES,
    WRITTEN,
    arguments,
    differences,
    printed,
    start,
    unsound,
)

ROUNDS = 6  # signals
SIGTERM_FRACTION = 0.2
FILE_FRACTION = 0.5  # of the rounds wait for a file, the others for a time
MAX_SIGNALS_A_STAGE = 2  # of one run


@dataclass(frozen=True)
class Moment:
    """When a signal is sent: in `stage`, after `seconds`, or when `pattern` is there."""

    stage: str
    seconds: float
    pattern: str | None
    signal: signal.Signals


@dataclass
class Figures:
    num_runs: int = 0  # finished ones
    signals: Counter[str] = field(default_factory=Counter)  # sent, by stage and signal
    faults: list[str] = field(default_factory=list)


def test_a_killed_run_ends_as_one_that_nobody_killed(
    rounds: int, rng: random.Random, tmp_path: Path
) -> None:
    figures, undisturbed = Figures(), tmp_path / "undisturbed"
    _finish(undisturbed, figures)
    seconds = {stage: read_manifest(undisturbed / stage)["seconds"] for stage in STAGES}
    while figures.signals.total() < rounds and not figures.faults:
        run = tmp_path / f"run-{figures.num_runs}"
        for stage in (*STAGES, REPORT):
            for _ in range(rng.randint(0, MAX_SIGNALS_A_STAGE)):
                if figures.signals.total() == rounds or _is_made(run, stage):
                    break
                _start_until(run, _moment(stage, seconds, rng), figures)
        _finish(run, figures)  # what the last signal left, or nothing to do
        figures.faults += [f"{run.name}: {what}" for what in differences(undisturbed, run)]
        if not figures.faults:
            shutil.rmtree(run)
    print(figures)
    assert figures.faults == []


def _moment(stage: str, seconds: Mapping[str, float], rng: random.Random) -> Moment:
    number = signal.SIGTERM if rng.random() < SIGTERM_FRACTION else signal.SIGKILL
    pattern = rng.choice(WRITTEN[stage]) if rng.random() < FILE_FRACTION else None
    return Moment(stage, rng.uniform(0, seconds.get(stage, 1.0)), pattern, number)


def _start_until(run: Path, moment: Moment, figures: Figures) -> None:
    """Start the run and signal it at the moment, unless it was finished before that came."""
    stages_before = _finished(run)
    process = start(arguments("run", run), _log_of(run))
    if not _await(run, moment, process):
        _note_end(run, process, figures)
        return
    figures.signals[f"{moment.stage} {moment.signal.name}"] += 1
    group = process.pid
    (os.killpg if moment.signal == signal.SIGKILL else os.kill)(group, moment.signal)
    process.wait(timeout=MAX_SECONDS)
    if moment.signal == signal.SIGTERM:
        _note_end(run, process, figures, {0, 128 + signal.SIGTERM})  # 0: it came as the run ended
    after = _finished(run)
    for stage, stamp in stages_before.items():
        if after.get(stage) != stamp:
            figures.faults.append(f"{run.name}: {stage} was finished and has been made again")
    figures.faults += [f"{run.name}: {what}" for what in unsound(run)]


def _await(run: Path, moment: Moment, process: subprocess.Popen[bytes]) -> bool:
    """Wait for the moment; False if the process ends before."""
    partial = run / f"{moment.stage}.partial"
    report_begins = run / "evaluate" / MANIFEST
    deadline, until = time.monotonic() + MAX_SECONDS, None
    there = set(run.glob(moment.pattern)) if moment.pattern else set()
    while process.poll() is None:
        if time.monotonic() > deadline:
            os.killpg(process.pid, signal.SIGKILL)
            raise AssertionError(f"{run}: no end after {MAX_SECONDS:.0f} s; it hangs")
        if moment.pattern is not None:
            if set(run.glob(moment.pattern)) - there or _is_made(run, moment.stage):
                return True
        elif until is None:
            if partial.exists() or (moment.stage == REPORT and report_begins.exists()):
                until = time.monotonic() + moment.seconds
        elif time.monotonic() >= until or _is_made(run, moment.stage):
            return True
        time.sleep(POLL_SECONDS)
    return False


def _is_made(run: Path, stage: str) -> bool:
    place = run / "report.html" if stage == REPORT else run / stage / MANIFEST
    return place.exists()


def _finish(run: Path, figures: Figures) -> None:
    process = start(arguments("run", run), _log_of(run))
    _note_end(run, process, figures)
    if not (run / "report.html").read_text(encoding="utf-8").endswith("</html>\n"):
        figures.faults.append(f"{run.name}: report.html is cut off")
    figures.num_runs += 1


def _note_end(
    run: Path,
    process: subprocess.Popen[bytes],
    figures: Figures,
    expected: Collection[int] = (0,),
) -> None:
    status, said = process.wait(timeout=MAX_SECONDS), printed(_log_of(run))
    # before the first line of the log the interpreter has no handler yet, and nothing is begun
    if status not in expected and (status != -signal.SIGTERM or said):
        figures.faults.append(f"{run.name}: status {status}: {said[-2000:]}")


def _log_of(run: Path) -> Path:
    return run.with_name(f"{run.name}.log")


def _finished(run: Path) -> dict[str, int]:
    return {
        stage: (run / stage / MANIFEST).stat().st_mtime_ns
        for stage in STAGES
        if (run / stage / MANIFEST).exists()
    }
