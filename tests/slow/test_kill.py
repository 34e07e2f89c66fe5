"""Kill a run once in each stage and start it again: it must end as one that nobody killed.

In four of five cases SIGKILL goes to the whole process group, else SIGTERM to the first process,
which must end with status 143. The moment is a random time within the stage, or that a file begins
to be written there; the end of the stage at the latest.
"""

import os
import random
import signal
import time
from pathlib import Path

from electrify.stage.folder import MANIFEST, read_manifest
from tests.slow.runs import (
    POLL_SECONDS,
    REPORT,
    STAGES,
    WRITTEN,
    arguments,
    differences,
    finish,
    finished,
    printed,
    start,
    unsound,
)

ROUNDS = 1  # runs, each with a signal in every stage
SIGTERM_FRACTION = 0.2
FILE_FRACTION = 0.5  # of the signals wait for a file, the others for a time
HANGS = 20  # times as long as all stages of the sound run; at least five minutes


def test_a_killed_run_ends_as_one_that_nobody_killed(
    rounds: int, rng: random.Random, sound: Path, tmp_path: Path
) -> None:
    seconds = {stage: read_manifest(sound / stage)["seconds"] for stage in STAGES}
    limit = max(300.0, HANGS * sum(seconds.values()))
    for number in range(rounds):
        run, faults = tmp_path / f"run-{number}", list[str]()
        for stage in (*STAGES, REPORT):
            faults += _start_and_signal(run, stage, seconds.get(stage, 1.0), limit, rng)
        finish(arguments("run", run), tmp_path / "run.log", limit)
        if not (run / "report.html").read_text(encoding="utf-8").endswith("</html>"):
            faults.append("report.html is cut off")
        assert [*faults, *differences(sound, run)] == []


def _start_and_signal(
    run: Path, stage: str, seconds: float, limit: float, rng: random.Random
) -> list[str]:
    """Start the run and signal it within the stage, unless that is made; what is wrong then."""
    made = run / "report.html" if stage == REPORT else run / stage / MANIFEST
    if made.exists():  # the signal for the stage before came late
        return []
    number = signal.SIGTERM if rng.random() < SIGTERM_FRACTION else signal.SIGKILL
    for_a_file = stage == REPORT or rng.random() < FILE_FRACTION
    pattern = rng.choice(WRITTEN[stage]) if for_a_file else None
    there = set(run.glob(pattern)) if pattern else set()
    before, log = finished(run), run.with_name("run.log")
    process = start(arguments("run", run), log)
    deadline, until = time.monotonic() + limit, None
    while process.poll() is None and not made.exists():
        now = time.monotonic()
        if now > deadline:
            os.killpg(process.pid, signal.SIGKILL)
            raise AssertionError(f"{stage}: no end after {limit:.0f} s; it hangs")
        if pattern is None and until is None and (run / f"{stage}.partial").exists():
            until = now + rng.uniform(0, seconds)
        if (until and now >= until) or (pattern and set(run.glob(pattern)) - there):
            break
        time.sleep(POLL_SECONDS)
    if process.poll() is None:
        (os.killpg if number == signal.SIGKILL else os.kill)(process.pid, number)
    status, said = process.wait(timeout=limit), printed(log)
    where = f"{stage}, {pattern or 'at a time'}, {number.name}"
    print(f"{where}: status {status}")
    after, faults = finished(run), unsound(run)
    faults += [f"{name} was made again" for name in before if after.get(name) != before[name]]
    # 0: the run had just ended; -SIGTERM and no line: it had begun nothing, and has no handler yet
    if status not in (0, -signal.SIGKILL, 143) and (status != -signal.SIGTERM or said):
        faults.append(f"status {status}: {said[-2000:]}")
    return [f"{where}: {fault}" for fault in faults]
