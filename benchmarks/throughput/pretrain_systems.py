"""The systems that are timed and their clock: ours as a run has it, the peer eager or compiled."""

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn

from benchmarks.throughput.pretrain_data import SEED, Pool, make_model
from electrify.config.pretrain import PretrainConfig
from model.devices.attention import any_backend
from model.devices.device import synchronize
from model.electra import ElectraPretrainer
from model.train.optim import make_optimizers
from model.train.replay import WARM_UPS, FastStep
from model.train.step import Step
from model.watch.metrics import MetricsWindow

OURS = "electrify"  # as `electrify pretrain` runs on the device
AGAIN = "electrify, again"
AS_WRITTEN = "electrify, as written"  # neither compiled nor recorded
COMPILED_ONLY = "electrify, compiled, no graph"
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
    num_cached: int = 0  # pieces of code that the first step took from the compiler's cache
    fast_step: FastStep | None = None  # of ours
    started: float = field(default_factory=time.perf_counter)

    def run(self, num_steps: int) -> None:
        """So many updates, without waiting for the device."""
        for _ in range(num_steps):
            self.step(self.num_steps)
            self.num_steps += 1

    def run_first(self) -> None:
        """The first update, which compiles and allocates."""
        cached = _num_cached()
        self.run(1)
        synchronize(self.device)
        self.first_seconds = time.perf_counter() - self.started
        self.num_cached = _num_cached() - cached
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


def _num_cached() -> int:
    """Pieces of compiled code that this process has found on the disk."""
    dynamo = sys.modules.get("torch._dynamo.utils")  # imported with the first that is compiled
    if dynamo is None:
        return 0
    inductor, ahead = dynamo.counters["inductor"], dynamo.counters["aot_autograd"]
    return int(inductor["fxgraph_cache_hit"] + ahead["autograd_cache_hit"])


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
