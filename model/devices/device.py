"""Where a model runs: device, precision, seeds. The only file that may know about accelerators.

XLA, which is how torch reaches a TPU, works otherwise than a GPU. Operators are only noted down;
`end_step` compiles what was noted, or finds that it has compiled the same before, and starts it.
What varies from step to step must therefore stand in tensors, and those that outlive a step must
lie on the device in the same way each time: `place` and `overwrite` see to that. One process drives
all chips of a machine (SPMD): every tensor is on all of them, but the rows of a batch, which
`spread` gives out, and the compiler adds what the chips must exchange.
"""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from electrify.config.pretrain import PretrainConfig
from electrify.system.machine import CpuBf16, Precision, cpu_name
from electrify.system.outcome import UserError

_INSTALL = 'in an environment of its own run make tpu-env, or pip install -e ".[tpu]"'
_AXIS = "rows"  # of the mesh of XLA devices, which has no other
Module = TypeVar("Module", bound=nn.Module)


def resolve_device(name: str) -> torch.device:
    """`auto` is CUDA where there is one, else a TPU, else the CPU.

    Each process of `torchrun` has its GPU; all chips of a TPU are one device, of one process.
    """
    if name == "cuda" and not torch.cuda.is_available():
        raise UserError('device = "cuda": torch sees no CUDA device; use "auto" or "cpu"')
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "xla" if _finds_tpu() else "cpu"
    if name == "cuda":
        torch.set_float32_matmul_precision("high")
        return _own_gpu()
    return _xla().device if name == "xla" else torch.device(name)


def _own_gpu() -> torch.device:
    """The GPU of this process: of several on one machine, the one with its number."""
    if os.environ.get("WORLD_SIZE", "1") == "1":
        return torch.device("cuda")
    number, num_gpus = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
    if number >= num_gpus:
        raise UserError(
            f"process {number + 1} of this machine has no GPU, torch sees {num_gpus}: start at "
            f"most that many (torchrun --nproc-per-node {num_gpus})"
        )
    torch.cuda.set_device(number)
    return torch.device("cuda", number)


@dataclass(frozen=True)
class _Xla:
    device: torch.device
    kind: str  # "TPU v4", or "XLA on the CPU"
    num_devices: int
    mesh: Any  # of all devices, in a row
    spmd: Any  # the module

    def mark(self, tensor: Tensor, axis: str | None) -> Tensor:
        """Give out the tensor's rows, or with None have all of it on every device."""
        import torch_xla  # `spmd.mark_sharding`, without the search for jax each time

        parts = (axis, *[None] * (tensor.dim() - 1))[: tensor.dim()]
        torch_xla._XLAC._xla_mark_sharding(tensor, self.mesh.get_op_sharding(parts))
        return tensor


@cache
def _xla() -> _Xla:
    """Start torch_xla, once a process; `ValueError` if there is nothing that it can run on."""
    if os.environ.get("WORLD_SIZE", "1") != "1":
        raise UserError(
            'device = "xla" drives all chips from one process: start electrify without torchrun'
        )
    asked = os.environ.get("PJRT_DEVICE", "TPU")
    if asked not in ("TPU", "CPU"):
        raise UserError(f"PJRT_DEVICE = {asked!r}: XLA is used on TPU and, to try it out, on CPU")
    with _torch_xla() as tpu:
        if asked == "TPU" and tpu.num_available_chips() == 0:
            raise UserError(
                'device = "xla": no TPU found on this machine. On a TPU VM see that /sys/bus/pci '
                'is visible (docs/tpu.md); elsewhere set device = "auto", or PJRT_DEVICE=CPU in '
                "the environment, which runs XLA on the CPU, slowly, to try it out"
            )
        # asked before the runtime starts, which would wait for the other machines
        machines = 1 if asked == "CPU" else tpu.process_bounds_size() or tpu.num_tpu_workers()
    if machines > 1:
        raise UserError(
            f"this TPU has {machines} machines, a run uses one: take a v4-8, v5litepod-8 or v6e-8"
        )
    os.environ["PJRT_DEVICE"] = asked
    import torch_xla
    from torch_xla import runtime
    from torch_xla.distributed import spmd

    runtime.use_spmd()
    number = runtime.global_runtime_device_count()
    mesh = spmd.Mesh(np.arange(number), (number,), (_AXIS,))
    kind = _tpu_type() if asked == "TPU" else "XLA on the CPU"
    return _Xla(torch_xla.device(), kind, number, mesh, spmd)


def _tpu_type() -> str:
    """As `TPU v5litepod`; the machine's metadata server knows it."""
    from torch_xla._internal import tpu

    with suppress(Exception):  # no such server: in a container, or another host's
        return f"TPU {tpu.get_tpu_type()}"
    return "TPU"


def _finds_tpu() -> bool:
    """Whether torch_xla is installed and there are chips, unless PJRT_DEVICE says otherwise."""
    if _version("torch_xla") is None or os.environ.get("PJRT_DEVICE", "TPU") != "TPU":
        return False
    with _torch_xla() as tpu:
        return bool(tpu.num_available_chips())


