"""What XLA, which is how torch reaches a TPU, does otherwise than other devices.

Operators are only noted down; `end_step` compiles what was noted, or finds that it has compiled the
same before, and starts it. What varies from step to step must therefore stand in tensors, and those
that outlive a step must lie on the device in the same way each time: `place` and `overwrite` of
`model.devices.device` see to that. One process drives all chips of a machine (SPMD): every tensor
is on all of them, but the rows of a batch, which `spread` gives out.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from electrify.config.pretrain import PretrainConfig
from electrify.system.machine import num_ranks
from electrify.system.outcome import UserError

_INSTALL = 'in an environment of its own run make tpu-env, or pip install -e ".[tpu]"'
_AXIS = "rows"  # of the mesh of XLA devices, which has no other


@dataclass(frozen=True)
class Xla:
    device: torch.device
    kind: str  # "TPU v4", or "XLA on the CPU"
    num_devices: int
    mesh: Any  # of all devices, in a row

    def mark(self, tensor: Tensor, axis: str | None) -> Tensor:
        """Give out the tensor's rows, or with None have all of it on every device."""
        import torch_xla  # `spmd.mark_sharding`, without the search for jax each time

        parts = (axis, *[None] * (tensor.dim() - 1))[: tensor.dim()]
        torch_xla._XLAC._xla_mark_sharding(tensor, self.mesh.get_op_sharding(parts))
        return tensor


@cache
def runtime() -> Xla:
    """Start torch_xla, once a process; `UserError` if there is nothing that it can run on."""
    if num_ranks() > 1:
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
    from torch_xla import runtime as chips
    from torch_xla.distributed import spmd

    chips.use_spmd()
    number = chips.global_runtime_device_count()
    mesh = spmd.Mesh(np.arange(number), (number,), (_AXIS,))
    kind = _tpu_type() if asked == "TPU" else "XLA on the CPU"
    return Xla(torch_xla.device(), kind, number, mesh)


def _tpu_type() -> str:
    """As `TPU v5litepod`; the machine's metadata server knows it."""
    from torch_xla._internal import tpu

    with suppress(Exception):  # no such server: in a container, or another host's
        return f"TPU {tpu.get_tpu_type()}"
    return "TPU"


def finds_tpu() -> bool:
    """Whether torch_xla is installed and there are chips, unless PJRT_DEVICE says otherwise."""
    if find_spec("torch_xla") is None or os.environ.get("PJRT_DEVICE", "TPU") != "TPU":
        return False
    with _torch_xla() as tpu:
        return bool(tpu.num_available_chips())


def check_options(config: PretrainConfig) -> None:
    """`UserError` for an option that was never tried on XLA."""
    for name, value, instead in (
        ("precision", "fp16", '"auto"'),
        ("optimizer", "muon", '"bias-corrected"'),
        ("compile", "on", '"auto": XLA compiles by itself'),
    ):
        if getattr(config, name) == value:
            raise UserError(
                f'pretrain.{name} = "{value}" with device = "xla": not possible; set {instead}'
            )


@contextmanager
def _torch_xla() -> Iterator[Any]:
    """Import torch_xla, for what it knows of chips before any is used."""
    if find_spec("torch_xla") is None:
        raise UserError(f'device = "xla": torch_xla is not installed; {_INSTALL}')
    own, its = version("torch"), version("torch_xla")
    if own.split(".")[:2] != its.split(".")[:2]:
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


def seed(number: int) -> None:
    """Seed XLA's own generator, where it runs."""
    if runtime.cache_info().currsize:
        import torch_xla

        torch_xla.manual_seed(number)


def spread_hidden_states(model: nn.Module) -> None:
    """Of hidden states (B, L, H) and their gradients each device has its rows of the batch.

    Otherwise the compiler has all of them on each device, which then does all the work.
    """

    def spread(module: nn.Module, inputs: object, output: object) -> None:
        if isinstance(output, Tensor) and output.dim() == 3:
            runtime().mark(output, _AXIS)
            if output.requires_grad:
                rows = partial(runtime().mark, axis=_AXIS)
                output.register_hook(rows)  # type: ignore[no-untyped-call]

    for module in model.modules():
        module.register_forward_hook(spread)


