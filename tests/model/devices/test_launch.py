"""Processes that the command starts itself, on the CPU."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from electrify.system.outcome import UserError
from model.devices.launch import launch, num_launched
from model.pretrain import pretrain
from tests.model.conftest import make_run
from tests.model.devices.test_processes import with_padding


def test_a_run_that_has_yet_to_be_trained_starts_its_processes(tmp_path, monkeypatch):
    started: list[object] = []
    monkeypatch.setattr("model.pretrain.launch", lambda *given: started.append(given))
    config = make_run(tmp_path, num_devices=2)
    pretrain(config)
    assert started == [(pretrain, 2, config, False)]


def stop_parent(step_file: str) -> None:
    """Work that says it has begun, and waits for a signal as a training does."""
    from electrify.system.progress import Stopped, stop_on_signal

    with stop_on_signal("saving first") as stop:
        Path(f"{step_file}-{os.environ['RANK']}").touch()
        while not stop:
            time.sleep(0.05)
        Path(f"{step_file}-{os.environ['RANK']}-saved").touch()
        raise Stopped("saved", stop.signal)


PROGRAM = """
import sys
from electrify.system.outcome import status_of
from model.devices.launch import launch
from tests.model.devices.test_launch import stop_parent

if __name__ == "__main__":
    sys.exit(status_of(lambda: launch(stop_parent, 2, sys.argv[1])))
"""


@pytest.mark.slow
def test_a_signal_to_the_command_lets_every_process_save(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    path = {"PYTHONPATH": str(Path.cwd())}
    process = subprocess.Popen(
        [sys.executable, str(tmp_path / "program.py"), str(tmp_path / "at")],
        env=os.environ | path,
        stderr=subprocess.PIPE,
        text=True,
    )
    begun = [tmp_path / "at-0", tmp_path / "at-1"]
    while not all(map(Path.exists, begun)):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    errors = process.communicate(timeout=60)[1]
    assert process.returncode == 143, errors
    assert {path.name for path in tmp_path.glob("at-*-saved")} == {"at-0-saved", "at-1-saved"}


def fail_in_second() -> None:
    if os.environ["RANK"] == "1":
        raise UserError("a shard is gone")
    time.sleep(600)


@pytest.mark.slow
def test_the_error_of_one_ends_all(capfd):
    with pytest.raises(UserError, match="process 1 of 2 failed"):
        launch(fail_in_second, 2)
    assert "error: a shard is gone" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("num_gpus", "options", "number"),
    [
        (4, {"batch_size": 8}, 4),
        (3, {"batch_size": 8}, 2),
        (8, {"batch_size": 12, "curriculum": ({"steps_fraction": 0.5, "batch_size": 8},)}, 4),
        (2, {"batch_size": 12, "micro_batch_size": 4}, 1),  # each has 6
        (8, {"batch_size": 8, "num_devices": 1}, 1),
        (1, {"batch_size": 8}, 1),
    ],
)
def test_by_default_all_gpus_train_that_can_share_a_batch(
    tmp_path, monkeypatch, num_gpus: int, options: dict[str, object], number: int
):
    monkeypatch.setattr("model.devices.launch.resolve_device", lambda name: torch.device("cuda"))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: num_gpus)
    config = with_padding(tmp_path, **options).pretrain
    assert num_launched(config) == number
    monkeypatch.setenv("LOCAL_RANK", "0")  # torchrun started this one
    assert num_launched(config) == 1
