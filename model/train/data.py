"""Batches of packed sequences, each computable from its step number alone.

A thread reads them before the loop asks. A process's share of a step is narrow and lies in one run
of bytes, which one copy moves to the device.
"""

import math
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from electrify.config.run import RunConfig
from electrify.stage.plan import output_dir
from electrify.system.outcome import UserError
from electrify.system.progress import is_main_process
from model.batch import Batch, Noise, SpecialTokens, map_tensors
from model.masking import num_slots
from model.schedule import Phase, phase_at, phases_of, sequences_until
from model.watch.metrics import fingerprint
from vocab.shards.files import TokenShards
from vocab.shards.reader import SequenceReader
from vocab.tokenizer import TOKENIZER_FILE, tokenizer_sha256


@dataclass(frozen=True)
class HostBatch:
    """Sequences, types, languages and draws on the CPU.

    At 128 x 128: 0.16 MB, of which ids are 33 kB. Each copy to a GPU costs a launch of its own,
    whatever its size, so everything goes in one, and is widened to int64 there.
    """

    buffer: Tensor  # (bytes,) uint8
    forms: tuple[tuple[torch.dtype, tuple[int, ...]], ...]  # of what lies in it
    micro_batch_size: int  # sequences a forward pass
    packed: bool  # as of a `Batch`

    @classmethod
    def of(
        cls,
        input_ids: NDArray[np.unsignedinteger[Any]],
        token_type_ids: NDArray[np.uint8],
        languages: NDArray[np.int64],
        noise: Noise,
        packed: bool,
        micro_batch_size: int | None = None,
    ) -> Self:
        """From sequences (B, L), the number of each one's language (B,) and their draws."""
        # widest first: then each begins at a multiple of its own width. By NumPy, since torch would
        # start a team of threads for each thread that copies
        arrays: list[NDArray[Any]] = [
            noise.samples.numpy(),
            languages,
            noise.positions.numpy(),
            noise.mask.numpy(),
            input_ids,
            token_type_ids,
        ]
        buffer = np.concatenate([array.ravel().view(np.uint8) for array in arrays])
        forms = tuple((torch.from_numpy(array).dtype, array.shape) for array in arrays)
        return cls(torch.from_numpy(buffer), forms, micro_batch_size or len(input_ids), packed)

    def to(self, device: torch.device) -> Batch:
        """All of it on the device; waits for nothing.

        A GPU reads pinned memory while the host goes on. That memory is torch's own, which it gives
        out again only after the copy; nothing here keeps it.
        """
        buffer = self.buffer
        if device.type == "cuda":
            buffer = buffer.pin_memory().to(device, non_blocking=True)
        samples, languages, positions, mask, input_ids, token_type_ids = self._parts(buffer)
        noise = Noise(positions, mask, samples)
        return Batch(input_ids.long(), token_type_ids.long(), noise, languages, self.packed).to(
            device
        )

    def micro_batches(self, device: torch.device) -> list[Batch]:
        """The forward passes of the step, on the device."""
        # XLA devices have parts of each pass, so it is cut before it is given out
        batch = self.to(torch.device("cpu") if device.type == "xla" else device)
        size = self.micro_batch_size
        starts = range(0, len(batch.input_ids), size)
        return [batch.rows(slice(start, start + size)).to(device) for start in starts]

    def _parts(self, buffer: Tensor) -> list[Tensor]:
        parts, start = [], 0
        for dtype, shape in self.forms:
            stop = start + math.prod(shape) * dtype.itemsize
            parts.append(buffer[start:stop].view(dtype).view(shape))
            start = stop
        return parts


Split = Literal["train", "valid"]
_CPU = torch.device("cpu")
_COUNTED_TOKENS = 2**20  # at once: counting makes them int64


class SequenceData:
    """One split of a shards folder, as an endless run of batches of one sequence length.

    The order is a permutation by (seed, epoch), so a resumed run needs no loader state but its
    step, and batch size may change without re-encoding.
    """

    def __init__(
        self,
        config: RunConfig,
        split: Split,
        sequence_length: int | None = None,
        shards: TokenShards | None = None,
    ) -> None:
        """Read as the config says; of `sequence_length` in a phase of the curriculum."""
        shards = shards or open_shards(output_dir(config) / "shards", [split])
        self.vocab_size, self.special = shards.vocab_size, special_tokens(shards)
        self.reader = SequenceReader(shards, split, config.pretrain, config.seed, sequence_length)
        self._slots = num_slots(config.pretrain, self.reader.sequence_length)
        self.languages: Sequence[str] = self.reader.languages

    @property
    def num_sequences(self) -> int:
        return self.reader.num_sequences

    def batch(
        self, first_sequence: int, count: int, key: int = 0, rank: int = 0, num_ranks: int = 1
    ) -> Batch:
        """Sequences number `first_sequence`... of the endless order; of `count`, a rank's share.

        `key` decides the draws of the whole batch, of which a rank has its rows.
        """
        return self.host_batch(first_sequence, count, key, rank, num_ranks).to(_CPU)

    def host_batch(
        self,
        first_sequence: int,
        count: int,
        key: int = 0,
        rank: int = 0,
        num_ranks: int = 1,
        micro_batch_size: int | None = None,
    ) -> HostBatch:
        reader = self.reader
        indices = reader.indices(first_sequence, count, rank, num_ranks)
        ids, types = reader.sequences(indices)
        noise = Noise.draw(key, count, reader.sequence_length, self._slots)
        return HostBatch.of(
            ids,
            types,
            reader.language_numbers(indices),
            map_tensors(noise, lambda draws: draws[rank::num_ranks]),
            reader.is_full,
            micro_batch_size,
        )


