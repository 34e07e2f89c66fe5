"""How sure a score is, and a difference of two: Student's t everywhere.

The standard error has two parts. Examples: the variance of the score over resampled examples, with
the same draws for every seed and every encoder, so that a difference is paired by example. Those of
one text (questions of a passage, hypotheses of a premise, turns of a dialogue) are often right or
wrong together, so they are drawn together (the cluster bootstrap, Davison and Hinkley 1997, 3.8).
Seeds: the variance of their mean. The two variances are added, and the degrees of freedom of the
sum are those of Welch (1947) and Satterthwaite (1946). A grid of runs has few seeds a variant and
pools their variance over all variants (`Fit`).
"""

import hashlib
import math
import statistics
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from benchmarks.results.predictions import score_predictions
from benchmarks.results.results import Score, percent
from benchmarks.tasks.task import Predictions, Sampler, Task
from electrify.system.outcome import UserError

NUM_RESAMPLES = 200  # the standard error of a score is known to a twentieth
MAX_UNDEFINED = 0.05  # fraction of resamples without a score beyond which there is no interval
_ROUNDING = 1e-20  # of a variance of scores
_FIT_ROUNDING = 1e-24  # of a sum of squares of scores
_CORRELATIONS = ("mcc", "pearson", "spearman", "mean_of_pearson_and_spearman")

Floats = NDArray[np.float64]
Values = Mapping[int, float]  # a score by seed


@dataclass(frozen=True)
class Draws:
    """The headline of each seed on the same resampled examples."""

    ids: str  # a digest of all, and of their groups
    num_groups: int  # of examples that are drawn together; one without a group is its own
    scores: Mapping[int, Floats]  # by seed, (resamples,); nan where undefined

    def mean(self, seeds: Sequence[int]) -> Floats:
        return np.asarray(np.mean([self.scores[seed] for seed in seeds], axis=0))


def resample(task: Task, runs: Mapping[int, Predictions]) -> Draws:
    """Score the predictions of each seed on `NUM_RESAMPLES` resamples of the examples, by groups.

    The draws depend on the ids and groups of the examples alone: every seed and every model has the
    same. Raises `ValueError` where seeds hold other examples.
    """
    # by id: two files may hold the same examples in another order
    by_place = task.hub is not None and not task.hub.has_ids
    ordered = {
        seed: list(predictions) if by_place else sorted(predictions, key=lambda p: str(p["id"]))
        for seed, predictions in runs.items()
    }
    digests = set()
    for predictions in ordered.values():
        ids = (str(n if by_place else p["id"]) for n, p in enumerate(predictions))
        digests.add(hashlib.sha256("\n".join(ids).encode()).hexdigest())
    if len(digests) != 1:
        raise UserError(
            f"{task.name}: seeds {', '.join(map(str, runs))} hold predictions of other examples"
        )
    first, *_ = ordered.values()
    groups = [p.get("group", n) for n, p in enumerate(first)]
    if len({*groups}) == 1:  # of one text alone nothing is known of others
        groups = [*range(len(groups))]
    digest = digests.pop()
    if len({*groups}) < len(groups):
        digest = hashlib.sha256("\n".join([digest, *map(str, groups)]).encode()).hexdigest()
    scorers = {
        seed: (lambda positions: math.nan)  # of a failed training
        if any(p["prediction"] is None for p in predictions)
        else task.headline_sampler(predictions)
        for seed, predictions in ordered.items()
    }
    return resample_scores(digest, groups, scorers)


