"""CUDA graphs: work that is recorded once and then started as one, without its Python."""

import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import torch

Result = TypeVar("Result")
# graphs whose recording broke off: the allocator may still ask them what is theirs
_BROKEN: list[torch.cuda.CUDAGraph] = []


class CudaRecorder:
    """Records CUDA graphs, on a stream of its own: the default one cannot be recorded.

    Random draws follow torch's generator, which each replay reads and advances: its seed and offset
    then are those of the draws (CUDAGeneratorImpl.h, "CUDA Graph-safe RNG states").
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._wait: str | None = None  # the first of the last warm-up
        self.num_bytes = 0  # of memory that the last recording keeps for itself

    def warm(self, work: Callable[[], Result]) -> Result:
        """Do the work on the stream of the recording, a few times before it is recorded.

        What is made at first use, such as handles, plans and the nodes that gather gradients,
        belongs to the stream that it is first used on.
        """
        current = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(current)
        try:
            with torch.cuda.stream(self._stream):
                result, self._wait = _watched(work)
        finally:  # where the work fails, too: its caller continues
            current.wait_stream(self._stream)
        return result

    def record(self, work: Callable[[], object]) -> Callable[[], None]:
        """Call `work` once without doing what it asks of the device; what then does all of that.

        It is one graph of all kernels and copies, with memory of its own. Every number that the
        host computes in `work` stays as it was then. Only what tensors hold may differ: those that
        are read must stay where they are, those that are made are made at the same place each
        time. Raises what forbids the recording, and nothing is done then.
        """
        if self._wait is not None:  # tried, it would break off and leave more to repair
            raise RuntimeError(f"the host waits for the device: {self._wait}")
        torch.cuda.empty_cache()
        before = torch.cuda.memory_reserved(self._device)
        graph, pool = torch.cuda.CUDAGraph(), torch.cuda.graph_pool_handle()
        current = torch.cuda.current_stream(self._device)
        try:
            # thread_local: a thread that reads data may go on
            with torch.cuda.graph(graph, pool, self._stream, capture_error_mode="thread_local"):
                work()
        except Exception:
            torch.cuda.set_stream(current)
            self._end_broken(graph, pool)
            raise
        self.num_bytes = torch.cuda.memory_reserved(self._device) - before
        return graph.replay

    def _end_broken(self, graph: torch.cuda.CUDAGraph, pool: Any) -> None:
        """What torch leaves undone where a capture cannot be ended (CUDAGraph.cpp, capture_end)."""
        _BROKEN.append(graph)
        index = self._device.index
        index = torch.cuda.current_device() if index is None else index
        with suppress(RuntimeError):  # it was told already
            torch._C._cuda_endAllocateToPool(index, pool)
        generator = torch.cuda.default_generators[index]
        generator.graphsafe_set_state(generator.clone_state())


def _watched(work: Callable[[], Result]) -> tuple[Result, str | None]:
    """The result, and what torch says of the first time that the host waited for the device."""
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            result = work()
        finally:
            torch.cuda.set_sync_debug_mode(before)
    # CUDAFunctions.cpp: "called a synchronizing CUDA operation"
    found = [str(of.message) for of in caught if "called a synchronizing" in str(of.message)]
    return result, found[0].splitlines()[0] if found else None