@contextmanager
def _torch_xla() -> Iterator[Any]:
    """Import torch_xla, for what it knows of chips before any is used."""
    own, its = _version("torch"), _version("torch_xla")
    if its is None:
        raise UserError(f'device = "xla": torch_xla is not installed; {_INSTALL}')
    if own is None or own.split(".")[:2] != its.split(".")[:2]:
        raise UserError(
            f"torch {own} and torch_xla {its} do not fit: torch_xla needs the torch with the "
            f'same version number; {_INSTALL}, or set device = "cpu"'
        )
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # a line of GSPMD's future a compilation
    asked = os.environ.get("PJRT_DEVICE")
    os.environ.setdefault("PJRT_DEVICE", "TPU")  # else it says on the root logger what it takes
    try:
        from torch_xla._internal import tpu

        yield tpu
    except OSError as error:
        raise UserError(
            f"torch_xla cannot learn what TPU this is ({error}): it asks the machine's metadata "
            "server. In a container share the host's network (docker run --privileged --net=host)"
        ) from None
    finally:
        if asked is None:
            del os.environ["PJRT_DEVICE"]


def _version(name: str) -> str | None:
    with suppress(PackageNotFoundError):
        return version(name)
    return None


def num_devices(device: torch.device) -> int:
    """Accelerators that this process drives: all of XLA, else one."""
    return _xla().num_devices if device.type == "xla" else 1


def precision_of(config: PretrainConfig, device: torch.device) -> Precision:
    """That of matrix products: `auto` is bf16 on CUDA, on TPU, and on a CPU that is faster so."""
    if config.precision != "auto":
        return config.precision
    if device.type == "cpu":
        return cpu_bf16().auto
    on_tpu = device.type == "xla" and _xla().kind.startswith("TPU")
    return "bf16" if on_tpu or device.type == "cuda" else "fp32"


@cache
def cpu_bf16() -> CpuBf16:
    """What bf16 is worth on this CPU, measured once a process."""
    ones = torch.ones(256, 256)
    return CpuBf16.measured(ones, ones.bfloat16())


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
    mixed = (mixed + micro_step) % 2**63
    torch.manual_seed(mixed)
    if _xla.cache_info().currsize:  # it runs, and has a generator of its own
        import torch_xla

        torch_xla.manual_seed(mixed)


def place_model(model: Module, device: torch.device) -> Module:
    """Move a model; on all XLA devices, each for its rows of a batch."""
    model.to(device)
    for tensor in (*model.parameters(), *model.buffers()):
        place(tensor, device)
    for module in model.modules() if device.type == "xla" else ():
        module.register_forward_hook(_keep_spread)
    return model


def _keep_spread(module: nn.Module, inputs: object, output: object) -> None:
    """Of states (B, L, H) and their gradients each XLA device has its rows of the batch. Untold,
    the compiler has all of them on each, which then does all the work."""
    if isinstance(output, Tensor) and output.dim() == 3:
        _xla().mark(output, _AXIS)
        if output.requires_grad:
            share = partial(_xla().mark, axis=_AXIS)
            output.register_hook(share)  # type: ignore[no-untyped-call]


def place(tensor: Tensor, device: torch.device) -> Tensor:
    """The tensor on the device; the same one on all XLA devices."""
    placed = tensor.to(device)
    if device.type == "xla":
        _xla().mark(placed, None)
    return placed


def readable(tensor: Tensor) -> Tensor:
    """A result that the host will read: whole on every XLA device, as fp32.

    To put together what lies in parts XLA would compile a program for each reading.
    """
    if tensor.device.type == "xla":
        tensor = tensor.int() if tensor.dtype == torch.int64 else tensor
        tensor = tensor.float() * 1  # another one: what uses the first needs only its part
        _xla().mark(tensor, None)
    return tensor


def spread(tensor: Tensor, device: torch.device) -> Tensor:
    """Rows of a batch on the device; of several XLA devices each has its share, from any thread."""
    if device.type != "xla" or tensor.device.type != "cpu":
        return tensor.to(device, non_blocking=True)
    from torch_xla.core import xla_model

    rows = _xla().spmd.ShardingSpec(_xla().mesh, (_AXIS, *[None] * (tensor.dim() - 1)))
    sent: list[Tensor] = xla_model.send_cpu_data_to_device([tensor], device, rows)
    return sent[0]


@torch.no_grad()
def overwrite(tensor: Tensor, value: Tensor | float) -> None:
    """Put a value in place of what a tensor holds between two steps.

    Its memory stays where it is, but on XLA: there a copy would be noted down for the next step,
    which would be compiled anew.
    """
    if tensor.device.type == "xla":
        if not isinstance(value, Tensor):
            value = torch.full(tensor.shape, value)
        tensor.data = place(value.to(tensor.dtype), tensor.device)
    elif isinstance(value, Tensor):
        tensor.copy_(value)
    else:
        tensor.fill_(value)


def end_step(device: torch.device, model: nn.Module | None = None) -> None:
    """Start on what was asked of XLA since the last time; waits for nothing.

    Whatever tensors are there by then are results, so the model's gradients are dropped before.
    Other devices have begun already.
    """
    if device.type == "xla":
        import torch_xla

        for parameter in () if model is None else model.parameters():
            parameter.grad = None
        torch_xla.sync()


def describe(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    if device.type == "xla":
        number = _xla().num_devices
        return f"{_xla().kind}, {number} device{'s' * (number > 1)}"
    return f"CPU ({cpu_name()}), {torch.get_num_threads()} threads"


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    if device.type == "xla":
        from torch_xla.core import xla_model

        end_step(device)
        xla_model.wait_device_ops()
