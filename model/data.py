"""Batches of packed sequences, each computable from its step number alone.

A thread reads them before the loop asks.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Literal, Self

import numpy as np
import torch

from electrify.config.run import RunConfig
from electrify.stage.plan import output_dir
from electrify.system.outcome import UserError
from model.devices.device import describe, num_devices, seed_of
from model.networks.batch import Batch, Noise, SpecialTokens
from model.plan import Phase, phase_at, phases_of, sequences_until
from vocab.shards.files import TokenShards
from vocab.shards.sequences import SequenceReader
from vocab.tokenizer import TOKENIZER_FILE, tokenizer_sha256

Split = Literal["train", "valid"]


class SequenceData:
    """One split of a shards folder, as an endless run of batches of one sequence length.

    The order is a permutation by (seed, epoch), so a resumed run needs no loader state but its
    step, and batch size may change without re-encoding.
    """

    def __init__(
        self,
        config: RunConfig,
        split: Split,
        shards: TokenShards | None = None,
        phase: Phase | None = None,
    ) -> None:
        """Read as the config says, or as a phase of the run does."""
        shards = shards or open_shards(output_dir(config) / "shards")
        self.vocab_size, self.special = shards.vocab_size, special_tokens(shards)
        options = phase.options(config.pretrain) if phase else config.pretrain
        self.reader = SequenceReader(shards, split, options, config.seed)
        self._slots = options.num_masked(options.sequence_length)
        self._mask_fraction = options.mask_fraction
        self.languages: Sequence[str] = self.reader.languages

    @property
    def num_sequences(self) -> int:
        return self.reader.num_sequences

    def batch(
        self, first_sequence: int, count: int, key: int = 0, rank: int = 0, num_ranks: int = 1
    ) -> Batch:
        """Of `count` sequences from `first_sequence` of the endless order, a rank's part.

        `key` decides the draws of this part.
        """
        reader = self.reader
        indices = reader.indices(first_sequence, count, rank, num_ranks)
        ids, types = reader.sequences(indices)
        noise = Noise.draw(key, len(indices), reader.sequence_length, self._slots)
        # widened by NumPy, since torch would start a team of threads for each thread that copies
        return Batch(
            torch.from_numpy(ids.astype(np.int64)),
            torch.from_numpy(types.astype(np.int64)),
            noise,
            torch.from_numpy(reader.language_numbers(indices)),
            mask_fraction=self._mask_fraction,
        )


class StepData:
    """The micro-batches of each step of a run, through all phases of its curriculum."""

    def __init__(self, config: RunConfig, shards: TokenShards, rank: int, num_ranks: int) -> None:
        self._rank, self._num_ranks, self._seed = rank, num_ranks, config.seed
        self.phases = phases_of(config.pretrain)
        self._data = {
            phase.first_step: SequenceData(config, "train", shards, phase) for phase in self.phases
        }
        self.last = self._data[self.phases[-1].first_step]
        for phase in self.phases:
            phase.mixture.check_names(self.last.languages, "the shards have no")

    def passes(self) -> dict[str, float]:
        """How often the whole run reads each language's text."""
        passes = Counter[str]()
        for phase in self.phases:
            passes.update(self._data[phase.first_step].reader.passes(phase.num_sequences))
        return dict(passes)

    def micro_batches(self, step: int) -> list[Batch]:
        """This rank's forward passes of the step that follows `step` finished ones, on the CPU.

        A phase begins where the sequences of the phases before it ended: another length has
        another order, so this only keeps two phases of one length from repeating.
        """
        phase = phase_at(self.phases, step)
        batch = self._data[phase.first_step].batch(
            sequences_until(self.phases, step),
            phase.batch_size,
            noise_key(self._seed, step, self._rank),
            self._rank,
            self._num_ranks,
        )
        return batch.split(phase.micro_batch_size)


def noise_key(seed: int, step: int, rank: int = 0) -> int:
    """What the draws of a process in a step follow from."""
    return (seed_of(seed, step, rank) + 0x2545F4914F6CDD1D) % 2**63


def open_shards(folder: Path) -> TokenShards:
    """The run's shards.

    Raises `UserError` if the vocabulary beside them, where there is one, did not make them.
    """
    shards = TokenShards(folder)
    vocab = folder.parent / "vocab"
    if (vocab / TOKENIZER_FILE).exists():
        shards.check_tokenizer(tokenizer_sha256(vocab), vocab / TOKENIZER_FILE)
    return shards


def special_tokens(shards: TokenShards) -> SpecialTokens:
    ids = shards.special_token_ids
    return SpecialTokens(pad=ids["[PAD]"], cls=ids["[CLS]"], sep=ids["[SEP]"], mask=ids["[MASK]"])


def check_batch_sizes(phases: Sequence[Phase], num_ranks: int, device: torch.device) -> None:
    """`UserError` unless processes, and the devices of each, can share every batch evenly."""
    for phase in phases:
        if not phase.is_shared_by(num_ranks):
            raise UserError(
                f"pretrain.batch_size = {phase.batch_size} must be a multiple of the {num_ranks} "
                "processes, and the part of each a multiple of pretrain.micro_batch_size = "
                f"{phase.micro_batch_size}"
            )
        number, rows = num_devices(device), min(phase.micro_batch_size, phase.batch_size)
        if rows % number:
            name = "batch_size" if rows == phase.batch_size else "micro_batch_size"
            raise UserError(
                f"pretrain.{name} = {rows} must be a multiple of the devices ({describe(device)}): "
                f"set {rows - rows % number or number} or {rows + -rows % number}"
            )


_AHEAD = 2  # steps: one to take, one that is read meanwhile; more only holds more memory


class Loader:
    """Steps `first` ... `end` - 1 in turn, as the micro-batches that `read` makes, on a device.

    A batch follows from its step, so nothing here is saved. The thread reads and draws, and sends
    to XLA's devices. It never touches a GPU: CUDA breaks off the capture of a graph when another
    thread allocates. There `take` starts the copy, on the current stream.
    """

    def __init__(
        self, read: Callable[[int], list[Batch]], device: torch.device, first: int, end: int
    ) -> None:
        self._micro_batches, self._device = read, device
        self._to_ask = iter(range(first, end))
        self._read: deque[Future[list[Batch]]] = deque()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="loader")
        self._waited = 0.0
        self._sends_ahead = device.type == "xla"

    def __enter__(self) -> Self:
        self._ask(_AHEAD)
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown(cancel_futures=True)  # ends with the batch that is being read

    def take(self) -> list[Batch]:
        """The micro-batches of the next step. What went wrong in the thread is raised here."""
        start = time.perf_counter()
        batches = self._read.popleft().result()
        self._waited += time.perf_counter() - start
        self._ask(1)
        return batches if self._sends_ahead else [batch.to(self._device) for batch in batches]

    def waited_seconds(self) -> float:
        """Seconds that `take` waited for the thread since this was last asked."""
        seconds, self._waited = self._waited, 0.0
        return seconds

    def _ask(self, num_steps: int) -> None:
        def read(step: int) -> list[Batch]:  # in the thread
            batches = self._micro_batches(step)
            return [batch.to(self._device) for batch in batches] if self._sends_ahead else batches

        for step in islice(self._to_ask, num_steps):
            self._read.append(self._thread.submit(read, step))
