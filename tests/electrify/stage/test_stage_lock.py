"""Two runs on one folder: the second refuses and names the first; a killed one locks nothing."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from electrify.stage.folder import Stage, lock_path, stage_lock
from electrify.stage.run import run_stage
from tests.electrify.stage.conftest import refuse

HOLD = """
import sys, time
from pathlib import Path
from electrify.stage.folder import stage_lock
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


def test_a_second_process_is_refused_with_the_first_named(folder: Path):
    with hold(folder) as holder:
        with pytest.raises(ValueError, match=rf"process {holder.pid} on .*, since 20\d\d-"):
            run_stage(Stage("clean", folder, {}), refuse)
        assert not folder.with_name("clean.partial").exists()
        holder.kill()


def test_what_a_killed_process_leaves_locks_nothing(folder: Path):
    with hold(folder) as holder:
        holder.send_signal(signal.SIGKILL)
    assert lock_path(folder).exists()
    with stage_lock(folder):
        assert f"process {os.getpid()} on " in lock_path(folder).read_text()
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


@pytest.mark.parametrize("data", [b"", b"\xff"])
def test_an_owner_that_cannot_be_read_still_holds(folder: Path, data: bytes):
    with stage_lock(folder):
        lock_path(folder).write_bytes(data)
        with pytest.raises(ValueError, match="clean is being written by"), stage_lock(folder):
            pass