class StepData:
    """The micro-batches of each step of a run, through all phases of its curriculum."""

    def __init__(self, config: RunConfig, shards: TokenShards, rank: int, num_ranks: int) -> None:
        self._rank, self._num_ranks, self._seed = rank, num_ranks, config.seed
        self.phases = phases_of(config.pretrain, config.pretrain.sequence_length)
        lengths = {phase.sequence_length for phase in self.phases}
        self._data = {length: SequenceData(config, "train", length, shards) for length in lengths}
        for phase in self.phases:
            _check_shares(phase, num_ranks)
        self.last = self._data[self.phases[-1].sequence_length]

    def num_epochs(self) -> float:
        """Passes of the whole run over the text, at each phase's own number of sequences."""
        return sum(
            phase.batch_size * phase.num_steps / self._data[phase.sequence_length].num_sequences
            for phase in self.phases
        )

    def passes(self) -> dict[str, float]:
        """How often the whole run reads each language's text."""
        read = dict.fromkeys(self.last.languages, 0.0)
        for phase in self.phases:
            reader = self._data[phase.sequence_length].reader
            for language, passes in reader.passes(phase.batch_size * phase.num_steps).items():
                read[language] += passes
        return read

    def host_batch(self, step: int) -> HostBatch:
        """This rank's share of the batch that follows `step` finished steps, in any thread.

        A phase begins where the sequences of the phases before it ended: another length has
        another order, so this only keeps two phases of one length from repeating.
        """
        phase = phase_at(self.phases, step)
        return self._data[phase.sequence_length].host_batch(
            sequences_until(self.phases, step),
            phase.batch_size,
            noise_key(self._seed, step),
            self._rank,
            self._num_ranks,
            min(phase.micro_batch_size, phase.batch_size // self._num_ranks),
        )


def noise_key(seed: int, step: int) -> int:
    return (seed * 0x9E3779B97F4A7C15 + step * 0xBF58476D1CE4E5B9 + 0x2545F4914F6CDD1D) % 2**63


def open_shards(folder: Path, splits: Sequence[Split]) -> TokenShards:
    """The run's shards, checksums checked by rank 0.

    Raises `ValueError` if the vocabulary beside them, where there is one, did not make them.
    """
    shards = TokenShards(folder)
    vocab = folder.parent / "vocab"
    if (vocab / TOKENIZER_FILE).exists():
        shards.check_tokenizer(tokenizer_sha256(vocab), vocab / TOKENIZER_FILE)
    if is_main_process():
        shards.verify(splits)
    return shards


def special_tokens(shards: TokenShards) -> SpecialTokens:
    ids = shards.special_token_ids
    return SpecialTokens(pad=ids["[PAD]"], cls=ids["[CLS]"], sep=ids["[SEP]"], mask=ids["[MASK]"])


def noise_probabilities(kind: str, shards: TokenShards, data: SequenceData) -> Tensor | None:
    """Of a generator without weights, (V,) fp64: uniform over all pieces but special tokens, or
    unigram as training reads them; None for a learned one.

    A language counts by how often its sequences are drawn.
    """
    if kind == "learned":
        return None
    probabilities = np.ones(shards.vocab_size)
    if kind == "unigram":
        probabilities = np.zeros(shards.vocab_size)
        shares = data.reader.passes(data.num_sequences)
        for language in data.languages:
            counts = np.zeros(shards.vocab_size)
            for shard in shards.stream("train", language).shards:
                for start in range(0, len(shard.tokens), _COUNTED_TOKENS):
                    part = shard.tokens[start : start + _COUNTED_TOKENS]
                    counts += np.bincount(part, minlength=shards.vocab_size)
            probabilities += shares[language] * counts
    probabilities[list(shards.special_token_ids.values())] = 0
    return torch.from_numpy(probabilities / probabilities.sum())


def _check_shares(phase: Phase, num_ranks: int) -> None:
    share = phase.batch_size // num_ranks
    if phase.batch_size % num_ranks:
        raise UserError(
            f"pretrain.batch_size = {phase.batch_size} must be a multiple of the {num_ranks} "
            "processes"
        )
    if share % min(phase.micro_batch_size, share):
        raise UserError(
            f"of pretrain.batch_size = {phase.batch_size} each of {num_ranks} processes has "
            f"{share}, which must be a multiple of pretrain.micro_batch_size = "
            f"{phase.micro_batch_size}"
        )


_AHEAD = 2  # steps: one to take, one that is read meanwhile; more only holds more memory


class Loader:
    """Steps `first` ... `end` - 1 of a run's data in turn, as micro-batches on a device.

    A batch follows from its step, so nothing here is saved and a stopped run loses only what was
    read ahead. The thread reads and draws, and sends to XLA's devices. It never touches a GPU: CUDA
    breaks off the capture of a graph when another thread allocates. There `take` starts the copy,
    on the current stream.
    """

    def __init__(self, source: StepData, device: torch.device, first: int, end: int) -> None:
        self._source, self._device, self._end = source, device, end
        self._next = self._asked = first
        self._read: deque[Future[tuple[HostBatch, list[Batch]]]] = deque()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="loader")
        self._waited = 0.0
        self._taken: HostBatch | None = None  # last

    def __enter__(self) -> Self:
        self._ask()
        return self

    def __exit__(self, *_: object) -> None:
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
        return fingerprint(self._taken.micro_batches(_CPU)[0].input_ids)

    def _ask(self) -> None:
        while self._asked < min(self._next + _AHEAD, self._end):
            self._read.append(self._thread.submit(self._read_step, self._asked))
            self._asked += 1

    def _read_step(self, step: int) -> tuple[HostBatch, list[Batch]]:
        """In the thread: a step's batch, and where that is for the thread to do, what was sent."""
        batch = self._source.host_batch(step)
        return batch, batch.micro_batches(self._device) if self._device.type == "xla" else []
