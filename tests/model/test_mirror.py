"""Checkpoints at an address: whole or not there, and a fresh machine goes on from them."""

from pathlib import Path
from uuid import uuid4

import fsspec
import pytest
import torch
from fsspec.implementations.memory import MemoryFileSystem
from torch import nn

from electrify.stage.folder import input_digest
from electrify.storage.folder import Folder
from model.checkpoint import (
    _INPUTS,
    checkpoints,
    fetch_checkpoint,
    fetch_inputs,
    load_latest,
    mirrored_steps,
    save_checkpoint,
    upload_checkpoint,
)
from model.pretrain import Trainer
from tests.model.conftest import idle_optimizer, make_run, with_pretrain
from tests.model.trained import Trained

IDENTITY = {"objective": "electra", "options": {"seed": 7}}


@pytest.fixture
def url() -> str:
    """An address without anything in it yet."""
    return f"memory://{uuid4().hex}/run"


def whole_steps(url: str) -> list[int]:
    return [step for step, is_whole in mirrored_steps(Folder(url)).items() if is_whole]


def model_of(step: int) -> nn.Module:
    model = nn.Linear(5, 3)
    nn.init.constant_(model.weight, step)
    return model


def save(folder: Path, url: str, *steps: int, keep: int = 2) -> None:
    """Checkpoints here and there, and the metrics of the last."""
    folder.mkdir(exist_ok=True)
    for step in steps:
        (folder / "metrics.jsonl").write_text(f'{{"step": {step}}}\n')
        model = model_of(step)
        path = save_checkpoint(folder, step, model, idle_optimizer(model), keep, identity=IDENTITY)
        upload_checkpoint(path, url, keep)


def resumed(folder: Path, url: str) -> int:
    """The step that a run in `folder` goes on from; its weights are of that step."""
    folder.mkdir(exist_ok=True)
    fetch_checkpoint(folder, url, IDENTITY)
    model = nn.Linear(5, 3)
    step = load_latest(folder, model, idle_optimizer(model), identity=IDENTITY)
    assert step == 0 or torch.equal(model.weight, model_of(step).weight)
    return step


def test_a_fresh_machine_goes_on_from_the_newest(tmp_path, url):
    assert resumed(tmp_path / "first", url) == 0
    save(tmp_path / "here", url, 4, 8, 12)
    assert resumed(tmp_path / "there", url) == 12
    assert whole_steps(url) == [8, 12]
    assert [p.name for p in checkpoints(tmp_path / "there")] == ["checkpoint-12"]
    for name in ("model.safetensors", "optimizer.safetensors", "state.json"):
        here, there = (tmp_path / at / "checkpoint-12" / name for at in ("here", "there"))
        assert here.read_bytes() == there.read_bytes()
    assert (tmp_path / "there" / "metrics.jsonl").read_text() == '{"step": 12}\n'


def test_the_machine_that_is_ahead_keeps_its_own(tmp_path, url):
    save(tmp_path / "here", url, 4, 8)
    model = model_of(12)
    save_checkpoint(tmp_path / "here", 12, model, idle_optimizer(model), 2, identity=IDENTITY)
    (tmp_path / "here" / "metrics.jsonl").write_text("mine")
    assert resumed(tmp_path / "here", url) == 12
    assert (tmp_path / "here" / "metrics.jsonl").read_text() == "mine"
    # but for one that is damaged, which is replaced together with the metrics
    (tmp_path / "here" / "checkpoint-12" / "model.safetensors").write_bytes(b"torn")
    (tmp_path / "here" / "checkpoint-8" / "model.safetensors").write_bytes(b"torn")
    assert resumed(tmp_path / "here", url) == 8
    assert (tmp_path / "here" / "metrics.jsonl").read_text() == '{"step": 8}\n'


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "state.json"])
def test_a_damaged_one_there_is_passed_over(tmp_path, url, name, caplog):
    save(tmp_path / "here", url, 4, 8)
    with fsspec.open(f"{url}/checkpoint-8/{name}", "wb") as file:
        file.write(b"torn")
    assert resumed(tmp_path / "there", url) == 4
    assert "checkpoint-8 in memory" in caplog.text
    assert "damaged" in caplog.text
    assert sorted(p.name for p in (tmp_path / "there").iterdir()) == [
        "checkpoint-4",
        "metrics.jsonl",
    ]


