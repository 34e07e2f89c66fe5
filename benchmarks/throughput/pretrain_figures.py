"""What a run of the pretraining benchmark found, and the goals it is judged by."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.throughput.figures import FORMAT_VERSION, Goal, machine
from benchmarks.throughput.goals import at_least, at_most
from benchmarks.throughput.pretrain_band import Band
from benchmarks.throughput.pretrain_data import BERT_VOCAB_SIZE
from benchmarks.throughput.pretrain_kernels import OnDevice
from benchmarks.throughput.pretrain_loader import LoaderFigures
from benchmarks.throughput.pretrain_probe import Probe
from benchmarks.throughput.pretrain_timing import Timed, ratio
from benchmarks.throughput.pretrain_variants import (
    AS_WRITTEN,
    COMPILED_ONLY,
    COMPILED_PEER,
    OURS,
    PEER,
)

PACKAGES = ("torch", "transformers", "numpy")
# tokens a second of one H200 in bf16 at the paper's shapes: the goal, then the gates on the way
_H200_GOALS = {"small": (4.55e6, 3.5e6, 2.5e6), "base": (0.75e6, 0.55e6)}
_FIRST_STEP_SECONDS = 60.0
_DROPOUT = 0.1  # of the paper
_SHARE_INSIDE = 0.9  # of the points of a loss curve; 0.95 is to be expected of a path like it


@dataclass(frozen=True)
class System:
    """One variant: time, memory and counts of its step. What was not measured is None."""

    timed: Timed
    data: str
    positions: int  # of a step, padding included
    tokens: float  # of a step, padding left out
    flops_per_position: float  # of the matrix products that the objective needs
    first_seconds: float | None = None  # to the end of the first step, building included
    recorded_seconds: float | None = None  # to the end of the first replay of a recorded step
    peak_bytes: int | None = None
    operators: int | None = None  # dispatched in a step, views and allocations left out
    views: int | None = None
    launches: float | None = None  # kernels and copies on a GPU
    host_calls: float | None = None  # that started them, or a graph of them
    num_cached: int = 0  # pieces of code of the first step that were compiled by an earlier run

    @property
    def positions_per_second(self) -> float:
        """By the clock, padding included: what schedules are counted in."""
        return self.positions / self.timed.seconds

    @property
    def tokens_per_second(self) -> float:
        """By the clock, without padding."""
        return self.tokens / self.timed.seconds

    @property
    def flops_per_second(self) -> float:
        """By one formula for every system: what it computes beyond that gains it nothing."""
        return self.flops_per_position * self.positions_per_second


@dataclass
class PretrainFigures:
    """Everything of one run."""

    conditions: dict[str, Any]  # size, shapes, device, precision, rounds
    peak_flops: float  # of the device's data sheet; nan where not known
    ceilings: dict[str, float] = field(default_factory=dict)
    correct: dict[str, float] = field(default_factory=dict)  # ours against the peer in fp64
    systems: list[System] = field(default_factory=list)
    parts: dict[str, float] = field(default_factory=dict)  # seconds of a step of ours
    ratios: dict[str, float] = field(default_factory=dict)
    on_device: OnDevice | None = None  # kernels of a step of ours
    band: Band | None = None
    loader: LoaderFigures | None = None
    largest: list[dict[str, object]] = field(default_factory=list)  # tensors of a step of ours
    probes: list[Probe] = field(default_factory=list)
    schedule_tokens: float = math.nan
    goals: list[Goal] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def system(self, name: str) -> System | None:
        """The variant of this name, if it was measured."""
        return next((of for of in self.systems if of.timed.name == name), None)

    def mfu(self, system: System) -> float | None:
        """Share of the data sheet's peak; None where that is not known."""
        return _finite(system.flops_per_second / self.peak_flops)

    def of_matmul(self, system: System) -> float | None:
        """Share of the square product that was measured in the same run and precision."""
        measured = self.ceilings.get(f"matmul_{self.conditions['precision']}_flops_per_second")
        return system.flops_per_second / measured if measured else None

    def hours(self, system: System) -> float | None:
        """Of the size's whole schedule at this rate."""
        return _finite(self.schedule_tokens / system.positions_per_second / 3600)

    def as_json(self) -> dict[str, Any]:
        """All of it, with rates, machine and versions; what is not known is null."""
        plain = asdict(self)
        plain["peak_flops"] = _finite(self.peak_flops)
        plain["schedule_tokens"] = _finite(self.schedule_tokens)
        if self.band is not None:
            plain["band"]["figures"] = self.band.figures()
        for row, system in zip(plain["systems"], self.systems, strict=True):
            row |= {
                "ms_per_step": 1000 * system.timed.seconds,
                "cpu_ms_per_step": 1000 * system.timed.cpu_seconds,
                "spread": system.timed.spread,
                "positions_per_second": system.positions_per_second,
                "tokens_per_second": system.tokens_per_second,
                "flops_per_second": system.flops_per_second,
                "mfu": self.mfu(system),
                "share_of_measured_matmul": self.of_matmul(system),
                "schedule_hours": self.hours(system),
            }
        return {"format_version": FORMAT_VERSION, "machine": machine(PACKAGES), **plain}


