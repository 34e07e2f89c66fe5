"""How sure a score over several seeds is, and a difference of two: Student's t on two levels.

The standard error has two parts. Examples: the variance of the score over resampled examples
(`resamples`), with the same draws for every seed and every model, so that a difference is paired by
example. Seeds: the variance of their mean. The two variances are added, and the degrees of freedom
of the sum are those of Welch (1947) and Satterthwaite (1946). The interval and p are of the same t:
the 95 % interval holds 0 where p is above .05, and nowhere else.
"""

import hashlib
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.metrics.weighted import Floats, Weighted
from benchmarks.results.predictions import score_lines
from benchmarks.tasks.task import Line, Task

NUM_RESAMPLES = 2000
AT_ONCE = 2**22  # numbers of a table of draws: 32 MB
MAX_UNDEFINED = 0.05  # share of resamples without a score beyond which there is no interval
_ROUNDING = 1e-20  # of a variance of scores
_CORRELATIONS = ("mcc", "pearson", "spearman", "mean_of_pearson_and_spearman")

Values = Mapping[int, float]  # a score by seed


@dataclass(frozen=True)
class Draws:
    """The headline of each seed on the same resampled examples."""

    ids: str  # a digest of all
    num_examples: int
    scores: Mapping[int, Floats]  # by seed, (resamples,); nan where undefined

    def mean(self, seeds: Sequence[int]) -> Floats:
        """Over seeds, of every resample."""
        return np.asarray(np.mean([self.scores[seed] for seed in seeds], axis=0))


def resample(task: Task, runs: Mapping[int, Sequence[Line]]) -> Draws:
    """Score the lines of each seed on `NUM_RESAMPLES` samples of the examples, with replacement.

    The draws depend on the ids of the examples alone: every seed and every model has the same.
    Raises `ValueError` where seeds hold other examples.
    """
    # by id: two files may hold the same examples in another order
    ordered = {
        seed: sorted(lines, key=lambda line: str(line["id"])) for seed, lines in runs.items()
    }
    digests = {_digest(str(line["id"]) for line in lines) for lines in ordered.values()}
    if len(digests) != 1:
        raise ValueError(
            f"{task.name}: seeds {', '.join(map(str, runs))} hold predictions of other examples"
        )
    ids, num_examples = digests.pop(), len(next(iter(runs.values())))
    scorers = {seed: _scorer(task, lines) for seed, lines in ordered.items()}
    scores: dict[int, list[Floats]] = {seed: [] for seed in scorers}
    for counts in _counts(num_examples, ids):
        for seed, score in scorers.items():
            scores[seed].append(score(counts))
    return Draws(ids, num_examples, {seed: np.concatenate(of) for seed, of in scores.items()})


def _scorer(task: Task, lines: Sequence[Line]) -> Weighted:
    """(resamples, examples) to (resamples,); nan of a failed training."""
    if any(line["prediction"] is None for line in lines):
        return lambda counts: np.full(len(counts), math.nan)
    return task.weighted_score(lines)


