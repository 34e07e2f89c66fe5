"""Several processes on this machine, one a GPU, started and watched by the command itself.

Across machines `torchrun` starts them.
"""

import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.distributed import TCPStore  # type: ignore[attr-defined]
from torch.multiprocessing.spawn import ProcessExitedException, start_processes

from electrify.config.pretrain import PretrainConfig
from electrify.system.machine import num_cores
from electrify.system.outcome import STOPPED, UserError, status_of
from electrify.system.progress import Stopped, setup_logging, stop_on_signal
from model.devices.device import resolve_device
from model.plan import phases_of

_POLL_SECONDS = 0.5
_GRACE_SECONDS = 30.0  # that processes have to leave once one of them failed


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
    """`work(*arguments)` in so many processes at once, as `torchrun` would start them.

    A signal reaches all of them, and `Stopped` says that they saved. `UserError` where one failed;
    its own error stands in the log.
    """
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    place = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(store.port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",  # the store is here, in no process of theirs
        "WORLD_SIZE": str(num_processes),
        "LOCAL_WORLD_SIZE": str(num_processes),
    }
    told = False
    with stop_on_signal("the processes save first") as stop:
        given = place, partial(work, *arguments)
        running = start_processes(_run, given, num_processes, join=False)  # type: ignore[no-untyped-call]
        try:
            while not running.join(_POLL_SECONDS, None if told else _GRACE_SECONDS):
                if stop and not told:
                    told = True
                    for number in running.pids():
                        os.kill(number, stop.signal)
        except ProcessExitedException as error:
            if error.exit_code in STOPPED:
                raise Stopped("every process saved", stop.signal) from None
            raise UserError(
                f"process {error.error_index} of {num_processes} failed (status "
                f"{error.exit_code}), and the others were stopped; its error stands above"
            ) from None
        finally:
            for process in running.processes:  # where a second Ctrl-C leaves at once
                process.kill()


def _run(rank: int, place: dict[str, str], work: Callable[[], object]) -> None:
    """One of the processes. It has a group of its own: Ctrl-C reaches it through the parent."""
    os.setpgid(0, 0)
    os.environ |= place | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    torch.set_num_threads(max(1, num_cores() // int(place["LOCAL_WORLD_SIZE"])))
    setup_logging()

    def verb() -> int:
        work()
        return 0

    sys.exit(status_of(verb))
