"""The systems that are timed and their clock: ours as a run has it, the peer eager or compiled."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from electrify.config.pretrain import PretrainConfig
from model.batch import Batch, Noise, SpecialTokens
from model.devices.attention import any_backend
from model.devices.device import synchronize
from model.electra import ElectraPretrainer
from model.masking import num_slots
from model.train.data import HostBatch, SequenceData, noise_key, open_shards
from model.train.optim import make_optimizers
from model.train.replay import WARM_UPS, FastStep
from model.train.step import Step
from model.watch.metrics import MetricsWindow
from vocab.shards.files import token_dtype

# What is timed upon. Token ids follow Zipf's law, since the gradients of the shared embedding meet
# in the rows of common tokens, and a flat or constant stream would hide what that costs.

SEED = 0
BERT_SPECIAL = SpecialTokens(pad=0, cls=101, sep=102, mask=103)
BERT_VOCAB_SIZE = 30_522
_FIRST_WORD = 999  # where the words of BERT's vocabulary begin, after special and unused pieces
_ZIPF_EXPONENT = 1.0
_POOL = 16  # batches that are made before any clock runs, then used round and round
_SHORTEST = 0.5  # of the length: what the shortest padded sequence holds


@dataclass(frozen=True)
class Pool:
    """Batches on the host; their draws are made anew for every step, as a run does."""

    input_ids: list[Tensor]  # each (B, L) int64
    token_type_ids: list[Tensor]
    packed: bool
    slots: int
    vocab_size: int
    special: SpecialTokens
    name: str

    def batch(self, step: int) -> Batch:
        """The batch of a step on the CPU."""
        return self.host_batch(step).to(torch.device("cpu"))

    def host_batch(self, step: int, num_parts: int = 1) -> HostBatch:
        """The same as a run has it, for so many forward passes; the draws are made here."""
        ids = self.input_ids[step % len(self.input_ids)].numpy()
        types = self.token_type_ids[step % len(self.input_ids)].numpy()
        number, length = ids.shape
        return HostBatch.of(
            ids.astype(token_dtype(self.vocab_size)),
            types.astype(np.uint8),
            np.zeros(number, np.int64),
            Noise.draw(noise_key(0, step), number, length, self.slots),
            self.packed,
            number // num_parts,
        )

    def tokens(self, step: int) -> int:
        """Tokens of a step that are not padding."""
        return int((self.input_ids[step % len(self.input_ids)] != self.special.pad).sum())

    @property
    def shape(self) -> tuple[int, int]:
        """Sequences a batch and their length."""
        batch_size, length = self.input_ids[0].shape
        return batch_size, length


def zipf_pool(
    config: PretrainConfig,
    batch_size: int,
    length: int,
    packed: bool,
    vocab_size: int = BERT_VOCAB_SIZE,
    special: SpecialTokens = BERT_SPECIAL,
    seed: int = 0,
) -> Pool:
    """Pairs of segments, [CLS] ... [SEP] ... [SEP], of words whose rank r comes 1 / r of the time.

    Packed sequences are full; others hold between half of the length and all of it, evenly.
    """
    assert length >= 16, length
    rng = np.random.default_rng(seed)
    words = _words(vocab_size, special)
    chances = 1.0 / np.arange(1, len(words) + 1) ** _ZIPF_EXPONENT
    cumulative = np.cumsum(chances / chances.sum())
    batches = []
    for _ in range(_POOL):
        ranks = np.searchsorted(cumulative, rng.random((batch_size, length)), side="right")
        ids = words[np.minimum(ranks, len(words) - 1)]
        least = length if packed else int(length * _SHORTEST)
        lengths = rng.integers(least, length + 1, batch_size)
        middles = rng.integers(4, least - 3, batch_size)
        batches.append(_laid_out(ids, lengths, middles, special))
    ids_of, types_of = zip(*batches, strict=True)
    name = "Zipf, packed" if packed else "Zipf, padded"
    slots = num_slots(config, length)
    return Pool(list(ids_of), list(types_of), packed, slots, vocab_size, special, name)


def _words(vocab_size: int, special: SpecialTokens) -> np.ndarray:
    """Ids of words, the most common first."""
    first = _FIRST_WORD if vocab_size > 2 * _FIRST_WORD else 0
    taken = {special.pad, special.cls, special.sep, special.mask}
    return np.array([word for word in range(first, vocab_size) if word not in taken])


def _laid_out(
    ids: np.ndarray, lengths: np.ndarray, middles: np.ndarray, special: SpecialTokens
) -> tuple[Tensor, Tensor]:
    """With [CLS], the two [SEP] and padding in their places, and the token types."""
    column = np.arange(ids.shape[1])
    ids[:, 0] = special.cls
    ids[column == middles[:, None]] = special.sep
    ids[column == lengths[:, None] - 1] = special.sep
    ids[column >= lengths[:, None]] = special.pad
    types = (column > middles[:, None]) & (column < lengths[:, None])
    return torch.from_numpy(ids.astype(np.int64)), torch.from_numpy(types.astype(np.int64))


def shard_pool(folder: Path, config: PretrainConfig, batch_size: int, length: int) -> Pool:
    """Sequences of a run's own shards, `<folder>/shards`, in the order training reads them."""
    shards = open_shards(folder / "shards", ["train"])
    slots = num_slots(config, length)
    data = SequenceData(shards, "train", length, seed=0, slots=slots)
    batches = [data.batch(step * batch_size, batch_size) for step in range(_POOL)]
    return Pool(
        [batch.input_ids for batch in batches],
        [batch.token_type_ids for batch in batches],
        batches[0].packed,
        slots,
        data.vocab_size,
        data.special,
        "shards of a run",
    )


