"""What a run of the vocabulary benchmark found, and the goals it is judged by."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.throughput.figures import FORMAT_VERSION, Goal, Step, machine
from benchmarks.throughput.goals import at_least, at_most

PACKAGES = ("tokenizers", "apache-beam", "kiwipiepy", "numpy", "pyarrow")
OURS = "electrify"
PEER = "BertWordPieceTokenizer"
ALONE = "encode_batch_fast alone, 2 threads"
END_TO_END = "documents to shards, 2 processes"
WHITESPACE, DEFAULT = "whitespace", "nominal"
_CEILING, _FERTILITY = 0.98, 1.08


@dataclass(frozen=True)
class Trained:
    """Training on one text by one system."""

    text: str  # ko, or all languages
    step: Step


@dataclass(frozen=True)
class Point:
    """One vocabulary on one data set."""

    name: str
    data: str
    pieces: int
    fertility: float  # pieces a word, as spaces part words
    ceiling: float
    starts: float
    ends: float
    spans: int


@dataclass
class VocabFigures:
    """Everything of one run."""

    corpus: dict[str, Any]
    training: list[Trained] = field(default_factory=list)  # smallest text first
    encoding: list[Step] = field(default_factory=list)
    kiwi: list[Step] = field(default_factory=list)
    curve: list[Point] = field(default_factory=list)
    goals: list[Goal] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """All of it, with rates, machine and versions."""
        plain = asdict(self)
        for row, trained in zip(plain["training"], self.training, strict=True):
            row["step"] |= _rates(trained.step)
        for name in ("encoding", "kiwi"):
            for row, step in zip(plain[name], getattr(self, name), strict=True):
                row |= _rates(step)
        return {"format_version": FORMAT_VERSION, "machine": machine(PACKAGES), **plain}


def judge(figures: VocabFigures) -> list[Goal]:
    """Every goal, met or not; `met` is None for what this run did not measure."""
    ours, peer = (largest(figures.training, name) for name in (OURS, PEER))
    size = f"{ours.megabytes:,.0f} MB" if ours else "the largest text"
    alone, ends = (_named(figures.encoding, name) for name in (ALONE, END_TO_END))
    goals = [
        at_least(
            f"peak memory of training, {PEER} / ours, {size} of Korean",
            3.0,
            _ratio(peer, ours, "peak_mb"),
        ),
        at_most(
            f"wall seconds of training, ours / {PEER}, the same text",
            1.0,
            _ratio(ours, peer, "wall_seconds"),
        ),
        at_most(
            f"CPU seconds of training, ours / {PEER}, the same text",
            1.0,
            _ratio(ours, peer, "cpu_seconds"),
        ),
        at_least(
            "encode end to end on two cores, MB/s / encode_batch_fast alone",
            0.9,
            _ratio(ends, alone, "mb_per_second"),
        ),
    ]
    for data in dict.fromkeys(point.data for point in figures.curve):
        default, plain = (_point(figures.curve, name, data) for name in (DEFAULT, WHITESPACE))
        ceiling = None if default is None else default.ceiling
        goals += [
            at_least(f"span-alignment ceiling, {data}", _CEILING, ceiling),
            at_most(
                f"fertility, default / whitespace of equal size, {data}",
                _FERTILITY,
                _ratio(default, plain, "fertility"),
            ),
        ]
    return goals


def largest(training: Sequence[Trained], name: str) -> Step | None:
    """The run of this name on the largest Korean text."""
    steps = [of.step for of in training if of.text == "ko" and of.step.name == name]
    return max(steps, key=lambda step: step.megabytes, default=None)


def _named(steps: Sequence[Step], name: str) -> Step | None:
    return next((step for step in steps if step.name == name), None)


def _point(curve: Sequence[Point], name: str, data: str) -> Point | None:
    return next((point for point in curve if (point.name, point.data) == (name, data)), None)


def _ratio(one: Step | Point | None, other: Step | Point | None, name: str) -> float | None:
    """A figure of one by that of the other; None if one was not measured."""
    above, below = (getattr(record, name, None) for record in (one, other))
    return above / below if above is not None and below else None


def _rates(step: Step) -> dict[str, float | None]:
    return {
        "mb_per_cpu_second": step.mb_per_cpu_second,
        "documents_per_cpu_second": step.documents_per_cpu_second,
        "mb_per_second": step.mb_per_second,
    }
