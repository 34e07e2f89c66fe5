"""A run of two processes is the run of one, where their draws are equal."""

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import pytest
import torch

from electrify.config.pretrain import Objective
from electrify.config.run import RunConfig
from electrify.stage.folder import read_manifest
from electrify.system.outcome import UserError, status_of
from electrify.system.progress import Stopped, stop_on_signal
from model.checkpoint import checkpoints
from model.devices.device import resolve_device
from model.devices.processes import Ranks, launch, num_launched, wrap
from model.pretrain import Trainer, pretrain
from tests.model import ranks_program
from tests.model.conftest import (
    NO_DROPOUT,
    VARIANTS,
    make_config,
    make_run,
    random_batch,
    random_model,
    write_tiny_shards,
)
from tests.model.trained import Trained

CPU = torch.device("cpu")
SAVED, NUM_STEPS = 4, 6
SHORT = NO_DROPOUT | {
    "num_hidden_layers": 1,
    "num_steps": NUM_STEPS,
    "batch_size": 8,
    "log_every_steps": 1,
    "num_valid_batches": 2,
    "checkpoint_every_steps": SAVED,
    "valid_every_steps": 3,
}
CASES: dict[str, dict[str, object]] = {
    "electra": {"num_steps": 8, "micro_batch_size": 2},
    "two-stage": VARIANTS["electra-two-stage"],
    "gdes": {"weight_sharing": "gdes", "optimizer": "bias-corrected", "objective": "electra-15"},
}


def short_config(folder: Path, **pretrain: object) -> RunConfig:
    return make_config(folder, **(SHORT | pretrain))


@dataclass(frozen=True)
class Launched:
    """All that one start of two processes made."""

    folder: Path
    configs: dict[str, RunConfig]
    stopped: RunConfig
    said: list[list[str]]  # of each process


