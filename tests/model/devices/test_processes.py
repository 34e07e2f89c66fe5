"""A run of two processes is the run of one."""

import json
import os
import pickle
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import pytest
import torch

from electrify.config.pretrain import Objective
from electrify.config.run import RunConfig
from electrify.stage.folder import read_manifest
from model.checkpoint import checkpoints
from model.devices import processes as processes_module
from model.devices.device import resolve_device
from model.devices.launch import launch
from model.devices.processes import Ranks, bare, wrap
from model.pretrain import Trainer, pretrain
from tests.model import ranks_program
from tests.model.conftest import (
    NO_DROPOUT,
    VARIANTS,
    make_config,
    make_run,
    write_tiny_shards,
)
from tests.model.trained import Trained

CPU = torch.device("cpu")
SAVED, NUM_STEPS = 8, 12
SHORT = NO_DROPOUT | {
    "num_steps": NUM_STEPS,
    "batch_size": 8,
    "log_every_steps": 1,
    "num_valid_batches": 2,
    "checkpoint_every_steps": SAVED,
    "valid_every_steps": 5,
}
CASES: dict[str, dict[str, object]] = {
    "electra": {"num_steps": 20, "micro_batch_size": 2},
    # embeddings of two optimisers
    "decoupled": {"updates": "decoupled", "optimizer": "bias-corrected"},
    "two-stage": VARIANTS["electra-two-stage"],
    "one body": VARIANTS["all"],  # layers run twice in a pass
}


def with_padding(folder: Path, **pretrain: object) -> RunConfig:
    """Sequences end with sentences: each process has another number of tokens."""
    return make_config(folder, **(SHORT | pretrain))


def stopped_config(folder: Path) -> RunConfig:
    """Of the whole stage, which fetches its inputs, once for both processes."""
    make_run(folder / "inputs")
    options = SHORT | CASES["electra"] | {"inputs_dir": str(folder / "inputs"), "num_devices": 2}
    return make_config(folder, **options)


@dataclass(frozen=True)
class Launched:
    """All that one start of two processes made."""

    folder: Path
    configs: dict[str, RunConfig]
    stopped: RunConfig
    found: list[Any]  # of each process


@pytest.fixture(scope="module")
def launched(tmp_path_factory: pytest.TempPathFactory) -> Launched:
    """Each case, and one that is stopped and continued."""
    folder = tmp_path_factory.mktemp("parallel")
    write_tiny_shards(folder / "shards")
    configs = {name: with_padding(folder, **CASES[name]) for name in CASES}
    runs = [(config, folder / "together" / name) for name, config in configs.items()]
    stopped, path = stopped_config(folder / "stopped"), folder / "task.pkl"
    path.write_bytes(pickle.dumps({"runs": runs, "fails": False, "stopped": stopped}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        launch(ranks_program.work, 2, str(path))
    found = [json.loads(Path(f"{path}.{rank}.json").read_text()) for rank in range(2)]
    return Launched(folder, configs, stopped, found)


@pytest.fixture(scope="module")
def alone(launched: Launched) -> dict[str, Trained]:
    """The same runs, by this process."""
    trained = {}
    for name, config in launched.configs.items():
        folder = launched.folder / "alone" / name
        folder.mkdir(parents=True)
        Trainer(config).run(folder)
        trained[name] = Trained.read(folder)
    return trained


# --- a run of several processes is the run of one -------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_several_processes_train_as_one(launched, alone, name: str):
    together = Trained.read(launched.folder / "together" / name)
    together.check_equal(alone[name], absolute=2e-6)
    assert together.tensors.keys() == alone[name].tensors.keys()


def test_one_process_goes_on_where_two_stopped(launched, alone, tmp_path):
    saved = launched.folder / "together" / "two-stage" / f"checkpoint-{SAVED}"
    shutil.copytree(saved, tmp_path / saved.name)
    Trainer(launched.configs["two-stage"]).run(tmp_path)
    Trained.read(tmp_path).check_equal(alone["two-stage"].after(SAVED))


# --- what processes agree on ----------------------------------------------------------------------


def test_sums_and_flags_are_of_all_processes(launched):
    first, second = (found["exchange"] for found in launched.found)
    assert first == second == {"sum": [3, 30, 300], "gathered": [[1, 2, 2]], "any": [True, False]}


def test_a_signal_to_one_stops_all_after_one_save_and_the_same_again_finishes(
    launched, tmp_path, monkeypatch
):
    """And what is done starts none."""
    config = launched.stopped
    folder = launched.folder / "stopped" / "pretrain"
    for found in launched.found:
        assert found["stopped"] == ["saved step 6 of 20", "finished", "finished"]
    assert read_manifest(folder)["counts"]["num_processes"] == 2
    assert [path.name for path in checkpoints(folder)] == ["checkpoint-16", "checkpoint-20"]
    tmp_path.joinpath("alone").mkdir()
    Trainer(config).run(tmp_path / "alone")
    Trained.read(folder).check_equal(Trained.read(tmp_path / "alone"), absolute=2e-6)
    monkeypatch.setattr("model.pretrain.launch", None)
    pretrain(config)


@pytest.mark.slow
@pytest.mark.parametrize("fails", [False, True])
def test_torchrun_starts_them_and_the_error_of_one_ends_all(tmp_path, fails):
    write_tiny_shards(tmp_path / "shards")
    task, path = {"runs": [(with_padding(tmp_path), tmp_path / "run")], "fails": fails}, "task.pkl"
    tmp_path.joinpath(path).write_bytes(pickle.dumps(task))
    words = "-m torch.distributed.run --standalone --local-addr 127.0.0.1 --nproc-per-node 2"
    done = subprocess.run(
        [sys.executable, *words.split(), ranks_program.__file__, str(tmp_path / path)],
        env=os.environ | {"PYTHONPATH": str(Path.cwd()), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == fails, done.stderr
    assert ("ValueError: a shard is gone" in done.stderr) == fails
    assert ("process 0 stops, as process 1 failed" in done.stderr) == fails
    assert len([*tmp_path.glob(f"{path}.*.json")]) == (0 if fails else 2)


# --- one process ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [*CASES.values(), *({"objective": name} for name in get_args(Objective) if "two" not in name)],
    ids=str,
)
def test_parameters_without_gradients_are_those_announced(
    tmp_path, monkeypatch, options: dict[str, object]
):
    """DDP waits for ever for a gradient that does not come, unless it is told to look."""
    write_tiny_shards(tmp_path / "shards")
    config = with_padding(tmp_path, **options)
    trainer = Trainer(config)
    trainer._prepare(tmp_path)
    batch = trainer.train_data.micro_batches(0)[0]
    found: dict[str, Any] = {}
    with monkeypatch.context() as patch:
        patch.setattr(processes_module, "DistributedDataParallel", lambda _, **of: found.update(of))
        wrap(trainer.model, config.pretrain, Ranks(0, 2), CPU)
    in_parts = found["find_unused_parameters"]
    stage = "generator" if in_parts else "joint"
    trainer.model(bare(trainer.model).mask(batch), stage).loss().backward()
    missing = [n for n, p in trainer.model.named_parameters() if p.grad is None]
    assert bool(missing) == in_parts


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
    trainer = Trainer(with_padding(tmp_path, num_valid_batches=9, micro_batch_size=4))
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