def make_model(config: PretrainConfig, pool: Pool) -> ElectraPretrainer:
    """Ours on the CPU, the same weights each time."""
    torch.manual_seed(SEED)
    return ElectraPretrainer(config, pool.vocab_size, pool.special)


# The systems.

OURS = "electrify"  # as `electrify pretrain` runs on the device
AGAIN = "electrify, again"
AS_WRITTEN = "electrify, as written"  # neither compiled nor recorded
PADDED = "electrify, padded"
PEER = "peer_hf_eager"
PEER_PADDED = "peer_hf_eager, padded"
COMPILED_PEER = "peer_hf_compiled"
_NUM_MOMENTS = 2  # of AdamW, each as large as the weights


@dataclass
class Variant:
    """One system on one kind of data; `step` does a whole update, copy and draws included."""

    name: str
    pool: Pool
    step: Callable[[int], None]
    parameters: Sequence[nn.Parameter]
    device: torch.device
    num_steps: int = 0  # done
    first_seconds: float | None = None  # from before the model was built to after its first step
    recorded_seconds: float | None = None  # to after the first replay of a recorded step
    fast_step: FastStep | None = None  # of ours
    started: float = field(default_factory=time.perf_counter)

    def run(self, num_steps: int) -> None:
        """So many updates, without waiting for the device."""
        for _ in range(num_steps):
            self.step(self.num_steps)
            self.num_steps += 1

    def run_first(self) -> None:
        """The first update, which compiles and allocates."""
        self.run(1)
        synchronize(self.device)
        self.first_seconds = time.perf_counter() - self.started
        if self.fast_step is not None and self.fast_step.is_recorded:
            self.run(WARM_UPS)  # the last of them records
            synchronize(self.device)
            if self.fast_step.is_recorded:
                self.recorded_seconds = time.perf_counter() - self.started

    def recorded_bytes(self) -> int:
        """What a recording keeps for itself."""
        return self.fast_step.recorded_bytes if self.fast_step is not None else 0

    def tokens(self) -> float:
        """Tokens of a step that are not padding, the mean over the pool."""
        number = len(self.pool.input_ids)
        return sum(map(self.pool.tokens, range(number))) / number

    def own_bytes(self) -> int:
        """Weights and moments, which are there between steps."""
        size = sum(p.numel() * p.element_size() for p in self.parameters)
        return size * (1 + _NUM_MOMENTS)


def make_ours(
    config: PretrainConfig, pool: Pool, device: torch.device, num_parts: int = 1
) -> tuple[Variant, ElectraPretrainer]:
    """Steps as a run takes them, in `num_parts` micro-batches, with the model they train."""
    started = time.perf_counter()
    model = make_model(config, pool).to(device)
    optimizers = make_optimizers(model, config)
    variant = Variant(OURS, pool, _nothing, list(model.parameters()), device, started=started)
    window = MetricsWindow([pool.name], device)
    fast_step = FastStep(model, optimizers, config, device, window)
    variant.fast_step = fast_step

    def step(number: int) -> None:
        batches = variant.pool.host_batch(number, num_parts).micro_batches(device)
        fast_step(batches, Step(number, SEED))

    variant.step = step
    return variant, model