@pytest.fixture(scope="module")
def launched(tmp_path_factory: pytest.TempPathFactory) -> Launched:
    """Each case, and one that is stopped and continued."""
    folder = tmp_path_factory.mktemp("parallel")
    write_tiny_shards(folder / "shards")
    configs = {name: short_config(folder, **CASES[name]) for name in CASES}
    runs = [(config, folder / "together" / name) for name, config in configs.items()]
    options = SHORT | CASES["electra"] | {"num_devices": 2}
    stopped, path = make_run(folder / "stopped", **options), folder / "task.pkl"
    path.write_bytes(pickle.dumps({"runs": runs, "stopped": stopped}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        launch(ranks_program.work, 2, str(path))
    said = [json.loads(Path(f"{path}.{rank}.json").read_text()) for rank in range(2)]
    return Launched(folder, configs, stopped, said)


def train_alone(config: RunConfig, folder: Path) -> Trained:
    folder.mkdir(parents=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("model.data.Noise", ranks_program.EqualDraws)
        Trainer(config).run(folder)
    return Trained.read(folder)


@pytest.mark.parametrize("name", CASES)
def test_several_processes_train_as_one(launched, tmp_path, name: str):
    alone = train_alone(launched.configs[name], tmp_path / "alone")
    Trained.read(launched.folder / "together" / name).check_equal(alone, absolute=2e-6)


def test_a_signal_to_one_stops_all_after_one_save_and_the_same_again_finishes(
    launched, tmp_path, monkeypatch
):
    """And what is done starts none."""
    config = launched.stopped
    folder = launched.folder / "stopped" / "pretrain"
    assert launched.said == [["saved step 3 of 8", "finished", "finished"]] * 2
    assert read_manifest(folder)["counts"]["num_processes"] == 2
    assert [path.name for path in checkpoints(folder)] == ["checkpoint-4", "checkpoint-8"]
    alone = train_alone(config, tmp_path / "alone")
    Trained.read(folder).check_equal(alone, absolute=2e-6)
    monkeypatch.setattr("model.pretrain.launch", None)
    pretrain(config)


# --- one process ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [*CASES.values(), *({"objective": name} for name in get_args(Objective) if "two" not in name)],
    ids=str,
)
def test_parameters_without_gradients_are_those_announced(monkeypatch, options: dict[str, object]):
    """DDP waits for ever for a gradient that does not come, unless it is told to look."""
    model, found = random_model(**options), dict[str, Any]()
    wrapper = "model.devices.processes.DistributedDataParallel"
    monkeypatch.setattr(wrapper, lambda _, **of: found.update(of))
    wrap(model, model.config, Ranks(0, 2), CPU)
    in_parts = found["find_unused_parameters"]
    stage = "generator" if in_parts else "joint"
    model(model.mask(random_batch(model)), stage).loss().backward()
    assert any(parameter.grad is None for parameter in model.parameters()) == in_parts


def test_each_process_of_a_machine_has_its_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    chosen: list[int] = []
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    monkeypatch.setattr(torch, "set_float32_matmul_precision", lambda precision: None)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert resolve_device("cuda") == torch.device("cuda")
    monkeypatch.setenv("WORLD_SIZE", "4")  # as some hosts export it
    assert resolve_device("cuda") == torch.device("cuda")
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert resolve_device("auto") == torch.device("cuda", 1)
    assert chosen == [1]
    monkeypatch.setenv("LOCAL_RANK", "2")
    with pytest.raises(ValueError, match=r"process 3 of this machine has no GPU, torch sees 2"):
        resolve_device("cuda")


@pytest.mark.parametrize("num_ranks", [1, 2, 3])
def test_validation_counts_every_sequence_once(tmp_path, num_ranks: int):
    """Also what cannot be shared evenly; and no process runs more passes than another."""
    write_tiny_shards(tmp_path / "shards")
    trainer = Trainer(short_config(tmp_path, num_valid_batches=9, micro_batch_size=4))
    trainer._prepare(tmp_path)
    counted, passes = [], set()
    for rank in range(num_ranks):
        trainer.ranks = Ranks(rank, num_ranks)
        batches = [batch.input_ids for batch in trainer._valid_batches()]
        passes.add(tuple(map(len, batches)))
        counted += [ids[(ids != trainer.valid_data.special.pad).any(dim=1)] for ids in batches]
    data = trainer.valid_data
    wanted = data.batch(0, data.num_sequences).input_ids
    assert sorted(torch.cat(counted).tolist()) == sorted(wanted.tolist())
    assert len(passes) == 1


# --- processes that the command starts itself -----------------------------------------------------


def test_a_run_that_has_yet_to_be_trained_starts_its_processes(tmp_path, monkeypatch):
    started: list[object] = []
    monkeypatch.setattr("model.pretrain.launch", lambda *given: started.append(given))
    config = make_run(tmp_path, num_devices=2)
    pretrain(config)
    assert started == [(pretrain, 2, config, False)]


def stop_parent(step_file: str) -> None:
    """Work that says it has begun, and waits for a signal as a training does."""
    with stop_on_signal("saving first") as stop:
        Path(f"{step_file}-{os.environ['RANK']}").touch()
        while not stop:
            time.sleep(0.05)
        Path(f"{step_file}-{os.environ['RANK']}-saved").touch()
        raise Stopped("saved", stop.signal)


@pytest.mark.slow
def test_a_signal_to_the_command_lets_every_process_save(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.model.devices.test_processes", str(tmp_path / "at")],
        env=os.environ | {"PYTHONPATH": str(Path.cwd())},
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


@pytest.mark.filterwarnings("ignore")  # of pipes that torch leaves open
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
    monkeypatch.setattr("model.devices.processes.resolve_device", lambda name: torch.device("cuda"))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: num_gpus)
    config = short_config(tmp_path, **options).pretrain
    assert num_launched(config) == number
    monkeypatch.setenv("LOCAL_RANK", "0")  # torchrun started this one
    assert num_launched(config) == 1


if __name__ == "__main__":  # of the command that is signalled
    sys.exit(status_of(lambda: launch(stop_parent, 2, sys.argv[1])))
