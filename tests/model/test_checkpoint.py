"""A checkpoint holds all that a run goes on from, or is passed over, or is refused; its copy at an
address is whole or not there, and a fresh machine goes on from it."""

import json
import math
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import fsspec
import pytest
import torch
from fsspec.implementations.memory import MemoryFileSystem
from safetensors import SafetensorError
from torch import nn

from electrify.storage.folder import Folder
from electrify.system.bundled import SHIPPED, find_bundled
from model import checkpoint as checkpoint_module
from model.checkpoint import (
    Kept,
    check_identity,
    checkpoints,
    fetch_checkpoints,
    load_latest,
    load_model,
    mirrored_steps,
    newest_state,
    run_identity,
    save_checkpoint,
    trained_options,
    upload_checkpoint,
)
from model.optim import AdamW
from tests.model.conftest import everything, idle_optimizer, make_config, with_pretrain

IDENTITY = {"objective": "electra", "options": {"seed": 7}}


def newest(number: int) -> Kept:
    return lambda steps: steps[-number:]


def trained(step: int, model: nn.Module | None = None) -> tuple[nn.Module, AdamW]:
    """A model and its optimiser after so many updates, always the same."""
    model = model or nn.Linear(5, 3)
    for parameter in model.parameters():
        nn.init.ones_(parameter)
    optimizer = idle_optimizer(model, 1e-2)
    for _ in range(step):
        for parameter in model.parameters():
            parameter.grad = parameter.detach() - 0.1
        optimizer.step()
    return model, optimizer


def save(folder: Path, url: str | None, *steps: int, keep: int = 2) -> None:
    """Checkpoints here and, with a url, there; the metrics of the last."""
    folder.mkdir(exist_ok=True)
    for step in steps:
        (folder / "metrics.jsonl").write_text(f'{{"step": {step}}}\n')
        path = save_checkpoint(folder, step, *trained(step), newest(keep), IDENTITY)
        if url is not None:
            upload_checkpoint(path, url, newest(keep))


def resumed(folder: Path, url: str | None) -> int:
    """The step that a run in `folder` goes on from, with the weights and moments of that step."""
    folder.mkdir(exist_ok=True)
    if url is not None:
        fetch_checkpoints(folder, url, IDENTITY)
    model, optimizer = trained(1)
    step = load_latest(folder, model, optimizer, IDENTITY)
    found, expected = everything(model, optimizer), everything(*trained(step or 1))
    assert found.keys() == expected.keys()
    assert [name for name in found if not torch.equal(found[name], expected[name])] == []
    return step


def _edit(folder: Path, **changes: object) -> None:
    path = folder / "state.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


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
        lambda folder: (folder / "state.json").write_text("[]"),
        partial(_edit, step=math.inf),
        partial(_edit, step="7"),
        partial(_edit, identity=[]),
        partial(_edit, identity={"options": 3}),
    ],
)
def test_a_damaged_one_falls_back_to_the_one_before(tmp_path, damage, caplog):
    save(tmp_path, None, 4, 8)
    damage(tmp_path / "checkpoint-8")
    assert newest_state(tmp_path)["step"] == 4
    with pytest.raises(ValueError, match="checkpoint-8 is damaged"):
        load_model(tmp_path / "checkpoint-8", trained(1)[0])
    assert resumed(tmp_path, None) == 4
    assert "checkpoint-8 is damaged" in caplog.text


def test_a_full_disk_ends_with_what_to_do(tmp_path, monkeypatch):
    save(tmp_path, None, 4, 8)

    def write(tensors, path):
        Path(path).write_bytes(b"half")
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(checkpoint_module, "save_file", write)
    words = r"checkpoint-12 cannot be written \(I/O error: No space left .*: make room there"
    with pytest.raises(ValueError, match=words):
        save_checkpoint(tmp_path, 12, *trained(12), newest(2), {})
    assert {p.name for p in tmp_path.glob("checkpoint-*")} == {"checkpoint-4", "checkpoint-8"}


def test_the_newest_are_kept_and_those_after_this_one_go(tmp_path):
    """Those after it were damaged: kept, they would push out the sound ones."""
    for steps, kept in (((4, 8, 9, 10, 7), [7]), ((20, 100), [20, 100])):
        save(tmp_path, None, *steps)
        assert [path.name for path in checkpoints(tmp_path)] == [f"checkpoint-{n}" for n in kept]


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (nn.Linear(5, 4), r"\(3,\) there and \(4,\) here"),
        (nn.Linear(5, 3, bias=False), "bias has .* and None here"),
    ],
    ids=str,
)
def test_a_model_of_another_form_is_refused_and_stays_as_it_is(tmp_path, other, words):
    save(tmp_path, None, 8)
    model, optimizer = trained(1, other)
    before = everything(model, optimizer)
    with pytest.raises(ValueError, match=f"checkpoint-8 does not fit.*{words}"):
        load_latest(tmp_path, model, optimizer, IDENTITY)
    with pytest.raises(ValueError, match="checkpoint-8 belongs to another run"):
        load_latest(tmp_path, model, optimizer, IDENTITY | {"objective": "mlm"})
    torch.testing.assert_close(everything(model, optimizer), before, rtol=0, atol=0)