def _counts(num_examples: int, ids: str) -> Iterator[Floats]:
    """How often each example is in each resample, (resamples, examples), some at a time."""
    seed = int.from_bytes(hashlib.sha256(ids.encode()).digest()[:16], "big")
    generator = np.random.default_rng(seed)
    rows = max(1, AT_ONCE // max(num_examples, 1))
    for start in range(0, NUM_RESAMPLES, rows):
        size = min(rows, NUM_RESAMPLES - start)
        drawn = generator.integers(0, max(num_examples, 1), (size, num_examples))
        drawn += np.arange(size)[:, None] * num_examples
        found = np.bincount(drawn.ravel(), minlength=size * num_examples)
        yield found.reshape(size, num_examples).astype(np.float64)


def _digest(ids: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(ids).encode()).hexdigest()


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds, or a difference of two, with its 95 % interval."""

    value: float
    low: float  # nan where nothing is known of it
    high: float
    over: str  # "examples and seeds", "examples", "seeds" or "" for none
    num_undefined: int = 0  # of the resamples; they are left out

    def text(self) -> str:
        """'0.8021 to 0.8189', a dash where there is no interval."""
        if math.isnan(self.low):
            return "–"
        note = f" ({self.over})" if self.over in ("examples", "seeds") else ""
        return f"{self.low:.4f} to {self.high:.4f}{note}"


@dataclass(frozen=True)
class Difference:
    """A score less another one, and how likely as much would be if there were none."""

    estimate: Estimate
    p: float | None  # two-sided; None where there is no interval
    paired_by_seed: bool


def score_bounds(metric: str) -> tuple[float, float]:
    """What a headline can be: no interval goes beyond."""
    return (-1.0 if metric in _CORRELATIONS else 0.0), 1.0


def estimate(
    values: Values, draws: Draws | None, bounds: tuple[float, float] = (-math.inf, math.inf)
) -> Estimate:
    """The mean over seeds with its interval; of one seed without draws there is none.

    An undefined score makes both undefined.
    """
    value = statistics.fmean(values.values()) if values else math.nan
    scores = None if draws is None else draws.mean(list(values))
    found, _ = _estimate(value, scores, draws, [_seed_variance(list(values.values()))])
    low, high = (float(np.clip(side, *bounds)) for side in (found.low, found.high))
    is_inside = bounds[0] <= value <= bounds[1]
    return replace(found, low=low, high=high) if is_inside else found


def estimate_lines(task: Task, runs: Mapping[int, Sequence[Line]]) -> Estimate:
    """`estimate` of prediction lines by seed, such as those of a part of the examples."""
    values = {seed: score_lines(task, lines)[task.headline] for seed, lines in runs.items()}
    return estimate(values, resample(task, runs), score_bounds(task.headline))


def difference(
    values: Values,
    draws: Draws | None,
    other: Values,
    other_draws: Draws | None,
    shares_seeds: bool = False,
) -> Difference:
    """The mean of `values` less that of `other`, which are of the same examples.

    `shares_seeds`: a seed draws the same for both, such as for an encoder and the same network with
    random weights. Then they are paired by seed, if both have the same seeds, unless the
    differences are all equal though the scores are not: few values of few rows, not certainty.
    Others are compared by Welch's t. Of one seed on either side nothing is known of what another
    would score, and the interval is over examples alone. Without the draws of both it is over seeds
    alone.
    """
    value = statistics.fmean(values.values()) - statistics.fmean(other.values())
    variances = [_seed_variance(list(side.values())) for side in (values, other)]
    is_paired = shares_seeds and values.keys() == other.keys()
    if is_paired:
        of_gains = _seed_variance([values[seed] - other[seed] for seed in values])
        is_paired = of_gains[0] > _ROUNDING or not any(variance for variance, _ in variances)
        variances = [of_gains] if is_paired else variances
    scores = None
    if draws is not None and other_draws is not None:
        assert draws.ids == other_draws.ids
        scores = draws.mean(list(values)) - other_draws.mean(list(other))
    found, p = _estimate(value, scores, draws, variances)
    return Difference(found, p, is_paired)


def student(value: float, error: float, degrees: float) -> tuple[float, float]:
    """Half of the 95 % interval around a value of that standard error, and the two-sided p of as
    large a value where the true one is 0."""
    from scipy.stats import t

    if not error:
        return 0.0, float(abs(value) < math.sqrt(_ROUNDING))
    half_width = float(t.ppf(0.975, degrees)) * error
    return half_width, 2 * float(t.sf(abs(value) / error, degrees))


def p_text(p: float | None) -> str | None:
    """'0.032' or '< 0.001'; None where p is not known."""
    if p is None or math.isnan(p):
        return None
    return f"{p:.3f}" if p >= 0.001 else "< 0.001"


_Variance = tuple[float, int]  # of a mean, and its degrees of freedom


def _seed_variance(values: Sequence[float]) -> _Variance:
    """No degrees of freedom of fewer than two seeds."""
    if len(values) < 2 or not all(map(math.isfinite, values)):
        return 0.0, 0
    return statistics.variance(values) / len(values), len(values) - 1


def _estimate(
    value: float, scores: Floats | None, draws: Draws | None, of_seeds: Sequence[_Variance]
) -> tuple[Estimate, float | None]:
    """An estimate and its p; `scores` are the value on resampled examples, (resamples,)."""
    variances = list(of_seeds) if all(degrees for _, degrees in of_seeds) else []
    levels, num_undefined = ["seeds"] if variances else [], 0
    if scores is not None and draws is not None:
        num_undefined = int(np.isnan(scores).sum())
        if num_undefined > MAX_UNDEFINED * len(scores):
            return Estimate(value, math.nan, math.nan, "", num_undefined), None
        degrees = min(draws.num_examples, len(scores)) - 1
        variances.append((float(np.nanvar(scores)), degrees))
        levels.insert(0, "examples")
    if not levels or not math.isfinite(value):
        return Estimate(value, math.nan, math.nan, "", num_undefined), None
    total = sum(variance for variance, _ in variances)
    error = math.sqrt(total) if total > _ROUNDING else 0.0
    squares = sum(variance**2 / n for variance, n in variances if variance)
    half_width, p = student(value, error, total**2 / squares if error else math.nan)
    over = " and ".join(levels)
    return Estimate(value, value - half_width, value + half_width, over, num_undefined), p
