"""What a run of the benchmark found, as plain records that JSON can hold."""

import importlib.metadata
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from benchmarks.throughput.measure import Cost
from electrify.system.machine import cpu_name

if TYPE_CHECKING:  # it needs what reads text, which a host with a GPU need not have
    from benchmarks.throughput.recall import BandRecall, Precision

FORMAT_VERSION = 2
_PACKAGES = ("apache-beam", "numpy", "scipy", "pyarrow", "xxhash", "orjson", "ftfy")


@dataclass(frozen=True)
class Step:
    """Cost of one run, or of one step as the difference of two runs.

    `peak_mb` and `peak_rss_mb` are of the run that had the step on; None where not measured.
    """

    name: str
    documents: int
    megabytes: float  # of text, 10^6 bytes of UTF-8
    cpu_seconds: float
    wall_seconds: float | None = None
    peak_mb: float | None = None
    peak_rss_mb: float | None = None
    note: str = ""

    @property
    def mb_per_cpu_second(self) -> float | None:
        """Text through one core in a second."""
        return _ratio(self.megabytes, self.cpu_seconds)

    @property
    def documents_per_cpu_second(self) -> float | None:
        """Documents through one core in a second."""
        return _ratio(self.documents, self.cpu_seconds)

    @property
    def mb_per_second(self) -> float | None:
        """Text by the clock."""
        return _ratio(self.megabytes, self.wall_seconds)


@dataclass(frozen=True)
class Comparison:
    """A run of the peer: how it was set and what its figures beside ours say."""

    name: str
    meaning: str
    step_seconds: dict[str, float]  # by the clock


@dataclass(frozen=True)
class Goal:
    """A figure of the issue and what was measured; None: not measured in this run."""

    name: str
    wanted: str
    value: float | None
    met: bool | None


@dataclass
class Figures:
    """Everything of one run."""

    corpus: dict[str, Any]
    # ours, then the peer in each of its settings: the same documents
    near: list[Step] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    whole: list[Step] = field(default_factory=list)
    scale: list[Step] = field(default_factory=list)  # smallest first
    start_cpu_seconds: float | None = None  # of a run on one document
    peers: list[Comparison] = field(default_factory=list)  # one for each setting of the peer
    recall: list["BandRecall"] = field(default_factory=list)
    cleaned_recall: list["BandRecall"] = field(default_factory=list)  # of the whole graph
    precision: list["Precision"] = field(default_factory=list)
    goals: list[Goal] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """All of it, with rates, machine and versions."""
        plain = asdict(self)
        for name in ("near", "steps", "whole", "scale"):
            for row, step in zip(plain[name], getattr(self, name), strict=True):
                row["mb_per_cpu_second"] = step.mb_per_cpu_second
                row["documents_per_cpu_second"] = step.documents_per_cpu_second
                row["mb_per_second"] = step.mb_per_second
        for name in ("recall", "cleaned_recall"):
            for row, band in zip(plain[name], getattr(self, name), strict=True):
                row["recall"] = band.recall
        return {"format_version": FORMAT_VERSION, "machine": machine(), **plain}


def step_of(name: str, documents: int, num_bytes: int, cost: Cost, note: str = "") -> Step:
    """A whole run as a step."""
    return Step(
        name,
        documents,
        num_bytes / 1e6,
        cost.cpu_seconds,
        cost.wall_seconds,
        cost.peak_mb,
        cost.peak_rss_mb,
        note,
    )


def added_step(name: str, run: Step, base: Step, note: str = "") -> Step:
    """What a run cost more than the base; its memory is its own."""
    seconds = max(0.0, run.cpu_seconds - base.cpu_seconds)
    return Step(
        name, run.documents, run.megabytes, seconds, None, run.peak_mb, run.peak_rss_mb, note
    )


def machine(packages: Sequence[str] = _PACKAGES) -> dict[str, Any]:
    """Where and when, and the versions of these packages; no paths and no host name."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "processor": cpu_name(),
        "python": platform.python_version(),
        "system": platform.system(),
        "date": datetime.now(UTC).date().isoformat(),
        "versions": _versions(packages),
    }


def _versions(packages: Sequence[str]) -> dict[str, str]:
    return {name: importlib.metadata.version(name) for name in packages}


def _ratio(amount: float, seconds: float | None) -> float | None:
    return amount / seconds if seconds else None
