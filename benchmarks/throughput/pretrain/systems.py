"""The systems that are timed and their clock: ours as a run has it, the peer eager or compiled."""

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from electrify.config.pretrain import PretrainConfig
from model.batch import Noise, SpecialTokens
from model.devices.device import synchronize
from model.electra import ElectraPretrainer
from model.masking import num_slots
from model.train.data import HostBatch, noise_key
from model.train.optim import make_optimizers
from model.train.step import WARM_UPS, FastStep, Step
from model.watch.metrics import MetricsWindow
from vocab.shards.files import token_dtype

# What is timed upon. Token ids follow Zipf's law, since the gradients of the shared embedding meet
# in the rows of common tokens, and a flat or constant stream would hide what that costs.

SEED = 0
BERT_SPECIAL = SpecialTokens(pad=0, cls=101, sep=102, mask=103)
BERT_VOCAB_SIZE = 30_522
_FIRST_WORD = 999  # where the words of BERT's vocabulary begin, after special and unused pieces
_POOL = 16  # batches that are made before any clock runs, then used round and round


@dataclass(frozen=True)
class Pool:
    """Batches on the host; their draws are made anew for every step, as a run does."""

    input_ids: list[Tensor]  # each (B, L) int64
    token_type_ids: list[Tensor]
    slots: int
    vocab_size: int
    special: SpecialTokens

    def host_batch(self, step: int, num_parts: int = 1) -> HostBatch:
        """The batch of a step as a run has it, for so many forward passes."""
        ids = self.input_ids[step % len(self.input_ids)].numpy()
        types = self.token_type_ids[step % len(self.input_ids)].numpy()
        number, length = ids.shape
        return HostBatch.of(
            ids.astype(token_dtype(self.vocab_size)),
            types.astype(np.uint8),
            np.zeros(number, np.int64),
            Noise.draw(noise_key(0, step), number, length, self.slots),
            True,
            number // num_parts,
        )


def zipf_pool(
    config: PretrainConfig,
    batch_size: int,
    length: int,
    vocab_size: int = BERT_VOCAB_SIZE,
    special: SpecialTokens = BERT_SPECIAL,
) -> Pool:
    """Full pairs of segments, [CLS] ... [SEP] ... [SEP], of words whose rank r comes 1 / r of the
    time."""
    rng = np.random.default_rng(0)
    first = _FIRST_WORD if vocab_size > 2 * _FIRST_WORD else 0
    taken = {special.pad, special.cls, special.sep, special.mask}
    words = np.array([word for word in range(first, vocab_size) if word not in taken])
    chances = 1.0 / np.arange(1, len(words) + 1)
    ids_of, types_of = [], []
    for _ in range(_POOL):
        ids = rng.choice(words, (batch_size, length), p=chances / chances.sum())
        middles = rng.integers(4, length - 3, (batch_size, 1))
        column = np.arange(length)
        ids[:, 0] = special.cls
        ids[(column == middles) | (column == length - 1)] = special.sep
        ids_of.append(torch.from_numpy(ids))
        types_of.append(torch.from_numpy((column > middles).astype(np.int64)))
    return Pool(ids_of, types_of, num_slots(config, length), vocab_size, special)


def make_model(config: PretrainConfig, pool: Pool) -> ElectraPretrainer:
    """Ours on the CPU, the same weights each time."""
    torch.manual_seed(SEED)
    return ElectraPretrainer(config, pool.vocab_size, pool.special)


# The systems.

OURS = "electrify"  # as `electrify pretrain` runs on the device
AGAIN = "electrify, again"
AS_WRITTEN = "electrify, as written"  # neither compiled nor recorded
PEER = "peer_hf_eager"
COMPILED_PEER = "peer_hf_compiled"
_NUM_MOMENTS = 2  # of AdamW, each as large as the weights


