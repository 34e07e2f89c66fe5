"""Kill a run and start it again: it must end as one that nobody killed, on a disk and at `gs://`.

In four of five cases SIGKILL goes to the whole process group, else SIGTERM to the first process,
which must end with status 143. The moment is a random time within a stage, or that a file begins to
be written there; the end of the stage at the latest.
"""

import os
import random
import shutil
import signal
import time
from pathlib import Path

import pytest

from electrify.stage.folder import MANIFEST, read_manifest
from electrify.stage.remote import REPORTS, WORK_DIR, local_folder
from tests.faulty_storage import faulty_storage
from tests.slow.runs import (
    MAX_SECONDS,
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

ROUNDS = 1  # runs, each with a signal in every stage; or machines that are killed
SIGTERM_FRACTION = 0.2
FILE_FRACTION = 0.5  # of the signals wait for a file, the others for a time
FAULTS_FRACTION = 0.1  # of the requests to the storage
ADDRESS = "gs://runs/demo"


def test_a_killed_run_ends_as_one_that_nobody_killed(
    rounds: int, rng: random.Random, sound: Path, tmp_path: Path
) -> None:
    for number in range(rounds):
        run, faults = tmp_path / f"run-{number}", list[str]()
        for stage in (*STAGES, REPORT):
            made = run / "report.html" if stage == REPORT else run / stage / MANIFEST
            if not made.exists():  # else the signal for the stage before came late
                faults += _start_and_signal(run, str(run), stage, made, sound, rng)
        finish(arguments("run", run), tmp_path / "run.log")
        if not (run / "report.html").read_text(encoding="utf-8").endswith("</html>"):
            faults.append("report.html is cut off")
        assert [*faults, *differences(sound, run)] == []


def test_a_run_on_a_storage_that_fails_is_that_of_a_disk(
    rounds: int, rng: random.Random, sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests are refused, dropped, answered to nobody or cut off; machines are killed while they
    work or send, and an empty one goes on. A stage in the bucket is whole or not there, and what
    was finished stays untouched. In the end the bucket has what a disk has, and nothing else."""

    import gcsfs

    faults, manifests, there = list[str](), dict[str, bytes](), tmp_path / "there"
    with faulty_storage(FAULTS_FRACTION, rng.getrandbits(32), "runs") as (storage, sound_url):
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", storage.url)
        files = gcsfs.GCSFileSystem(token="anon", endpoint_url=sound_url, use_listings_cache=False)
        for number in range(rounds + 1):
            monkeypatch.setenv(WORK_DIR, str(tmp_path / f"machine-{number}"))
            waiting = [stage for stage in STAGES if stage not in manifests]
            if number < rounds and waiting:
                run, stage = local_folder(ADDRESS), rng.choice(waiting)
                made = run / stage / ".sent"
                faults += _start_and_signal(run, ADDRESS, stage, made, sound, rng)
            else:
                finish(arguments("run", ADDRESS), tmp_path / "run.log")
            shutil.rmtree(there, ignore_errors=True)
            for name in files.find(ADDRESS):
                path = there / name.split("/", 2)[2]
                path.parent.mkdir(parents=True, exist_ok=True)
                files.get_file(name, str(path))
            if number < rounds:
                for stage in STAGES:
                    if not (there / stage / MANIFEST).exists():  # its upload was cut off
                        shutil.rmtree(there / stage, ignore_errors=True)
            faults += unsound(there)
            after = {stage: content for stage, (content, _) in finished(there).items()}
            assert after == after | manifests
            manifests = after
    assert [*faults, *differences(sound, there)] == []
    assert {path.relative_to(there).as_posix() for path in there.rglob("*") if path.is_file()} == {
        *REPORTS,
        *(
            f"{stage}/{name}"
            for stage in STAGES
            for name in (MANIFEST, *read_manifest(there / stage)["files"])
        ),
    }


def _start_and_signal(
    run: Path, output_dir: str, stage: str, made: Path, sound: Path, rng: random.Random
) -> list[str]:
    """Start the run and signal it within the stage, before a file says that it is made; what is
    wrong then in its folder here."""
    seconds = 1.0 if stage == REPORT else read_manifest(sound / stage)["seconds"]
    number = signal.SIGTERM if rng.random() < SIGTERM_FRACTION else signal.SIGKILL
    for_a_file = stage == REPORT or rng.random() < FILE_FRACTION
    pattern = rng.choice(WRITTEN[stage]) if for_a_file else None
    there = set(run.glob(pattern)) if pattern else set()
    before, log = finished(run), run.with_name("run.log")
    process = start(arguments("run", output_dir), log)
    deadline, until = time.monotonic() + MAX_SECONDS, None
    while process.poll() is None and not made.exists():
        now = time.monotonic()
        if now > deadline:
            os.killpg(process.pid, signal.SIGKILL)
            raise AssertionError(f"{stage}: no end after {MAX_SECONDS:.0f} s; it hangs")
        if pattern is None and until is None and (run / f"{stage}.partial").exists():
            until = now + rng.uniform(0, seconds)
        if (until and now >= until) or (pattern and set(run.glob(pattern)) - there):
            break
        time.sleep(POLL_SECONDS)
    if process.poll() is None:
        (os.killpg if number == signal.SIGKILL else os.kill)(process.pid, number)
    status, said = process.wait(timeout=MAX_SECONDS), printed(log)
    where = f"{stage}, {pattern or 'at a time'}, {number.name}"
    print(f"{where}: status {status}")
    after, faults = finished(run), unsound(run)
    faults += [f"{name} was made again" for name in before if after.get(name) != before[name]]
    # 0: the run had just ended; -SIGTERM and no line: it had begun nothing, and has no handler yet
    if status not in (0, -signal.SIGKILL, 143) and (status != -signal.SIGTERM or said):
        faults.append(f"status {status}: {said[-2000:]}")
    return [f"{where}: {fault}" for fault in faults]
