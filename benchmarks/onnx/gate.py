"""What int8 loses to fp32, and whether it may be written."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.onnx.measure import Benchmark, Outcome
from benchmarks.onnx.predict import Row, predict
from benchmarks.onnx.quantize import Variant, modules, quantize
from benchmarks.results.results import percent
from benchmarks.statistics.uncertainty import Estimate, difference

MAX_LOST = 0.01  # of a score
MIN_AGREEMENT = 0.99
MIN_TASKS = 4  # that an encoder is scored on
_RANKING_ROWS = 30  # of each subject, on which modules are left out one by one


@dataclass(frozen=True)
class Subject:
    """An fp32 file with what it is measured by, and what it says there."""

    name: str
    file: Path
    benchmark: Benchmark
    choice: Benchmark  # other rows: those that choose which layers stay in fp32
    expected: Outcome
    expected_choice: Sequence[Row]

    @classmethod
    def of(cls, name: str, file: Path, benchmark: Benchmark, choice: Benchmark) -> "Subject":
        """With the outputs of the file."""
        expected = benchmark.outcome(predict(file, benchmark.rows))
        return cls(name, file, benchmark, choice, expected, predict(file, choice.rows))


@dataclass(frozen=True)
class Loss:
    """One file in int8 beside fp32."""

    benchmark: str
    metric: str
    unit: str
    num_units: int
    fp32: float
    int8: float
    lost: Estimate  # in the score, above 0 where int8 is worse
    agreement: float  # share of units with the same prediction
    must_agree: bool = True
    is_constant: bool = False  # fp32 predicts one thing everywhere, and int8 cannot differ


def measure(subjects: Sequence[Subject], files: Mapping[str, Path]) -> list[Loss]:
    """The loss of every subject's int8 file; `files` are by the subject's name."""
    return [
        loss_of(each, each.benchmark.outcome(predict(files[each.name], each.benchmark.rows)))
        for each in subjects
    ]


def loss_of(subject: Subject, found: Outcome) -> Loss:
    """`found` beside what fp32 says."""
    benchmark, expected = subject.benchmark, subject.expected
    better, worse = (expected, found) if benchmark.higher_is_better else (found, expected)
    lost = difference({0: better.score}, better.draws, {0: worse.score}, worse.draws)
    return Loss(
        benchmark.name,
        benchmark.metric,
        benchmark.unit,
        len(expected.predictions),
        expected.score,
        found.score,
        lost,
        agreement(expected.predictions, found.predictions),
        benchmark.must_agree,
        all(each == expected.predictions[0] for each in expected.predictions),
    )


def agreement(one: Sequence[object], two: Sequence[object]) -> float:
    """Share of equal predictions."""
    return float(np.mean([a == b for a, b in zip(one, two, strict=True)]))


def problems(losses: Sequence[Loss]) -> list[str]:
    """Where a variant loses too much or what it loses is not known, in words."""
    found = []
    for loss in losses:
        if loss.is_constant:
            found.append(f"{loss.benchmark} says nothing: fp32 predicts the same everywhere")
        if not loss.lost.value <= MAX_LOST:
            found.append(
                f"{loss.benchmark} loses {percent(loss.lost.value)} points of {loss.metric} "
                f"(allowed {percent(MAX_LOST)})"
            )
        if loss.must_agree and not loss.agreement >= MIN_AGREEMENT:
            found.append(
                f"{loss.benchmark} agrees with fp32 on {percent(loss.agreement)} % of "
                f"{loss.num_units:,} {loss.unit} (needed {percent(MIN_AGREEMENT)})"
            )
    return found


def choose_kept(subjects: Sequence[Subject], variant: Variant, scratch: Path) -> list[str]:
    """The modules that stay in fp32, so that predictions on the choice rows agree.

    Each module is left out alone. Those whose absence takes most of the error away are kept: one,
    two, four... until all subjects agree, on half as many other predictions as the gate allows.
    None if half of the modules do not suffice.
    """
    names = dict.fromkeys(name for subject in subjects for name in modules(subject.file))
    errors = {
        name: np.mean([_error(each, variant, [name], scratch) for each in subjects])
        for name in names
    }
    ranked = sorted(names, key=lambda name: errors[name])
    count = 1
    while count <= len(ranked) / 2:
        if all(_agrees(each, variant, ranked[:count], scratch) for each in subjects):
            return ranked[:count]
        count *= 2
    return []


def _error(subject: Subject, variant: Variant, kept: Sequence[str], scratch: Path) -> float:
    file = scratch / "choice.onnx"
    quantize(subject.file, file, variant, kept)
    found = predict(file, subject.choice.rows[:_RANKING_ROWS])
    return error(subject.expected_choice[:_RANKING_ROWS], found)


def _agrees(subject: Subject, variant: Variant, kept: Sequence[str], scratch: Path) -> bool:
    file = scratch / "choice.onnx"
    quantize(subject.file, file, variant, kept)
    one, two = (
        subject.choice.outcome(outputs).predictions
        for outputs in (subject.expected_choice, predict(file, subject.choice.rows))
    )
    return not subject.choice.must_agree or agreement(one, two) >= (1 + MIN_AGREEMENT) / 2


def error(expected: Sequence[Row], found: Sequence[Row]) -> float:
    """Root of the squared error of all outputs, by that of their size."""
    pairs = [(a[name], b[name]) for a, b in zip(expected, found, strict=True) for name in a]
    squares = sum(float(((a - b) ** 2).sum()) for a, b in pairs)
    return math.sqrt(squares / sum(float((a**2).sum()) for a, _ in pairs))