def make_peer(
    config: PretrainConfig, pool: Pool, device: torch.device, compiled: bool
) -> tuple[Variant, nn.Module]:
    """The peer: eager with batched AdamW, or compiled with fused AdamW; with its model."""
    # transformers takes seconds to import, and a run without the peer does not need it
    from benchmarks.throughput.pretrain_peer import (
        PeerBatch,
        make_peer_optimizer,
        peer_of,
        peer_step,
    )

    started = time.perf_counter()
    peer = peer_of(make_model(config, pool)).to(device)
    optimizer = make_peer_optimizer(peer, config, fused=compiled)
    called: nn.Module = torch.compile(peer) if compiled else peer  # type: ignore[assignment]
    name = COMPILED_PEER if compiled else PEER
    variant = Variant(name, pool, _nothing, list(peer.parameters()), device, started=started)

    ids, types = (_pinned(of, device) for of in (pool.input_ids, pool.token_type_ids))

    def move(tensors: list[Tensor], number: int) -> Tensor:
        return tensors[number % len(tensors)].to(device, non_blocking=True)

    def step(number: int) -> None:
        batch = PeerBatch(move(ids, number), move(types, number), pool.packed)
        with any_backend():  # not the one that ours has chosen
            peer_step(called, optimizer, batch, config, pool.special, number)

    variant.step = step
    return variant, peer


def _pinned(tensors: list[Tensor], device: torch.device) -> list[Tensor]:
    """As a data loader hands them out: from other memory a copy would wait for the GPU."""
    return [of.pin_memory() for of in tensors] if device.type == "cuda" else tensors


def _nothing(number: int) -> None:
    raise AssertionError("a variant without a step")


@dataclass(frozen=True)
class Timed:
    """Seconds a step of one variant: one figure a round, each the mean over a block of steps."""

    name: str
    wall: tuple[float, ...]
    cpu: tuple[float, ...]  # of all threads of this process

    @property
    def seconds(self) -> float:
        """The median by the clock."""
        return statistics.median(self.wall)

    @property
    def cpu_seconds(self) -> float:
        """The median of processor seconds."""
        return statistics.median(self.cpu)

    @property
    def spread(self) -> float:
        """Slowest round less the fastest, over the median."""
        return (max(self.wall) - min(self.wall)) / self.seconds


def time_in_turn(
    variants: Sequence[Variant], num_rounds: int, num_steps: int, num_warmup: int
) -> list[Timed]:
    """Every variant once a round, in alternating order, so that drift meets all of them alike."""
    for variant in variants:
        if variant.first_seconds is None:
            variant.run_first()
        variant.run(num_warmup)
        synchronize(variant.device)
    walls: list[list[float]] = [[] for _ in variants]
    cpus: list[list[float]] = [[] for _ in variants]
    for number in range(num_rounds):
        order = range(len(variants))
        for place in order if number % 2 == 0 else reversed(order):
            wall, cpu = _time_block(variants[place], num_steps)
            walls[place].append(wall)
            cpus[place].append(cpu)
    return [
        Timed(variant.name, tuple(wall), tuple(cpu))
        for variant, wall, cpu in zip(variants, walls, cpus, strict=True)
    ]


def _time_block(variant: Variant, num_steps: int) -> tuple[float, float]:
    synchronize(variant.device)
    wall, cpu = time.perf_counter(), time.process_time()
    variant.run(num_steps)
    synchronize(variant.device)
    return (time.perf_counter() - wall) / num_steps, (time.process_time() - cpu) / num_steps


def ratio(one: Timed, other: Timed, clock: Literal["wall", "cpu"] = "wall") -> float:
    """How many times as fast `other` is as `one`: the median over rounds of their ratio there."""
    above, below = ((of.wall if clock == "wall" else of.cpu) for of in (one, other))
    return statistics.median(a / b for a, b in zip(above, below, strict=True))


def step_peak_bytes(variant: Variant) -> int | None:
    """Peak memory of a step with the variant's own weights and moments; CUDA only.

    A recorded step allocates nothing, but keeps what it needs for itself.
    """
    if variant.device.type != "cuda":
        return None
    synchronize(variant.device)
    before = torch.cuda.memory_allocated(variant.device)
    if not variant.recorded_bytes():  # gradients of the step before, dropped when the next begins
        before -= sum(p.grad.nbytes for p in variant.parameters if p.grad is not None)
    torch.cuda.reset_peak_memory_stats(variant.device)
    variant.run(1)
    synchronize(variant.device)
    peak = torch.cuda.max_memory_allocated(variant.device) - before
    return peak + variant.recorded_bytes() + variant.own_bytes()