@dataclass
class Variant:
    """One system; `step` does a whole update, copy and draws included."""

    name: str
    step: Callable[[int], None]
    parameters: Sequence[nn.Parameter]
    device: torch.device
    started: float  # when its building began
    fast_step: FastStep | None = None  # of ours
    num_steps: int = 0  # done
    first_seconds: float = math.nan  # from `started` to after the first step

    def run(self, num_steps: int) -> None:
        """So many updates, without waiting for the device."""
        for _ in range(num_steps):
            self.step(self.num_steps)
            self.num_steps += 1

    def run_first(self) -> None:
        """The first update, which compiles and allocates; a step that can be is then recorded."""
        self.run(1)
        synchronize(self.device)
        self.first_seconds = time.perf_counter() - self.started
        if self.fast_step is not None and self.fast_step.is_recorded:
            self.run(WARM_UPS)  # the last of them records
            synchronize(self.device)


def make_ours(
    config: PretrainConfig, pool: Pool, device: torch.device, num_parts: int = 1
) -> Variant:
    """Steps as a run takes them, in `num_parts` micro-batches."""
    started = time.perf_counter()
    model = make_model(config, pool).to(device)
    optimizers = make_optimizers(model, config)
    fast_step = FastStep(model, optimizers, config, device, MetricsWindow(["Zipf"], device))

    def step(number: int) -> None:
        batches = pool.host_batch(number, num_parts).micro_batches(device)
        fast_step(batches, Step(number, SEED))

    return Variant(OURS, step, list(model.parameters()), device, started, fast_step)


def make_peer(config: PretrainConfig, pool: Pool, device: torch.device, compiled: bool) -> Variant:
    """The peer: eager with batched AdamW, or compiled with fused AdamW."""
    # transformers takes seconds to import, and a run without the peer does not need it
    from benchmarks.throughput.pretrain.peer import make_peer_optimizer, peer_of, peer_step

    started = time.perf_counter()
    peer = peer_of(make_model(config, pool)).to(device)
    optimizer = make_peer_optimizer(peer, config, fused=compiled)
    called: nn.Module = torch.compile(peer) if compiled else peer  # type: ignore[assignment]
    ids, types = pool.input_ids, pool.token_type_ids
    if device.type == "cuda":  # from other memory a copy would wait for the GPU
        ids, types = ([of.pin_memory() for of in tensors] for tensors in (ids, types))

    def step(number: int) -> None:
        place = number % len(ids)
        rows = ids[place].to(device, non_blocking=True)
        kinds = types[place].to(device, non_blocking=True)
        peer_step(called, optimizer, rows, kinds, config, pool.special, number)

    name = COMPILED_PEER if compiled else PEER
    return Variant(name, step, list(peer.parameters()), device, started)


# The clock.


@dataclass(frozen=True)
class Timed:
    """Seconds a step of one variant: one figure a round, each the mean over a block of steps."""

    name: str
    wall: list[float]
    cpu: list[float]  # of all threads of this process

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
        variant.run(num_warmup)
    timed = [Timed(variant.name, [], []) for variant in variants]
    for number in range(num_rounds):
        pairs = list(zip(variants, timed, strict=True))
        for variant, of in pairs if number % 2 == 0 else reversed(pairs):
            synchronize(variant.device)
            wall, cpu = time.perf_counter(), time.process_time()
            variant.run(num_steps)
            synchronize(variant.device)
            of.wall.append((time.perf_counter() - wall) / num_steps)
            of.cpu.append((time.process_time() - cpu) / num_steps)
    return timed


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
    recorded = variant.fast_step.recorded_bytes if variant.fast_step is not None else 0
    before = torch.cuda.memory_allocated(variant.device)
    if not recorded:  # gradients of the step before, dropped when the next begins
        before -= sum(p.grad.nbytes for p in variant.parameters if p.grad is not None)
    torch.cuda.reset_peak_memory_stats(variant.device)
    variant.run(1)
    synchronize(variant.device)
    peak = torch.cuda.max_memory_allocated(variant.device) - before
    return peak + recorded + (1 + _NUM_MOMENTS) * sum(p.nbytes for p in variant.parameters)
