"""Checkpoints: whole or not there, checksummed, the last k kept, a damaged one passed over.

`checkpoint-<step>/` holds `model.safetensors`, `optimizer.safetensors` and `state.json`. There is
no generator state and no loader position to store: both follow from (seed, step).
"""

import json
import shutil
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from electrify.artifacts import fingerprint, write_json
from electrify.progress import warn
from model.optim import AdamW

_MODEL, _OPTIMIZER, _STATE = "model.safetensors", "optimizer.safetensors", "state.json"


def save_checkpoint(folder: Path, step: int, model: nn.Module, optimizer: AdamW, keep: int) -> Path:
    """Write `folder/checkpoint-<step>` and drop all but the newest `keep`."""
    target = folder / f"checkpoint-{step}"
    temporary = folder / f"checkpoint-{step}.tmp"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    save_file(_contiguous(model.state_dict()), temporary / _MODEL)
    save_file(_optimizer_tensors(model, optimizer), temporary / _OPTIMIZER)
    hashes = {name: fingerprint(str(temporary / name)) for name in (_MODEL, _OPTIMIZER)}
    write_json(temporary / _STATE, {"step": step, "sha256": hashes})
    shutil.rmtree(target, ignore_errors=True)
    temporary.replace(target)
    for old in checkpoints(folder)[:-keep]:
        shutil.rmtree(old)
    return target


def checkpoints(folder: Path) -> list[Path]:
    """Checkpoint folders, oldest first."""
    found = [p for p in folder.glob("checkpoint-*") if p.name.split("-")[-1].isdigit()]
    return sorted(found, key=lambda p: int(p.name.split("-")[-1]))


def load_latest(folder: Path, model: nn.Module, optimizer: AdamW) -> int:
    """Restore the newest sound checkpoint; the number of finished steps, 0 if there is none."""
    for path in reversed(checkpoints(folder)):
        try:
            state = _read_state(path)
            moments = load_file(path / _OPTIMIZER)
            load_model(path, model)
        except (OSError, ValueError, KeyError, SafetensorError) as error:
            warn(f"{path} is damaged ({error}); trying the one before")
            continue
        _restore_optimizer(model, optimizer, moments)
        return int(state["step"])
    return 0


def load_model(path: Path, model: nn.Module) -> None:
    """Load the weights of one checkpoint folder into a model of the same shape."""
    model.load_state_dict(load_file(path / _MODEL))


def _read_state(path: Path) -> dict[str, int]:
    state = json.loads((path / _STATE).read_text(encoding="utf-8"))
    for name, expected in state["sha256"].items():
        if fingerprint(str(path / name)) != expected:
            raise ValueError(f"checksum of {name} differs")
    return {"step": state["step"]}


def _optimizer_tensors(model: nn.Module, optimizer: AdamW) -> dict[str, Tensor]:
    """Moments by parameter name, so that they survive a change in parameter order."""
    tensors = {}
    for name, parameter in model.named_parameters():
        for key, value in optimizer.state.get(parameter, {}).items():
            tensors[f"{key}/{name}"] = value
    return _contiguous(tensors)


def _restore_optimizer(model: nn.Module, optimizer: AdamW, moments: dict[str, Tensor]) -> None:
    parameters = dict(model.named_parameters())
    optimizer.state.clear()
    for full_name, value in moments.items():
        key, name = full_name.split("/", 1)
        target = parameters[name]
        # a copy: what safetensors returns may be the file itself, mapped
        device = value.device if key == "num_steps" else target.device
        optimizer.state[target][key] = value.clone().to(device)


def _contiguous(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def newest(folder: Path) -> Path:
    """The newest checkpoint folder; `ValueError` if there is none."""
    found = checkpoints(folder)
    if not found:
        raise ValueError(f"no checkpoint in {folder}; run first: electrify pretrain CONFIG")
    return found[-1]
