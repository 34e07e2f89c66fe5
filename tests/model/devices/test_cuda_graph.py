"""The order of calls around a CUDA graph; the calls themselves are played, for want of a GPU."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from model.devices import cuda_graph
from model.devices.cuda_graph import CudaRecorder


class Played:
    """Stands for torch.cuda; notes what it is asked."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.refuses = False

    def note(self, *words: object) -> None:
        self.calls.append(" ".join(map(str, words)))

    @contextmanager
    def graph(self, graph: Any, pool: str, stream: str, capture_error_mode: str) -> Iterator[None]:
        self.note("capture on", stream, "in", pool, capture_error_mode)
        yield  # an error leaves it as torch does: by the error that ending the capture raises
        self.note("captured")


class PlayedStream:
    def __init__(self, cuda: Played) -> None:
        self.cuda = cuda

    def wait_stream(self, other: object) -> None:
        self.cuda.note("side waits for", other)

    def __str__(self) -> str:
        return "side"


class PlayedMain(PlayedStream):
    def wait_stream(self, other: object) -> None:
        self.cuda.note("main waits for", other)

    def __str__(self) -> str:
        return "main"


class PlayedGenerator:
    def __init__(self, cuda: Played) -> None:
        self.cuda = cuda

    def clone_state(self) -> str:
        return "a fresh state"

    def graphsafe_set_state(self, state: str) -> None:
        self.cuda.note("generator has", state)


@pytest.fixture
def cuda(monkeypatch) -> Played:
    played = Played()

    @contextmanager
    def stream(of: PlayedStream) -> Iterator[None]:
        played.note("on", of)
        yield
        played.note("off", of)

    class Graph:
        def replay(self) -> None:
            played.note("replay")

    replacements = {
        "Stream": lambda device: PlayedStream(played),
        "current_stream": lambda device: PlayedMain(played),
        "stream": stream,
        "set_stream": lambda of: played.note("set", of),
        "CUDAGraph": Graph,
        "graph": played.graph,
        "graph_pool_handle": lambda: "pool",
        "memory_reserved": lambda device: 100 * len([c for c in played.calls if c == "captured"]),
        "empty_cache": lambda: None,
        "current_device": lambda: 0,
        "default_generators": (PlayedGenerator(played),),
        "get_sync_debug_mode": lambda: 0,
        "set_sync_debug_mode": lambda mode: played.note("sync mode", mode),
    }
    for name, value in replacements.items():
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr(
        torch._C,
        "_cuda_endAllocateToPool",
        lambda index, pool: played.note("end allocations of", index, pool),
        raising=False,
    )
    return played


def recorder() -> CudaRecorder:
    return CudaRecorder(torch.device("cuda"))


def test_a_recording_is_replayed(cuda):
    made = recorder()
    replay = made.record(lambda: cuda.note("work"))
    assert cuda.calls == ["capture on side in pool thread_local", "work", "captured"]
    assert made.num_bytes == 100
    replay()
    assert cuda.calls[-1] == "replay"


def test_a_recording_that_breaks_off_leaves_torch_as_it_was(cuda):
    def work() -> None:
        raise RuntimeError("operation not permitted when stream is capturing")

    with pytest.raises(RuntimeError, match="not permitted"):
        recorder().record(work)
    assert cuda.calls[1:] == [
        "set main",
        "end allocations of 0 pool",
        "generator has a fresh state",
    ]
    assert len(cuda_graph._BROKEN) == 1  # the allocator may still ask it
    cuda_graph._BROKEN.clear()


def test_work_that_waits_for_the_device_is_not_tried(cuda):
    def work() -> None:
        warnings.warn("called a synchronizing CUDA operation (Triggered ...)\nmore", stacklevel=1)

    made = recorder()
    made.warm(work)
    with pytest.raises(RuntimeError, match=r"host waits for the device: called a synchronizing"):
        made.record(work)
    assert "captured" not in cuda.calls
    made.warm(lambda: None)  # what was only the first time
    made.record(lambda: None)
    assert "captured" in cuda.calls