def judge(figures: PretrainFigures) -> list[Goal]:
    """Every goal of the size, met or not; `met` is None for what this run could not measure."""
    about = figures.conditions
    ours, on_gpu = figures.system(OURS), about["device_type"] == "cuda"
    as_asked = _is_as_asked(about)
    on_gpu, on_cpu = on_gpu and as_asked, not on_gpu and as_asked
    is_goal_device = "H200" in about["device"] and about["is_paper_shape"] and as_asked
    rate = ours.positions_per_second if ours and is_goal_device else None
    goals = [
        at_least(f"tokens/s on one H200, {about['size']}, {name}", wanted, rate)
        for name, wanted in _named_goals(_H200_GOALS.get(about["size"], ()))
    ]
    plain, compiled = (figures.ratios.get(f"ratio_to_{name}") for name in ("peer", "compiled_peer"))
    first = ours.first_seconds if ours and not ours.num_cached else None  # from a cold start
    inside = figures.band.share_inside(figures.band.fast) if figures.band else None
    return [
        *goals,
        at_least(f"GPU: times as fast as {PEER}", 3.0, plain if on_gpu else None),
        at_least(f"GPU: times as fast as {COMPILED_PEER}", 2.0, compiled if on_gpu else None),
        at_least(f"CPU: times as fast as {PEER}", 1.25, plain if on_cpu else None),
        at_most(
            "seconds to the first step, building and any compiling included",
            _FIRST_STEP_SECONDS,
            first,
        ),
        at_least(
            "fast path's loss curve: share of points in the plain path's band of 3 seeds",
            _SHARE_INSIDE,
            inside,
        ),
    ]


def _is_as_asked(about: Mapping[str, Any]) -> bool:
    """Whether what was timed is what the goals are of: less of it would be faster.

    Not tiny, whose head is nearly all of the work; the paper's dropout; bf16 on a GPU, fp32 on a
    CPU; BERT's vocabulary or a larger one.
    """
    precision = "bf16" if about["device_type"] == "cuda" else "fp32"
    return bool(
        about["size"] != "tiny"
        and about["dropout"] == _DROPOUT
        and about["precision"] == precision
        and about["vocab_size"] >= BERT_VOCAB_SIZE
    )


def _named_goals(wanted: Sequence[float]) -> list[tuple[str, float]]:
    """The goal, then its gates."""
    return [("goal" if not number else "gate", of) for number, of in enumerate(wanted)]


def ratios_of(timed: Mapping[str, Timed]) -> dict[str, float]:
    """`ratio_to_peer`, `ratio_to_compiled_peer` and to slower paths of ours, by the clock and by
    processor time, where measured."""
    found = {}
    for name, peer in (
        ("peer", PEER),
        ("compiled_peer", COMPILED_PEER),
        ("as_written", AS_WRITTEN),
        ("compiled_only", COMPILED_ONLY),
    ):
        if OURS in timed and peer in timed:
            found[f"ratio_to_{name}"] = ratio(timed[peer], timed[OURS])
            found[f"cpu_time_ratio_to_{name}"] = ratio(timed[peer], timed[OURS], "cpu")
    return found


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
