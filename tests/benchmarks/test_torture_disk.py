"""What the disk's way of torture takes for a clear end, and that its rights are really gone."""

import os
import random
import subprocess
import sys

import pytest

from benchmarks.torture import disk
from benchmarks.torture.disk import DiskFigures, torture_by_disk


@pytest.fixture
def trial(tmp_path):
    return disk._Trial(tmp_path / "disk", tmp_path / "sound", random.Random(0), DiskFigures())


CLEAR = (
    "error: [Errno 28] No space left: '{run}/clean.partial/a': make room; the same command goes on"
)


def test_a_line_with_the_file_and_the_next_step_is_clear(trial):
    disk._judge(trial, "full", "full", 1, f"reading\n{CLEAR.format(run=trial.run)}\n")
    assert trial.figures.faults == []
    assert "No space left" in trial.figures.examples["full"]


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (0, CLEAR),
        (1, ""),
        (1, "Traceback (most recent call last)\n" + CLEAR),
        (1, "error: [Errno 28] No space left; the same command goes on"),  # of which file?
        (1, "error: [Errno 28] No space left: '{run}/clean.partial/a'"),  # and now?
        (1, CLEAR + "\n" + CLEAR),
    ],
)
def test_everything_else_is_a_fault(trial, status, said):
    disk._judge(trial, "full", "full", status, said.format(run=trial.run))
    assert len(trial.figures.faults) == 1


def test_without_root_it_refuses(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(ValueError, match="takes root"):
        torture_by_disk(1, 0, tmp_path / "work")


def test_an_unknown_way_is_refused(tmp_path):
    with pytest.raises(ValueError, match="known: full, read-only, rights, between"):
        torture_by_disk(1, 0, tmp_path / "work", ["ful"])


@pytest.mark.skipif(sys.platform != "linux", reason="capabilities are Linux's")
def test_permissions_hold_for_a_process_without_rights(trial):
    trial.run.mkdir(parents=True)
    (trial.run / "there").write_text("1", encoding="utf-8")
    disk._set_rights(trial.run, 0o555, 0o444)
    for command in (f"echo > {trial.run}/new", f"echo > {trial.run}/there"):
        process = subprocess.run(
            ["sh", "-c", command], preexec_fn=disk._give_up_rights, capture_output=True, check=False
        )
        assert process.returncode != 0
    disk._set_rights(trial.run, 0o755, 0o644)
    assert [path.name for path in trial.run.iterdir()] == ["there"]
    assert (trial.run / "there").read_text(encoding="utf-8") == "1"
