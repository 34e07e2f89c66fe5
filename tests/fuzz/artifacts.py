"""What stages leave for each other: manifests, plans, locks, checkpoints."""

import contextlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.fuzz.reader import Form, Make, Reader, of_file

_DIGEST = "0" * 64


def _manifest(folder: Path) -> Reader:
    from electrify.stage.folder import Stage, check_files, input_digest, status
    from electrify.stage.run import run_stage

    def work(partial: Path) -> Mapping[str, Any]:
        (partial / "a.txt").write_text("a", encoding="utf-8")
        return {"documents": 1}

    stage = Stage("clean", folder / "clean", {"a": 1, "b": [1]}, {"x": _DIGEST})
    run_stage(stage, work)
    path = stage.folder / "manifest.json"

    def read(path: Path) -> object:
        input_digest(path.parent, "clean")
        check_files(path.parent, "clean")
        return status(stage).state

    sound = json.loads(path.read_bytes())
    sound.pop("manifest_sha256")  # as those of before had none: else all is refused for it
    seeds = (path.read_bytes(), json.dumps(sound).encode())
    return of_file(path, read, seeds, form="json", named="clean")


def _plan(folder: Path) -> Reader:
    """What an unfinished stage is a part of."""
    from electrify.stage.folder import Stage
    from electrify.stage.run import run_stage

    stage = Stage("clean", folder / "clean", {"a": 1}, {}, resumable=True)

    def work(partial: Path) -> Mapping[str, Any]:
        return {}

    def read(path: Path) -> object:
        shutil.rmtree(stage.folder, ignore_errors=True)
        return run_stage(stage, work)

    def pack(data: bytes) -> bytes:
        stage.partial.mkdir(exist_ok=True)
        return data

    path = stage.partial / "plan.json"
    seeds = (json.dumps(stage.plan).encode(), b'{"stage": "clean"}')
    return of_file(path, read, seeds, form="json", named="clean.partial", pack=pack)


def _lock(folder: Path) -> Reader:
    """A lock that another process holds: who, is what its file says."""
    import fcntl

    from electrify.stage.lock import lock_path, stage_lock

    stage = folder / "clean"
    path = lock_path(stage)
    file = path.open("a+b")
    fcntl.flock(file, fcntl.LOCK_EX)

    def read(data: bytes) -> object:
        file.truncate(0)
        file.write(data)
        file.flush()
        with stage_lock(stage):
            raise AssertionError("two hold the lock")

    owner = {"pid": 1, "host": "a", "command": "electrify run", "since": 1.7e9}
    return Reader((json.dumps(owner).encode(), b""), read, form="json", named="clean")


def _checkpoint(name: str) -> Make:
    """A checkpoint with one file of it changed; its checksum is made to fit, so that what reads it
    is reached."""

    def make(folder: Path) -> Reader:
        import torch
        from torch import nn

        from electrify.stage.folder import fingerprint
        from model.train.checkpoint import (
            DAMAGES,
            Checkpoint,
            load_latest,
            load_model,
            model_tensors,
            newest_sound,
            read_checkpoint,
            write_checkpoint,
        )
        from model.train.optim import AdamW

        model = nn.Linear(3, 2)
        groups: Any = [{"params": list(model.parameters())}]
        optimizer = AdamW(groups, (0.9, 0.999), 1e-6, bias_correction=True)
        moments = {
            "0/first_moment/weight": torch.ones(2, 3),
            "0/num_steps/weight": torch.tensor(1.0),
        }
        found = Checkpoint(7, {"objective": "rtd"}, model_tensors(model), moments)
        write_checkpoint(folder, found, keep=1)
        path = folder / "checkpoint-7"
        sound, state = (path / name).read_bytes(), json.loads((path / "state.json").read_bytes())

        def read(data: bytes) -> object:
            (path / name).write_bytes(data)
            if name != "state.json":
                state["sha256"][name] = fingerprint(str(path / name))
                (path / "state.json").write_text(json.dumps(state), encoding="utf-8")
            newest_sound(folder)
            with contextlib.suppress(*DAMAGES):  # then the one before is taken
                read_checkpoint(path)
            load_latest(folder, model, [optimizer], identity={"objective": "rtd"})
            load_model(path, model)
            return "loaded"

        words = (
            b"0/first_moment/",
            b"1/",
            b'"F32"',
            b'"I64"',
            b'"BOOL"',
            b'"shape"',
            b'"data_offsets"',
            b"__metadata__",
        )
        form: Form = "json" if name == "state.json" else "bytes"
        # optimizer.safetensors: it is not the folder that is named but the file
        named = "optimizer" if name.startswith("opt") else "checkpoint-7"
        return Reader((sound,), read, words, form, named=named)

    return make


def _electra_config(folder: Path) -> Reader:
    """config.json of somebody else's model."""
    from transformers import ElectraConfig

    from model.weights.initial import read_electra_config

    ElectraConfig(vocab_size=28, num_hidden_layers=1).save_pretrained(folder)
    path = folder / "config.json"

    def read(path: Path) -> object:
        return read_electra_config(path.parent).num_hidden_layers

    return of_file(path, read, (path.read_bytes(),), form="json", named=folder.name)


READERS: dict[str, Make] = {
    "manifest": _manifest,
    "plan": _plan,
    "lock": _lock,
    "checkpoint-state": _checkpoint("state.json"),
    "checkpoint-model": _checkpoint("model.safetensors"),
    "checkpoint-optimizer": _checkpoint("optimizer.safetensors"),
    "electra-config": _electra_config,
}