def resample_scores(ids: str, groups: Sequence[Hashable], scorers: Mapping[int, Sampler]) -> Draws:
    """`resample` of anything that `scorers` score, from positions of examples, each with its group;
    `ids` is a digest of the examples."""
    seed = int.from_bytes(hashlib.sha256(ids.encode()).digest()[:16], "big")
    positions = defaultdict[Hashable, list[int]](list)
    for position, group in enumerate(groups):
        positions[group].append(position)
    lengths = np.array([len(found) for found in positions.values()], dtype=np.int64)
    members = np.array([*chain.from_iterable(positions.values())], dtype=np.int64)
    starts = np.cumsum(lengths) - lengths
    size = (NUM_RESAMPLES, len(lengths))
    samples = []
    for drawn in np.random.default_rng(seed).integers(0, max(len(lengths), 1), size):
        ends = np.cumsum(lengths[drawn])
        shifts = np.repeat(starts[drawn] - (ends - lengths[drawn]), lengths[drawn])
        samples.append(members[shifts + np.arange(len(shifts))])
    scores = {seed: np.array([score(row) for row in samples]) for seed, score in scorers.items()}
    return Draws(ids, len(lengths), scores)


@dataclass(frozen=True)
class Interval:
    """A mean over seeds, or a difference of two, with its 95 % interval; nan where unknown."""

    value: Score
    low: Score = math.nan
    high: Score = math.nan
    over: str = ""  # "examples and seeds", "examples", "seeds" or "" for none
    p: Score = math.nan  # two-sided, of as large a value where the true one is 0

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2

    def text(self) -> str:
        """'80.21 to 81.89', in percent; a dash where there is no interval."""
        if math.isnan(self.low):
            return "–"
        note = f" ({self.over})" if self.over in ("examples", "seeds") else ""
        return f"{percent(self.low)} to {percent(self.high)}{note}"


def score_bounds(metric: str) -> tuple[float, float]:
    return (-1.0 if metric in _CORRELATIONS else 0.0), 1.0


def estimate(
    values: Values, draws: Draws | None, bounds: tuple[float, float] = (-math.inf, math.inf)
) -> Interval:
    """The mean over seeds with its interval; one seed without draws has none. An undefined score
    makes both undefined."""
    value = statistics.fmean(values.values()) if values else math.nan
    scores = None if draws is None else draws.mean(list(values))
    mean = _interval(value, scores, draws, [variance_of_mean(values.values())], value in bounds)
    if not bounds[0] <= value <= bounds[1]:
        return mean
    return replace(mean, low=max(mean.low, bounds[0]), high=min(mean.high, bounds[1]))


def scored(task: Task, runs: Mapping[int, Predictions]) -> tuple[dict[int, float], Draws]:
    """The headline of predictions by seed, and on resampled examples."""
    values = {seed: score_predictions(task, run)[task.headline] for seed, run in runs.items()}
    return values, resample(task, runs)


def difference(
    values: Values,
    draws: Draws | None,
    other: Values,
    other_draws: Draws | None,
    shares_seeds: bool = False,
) -> Interval:
    """The mean of `values` less that of `other`, which are of the same examples.

    `shares_seeds`: a seed draws the same for both, such as for an encoder and the same network with
    random weights. Then they are paired by seed, if both have the same seeds, unless the
    differences are all equal though the scores are not: few values of few rows, not certainty.
    Others are compared by Welch's t. One seed on either side says nothing about another seed, and
    the interval is over examples alone. Without the draws of both it is over seeds alone.
    """
    value = statistics.fmean(values.values()) - statistics.fmean(other.values())
    variances = [variance_of_mean(side.values()) for side in (values, other)]
    if shares_seeds and values.keys() == other.keys():
        of_gains = variance_of_mean(values[seed] - other[seed] for seed in values)
        if of_gains[0] > _ROUNDING or not any(variance for variance, _ in variances):
            variances = [of_gains]
    scores = None
    if draws is not None and other_draws is not None:
        assert draws.ids == other_draws.ids
        scores = draws.mean(list(values)) - other_draws.mean(list(other))
    return _interval(value, scores, draws, variances)


_Variance = tuple[float, int]  # of a mean, and its degrees of freedom


