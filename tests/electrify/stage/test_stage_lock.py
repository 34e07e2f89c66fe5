"""Two runs on one folder: the second refuses and names the first; a killed one locks nothing."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from electrify.stage.folder import Stage
from electrify.stage.lock import lock_path, stage_lock
from electrify.stage.run import run_stage
from tests.electrify.stage.conftest import refuse

HOLD = """
import sys, time
from pathlib import Path
from electrify.stage.lock import stage_lock
with stage_lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "run" / "clean"


def hold(folder: Path) -> subprocess.Popen[str]:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


def test_a_second_process_is_refused_with_the_first_and_its_age_named(folder: Path):
    with hold(folder) as holder:
        owner = json.loads(lock_path(folder).read_text())
        lock_path(folder).write_text(json.dumps(owner | {"since": time.time() - 3 * 3600}))
        with pytest.raises(ValueError, match=rf"process {holder.pid} on .* for 3 h 00 min"):
            run_stage(Stage("clean", folder, {}), refuse)
        assert not folder.with_name("clean.partial").exists()
        holder.kill()


def test_what_a_killed_process_leaves_locks_nothing(folder: Path):
    with hold(folder) as holder:
        holder.send_signal(signal.SIGKILL)
    assert lock_path(folder).exists()
    with stage_lock(folder):
        assert json.loads(lock_path(folder).read_text())["pid"] == os.getpid()
    assert list(folder.parent.iterdir()) == []


def test_the_lock_left_beside_a_finished_stage_is_removed_unless_it_is_held(folder: Path):
    stage = Stage("clean", folder, {}, {})
    assert run_stage(stage, lambda partial: {})
    lock_path(folder).write_text("of one killed after its last rename", encoding="utf-8")
    assert not run_stage(stage, lambda partial: {})
    assert not lock_path(folder).exists()
    holder = hold(folder)
    try:
        assert not run_stage(stage, lambda partial: {})
        assert lock_path(folder).exists()
    finally:
        holder.kill()
        holder.communicate()


@pytest.mark.parametrize("data", [b"", b"\xff", b"[1]", b'{"since": 1e400}', b"[" * 9999])
def test_an_owner_that_cannot_be_read_still_holds(folder: Path, data: bytes):
    with stage_lock(folder):
        lock_path(folder).write_bytes(data)
        with pytest.raises(ValueError, match="clean is being written by"), stage_lock(folder):
            pass
