"""Where a model runs: device, precision, seeds, and how tensors get there."""

import math
import os
import re
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor, nn

from electrify.config.pretrain import PretrainConfig
from electrify.storage.files import read_toml
from electrify.system.machine import (
    Precision,
    cpu_name,
    cpu_precision,
    gpu_precision,
    num_ranks,
    unusable_gpu,
)
from electrify.system.outcome import UserError
from model.devices import xla

Module = TypeVar("Module", bound=nn.Module)
# of matrix products
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def resolve_device(name: str) -> torch.device:
    """`auto` is CUDA where there is one, else a TPU, else the CPU.

    Each process of `torchrun` has its GPU; all chips of a TPU are one device, of one process.
    `UserError` where a GPU is asked for, or is there, that torch cannot use.
    """
    if name in ("auto", "cuda") and not torch.cuda.is_available():
        if problem := unusable_gpu(torch.__version__, torch.version.cuda):
            raise UserError(
                f"{problem}. Update the driver, install the torch of your driver "
                '(https://pytorch.org), or set device = "cpu"'
            )
        if name == "cuda":
            raise UserError('device = "cuda": torch sees no CUDA device; use "auto" or "cpu"')
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "xla" if xla.finds_tpu() else "cpu"
    if name == "cuda":
        torch.set_float32_matmul_precision("high")
        # torch's first choice on H100 and B200 without dropout, with open reports of NaN gradients
        # under masks, and a plan for each shape
        torch.backends.cuda.enable_cudnn_sdp(False)
        return _own_gpu()
    return xla.runtime().device if name == "xla" else torch.device(name)


def _own_gpu() -> torch.device:
    """The GPU of this process: of several on one machine, the one with its number."""
    if num_ranks() == 1:
        return torch.device("cuda")
    number, num_gpus = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
    if number >= num_gpus:
        raise UserError(
            f"process {number + 1} of this machine has no GPU, torch sees {num_gpus}: start at "
            f"most that many (`pretrain.num_devices`, torchrun --nproc-per-node {num_gpus})"
        )
    torch.cuda.set_device(number)
    return torch.device("cuda", number)


def num_devices(device: torch.device) -> int:
    """Accelerators that this process drives: all of XLA, else one."""
    return xla.runtime().num_devices if device.type == "xla" else 1


def describe(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    if device.type == "xla":
        number = num_devices(device)
        return f"{xla.runtime().kind}, {number} device{'s' * (number > 1)}"
    return f"CPU ({cpu_name()}), {torch.get_num_threads()} threads"


_PEAKS: dict[str, list[float]] = read_toml(Path(__file__).with_name("peaks.toml"))


def peak_flops(device: str, precision: Precision) -> float:
    """FLOP/s of one device by its name, such as "NVIDIA H100 80GB HBM3"; nan where not known.

    Not known are the CPU, a part of a device (MIG), and a precision it has no units for.
    """
    for pattern, peaks in _PEAKS.items():
        if re.search(rf"(?<!\w)(?:{pattern})(?!\w)", device) and "MIG" not in device.split():
            return 1e12 * peaks[("bf16", "fp16", "fp32").index(precision)]
    return math.nan


def precision_of(config: PretrainConfig, device: torch.device) -> Precision:
    """That of matrix products: `auto` is bf16 where the device has units for it."""
    if config.precision != "auto":
        return config.precision
    if device.type == "cpu":
        return cpu_precision()
    if device.type == "cuda":
        return gpu_precision(torch.cuda.get_device_capability(device))
    return "bf16" if xla.runtime().kind.startswith("TPU") else "fp32"


def autocast(config: PretrainConfig, device: torch.device) -> AbstractContextManager[object]:
    """bf16 or fp16 matrix products over fp32 weights where the config says so; losses stay fp32."""
    dtype = DTYPES[precision_of(config, device)]
    return nullcontext() if dtype == torch.float32 else torch.autocast(device.type, dtype)


def seed_of(seed: int, step: int, rank: int = 0) -> int:
    """Of a step's place in the run alone, so that a resumed run replays the same draws without any
    stored state. On the CPU torch uses the lowest 32 bits: all that it is made of must reach them.
    """
    mixed = seed * 0x9E3779B97F4A7C15 + step * 0xBF58476D1CE4E5B9 + rank * 0x94D049BB133111EB
    return mixed % 2**63


def seed_dropout(seed: int, step: int, rank: int = 0) -> None:
    """Seed torch's default generators, of which dropout draws."""
    torch.manual_seed(seed_of(seed, step, rank))
    xla.seed(seed_of(seed, step, rank))


def place_model(model: Module, device: torch.device) -> Module:
    """Move a model; on all XLA devices, each for its rows of a batch."""
    model.to(device)
    for tensor in (*model.parameters(), *model.buffers()):
        place(tensor, device)
    if device.type == "xla":
        xla.spread_hidden_states(model)
    return model


def place(tensor: Tensor, device: torch.device) -> Tensor:
    """The tensor on the device; the same one on all XLA devices."""
    placed = tensor.to(device)
    return xla.runtime().mark(placed, None) if device.type == "xla" else placed


def spread(tensor: Tensor, device: torch.device) -> Tensor:
    """Rows of a batch on the device; waits for nothing. Of several XLA devices each has its part.

    A GPU reads pinned memory while the host goes on. That memory is torch's own, which it gives out
    again only after the copy.
    """
    if device.type == "xla" and tensor.device.type == "cpu":
        return xla.send_rows(tensor, device)
    if device.type == "cuda" and tensor.device.type == "cpu":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


@torch.no_grad()
def overwrite(tensor: Tensor, value: Tensor | float) -> None:
    """Put a value in place of what a tensor holds between two steps.

    Its memory stays where it is, but on XLA: there a copy would be noted down for the next step,
    which would be compiled again.
    """
    if tensor.device.type == "xla":
        if not isinstance(value, Tensor):
            value = torch.full(tensor.shape, value)
        tensor.data = place(value.to(tensor.dtype), tensor.device)
    elif isinstance(value, Tensor):
        tensor.copy_(value)
    else:
        tensor.fill_(value)


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    xla.synchronize(device)
