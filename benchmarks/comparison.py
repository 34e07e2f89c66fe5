"""Whether two models differ on a task, and on which of several."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchmarks.metrics.statistics import holm
from benchmarks.results import Result
from benchmarks.scores import Sample
from benchmarks.uncertainty import Difference, difference

ALPHA = 0.05
SEEDS_RULE = (
    "The interval of a difference is of 95 %, by Student's t over seeds. They are paired: a seed "
    "has the same first weights and training rows on both sides. Better and worse: the interval "
    "does not hold 0; else the two cannot be told apart. It takes two seeds of each. sd is the "
    "sample standard deviation over seeds."
)
METHOD = (
    "Intervals are of 95 %, by Student's t. The standard error has two parts. Other examples: the "
    "variance over 2,000 resamples of the reported examples, the same for all models. Other seeds: "
    "the variance of their mean, and few seeds make the interval wide. Scores without files of "
    "predictions have the second part alone. A difference is paired by example. It is paired by "
    "seed between an encoder and the same network with random weights, for which a seed draws the "
    "same training rows; other encoders are compared by Welch's t. p says how often as large a "
    "difference comes about where there is none. It is corrected for all comparisons of its table "
    f"(Holm), and up to {ALPHA} the outcome is better or worse. Otherwise the two cannot be told "
    "apart, which does not say that they are equal. p over examples is that of the very models at "
    "hand: exact McNemar, or exchanging the two example by example. sd is the sample standard "
    "deviation over seeds."
)


@dataclass(frozen=True)
class Comparison:
    """A sample against another: `gain` is positive where the first is the better one."""

    gain: float | None
    outcome: str  # "better", "worse", "cannot tell apart", "not comparable" and what is not there
    why: str = ""
    difference: Difference | None = None  # of the gain
    p_corrected: float | None = None  # over the family that it stands in

    @property
    def can_tell(self) -> bool:
        """Whether there is enough to tell a difference by: defined scores of two seeds each."""
        found = self.difference
        return found is not None and found.p is not None and "seeds" in found.estimate.over

    @property
    def verdict(self) -> str:
        """The outcome, with the reason where there is one to give."""
        return f"{self.outcome}: {self.why}" if self.why else self.outcome


def compare(
    sample: Sample, other: Sample, higher_is_better: bool, shares_seeds: bool = False
) -> Comparison:
    """Of two models on the same examples; a family of one. `shares_seeds` as `difference`."""
    if not sample.values or not other.values:
        return Comparison(None, "nothing to compare with" if sample.values else "not scored")
    if sample.draws and other.draws and sample.draws.ids != other.draws.ids:
        return Comparison(None, "not comparable", "ids of the examples differ")
    first, second = (sample, other) if higher_is_better else (other, sample)
    found = difference(first.values, first.draws, second.values, second.draws, shares_seeds)
    comparison = Comparison(found.estimate.value, "cannot tell apart", "", found)
    if not all(map(math.isfinite, [*sample.values.values(), *other.values.values()])):
        return replace(comparison, why="undefined scores")
    if min(len(sample.values), len(other.values)) < 2:
        return replace(comparison, why="fewer than two seeds")
    if found.p is None:
        return replace(comparison, why="most resamples have no score")
    return corrected([comparison])[0]


def corrected(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """The outcomes with p corrected over all that can be told, which are one family."""
    p_values = [c.difference.p for c in comparisons if c.can_tell and c.difference]
    adjusted = iter(holm([p for p in p_values if p is not None]))
    return [_decided(c, next(adjusted)) if c.can_tell else c for c in comparisons]


def incomparable(result: Result, other: Result) -> Comparison | None:
    """Says so where two records are not of the same task and examples."""
    for what in ("task_version", "metric", "split", "num_examples", "data_sha256"):
        if getattr(result, what) != getattr(other, what):
            return Comparison(None, "not comparable", f"{what.replace('_', ' ')} differs")
    return None


def _decided(comparison: Comparison, p: float) -> Comparison:
    gain = comparison.gain
    assert gain is not None
    word = "cannot tell apart" if p > ALPHA else "better" if gain > 0 else "worse"
    return replace(comparison, outcome=word, p_corrected=p)
