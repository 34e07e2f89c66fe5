"""The loader gives each step's own batch, and leaves no thread behind however the loop ends."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from electrify.config.run import RunConfig
from electrify.system.progress import Stopped
from model.batch import Batch, Noise, map_tensors
from model.train.data import HostBatch, Loader, StepData, open_shards
from tests.model.conftest import make_config, write_tiny_shards

CPU = torch.device("cpu")


def assert_same(batch: Batch, other: Batch) -> None:
    for tensor, expected in zip(batch.tensors(), other.tensors(), strict=True):
        assert tensor.dtype == expected.dtype
        assert torch.equal(tensor.cpu(), expected)
    assert batch.packed == other.packed


def loader_threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith("loader")]


@pytest.fixture(autouse=True)
def no_thread_is_left():
    assert not loader_threads()
    yield
    assert not loader_threads()


def step_data(config: RunConfig, rank: int = 0, num_ranks: int = 1) -> StepData:
    shards = open_shards(Path(config.output_dir) / "shards", ["train"])
    return StepData(config, shards, rank, num_ranks)


class Source:
    """Batches whose every id is the number of the step; tells what was asked for, and where."""

    def __init__(self, before: Callable[[int], object] = lambda step: None) -> None:
        self.before, self.asked = before, list[int]()
        self.threads = set[str]()

    def host_batch(self, step: int) -> HostBatch:
        self.asked.append(step)
        self.threads.add(threading.current_thread().name)
        self.before(step)
        ids, types = np.full((2, 8), step, np.uint16), np.zeros((2, 8), np.uint8)
        return HostBatch.of(ids, types, np.zeros(2, np.int64), Noise.draw(step, 2, 8, 1), True)


def taken(loader: Loader, step: int) -> int:
    [batch] = loader.take(step)
    return int(batch.input_ids[0, 0])


# --- a batch as it is read ------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.uint16, np.uint32])
@pytest.mark.parametrize(("rows", "length", "slots"), [(1, 1, 1), (3, 7, 2), (5, 16, 3)])
@pytest.mark.parametrize("num_ranks", [1, 3])
def test_a_batch_comes_out_as_it_was_read(rows, length, slots, num_ranks, dtype):
    """Also of odd sizes, where what follows must still begin at a multiple of its width."""
    rng = np.random.default_rng(rows)
    ids = rng.integers(0, np.iinfo(dtype).max, (rows, length), dtype, endpoint=True)
    types = rng.integers(0, 2, (rows, length), np.uint8)
    languages = rng.integers(0, 4, rows)
    noise = Noise.draw(3, rows * num_ranks, length, slots)
    noise = map_tensors(noise, lambda draws: draws[::num_ranks])
    batch = HostBatch.of(ids, types, languages, noise, packed=False).to(CPU)
    wide = [torch.from_numpy(array.astype(np.int64)) for array in (ids, types, languages)]
    assert_same(batch, Batch(wide[0], wide[1], noise, wide[2], packed=False))


# --- the batches of a run -------------------------------------------------------------------------

CURRICULUM = {
    "num_steps": 9,
    "batch_size": 6,
    "micro_batch_size": 3,
    "curriculum": [{"sequence_length": 16, "steps_fraction": 0.4, "batch_size": 12}],
}


@pytest.mark.parametrize(("rank", "num_ranks"), [(0, 1), (1, 2)])
@pytest.mark.parametrize("first", [0, 5, 8])
def test_every_step_has_its_own_batch_wherever_a_run_goes_on(tmp_path, first, rank, num_ranks):
    write_tiny_shards(tmp_path / "shards")
    data = step_data(make_config(tmp_path, **CURRICULUM), rank, num_ranks)
    with Loader(data, CPU, first, 9) as loader:
        found = [loader.take(step) for step in range(first, 9)]
    for step, batches in enumerate(found, first):
        expected = data.host_batch(step).micro_batches(CPU)
        assert len(batches) == len(expected)
        for batch, other in zip(batches, expected, strict=True):
            assert_same(batch, other)


def test_the_thread_reads_a_bounded_number_of_steps_ahead_and_none_beyond_the_end():
    source = Source()
    with Loader(source, CPU, 4, 20) as loader:
        for step in range(4, 20):
            time.sleep(0.002)  # it has time to go too far
            assert max(source.asked, default=0) <= step + 1
            assert taken(loader, step) == step
    assert source.asked == list(range(4, 20))
    [thread] = source.threads
    assert thread.startswith("loader")


@pytest.mark.parametrize("kind", ["cpu", "xla"])
def test_the_thread_sends_batches_to_xla_ahead_and_to_no_other_device(kind: str):
    """CUDA breaks off the capture of a graph when another thread allocates."""
    moved: list[tuple[int, str]] = []

    class Read(SimpleNamespace):
        def micro_batches(self, device: torch.device) -> list[tuple[int, str]]:
            moved.append((self.step, threading.current_thread().name))
            return [(self.step, device.type)]

    source = SimpleNamespace(host_batch=lambda step: Read(step=step))
    with Loader(source, torch.device(kind), 0, 4) as loader:
        for step in range(4):
            assert loader.take(step) == [(step, kind)]
    assert [step for step, _ in moved] == [0, 1, 2, 3]
    assert all(name.startswith("loader") == (kind == "xla") for _, name in moved)


# --- how a loop ends ------------------------------------------------------------------------------


def test_an_error_of_the_thread_is_raised_in_the_loop_at_its_step():
    def fail(step: int) -> None:
        if step == 3:
            raise ValueError(f"shard of step {step} is damaged")

    with Loader(Source(fail), CPU, 0, 10) as loader:
        for step in range(3):
            assert taken(loader, step) == step
        with pytest.raises(ValueError, match="shard of step 3 is damaged"):
            loader.take(3)


@pytest.mark.parametrize("error", [Stopped("saved"), KeyboardInterrupt(), ValueError("loss")])
def test_a_loop_that_breaks_off_leaves_no_thread(error):
    source = Source(lambda step: time.sleep(0.01))
    with pytest.raises(type(error)), Loader(source, CPU, 0, 1000) as loader:  # noqa: PT012
        loader.take(0)
        raise error
    read = len(source.asked)
    time.sleep(0.03)
    assert len(source.asked) == read <= 3


# --- a GPU ----------------------------------------------------------------------------------------


@pytest.mark.skipif(not torch.cuda.is_available(), reason="copies pinned memory to a GPU")
def test_batches_on_a_gpu_are_those_of_the_host_however_far_the_host_runs_ahead(tmp_path):
    write_tiny_shards(tmp_path / "shards")
    data = step_data(make_config(tmp_path, num_steps=50))
    work = torch.rand(4096, 4096, device="cuda")
    found = []
    with Loader(data, torch.device("cuda"), 0, 50) as loader:
        for step in range(50):
            found += loader.take(step)
            work = (work @ work).clamp(0, 1)  # the copies queue up behind it
    expected = [batch for step in range(50) for batch in data.host_batch(step).micro_batches(CPU)]
    for batch, other in zip(found, expected, strict=True):
        assert batch.input_ids.is_cuda
        assert_same(batch, other)
