"""Scores of several seeds, and whether two of them differ by more than the seeds do."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.results import Result, Summary, summarize

RULE = (
    "The difference counts as beyond the seeds' spread where the ranges (lowest to highest seed) "
    "do not overlap, or where it is more than twice the pooled sd; else the two cannot be told "
    "apart. It takes two seeds of each. sd is the sample standard deviation over seeds."
)


@dataclass(frozen=True)
class Sample:
    """The headline metric of one task and encoder by seed, and its mean and sd."""

    values: Mapping[int, float]
    summary: Summary

    def text(self) -> str:
        """'0.8123 ± 0.0045', the value alone of one seed, a dash of none."""
        if not self.values:
            return "–"
        spread = "" if self.summary.num_seeds < 2 else f" ± {self.summary.sd:.4f}"
        return f"{self.summary.mean:.4f}{spread}"


@dataclass(frozen=True)
class Comparison:
    """A sample against another: `gain` is positive where the first is the better one."""

    gain: float | None
    beyond_spread: bool
    verdict: str


@dataclass(frozen=True)
class TaskScore:
    """All results of one task and one encoder, with those of its untrained twin."""

    stage: str
    results: tuple[Result, ...]

    @property
    def first(self) -> Result:
        """Any one record: task, metric, split and protocol are the same in all."""
        return self.results[0]

    @property
    def pretrained(self) -> Sample:
        """The encoder as pretrained."""
        return sample_of([r for r in self.results if r.model == "pretrained"])

    @property
    def untrained(self) -> Sample:
        """The same network with random weights."""
        return sample_of([r for r in self.results if r.model == "random-init"])

    @property
    def comparison(self) -> Comparison:
        """Pretrained against untrained."""
        return compare(self.pretrained, self.untrained, self.first.higher_is_better)

    @property
    def label(self) -> str:
        """The task, with the encoder where it is not the run's own export."""
        other = self.stage.removeprefix("evaluate").removeprefix("-")
        return f"{self.first.task} ({other})" if other else self.first.task


def sample_of(results: Sequence[Result]) -> Sample:
    """The seeds of one task and one encoder; of no results, an empty sample."""
    nothing = Summary(math.nan, math.nan, 0)
    values = {result.seed: result.value for result in results}
    return Sample(values, next(iter(summarize(results).values()), nothing))


def task_scores(stage: str, results: Sequence[Result]) -> list[TaskScore]:
    """Group one evaluation's results by task, in order of first appearance."""
    tasks = dict.fromkeys(result.task for result in results)
    return [TaskScore(stage, tuple(r for r in results if r.task == task)) for task in tasks]


def compare(sample: Sample, other: Sample, higher_is_better: bool) -> Comparison:
    """Apply `RULE`."""
    a, b = list(sample.values.values()), list(other.values.values())
    if not a or not b:
        return Comparison(None, False, "nothing to compare with" if a else "not scored")
    gain = (sample.summary.mean - other.summary.mean) * (1 if higher_is_better else -1)
    if not all(map(math.isfinite, a + b)):
        return Comparison(gain, False, "cannot tell: undefined values")
    if len(a) < 2 or len(b) < 2:
        return Comparison(gain, False, "cannot tell: fewer than two seeds")
    word = "better" if gain > 0 else "worse"
    if min(a) > max(b) or min(b) > max(a):
        # were there no difference, the seeds would part like this in 2 of C(n + m, n) orders
        chance = 100 * 2 / math.comb(len(a) + len(b), len(a))
        verdict = f"{word}: ranges do not overlap ({chance:.2g} % by chance alone)"
        return Comparison(gain, True, verdict)
    pooled = math.sqrt(
        ((len(a) - 1) * sample.summary.sd**2 + (len(b) - 1) * other.summary.sd**2)
        / (len(a) + len(b) - 2)
    )
    if abs(gain) > 2 * pooled:
        return Comparison(gain, True, f"{word}: more than 2 × pooled sd ({pooled:.4f})")
    return Comparison(gain, False, "cannot tell apart")
