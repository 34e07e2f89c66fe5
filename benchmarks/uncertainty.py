"""How sure a score over several seeds is, and a difference of two: intervals on two levels.

Examples are resampled (`resamples`), with the same draws for every seed and every model, so that a
difference is paired by example. Seeds are few, and three of them resampled would show a third of
their variance too little: what their mean may be off by is drawn from a normal distribution of
their sample sd instead. The deviations of both together are stretched from the quantiles of a
normal distribution to those of Student's t, of as many degrees of freedom as the variance of
examples and that of seeds have together (Welch 1947, Satterthwaite 1946): that is the plain
percentile interval where examples decide, and the t interval where seeds alone are known.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.kind import Line
from benchmarks.metrics.statistics import mcnemar_exact
from benchmarks.metrics.weighted import Floats
from benchmarks.predictions import score_lines
from benchmarks.resamples import AT_ONCE, NUM_RESAMPLES, Draws, generator_of, resample
from benchmarks.task import Task

MAX_UNDEFINED = 0.05  # share of resamples without a score beyond which there is no interval
_TAILS = (2.5, 97.5)  # percent
_ROUNDING = 1e-20  # of a variance of scores
_CORRELATIONS = ("mcc", "pearson", "spearman", "mean_of_pearson_and_spearman")

Values = Mapping[int, float]  # a score by seed


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds, or a difference of two, with its 95 % interval."""

    value: float
    low: float  # nan where nothing is known of it
    high: float
    over: str  # "examples and seeds", "examples", "seeds" or "" for none
    num_undefined: int = 0  # of the resamples; they count for neither bound

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
    p: float | None  # two-sided, from the resamples; None where there are none
    paired_by_seed: bool
    p_examples: float | None = None  # these very models on other examples
    test: str = ""  # of `p_examples`


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
    found = _estimate(value, scores, [_seed_variance(list(values.values()))], "seeds")[0]
    low, high = (float(np.clip(side, *bounds)) for side in (found.low, found.high))
    is_inside = bounds[0] <= value <= bounds[1]
    return replace(found, low=low, high=high) if is_inside else found


def estimate_lines(task: Task, runs: Mapping[int, Sequence[Line]]) -> Estimate:
    """`estimate` of prediction lines by seed, such as those of a part of the examples."""
    values = {seed: score_lines(task, lines)[task.headline] for seed, lines in runs.items()}
    return estimate(values, resample(task, runs), score_bounds(task.headline))


def difference(
    values: Values, draws: Draws | None, other: Values, other_draws: Draws | None
) -> Difference:
    """The mean of `values` less that of `other`, which are of the same examples.

    Seeds are paired where both have the same ones, unless their differences are all equal though
    the scores are not: few values of few rows, not certainty. Of one seed on either side nothing is
    known of what another would score, and the interval is over examples alone. Without the draws of
    both it is over seeds alone.
    """
    value = statistics.fmean(values.values()) - statistics.fmean(other.values())
    variances = [_seed_variance(list(side.values())) for side in (values, other)]
    is_paired = values.keys() == other.keys()
    if is_paired:
        of_gains = _seed_variance([values[seed] - other[seed] for seed in values])
        is_paired = of_gains[0] > _ROUNDING or not any(variance for variance, _ in variances)
        variances = [of_gains] if is_paired else variances
    scores, p_examples, test = None, None, ""
    if draws is not None and other_draws is not None:
        assert draws.ids == other_draws.ids
        scores = draws.mean(list(values)) - other_draws.mean(list(other))
        p_examples, test = _examples_test(draws, other_draws)
    found, deviations = _estimate(value, scores, variances, "other seeds")
    p = None if math.isnan(found.low) else _sign_p(value + deviations)
    return Difference(found, p, is_paired, p_examples, test)


_Variance = tuple[float, int]  # of a mean over seeds, and its degrees of freedom


def _seed_variance(values: Sequence[float]) -> _Variance:
    """No degrees of freedom of fewer than two seeds."""
    if len(values) < 2 or not all(map(math.isfinite, values)):
        return 0.0, 0
    return statistics.variance(values) / len(values), len(values) - 1


