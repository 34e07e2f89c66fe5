"""Where a model runs: device, precision, seeds. The only file that may know about accelerators."""

import os
from contextlib import AbstractContextManager, nullcontext
from typing import Literal

import torch

from electrify.config_pretrain import PretrainConfig


def resolve_device(name: str) -> torch.device:
    """`auto` is CUDA where there is one, else the CPU; each process of `torchrun` has its GPU."""
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError('device = "cuda": torch sees no CUDA device; use "auto" or "cpu"')
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda":
        torch.set_float32_matmul_precision("high")
        return _own_gpu()
    return torch.device(name)


def _own_gpu() -> torch.device:
    """The GPU of this process: of several on one machine, the one with its number."""
    if os.environ.get("WORLD_SIZE", "1") == "1":
        return torch.device("cuda")
    number, num_gpus = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
    if number >= num_gpus:
        raise ValueError(
            f"process {number + 1} of this machine has no GPU, torch sees {num_gpus}: start at "
            f"most that many (torchrun --nproc-per-node {num_gpus})"
        )
    torch.cuda.set_device(number)
    return torch.device("cuda", number)


def precision_of(config: PretrainConfig, device: torch.device) -> Literal["fp32", "bf16"]:
    """That of matrix products: `auto` is bf16 on CUDA, fp32 on the CPU."""
    if config.precision == "auto":
        return "bf16" if device.type == "cuda" else "fp32"
    return config.precision


def autocast(config: PretrainConfig, device: torch.device) -> AbstractContextManager[object]:
    """bf16 matrix products over fp32 weights where the config says so; losses stay fp32."""
    if precision_of(config, device) == "bf16":
        return torch.autocast(device.type, torch.bfloat16)
    return nullcontext()


def seed_dropout(seed: int, step: int, micro_step: int, rank: int = 0) -> None:
    """Seed torch's default generators, of which dropout draws, from a forward pass's place in the
    run alone, so that a resumed run replays the same draws without any stored state.

    On the CPU torch uses the lowest 32 bits of a seed: all that it is made of must reach them.
    """
    mixed = seed * 0x9E3779B97F4A7C15 + step * 0xBF58476D1CE4E5B9 + rank * 0x94D049BB133111EB
    torch.manual_seed((mixed + micro_step) % 2**63)


def describe(device: torch.device) -> str:
    """The device in words, for reports."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"CPU, {torch.get_num_threads()} threads"


def synchronize(device: torch.device) -> None:
    """Wait for queued work, so that a clock measures it."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