def test_an_upload_cut_off_anywhere_leaves_no_checkpoint(tmp_path, url, caplog, monkeypatch):
    """Neither of a new step nor in place of the one of that step before."""
    original, allowed = MemoryFileSystem.put_file, 0

    def put_file(self, source, target, **options):
        nonlocal allowed
        allowed -= 1
        if allowed < 0:
            raise OSError("the line is cut")  # what may pass is tried again: test_remote.py
        return original(self, source, target, **options)

    save(tmp_path / "here", url, 4, 8)
    monkeypatch.setattr(MemoryFileSystem, "put_file", put_file)
    for number in range(4):  # files of a checkpoint with metrics
        for step in (8, 12):
            allowed = number
            save(tmp_path / "here", url, step)
            assert "the line is cut" in caplog.text
            assert whole_steps(url) == [4]
    assert [p.name for p in checkpoints(tmp_path / "here")] == ["checkpoint-8", "checkpoint-12"]
    assert resumed(tmp_path / "there", url) == 4
    allowed = 5
    save(tmp_path / "here", url, 16)
    assert [*mirrored_steps(Folder(url))] == [4, 16]


def test_the_checkpoints_of_another_run_are_refused(tmp_path, url):
    save(tmp_path / "here", url, 4)
    other = {"objective": "mlm", "options": {"seed": 7}}
    (tmp_path / "there").mkdir()
    words = r"checkpoint-4 belongs to another run: its objective is 'electra', this run's is 'mlm'"
    with pytest.raises(ValueError, match=words):
        fetch_checkpoint(tmp_path / "there", url, other)
    assert checkpoints(tmp_path / "there") == []


def test_the_runs_own_folder_is_no_mirror(tmp_path):
    """However it is written: an upload begins by taking away what is there."""
    for name in ("pretrain", "pretrain.partial"):
        for address in (f"{tmp_path / name}", f"{tmp_path / name}/", f"file://{tmp_path / name}"):
            with pytest.raises(ValueError, match="where the run keeps its checkpoints anyway"):
                fetch_checkpoint(tmp_path / "pretrain.partial", address, IDENTITY)


def test_a_run_on_a_fresh_machine_ends_as_one_that_went_on(config, tmp_path, url):
    """Weights to the bit, and every figure of the steps before."""
    config = with_pretrain(config, checkpoint_dir=url)
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        Trainer(config).run(tmp_path / name)
        assert whole_steps(url) == [8, 12]
        Folder(url).remove_folder("checkpoint-12")  # as if the machine had died before
    first, second = (Trained.read(tmp_path / name) for name in ("first", "second"))
    second.check_same(first)
    assert {record["step"] for record in second.records} >= {2, 4, 8, 12}
    assert [p.name for p in checkpoints(tmp_path / "second")] == ["checkpoint-8", "checkpoint-12"]


def test_an_address_that_cannot_be_read_is_refused_at_the_start(tmp_path, url, monkeypatch):
    with pytest.raises(ValueError, match="'gopher9://a' cannot be opened"):
        fetch_checkpoint(tmp_path, "gopher9://a", IDENTITY)

    def ls(self, path, **options):
        raise PermissionError("not yours")

    monkeypatch.setattr(MemoryFileSystem, "ls", ls)
    with pytest.raises(ValueError, match=r"checkpoint_dir = .*PermissionError: not yours"):
        fetch_checkpoint(tmp_path, url, IDENTITY)


# --- inputs at an address -------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path, url) -> Path:
    """A run with finished inputs, which is at the address, too."""
    make_run(tmp_path / "run")
    files, root = fsspec.core.url_to_fs(url)
    files.put(f"{tmp_path / 'run'}/", f"{root}/", recursive=True)
    return tmp_path / "run"


def test_a_fresh_machine_gets_its_inputs(tmp_path, url, run):
    fetch_inputs(tmp_path / "machine", url)
    for name in _INPUTS:
        here, there = tmp_path / "machine" / name, run / name
        assert input_digest(here, name) == input_digest(there, name)
        files = [p.relative_to(there) for p in there.rglob("*") if p.is_file()]
        assert all((here / path).read_bytes() == (there / path).read_bytes() for path in files)
    assert sorted(p.name for p in (tmp_path / "machine").iterdir()) == sorted(_INPUTS)


@pytest.mark.parametrize("lost", ["shards/manifest.json", "shards/train/ko/tokens-00000.npy"])
@pytest.mark.usefixtures("run")
def test_inputs_that_are_not_whole_leave_nothing_here(tmp_path, url, lost: str):
    files, root = fsspec.core.url_to_fs(url)
    files.rm_file(f"{root}/{lost}")
    with pytest.raises(ValueError, match=r"inputs_dir: .*/shards cannot be copied \(FileNotFound"):
        fetch_inputs(tmp_path / "machine", url)
    assert [p.name for p in (tmp_path / "machine").iterdir()] == ["vocab"]
    files.pipe_file(f"{root}/{lost}", b"cut")
    with pytest.raises(ValueError, match="is damaged"):
        fetch_inputs(tmp_path / "machine", url)