def test_a_checkpoint_of_a_run_with_another_result_is_refused(config):
    identity = run_identity(config)

    def check(other: dict[str, Any]) -> None:
        check_identity({"step": 4, "identity": other}, identity, "checkpoint-4")

    unread = {"checkpoint_dir": "gs://b/c", "keep_checkpoints": 7, "micro_batch_size": 2}
    check(run_identity(make_config(Path(config.output_dir), **unread, device="xla")))
    phases = [{"steps_fraction": 0.5, "micro_batch_size": size} for size in (2, 1)]
    phased = [make_config(Path(config.output_dir), curriculum=[phase]) for phase in phases]
    before, now = map(run_identity, phased)
    check_identity({"step": 4, "identity": before}, now, "checkpoint-4")
    check(identity | {"options": identity["options"] | {"generator": "model"}})  # long gone
    text = {"shards_sha256": "0", "vocab_size": 61, "tokenizer_sha256": "1" * 64}
    for part, value in {"objective": "mlm", **text}.items():
        words = f"its {part} is {value!r}, this run's is {identity[part]!r}"
        with pytest.raises(ValueError, match=f"checkpoint-4 belongs to another run: {words}"):
            check(identity | {part: value})
    for option, value in {"learning_rate": 1e-3, "seed": 8}.items():
        with pytest.raises(ValueError, match=rf"its option {option} is {value!r}"):
            check(identity | {"options": identity["options"] | {option: value}})
    index = Path(config.output_dir) / "shards" / "index.json"
    index.write_text(index.read_text() + "\n")
    assert run_identity(config)["shards_sha256"] != identity["shards_sha256"]


def test_what_is_bundled_is_found_from_any_folder(config, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    start = find_bundled(SHIPPED)
    identity = run_identity(with_pretrain(config, initial_model=start))
    assert identity["options"]["initial_model"] == SHIPPED  # the same on every machine
    assert trained_options(identity, tmp_path).initial_model == start


# --- copies at an address -------------------------------------------------------------------------


@pytest.fixture
def url() -> str:
    """An address without anything in it yet."""
    return f"memory://{uuid4().hex}/run"


def whole_steps(url: str) -> list[int]:
    return [step for step, is_whole in mirrored_steps(Folder(url)).items() if is_whole]


def test_a_fresh_machine_goes_on_from_the_newest_and_has_all(tmp_path, url):
    assert resumed(tmp_path / "first", url) == 0
    save(tmp_path / "here", url, 4, 8, 12)
    assert resumed(tmp_path / "there", url) == 12
    assert whole_steps(url) == [8, 12]
    assert [p.name for p in checkpoints(tmp_path / "there")] == ["checkpoint-8", "checkpoint-12"]
    here, there = (
        {path.relative_to(tmp_path / at): path.read_bytes() for path in files}
        for at in ("here", "there")
        if (files := filter(Path.is_file, (tmp_path / at).rglob("*")))
    )
    assert there == here


def test_the_machine_that_is_ahead_keeps_its_own(tmp_path, url):
    save(tmp_path / "here", url, 4, 8)
    save_checkpoint(tmp_path / "here", 12, *trained(12), newest(2), IDENTITY)
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
    assert {p.name for p in (tmp_path / "there").iterdir()} == {"checkpoint-4", "metrics.jsonl"}


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


def test_of_a_run_that_is_prolonged_the_checkpoints_of_both_are_fetched(tmp_path, url):
    """The newest there may be of its old schedule."""
    save(tmp_path / "here", url, 4)
    other = IDENTITY | {"objective": "mlm"}
    path = save_checkpoint(tmp_path / "here", 8, *trained(8), newest(2), other)
    upload_checkpoint(path, url, newest(2))
    assert resumed(tmp_path / "there", url) == 4


@pytest.mark.parametrize(
    ("address", "words"),
    [
        # its own folder, however it is written: an upload begins by taking away what is there
        *(
            (form.format(name), "where the run keeps its checkpoints anyway")
            for name in ("pretrain", "pretrain.partial")
            for form in ("{{folder}}/{}", "{{folder}}/{}/", "file://{{folder}}/{}")
        ),
        ("gopher9://a", "'gopher9://a' cannot be opened"),
        ("{url}", "checkpoint-4 belongs to another run: its objective is 'electra', this .* 'mlm'"),
        ("{url}/closed", r"checkpoint_dir = .*PermissionError: not yours"),
    ],
)
def test_an_address_that_cannot_serve_is_refused(tmp_path, url, monkeypatch, address, words):
    save(tmp_path / "here", url, 4)
    original = MemoryFileSystem.ls

    def ls(self, path, **options):
        if path.endswith("closed"):
            raise PermissionError("not yours")
        return original(self, path, **options)

    monkeypatch.setattr(MemoryFileSystem, "ls", ls)
    folder = tmp_path / "pretrain.partial"
    folder.mkdir()
    place = address.format(folder=tmp_path, url=url)
    with pytest.raises(ValueError, match=words):
        fetch_checkpoints(folder, place, IDENTITY | {"objective": "mlm"})
    assert checkpoints(folder) == []
