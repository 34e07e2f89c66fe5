"""What the fine-tuning benchmark found, and what it was judged by."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from benchmarks.comparison import Comparison, compare
from benchmarks.results import Summary, sample_sd
from benchmarks.scores import Sample
from benchmarks.throughput.figures import FORMAT_VERSION, Goal, machine
from benchmarks.throughput.goals import at_least

OURS, PEER, PEER_BY_LENGTH = "electrify", "Trainer", "Trainer, by length"
PACKAGES = ("torch", "transformers", "tokenizers", "numpy")


@dataclass(frozen=True)
class Run:
    """One fine-tuning: the score, and rates behind the first steps."""

    seed: int
    value: float  # the task's headline on the reported rows
    examples_per_second: float  # by the clock
    examples_per_cpu_second: float  # by the seconds of all threads of this process
    seconds: float  # of all of it: building, training and predicting

    def rate(self, clock: Literal["wall", "cpu"]) -> float:
        """Examples a second of that clock."""
        return self.examples_per_second if clock == "wall" else self.examples_per_cpu_second


@dataclass(frozen=True)
class System:
    """All fine-tunings of one side on one task, one a seed."""

    name: str
    runs: Sequence[Run]

    @property
    def examples_per_second(self) -> float:
        """The median over runs, by the clock."""
        return statistics.median(run.examples_per_second for run in self.runs)

    @property
    def examples_per_cpu_second(self) -> float:
        """The median over runs, by processor time."""
        return statistics.median(run.examples_per_cpu_second for run in self.runs)

    @property
    def spread(self) -> float:
        """Fastest run less the slowest, over the median."""
        rates = [run.examples_per_second for run in self.runs]
        return (max(rates) - min(rates)) / self.examples_per_second

    @property
    def scores(self) -> Sample:
        """Headline by seed."""
        values = {run.seed: run.value for run in self.runs}
        scores = list(values.values())
        return Sample(values, Summary(statistics.fmean(scores), sample_sd(scores), len(scores)))


@dataclass(frozen=True)
class TaskFigures:
    """One task: what it is, and every system on it."""

    name: str
    metric: str
    num_texts: int  # of an example
    num_train: int
    num_reported: int
    num_steps: int
    median_pieces: float  # of a training row
    longest: int
    systems: Sequence[System]

    def system(self, name: str) -> System | None:
        """The system of this name, if it was measured."""
        return next((system for system in self.systems if system.name == name), None)

    def ratio(self, name: str, clock: Literal["wall", "cpu"] = "wall") -> float | None:
        """How many times as fast ours is: the median over seeds of the ratio there."""
        ours, other = self.system(OURS), self.system(name)
        if ours is None or other is None:
            return None
        pairs = zip(ours.runs, other.runs, strict=True)
        return statistics.median(one.rate(clock) / two.rate(clock) for one, two in pairs)

    def difference(self, name: str) -> Comparison | None:
        """The scores of ours against those of another, by the rule of the reports."""
        ours, other = self.system(OURS), self.system(name)
        if ours is None or other is None:
            return None
        return compare(ours.scores, other.scores, higher_is_better=True, shares_seeds=True)


@dataclass
class FinetuneFigures:
    """Everything of one run."""

    conditions: Mapping[str, Any]
    tasks: list[TaskFigures] = field(default_factory=list)
    goals: list[Goal] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """All of it, with medians, machine and versions."""
        plain = asdict(self)
        for row, task in zip(plain["tasks"], self.tasks, strict=True):
            for column, system in zip(row["systems"], task.systems, strict=True):
                column |= {
                    "examples_per_second": system.examples_per_second,
                    "examples_per_cpu_second": system.examples_per_cpu_second,
                    "spread": system.spread,
                    "mean": _finite(system.scores.summary.mean),
                    "sd": _finite(system.scores.summary.sd),
                    "ratio_of_ours": task.ratio(system.name),
                    "cpu_time_ratio_of_ours": task.ratio(system.name, "cpu"),
                }
                for run in column["runs"]:
                    run["value"] = _finite(run["value"])
        return {"format_version": FORMAT_VERSION, "machine": machine(PACKAGES), **plain}


def judge(tasks: Sequence[TaskFigures]) -> list[Goal]:
    """For each task: at least the peer's rate, and scores that seeds do not tell apart."""
    goals = []
    for task in tasks:
        goals.append(at_least(f"{task.name}: examples/s, ours / {PEER}", 1.0, task.ratio(PEER)))
        found = task.difference(PEER)
        goals.append(
            Goal(
                f"{task.name}: mean {task.metric}, ours - {PEER}", "not told apart over seeds",
                found.gain if found else None, _is_equal(found),
            )
        )  # fmt: skip
    return goals


def _is_equal(found: Comparison | None) -> bool | None:
    """None where there are no two seeds to tell a spread by."""
    if found is None or not found.can_tell:
        return None
    return found.outcome == "cannot tell apart"


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else value
