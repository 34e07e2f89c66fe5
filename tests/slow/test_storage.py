"""A whole run at `gs://`, on a storage that fails, killed and gone on with on other machines.

The shortened demo from an empty machine to its report. A share of all requests is refused (429,
5xx), dropped, answered to nobody or cut off. At random moments the machine is killed, and another,
an empty one or one that had a part in it, goes on. After each kill every stage in the bucket must
be whole or not there, and those that were finished untouched. In the end the bucket must hold what
a run on a disk makes, byte for byte, and nothing else.
"""

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from electrify.stage.folder import MANIFEST, read_manifest
from electrify.stage.remote import REPORTS, WORK_DIR
from tests.faulty_storage import FaultyStorage, faulty_storage
from tests.slow.runs import STAGES, arguments, differences, printed, start, unsound

ROUNDS = 1  # machines to kill
FAULTS_FRACTION = 0.1  # of the requests
MAX_SECONDS = 1800.0  # of one start
_BUCKET, _ADDRESS = "runs", "gs://runs/demo"
_POLL_SECONDS = 0.02


class _Runs:
    """Machines with one bucket, and what is seen of both."""

    def __init__(self, storage: FaultyStorage, sound_url: str, work: Path) -> None:
        import gcsfs

        self.storage, self.work = storage, work
        self.faults: list[str] = []
        self._processes: list[subprocess.Popen[bytes]] = []
        self._files = gcsfs.GCSFileSystem(
            token="anon", endpoint_url=sound_url, use_listings_cache=False
        )

    def start(self, machine: str, words: list[str]) -> subprocess.Popen[bytes]:
        environment = {
            "STORAGE_EMULATOR_HOST": self.storage.url,
            "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
            "FSSPEC_GS": '{"token": "anon"}',
            WORK_DIR: str(self.work / machine),
        }
        self._processes.append(start(words, self.work / "run.log", environment=environment))
        return self._processes[-1]

    def stop(self) -> None:
        """Kill what runs."""
        for process in self._processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def finish(self, machine: str, words: list[str]) -> str:
        """Run a command to its end; what it said. A status other than 0 is a fault."""
        return self.end(machine, self.start(machine, words))

    def end(self, machine: str, process: subprocess.Popen[bytes]) -> str:
        status, said = process.wait(timeout=MAX_SECONDS), printed(self.work / "run.log")
        if status != 0:
            self.faults.append(f"{machine}: status {status}: {said[-2000:]}")
        return said

    def objects(self) -> list[str]:
        return [name.split("/", 2)[2] for name in self._files.find(_ADDRESS)]

    def manifests(self) -> dict[str, bytes]:
        there = self.objects()
        names = [f"{stage}/{MANIFEST}" for stage in STAGES]
        return {n: self._files.cat_file(f"{_ADDRESS}/{n}") for n in names if n in there}

    def download(self) -> Path:
        target = self.work / "there"
        shutil.rmtree(target, ignore_errors=True)
        for name in self.objects():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            self._files.get_file(f"{_ADDRESS}/{name}", str(target / name))
        return target


def test_a_run_on_a_storage_that_fails_is_that_of_a_disk(
    rounds: int, rng: random.Random, sound: Path, tmp_path: Path
) -> None:
    os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
    with faulty_storage(FAULTS_FRACTION, rng.getrandbits(32), _BUCKET) as (storage, sound_url):
        runs = _Runs(storage, sound_url, tmp_path)
        try:
            _run_and_kill(runs, rounds, rng, sound)
        finally:
            runs.stop()
        print(storage.traffic)
        assert runs.faults == []


def _run_and_kill(runs: _Runs, kills: int, rng: random.Random, local: Path) -> None:
    machines = ["machine-1"]
    while len(machines) <= kills:
        if not _start_and_kill(runs, rng.choice(machines[-2:]), local, rng):
            break  # it was finished before
        machines.append(f"machine-{len(machines) + 1}")
    runs.finish(machines[-1], arguments("run", _ADDRESS))
    runs.faults += _differences(runs, local)


def _start_and_kill(runs: _Runs, machine: str, local: Path, rng: random.Random) -> bool:
    """Kill a machine at some time after it has begun one of the next three stages, while it works,
    sends or is done with it; False if the run came to its end before."""
    before = runs.manifests()
    waiting = [stage for stage in STAGES if f"{stage}/{MANIFEST}" not in before]
    stage = rng.choice(waiting[:3]) if waiting else STAGES[-1]
    seconds = rng.uniform(0, 2 * read_manifest(local / stage)["seconds"])
    process = runs.start(machine, arguments("run", _ADDRESS))
    until, deadline = None, time.monotonic() + MAX_SECONDS
    while process.poll() is None and (until is None or time.monotonic() < until):
        if until is None and next((runs.work / machine).glob(f"*/*/{stage}.partial"), None):
            until = time.monotonic() + seconds
        if time.monotonic() > deadline:
            raise AssertionError(f"{machine}: no end after {MAX_SECONDS:.0f} s; it hangs")
        time.sleep(_POLL_SECONDS)
    if process.poll() is not None:
        runs.end(machine, process)
        return False
    runs.stop()
    after, where = runs.manifests(), f"{machine}, in {stage}"
    for name, content in before.items():
        if after.get(name) != content:
            runs.faults.append(f"{where}: {name} was finished and has changed")
    whole = {name.partition("/")[0] for name in after}
    there = runs.download()
    for stage in STAGES:
        if stage not in whole:
            shutil.rmtree(there / stage, ignore_errors=True)
    runs.faults += [f"{where}: {what}" for what in unsound(there)]
    return True


def _differences(runs: _Runs, local: Path) -> Iterator[str]:
    there = runs.download()
    yield from unsound(there)
    yield from differences(local, there)
    files = ((stage, [MANIFEST, *read_manifest(there / stage)["files"]]) for stage in STAGES)
    expected = {*REPORTS, *(f"{stage}/{name}" for stage, names in files for name in names)}
    for name in sorted({*runs.objects()} ^ expected):
        yield f"{name} is {'not' if name in expected else 'left'} in the bucket"
