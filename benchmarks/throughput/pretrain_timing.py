"""Clocks: variants in turn, in one process, and the ceilings of the machine they ran on."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from benchmarks.throughput.pretrain_variants import Variant
from model.devices.device import synchronize

_CEILING_REPEATS = 10


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


def seconds_of(work: Callable[[], object], device: torch.device, repeats: int) -> float:
    """Median seconds of one call after warm-up; the device finishes each before the next."""
    for _ in range(2):
        work()
    found = []
    for _ in range(repeats):
        synchronize(device)
        start = time.perf_counter()
        work()
        synchronize(device)
        found.append(time.perf_counter() - start)
    return statistics.median(found)


def ceilings(
    device: torch.device, side: int | None = None, num_bytes: int | None = None
) -> dict[str, float]:
    """What the machine reaches: FLOP/s of a square product on random data, bytes/s of a copy.

    Bytes read and written both count. Zeros would draw less power and clock higher.
    """
    on_gpu = device.type == "cuda"
    side = side or (8192 if on_gpu else 1024)
    num_bytes = num_bytes or (8_000_000_000 if on_gpu else 400_000_000)
    found = {}
    for name, dtype in (("bf16", torch.bfloat16), ("fp32", torch.float32)):
        left, right = (torch.randn(side, side, device=device).to(dtype) for _ in range(2))
        out = torch.empty_like(left)

        def multiply(
            a: torch.Tensor = left, b: torch.Tensor = right, c: torch.Tensor = out
        ) -> None:
            torch.mm(a, b, out=c)

        seconds = seconds_of(multiply, device, _CEILING_REPEATS)
        found[f"matmul_{name}_flops_per_second"] = 2 * side**3 / seconds
    del left, right, out
    source = torch.rand(num_bytes // 8, device=device)
    target = torch.empty_like(source)
    seconds = seconds_of(lambda: target.copy_(source), device, _CEILING_REPEATS)
    found["copy_bytes_per_second"] = 2 * 4 * source.numel() / seconds
    return found | {"matmul_side": float(side), "copied_bytes": 2.0 * 4 * source.numel()}