def _estimate(
    value: float, scores: Floats | None, variances: Sequence[_Variance], key: str
) -> tuple[Estimate, Floats]:
    """An estimate, and how far off it may be: (resamples,), nan where a resample has no score."""
    has_seeds = all(degrees for _, degrees in variances)
    levels = (["examples"] if scores is not None else []) + (["seeds"] if has_seeds else [])
    of_examples = np.zeros(NUM_RESAMPLES) if scores is None else scores - value
    deviations = _deviations(of_examples, variances if has_seeds else [], key)
    num_undefined = int(np.isnan(deviations).sum())
    known = bool(levels) and math.isfinite(value)
    if not known or num_undefined > MAX_UNDEFINED * len(deviations):
        return Estimate(value, math.nan, math.nan, "", num_undefined), deviations
    defined = deviations[~np.isnan(deviations)]
    # "hazen" has the k-th of n at (k - 1/2) / n, where `_stretched` puts it
    low, high = value + np.percentile(defined, _TAILS, method="hazen")
    over = " and ".join(levels)
    return Estimate(value, float(low), float(high), over, num_undefined), deviations


def _deviations(of_examples: Floats, variances: Sequence[_Variance], key: str) -> Floats:
    total = sum(variance for variance, _ in variances)
    if not total:
        return of_examples
    size = len(of_examples)
    normal = statistics.NormalDist()
    # evenly over the quantiles, in an order of their own
    quantiles = np.array([normal.inv_cdf((i + 0.5) / size) for i in range(size)])
    found = of_examples + math.sqrt(total) * generator_of(key).permutation(quantiles)
    defined = of_examples[~np.isnan(of_examples)]
    of_all = (float(np.var(defined)) if len(defined) else 0.0) + total
    degrees = of_all**2 / sum(variance**2 / n for variance, n in variances)
    return _stretched(found, degrees)


def _stretched(deviations: Floats, degrees: float) -> Floats:
    """Each at its rank times the quantile of Student's t over that of a normal distribution."""
    from scipy.stats import norm, t

    order = np.argsort(deviations, kind="stable")  # nan last
    size = int(np.sum(~np.isnan(deviations)))
    ranks = (np.arange(size) + 0.5) / size
    ranks[np.abs(ranks - 0.5) < 1e-6] = 0.5 - 1e-4  # 0 / 0 in the middle
    found = deviations.copy()
    found[order[:size]] *= t.ppf(ranks, degrees) / norm.ppf(ranks)
    return found


def _sign_p(differences: Floats) -> float:
    """Twice the smaller share of resamples on either side of 0; undefined ones count for both."""
    undefined = int(np.isnan(differences).sum())
    smaller = min(int(np.sum(differences <= 0)), int(np.sum(differences >= 0)))
    return min(1.0, 2 * (1 + smaller + undefined) / (1 + len(differences)))


def _examples_test(draws: Draws, other: Draws) -> tuple[float | None, str]:
    """Whether one is better by more than the choice of examples says, where scores are means."""
    if draws.items is None or other.items is None:
        return None, ""
    sides = [np.mean(list(items.values()), axis=0) for items in (draws.items, other.items)]
    if all(np.isin(side, (0, 1)).all() for side in sides):
        first, second = (side.astype(np.int64) for side in sides)
        exact = mcnemar_exact(np.ones_like(first), first, second)
        return exact.p, "McNemar, exact"
    return _permutation_p(sides[0] - sides[1], draws.ids), "paired permutation"


def _permutation_p(gains: Floats, ids: str) -> float:
    """Share of exchanges of the two models, example by example, that are as far apart in sum."""
    gains = gains[gains != 0]
    limit = abs(float(gains.sum())) * (1 - 1e-9)  # sums in another order
    generator, num_as_far = generator_of(f"exchange {ids}"), 0
    rows = max(1, AT_ONCE // max(len(gains), 1))
    for start in range(0, NUM_RESAMPLES, rows):
        size = min(rows, NUM_RESAMPLES - start)
        signs = 2.0 * generator.integers(0, 2, (size, len(gains))) - 1
        num_as_far += int(np.sum(np.abs(signs @ gains) >= limit))
    return (1 + num_as_far) / (1 + NUM_RESAMPLES)
