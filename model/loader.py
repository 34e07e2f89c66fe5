"""The batches of a run's steps, read by a thread before the loop asks for them."""

import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Protocol, Self

import torch

from model.batch import Batch
from model.host_batch import HostBatch
from model.metrics import fingerprint

_AHEAD = 2  # steps: one to take, one that is read meanwhile; more only holds more memory


class StepSource(Protocol):
    """What has a batch for every step, from its number alone."""

    def host_batch(self, step: int) -> HostBatch:
        """This process's share of the batch that follows `step` finished steps."""
        ...


class Loader:
    """Steps `first` ... `end` - 1 of a source in turn, as micro-batches on a device.

    A batch follows from its step, so nothing here is saved and a stopped run loses only what was
    read ahead. The thread reads and draws, and sends to XLA's devices. It never touches a GPU: CUDA
    breaks off the capture of a graph when another thread allocates. There `take` starts the copy,
    on the current stream.
    """

    def __init__(self, source: StepSource, device: torch.device, first: int, end: int) -> None:
        self._source, self._device, self._end = source, device, end
        self._next = self._asked = first
        self._read: deque[Future[tuple[HostBatch, list[Batch]]]] = deque()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="loader")
        self._waited = 0.0
        self._taken: HostBatch | None = None  # last

    def __enter__(self) -> Self:
        self._ask()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._thread.shutdown(cancel_futures=True)  # ends with the batch that is being read

    def take(self, step: int) -> list[Batch]:
        """The micro-batches of a step, each step once and in turn.

        What went wrong in the thread is raised here.
        """
        assert step == self._next < self._end, (step, self._next, self._end)
        start = time.perf_counter()
        batch, sent = self._read.popleft().result()
        self._waited += time.perf_counter() - start
        self._next += 1
        self._ask()
        self._taken = batch
        return sent or batch.micro_batches(self._device)

    def waited_seconds(self) -> float:
        """Seconds that `take` waited for the thread since this was last asked."""
        seconds, self._waited = self._waited, 0.0
        return seconds

    def fingerprint(self) -> int:
        """Of the first micro-batch of the step that was taken last."""
        assert self._taken is not None
        return fingerprint(self._taken.micro_batches(torch.device("cpu"))[0].input_ids)

    def _ask(self) -> None:
        while self._asked < min(self._next + _AHEAD, self._end):
            self._read.append(self._thread.submit(self._read_step, self._asked))
            self._asked += 1

    def _read_step(self, step: int) -> tuple[HostBatch, list[Batch]]:
        """In the thread: a step's batch, and where that is for the thread to do, what was sent."""
        batch = self._source.host_batch(step)
        return batch, batch.micro_batches(self._device) if self._device.type == "xla" else []
