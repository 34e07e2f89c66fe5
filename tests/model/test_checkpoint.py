"""A checkpoint holds all that a run goes on from, or is passed over, or is refused."""

import json
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError
from torch import nn

from electrify.config.run import RunConfig
from model import checkpoint as checkpoint_module
from model.checkpoint import (
    checkpoints,
    load_latest,
    load_model,
    newest_state,
    run_identity,
    save_checkpoint,
)
from model.electra import ElectraPretrainer
from model.optim import make_optimizer, set_learning_rate
from tests.model.conftest import everything, idle_optimizer, make_config

STEPS = (4, 8)


def changed(config: RunConfig, **options: object) -> RunConfig:
    return make_config(Path(config.output_dir), **options)


def make(config: RunConfig, data, seed: int):
    torch.manual_seed(seed)
    model = ElectraPretrainer(config.pretrain, data.vocab_size, data.special)
    return model, make_optimizer(model, config.pretrain)


def update(model, optimizer) -> None:
    """An update with gradients that depend on every weight."""
    model.zero_grad()
    sum((p - 0.1).pow(2).sum() for p in model.parameters()).backward()
    set_learning_rate(optimizer, 1e-2)
    optimizer.step()


def assert_equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    assert [name for name in one if not torch.equal(one[name], other[name])] == []


@pytest.fixture
def saved(config, data, tmp_path: Path):
    """A model, its optimisers, and a folder with their checkpoints of both `STEPS`."""
    model, optimizer = make(config, data, 1)
    folder = tmp_path / "run"
    for step in STEPS:
        update(model, optimizer)
        save_checkpoint(folder, step, model, optimizer, keep=2)
    return model, optimizer, folder


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"weight_sharing": "gdes", "optimizer": "bias-corrected"},
        {"architecture": "modern", "optimizer": "muon"},
        {"optimizer": "muon", "precision": "fp16"},
    ],
)
def test_training_goes_on_as_if_it_had_never_stopped(config, data, tmp_path, options):
    config = changed(config, **options)
    model, optimizer = make(config, data, 1)
    update(model, optimizer)
    save_checkpoint(tmp_path / "run", 1, model, optimizer, keep=1)
    update(model, optimizer)
    again, other = make(config, data, 2)
    update(again, other)  # moments that must go
    assert load_latest(tmp_path / "run", again, other) == 1
    update(again, other)
    assert_equal(everything(model, optimizer), everything(again, other))


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: _flip(folder / "model.safetensors"),
        lambda folder: _flip(folder / "optimizer.safetensors"),
        lambda folder: (folder / "model.safetensors").write_bytes(b""),
        lambda folder: (folder / "state.json").write_text('{"step": 8, "sha'),
        lambda folder: (folder / "state.json").unlink(),
    ],
)
def test_a_damaged_one_falls_back_to_the_one_before(config, data, saved, damage, caplog):
    model, optimizer, folder = saved
    damage(folder / "checkpoint-8")
    again, other = make(config, data, 2)
    assert load_latest(folder, again, other) == 4
    assert "checkpoint-8 is damaged" in caplog.text
    update(again, other)
    assert_equal(everything(model, optimizer), everything(again, other))


def test_a_full_disk_ends_with_what_to_do(saved, monkeypatch):
    model, optimizer, folder = saved

    def write(tensors, path):
        Path(path).write_bytes(b"half")
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(checkpoint_module, "save_file", write)
    words = r"checkpoint-12 cannot be written \(I/O error: No space left .*: make room there"
    with pytest.raises(ValueError, match=words):
        save_checkpoint(folder, 12, model, optimizer, keep=2)
    assert sorted(p.name for p in folder.iterdir()) == ["checkpoint-4", "checkpoint-8"]


def test_the_newest_are_kept_and_those_after_this_one_go(saved):
    """Those after it were damaged: kept, they would push out the sound ones."""
    model, optimizer, folder = saved
    for step in (9, 10, 7):
        save_checkpoint(folder, step, model, optimizer, keep=2)
    assert [path.name for path in checkpoints(folder)] == ["checkpoint-7"]
    for step in (20, 100):
        save_checkpoint(folder, step, model, optimizer, keep=2)
    assert [path.name for path in checkpoints(folder)] == ["checkpoint-20", "checkpoint-100"]


def test_a_model_of_another_form_is_refused_and_stays_as_it_is(config, data, saved):
    wider = changed(config, intermediate_size=96)
    model, optimizer = make(wider, data, 2)
    before = everything(model, optimizer)
    with pytest.raises(ValueError, match=r"checkpoint-8 does not fit.*\(64,\) there and \(96,\)"):
        load_latest(saved[2], model, optimizer)
    mlm = changed(config, objective="mlm")
    with pytest.raises(ValueError, match=r"discriminator_head.* and None here"):
        load_latest(saved[2], *make(mlm, data, 2))
    assert_equal(before, everything(model, optimizer))


@pytest.mark.parametrize(
    ("part", "value", "words"),
    [
        ("objective", "mlm", "its objective is 'electra', this run's is 'mlm'"),
        ("vocab_size", 61, "its vocab_size is 60, this run's is 61"),
        ("tokenizer_sha256", "1" * 64, f"its tokenizer_sha256 is '{'0' * 64}', this run's is '11"),
        ("options", {"seed": 8}, "its option .* is .*, this run's is None"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(config, data, tmp_path, part, value, words):
    model, optimizer = make(config, data, 1)
    identity = run_identity(config)
    save_checkpoint(tmp_path / "run", 4, model, optimizer, keep=1, identity=identity)
    assert load_latest(tmp_path / "run", model, optimizer, identity=identity) == 4
    with pytest.raises(ValueError, match=f"checkpoint-4 belongs to another run: {words}"):
        load_latest(tmp_path / "run", model, optimizer, identity=identity | {part: value})


def test_a_run_is_what_decides_its_result(config):
    identity = run_identity(config)
    for options in ({"learning_rate": 1e-3}, {"num_steps": 13}, {"objective": "electra-15"}):
        assert run_identity(changed(config, **options)) != identity
    for options in (
        {"checkpoint_dir": "gs://b/c"},
        {"keep_checkpoints": 7},
        {"device": "xla"},
        {"micro_batch_size": 2},
    ):
        assert run_identity(changed(config, **options)) == identity
    assert run_identity(config.model_copy(update={"seed": 8})) != identity
    index = Path(config.output_dir) / "shards" / "index.json"
    index.write_text(index.read_text() + "\n")
    assert run_identity(config) != identity


def _write(folder):
    model = nn.Linear(3, 2)
    optimizer = idle_optimizer(model)
    save_checkpoint(folder, 7, model, optimizer, keep=1)
    return model, optimizer


@pytest.mark.parametrize(
    "text",
    [
        *('{"step": Infinity}', '{"step": "7"}', '{"identity": []}', "[]"),
        '{"identity": {"options": 3}}',
    ],
)
def test_a_state_of_another_form_is_damaged(tmp_path, text):
    model, optimizer = _write(tmp_path)
    path = tmp_path / "checkpoint-7" / "state.json"
    change = json.loads(text)
    content = json.loads(path.read_text()) | change if change else change
    path.write_text(json.dumps(content))
    assert newest_state(tmp_path) == {}
    assert load_latest(tmp_path, model, optimizer, identity={}) == 0
    with pytest.raises(ValueError, match="checkpoint-7 is damaged"):
        load_model(tmp_path / "checkpoint-7", model)