def variance_of_mean(values: Iterable[float]) -> _Variance:
    """Of a sample's mean; of one value it is not known, and 0 with no degrees of freedom."""
    values = [float(value) for value in values]
    if len(values) < 2 or not all(map(math.isfinite, values)):
        return 0.0, 0
    return statistics.variance(values) / len(values), len(values) - 1


def _interval(
    value: float,
    scores: Floats | None,
    draws: Draws | None,
    of_seeds: Sequence[_Variance],
    is_extreme: bool = False,
) -> Interval:
    """`scores` are the value on resampled examples, (resamples,); `is_extreme`: the lowest or the
    highest that there may be."""
    variances = list(of_seeds) if all(degrees for _, degrees in of_seeds) else []
    levels = ["seeds"] if variances else []
    if scores is not None and draws is not None:
        if np.isnan(scores).mean() > MAX_UNDEFINED:
            return Interval(value)
        degrees = min(draws.num_groups, len(scores)) - 1
        variance = float(np.nanvar(scores))
        if (value or is_extreme) and variance <= _ROUNDING:
            # all are right, or wrong: by the rule of three about 3 of n others need not be
            variance = (1.5 / draws.num_groups) ** 2
        variances.append((variance, degrees))
        levels.insert(0, "examples")
    if not math.isfinite(value):
        return Interval(value)
    return of_variances(value, variances, " and ".join(levels))


def of_variances(value: float, variances: Sequence[_Variance], over: str) -> Interval:
    """The value with the interval and p of Student's t, the variance of its error the sum of these,
    each with its degrees of freedom; those without any are left out."""
    from scipy.stats import t

    variances = [variance for variance in variances if variance[1]]
    if not variances:
        return Interval(value)
    total = sum(variance for variance, _ in variances)
    if total <= _ROUNDING:
        p = float(abs(value) < math.sqrt(_ROUNDING))
        return Interval(value, value, value, over, p)
    error = math.sqrt(total)
    degrees = total**2 / sum(variance**2 / n for variance, n in variances if variance)
    half_width = float(t.ppf(0.975, degrees)) * error
    p = 2 * float(t.sf(abs(value) / error, degrees))
    return Interval(value, value - half_width, value + half_width, over, p)


class Fit:
    """Scores of variants by the seeds that all of them have, and how sure differences are.

    A seed draws what is learnt from and in which order for all variants alike, so that a score is
    variant + seed + rest (two-way analysis of variance without interaction). The variance of the
    rest is pooled over the grid, which gives sixteen variants of two seeds fifteen degrees of
    freedom where a pair of them alone has one. Of two variants it is the paired t-test.
    """

    def __init__(self, values: Mapping[str, Values]) -> None:
        self.variants = list(values)
        seeds = sorted(set.intersection(*({*of_seeds} for of_seeds in values.values())))
        table = np.array([[of_seeds[seed] for seed in seeds] for of_seeds in values.values()])
        means: list[float] = table.mean(axis=1).tolist()
        self._means = dict(zip(self.variants, means, strict=True))
        rest = table - table.mean(axis=0) - table.mean(axis=1, keepdims=True) + table.mean()
        self._degrees = (len(self.variants) - 1) * (len(seeds) - 1)
        squares = float((rest**2).sum())
        # of a difference of two means; where nothing varies nothing can be learnt
        is_known = self._degrees and squares > _FIT_ROUNDING
        self._variance = 2 * squares / self._degrees / len(seeds) if is_known else math.nan

    def mean(self, variant: str) -> float:
        return self._means[variant]

    def difference(self, variant: str, other: str) -> Interval:
        """With its interval and p, where the grid has two seeds and two variants."""
        value = self._means[variant] - self._means[other]
        if math.isnan(self._variance):
            return Interval(value)
        return of_variances(value, [(self._variance, self._degrees)], "seeds")


def p_text(p: float) -> str | None:
    """'0.032' or '< 0.001'; None where p is not known."""
    if math.isnan(p):
        return None
    return f"{p:.3f}" if p >= 0.001 else "< 0.001"
