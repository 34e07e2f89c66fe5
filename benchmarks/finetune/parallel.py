"""Fine-tunings side by side, a process each.

A small model cannot feed many cores: two jobs of one thread each finish well before two jobs in a
row that have two threads each.
"""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import Any

import torch

from electrify.system.machine import num_cores, return_freed_memory
from electrify.system.outcome import UserError
from electrify.system.progress import Stopped

_POLL_SECONDS = 0.2
# of a worker process, set as it starts
_steps: Any = None  # queue of (index of a call, its rows that are finished)
_stop: Any = None  # event: leave at the next step
_at_work = threading.Lock()  # held during a call


def in_processes(
    function: Callable[..., Any],
    calls: list[tuple[Any, ...]],
    num_processes: int,
    on_step: Callable[[int, int], None],
) -> Iterator[tuple[int, Any]]:
    """(index, `function(*calls[index], report)`) as they finish, `num_processes` at a time.

    `function` calls `report(num_rows)` after every step; it reaches `on_step(index, num_rows)` in
    this process, and an exception of `on_step` ends all jobs. Processes share the cores that this
    one may use, and each sees one GPU. With one process they run right here, in order. Of `calls`
    each is dropped once it is done, with what it alone refers to.
    """
    if num_processes == 1 or len(calls) == 1:
        for index in range(len(calls)):  # `enumerate` would keep the call until the next one
            result = function(*calls[index], partial(on_step, index))
            calls[index] = ()
            return_freed_memory()
            yield index, result
        return
    context = multiprocessing.get_context("spawn")  # forked threads of torch would hang
    steps, stop, gpus = context.Queue(), context.Event(), context.Queue()
    for slot in range(num_processes):
        gpus.put(gpu_of(slot))
    num_threads = max(1, num_cores() // num_processes)
    given = (steps, stop, gpus, num_threads)
    with ProcessPoolExecutor(num_processes, context, _start, given) as pool:
        running: dict[Future[Any], int] = {
            pool.submit(_work, function, index, call): index for index, call in enumerate(calls)
        }
        done = [0] * len(calls)  # rows that `on_step` has

        def advance(index: int, num_rows: int) -> None:
            if (new := num_rows - done[index]) > 0:
                done[index] = num_rows
                on_step(index, new)

        try:
            while running:
                finished, _ = wait(running, _POLL_SECONDS, FIRST_COMPLETED)
                while not steps.empty():
                    advance(*steps.get())
                for future in finished:
                    index = running.pop(future)
                    result, num_rows = future.result()
                    advance(index, num_rows)
                    calls[index] = ()
                    yield index, result
        except BrokenProcessPool as error:
            raise UserError(
                "a fine-tuning process was killed, probably because memory ran out: lower "
                f"evaluate.num_processes (now {num_processes}); finished jobs are kept"
            ) from error
        finally:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)


def num_workers(asked: int, device: torch.device) -> int:
    """How many jobs run at once: as many as asked for, and one a GPU where these are used."""
    return max(asked, torch.cuda.device_count()) if device.type == "cuda" else asked


def gpu_of(slot: int) -> str | None:
    """The one GPU that a process shall see, as `CUDA_VISIBLE_DEVICES` names it: processes take the
    visible ones in turn. None where there is no GPU."""
    num_gpus = torch.cuda.device_count()
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = given.split(",") if given else list(map(str, range(num_gpus)))
    return names[slot % num_gpus] if num_gpus else None


def _start(steps: Any, stop: Any, gpus: Any, num_threads: int) -> None:
    """Prepare a worker: it sees one GPU; the parent answers signals, and tells it to stop."""
    global _steps, _stop
    _steps, _stop = steps, stop
    if (gpu := gpus.get()) is not None:  # torch reads it at its first use of CUDA
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    torch.set_num_threads(num_threads)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process once its parent is gone, killed perhaps, and a call that runs has saved:
    nothing else would end it, as its pool holds the pipe that it waits at."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
    with _at_work:
        os._exit(1)


def _work(function: Callable[..., Any], index: int, call: tuple[Any, ...]) -> tuple[Any, int]:
    """The result, and how many rows were reported."""
    parent = multiprocessing.parent_process()
    done = 0

    def leave_if_asked() -> None:
        if _stop.is_set() or parent is None or not parent.is_alive():
            raise Stopped("asked to by the parent process")

    def report(num_rows: int) -> None:
        nonlocal done
        done += num_rows
        _steps.put((index, done))
        leave_if_asked()

    with _at_work:
        leave_if_asked()  # a few calls wait in a queue that nothing cancels
        result = function(*call, report)
        return_freed_memory()
        return result, done