def send_rows(tensor: Tensor, device: torch.device) -> Tensor:
    """Rows of a batch, from any thread: of several devices each has its part."""
    from torch_xla.core import xla_model
    from torch_xla.distributed import spmd

    rows = spmd.ShardingSpec(runtime().mesh, (_AXIS, *[None] * (tensor.dim() - 1)))
    sent: list[Tensor] = xla_model.send_cpu_data_to_device([tensor], device, rows)
    return sent[0]


def readable(tensor: Tensor) -> Tensor:
    """A result that the host will read: whole on every XLA device, as fp32. To put together what
    lies in parts XLA would compile a program for each reading."""
    if tensor.device.type != "xla":
        return tensor
    tensor = tensor.int() if tensor.dtype == torch.int64 else tensor
    tensor = tensor.float() * 1  # another one: what uses the first needs only its part
    return runtime().mark(tensor, None)


def end_step(device: torch.device, model: nn.Module | None = None) -> None:
    """Start on what was noted since the last time; waits for nothing. Whatever tensors are there by
    then are results, so the model's gradients are dropped before. Other devices have begun already.
    """
    if device.type != "xla":
        return
    import torch_xla

    for parameter in () if model is None else model.parameters():
        parameter.grad = None
    torch_xla.sync()


def synchronize(device: torch.device) -> None:
    if device.type != "xla":
        return
    from torch_xla.core import xla_model

    end_step(device)
    xla_model.wait_device_ops()


# Running sums and maxima, and places in ordered rows. A TPU computes 64-bit numbers by pairs of
# 32-bit ones, and not in every operator: for XLA they take operators on each element by itself.


def insertion_index(ordered: Tensor, values: Tensor) -> Tensor:
    """How many of the rising `ordered` (..., K) are at most each value: (..., M) to (..., M) int64.

    `torch.searchsorted` from the right. XLA lacks it, and compares all in one pass.
    """
    if ordered.device.type == "xla":
        at_most = ordered[..., None, :] <= values[..., None]
        return at_most.sum(dim=-1, dtype=torch.int32).long()
    return torch.searchsorted(ordered, values.contiguous(), right=True)


def running_sum(numbers: Tensor, dtype: torch.dtype) -> Tensor:
    """Sums up to and with each place along the last dimension, computed in `dtype`."""
    if numbers.device.type == "xla":
        return _scan(numbers.to(dtype), torch.add)
    return numbers.cumsum(dim=-1, dtype=dtype)


def running_maximum(numbers: Tensor) -> Tensor:
    """The largest so far along the last dimension."""
    if numbers.device.type == "xla":
        return _scan(numbers, torch.maximum)
    return numbers.cummax(dim=-1).values


def _scan(numbers: Tensor, combine: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """By doubling: after k passes each place holds what the last 2^k come to."""
    shift = 1
    while shift < numbers.shape[-1]:
        later = combine(numbers[..., shift:], numbers[..., :-shift])
        numbers = torch.cat([numbers[..., :shift], later], dim=-1)
        shift *= 2
    return numbers


def put_ids(input_ids: Tensor, positions: Tensor, ids: Tensor) -> Tensor:
    """The ids (B, L) with others (B, N) at distinct positions (B, N)."""
    if input_ids.device.type == "xla":
        return input_ids.int().scatter(1, positions, ids.int()).long()
    return input_ids.scatter(1, positions, ids)


def add_rows(sums: Tensor, index: Tensor, rows: Tensor) -> None:
    """Add rows (B, K) to those of `sums` (N, K) fp64 that `index` (B,) names, in place."""
    if sums.device.type == "xla":  # fp64 is not what its chips scatter or exchange
        added = torch.zeros_like(sums, dtype=torch.float32).index_add_(0, index, rows)
        sums += added.double()
    else:
        sums.index_add_(0, index, rows.double())
