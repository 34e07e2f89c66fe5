"""Several processes: those that `torchrun` starts, on one or more machines, or the command itself
on this one, one a GPU.

Each trains on its rows of every batch, with draws of its own, and losses are sums divided by the
counts of all processes.
"""

import atexit
import gc
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch
from torch.nn.parallel import DistributedDataParallel

from electrify.config.pretrain import PretrainConfig
from electrify.system.machine import num_cores, num_ranks
from electrify.system.outcome import STOPPED, UserError, status_of
from electrify.system.progress import Stopped, setup_logging
from model.devices.device import resolve_device
from model.plan import phases_of

# the first process may copy a checkpoint to a slow address while the others wait
_TIMEOUT = timedelta(minutes=30)

# Kept until models are gone. A group ends with its thread, which may first need the GIL to drop a
# tensor: Python lets the GIL go for that, a DDP that holds the last reference does not, and both
# would wait for ever. A thread that is left when the interpreter ends aborts the process.
_groups: list[dist.ProcessGroup | None] = []


@atexit.register
def _end_groups() -> None:
    gc.collect()  # models in cycles
    _groups.clear()


def num_launched(config: PretrainConfig) -> int:
    """Processes that pretraining starts here: `num_devices`, else one for each visible GPU, as many
    as can share every batch evenly. One of `torchrun` starts none."""
    if "LOCAL_RANK" in os.environ:
        return 1
    if config.num_devices is not None:
        return config.num_devices
    if resolve_device(config.device).type != "cuda":
        return 1
    phases, numbers = phases_of(config), range(torch.cuda.device_count(), 1, -1)
    return next((n for n in numbers if all(phase.is_shared_by(n) for phase in phases)), 1)


def launch(work: Callable[..., object], num_processes: int, *arguments: Any) -> None:
    """`work(*arguments)` in so many processes at once, as `torchrun` starts them.

    A signal reaches all of them, and `Stopped` says that they saved. `UserError` where one failed;
    its own error stands in the log.
    """
    options = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=num_processes,
        run_id="electrify",
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=0,
        monitor_interval=0.5,
        shutdown_timeout=int(_TIMEOUT.total_seconds()),  # to save after a signal
    )
    try:
        elastic_launch(options, _run)(partial(work, *arguments))
    except SignalException as error:
        raise Stopped("every process saved", error.sigval) from None
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        if failure.exitcode in STOPPED:
            raise Stopped("every process saved") from None
        raise UserError(
            f"process {rank} of {num_processes} failed (status {failure.exitcode}), and the others "
            "were stopped; its error is above"
        ) from None


def _run(work: Callable[[], object]) -> None:
    """One of the processes. It has a group of its own: Ctrl-C reaches it through the parent."""
    os.setpgid(0, 0)
    torch.set_num_threads(max(1, num_cores() // int(os.environ["LOCAL_WORLD_SIZE"])))
    setup_logging()

    def verb() -> int:
        work()
        return 0

    if status := status_of(verb):
        sys.exit(status)


@dataclass(frozen=True)
class Ranks:
    """This process among those of a run; one alone by default.

    What it does with several, all of them must do, in the same order.
    """

    rank: int = 0
    num_ranks: int = 1

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def sum(self, numbers: Tensor) -> Tensor:
        """Over all processes, in place."""
        if self.num_ranks > 1:
            dist.all_reduce(numbers)
        return numbers

    def gather(self, tensor: Tensor) -> Tensor:
        """Those of all processes, one behind the other along the last dimension, on the CPU."""
        if self.num_ranks == 1:
            return tensor.cpu()
        gathered: list[Tensor] = [tensor] * self.num_ranks
        dist.all_gather_object(gathered, tensor.cpu())  # of any size
        return torch.cat(gathered, -1)

    def any_of(self, flag: bool) -> bool:
        """Whether any process says so. On the CPU: it waits for all processes, for no device."""
        if self.num_ranks == 1:
            return flag
        number = torch.tensor(int(flag))
        dist.all_reduce(number, dist.ReduceOp.MAX)
        return bool(number)

    def wait(self) -> None:
        """Until all processes have come here."""
        if self.num_ranks > 1:
            dist.all_reduce(torch.zeros(1))


ALONE = Ranks()


@contextmanager
def processes(config: PretrainConfig) -> Iterator[Ranks]:
    """Join the processes of a run that `torchrun` started; without it there is one, alone."""
    if num_ranks() == 1:
        yield ALONE
        return
    dist.init_process_group(_backend(resolve_device(config.device)), timeout=_TIMEOUT)
    _groups.append(dist.group.WORLD)
    try:
        yield Ranks(dist.get_rank(), dist.get_world_size())
    except Stopped:
        dist.destroy_process_group()
        raise
    # where one fails, the group is left as it is: to end it would wait for the others
    dist.destroy_process_group()


def _backend(device: torch.device) -> str:
    """Of tensors on the CPU, such as flags, and of those on the device."""
    if device.type == "cpu":
        return "gloo"
    if not dist.is_nccl_available():
        raise UserError(
            'several processes on CUDA need NCCL, which this torch lacks: use device = "cpu", or '
            "one process, without torchrun"
        )
    return "cpu:gloo,cuda:nccl"


def wrap(model: nn.Module, config: PretrainConfig, ranks: Ranks, device: torch.device) -> nn.Module:
    """The model for several processes: a copy in each (DDP).

    The model must be on its device, with the same weights in all processes.
    """
    if ranks.num_ranks == 1:
        return model
    return DistributedDataParallel(
        model,
        device_ids=[device] if device.type == "cuda" else None,
        gradient_as_bucket_view=True,
        # a backward pass of a stage leaves some parameters without gradients
        find_unused_parameters=config.second_stage_step > 0,
    )


def bare(model: nn.Module) -> Any:
    """The model inside DDP."""
    return model.module if isinstance(model, DistributedDataParallel) else model


def synchronised(model: nn.Module, last: bool) -> AbstractContextManager[object]:
    """Around a backward pass: gradients are exchanged in the last one of a step alone."""
    if isinstance(model, DistributedDataParallel) and not last:
        return model.no_sync()
    return nullcontext()
