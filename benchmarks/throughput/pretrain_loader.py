"""The loader alone: what the batch of a step costs the host, and how many tokens a second it reads.

A step on a GPU waits for nothing as long as the thread reads a batch in less time than it takes.
"""

import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from electrify.config.pretrain import PretrainConfig
from model.batch import SpecialTokens
from model.devices.device import synchronize
from model.masking import num_slots
from model.train.data import HostBatch, Loader, SequenceData, noise_key, open_shards
from vocab.shards.files import ShardWriter, token_dtype, write_index

_UNKNOWN_ID = 1  # as in our vocabularies; not among made-up tokens
_NUM_TOKENS = 2**24  # of made-up text: 34 MB, more than lies in the caches of a core
_DOCUMENT = (64, 1024)  # tokens of the shortest and of the longest document
_ROUNDS = 7
_STEPS = 32  # a round


@dataclass(frozen=True)
class LoaderFigures:
    """Medians over rounds, a step: on the CPU but for the copy."""

    data: str
    positions: int  # a step
    bytes: int  # that go to the device a step
    read_cpu_seconds: float  # of the loader's thread: reading, packing, draws
    move_cpu_seconds: float  # of the loop: pin, start the copy, widen
    positions_per_second: float  # by the clock, of a loop that does nothing but take batches

    def line(self) -> str:
        """As one line for a log."""
        return (
            f"the loader alone, {self.data}: {1000 * self.read_cpu_seconds:.2f} ms of CPU a step "
            f"in its thread, {1000 * self.move_cpu_seconds:.2f} ms in the loop, "
            f"{self.bytes / 1e6:.2f} MB a step, {self.positions_per_second / 1e6:.1f} M tokens/s"
        )


@dataclass(frozen=True)
class ShardSource:
    """Steps of one shape from a folder of shards, as a run of one process reads them."""

    data: SequenceData
    batch_size: int

    def host_batch(self, step: int) -> HostBatch:
        """The batch that follows `step` finished steps."""
        first = step * self.batch_size
        return self.data.host_batch(first, self.batch_size, noise_key(0, step))


def measure_loader(
    config: PretrainConfig,
    shape: tuple[int, int],
    device: torch.device,
    vocab_size: int,
    special: SpecialTokens,
    run: Path | None = None,
) -> LoaderFigures:
    """Steps of `shape`, sequences and their length, of a run's shards or of made-up ones.

    What a batch costs does not depend on which tokens it holds, so made-up ones are drawn evenly.
    """
    name = "shards of a run" if run else f"{_NUM_TOKENS / 1e6:.0f} M made-up tokens"
    with tempfile.TemporaryDirectory() as made:
        if run is None:
            write_even_shards(Path(made) / "shards", vocab_size, special, _NUM_TOKENS)
        shards = open_shards((run or Path(made)) / "shards", ["train"])
        slots = num_slots(config, shape[1])
        data = SequenceData(shards, "train", shape[1], seed=0, slots=slots)
        return _measure(ShardSource(data, shape[0]), device, name)


def _measure(source: ShardSource, device: torch.device, name: str) -> LoaderFigures:
    batch = source.host_batch(0)
    for step in range(_STEPS):
        source.host_batch(step).micro_batches(device)
    read = _median(source.host_batch, time.thread_time, device)
    move = _median(lambda step: batch.micro_batches(device), time.thread_time, device)
    with Loader(source, device, 0, _ROUNDS * _STEPS) as loader:
        taken = _median(loader.take, time.perf_counter, device)
    positions = source.batch_size * source.data.reader.sequence_length
    return LoaderFigures(name, positions, batch.buffer.numel(), read, move, positions / taken)


def _median(
    work: Callable[[int], object], clock: Callable[[], float], device: torch.device
) -> float:
    """Seconds a step of `work`, which is called with the numbers 0, 1 ... in turn."""
    found = []
    for number in range(_ROUNDS):
        start = clock()
        for step in range(number * _STEPS, (number + 1) * _STEPS):
            work(step)
        synchronize(device)
        found.append((clock() - start) / _STEPS)
    return statistics.median(found)


def write_even_shards(
    folder: Path, vocab_size: int, special: SpecialTokens, num_tokens: int, seed: int = 0
) -> None:
    """One split and language of about so many tokens in documents of 64 to 1,024."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(_DOCUMENT[0], _DOCUMENT[1] + 1, 2 * num_tokens // sum(_DOCUMENT) + 1)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    tokens = rng.integers(0, vocab_size, offsets[-1], token_dtype(vocab_size))
    tokens[offsets[1:] - 1] = special.sep
    writer = ShardWriter(folder / "train" / "en", vocab_size, len(tokens))
    writer.add(tokens, offsets)
    ids = {
        "[PAD]": special.pad,
        "[UNK]": _UNKNOWN_ID,
        "[CLS]": special.cls,
        "[SEP]": special.sep,
        "[MASK]": special.mask,
    }
    write_index(folder, {("train", "en"): writer.close()}, vocab_size, "", ids)
