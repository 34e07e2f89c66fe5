"""How sure a score is: intervals over trials, standard errors over items, tests of a difference.

The values of the tools that others' figures come from, under what those tools do. What cannot be
computed raises `ValueError`; an interval of fewer than two trials is `nan`.
"""

import math
import random
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from benchmarks.metrics.classification import Labels, checked

Item = TypeVar("Item")

NORMAL_QUANTILE_95 = 1.96  # as EuroEval writes it, not 1.95996
_RESAMPLES_A_CHUNK = 1000


class Interval(NamedTuple):
    """A mean and half the width of its 95 % confidence interval."""

    mean: float
    half_width: float


class Significance(NamedTuple):
    """A test statistic and the two-sided p-value."""

    statistic: float
    p: float


def normal_interval(trials: Sequence[float]) -> Interval:
    """Mean over trials +- 1.96 standard errors; too narrow for few trials (Student's t of five:
    1.42 times as wide).

    EuroEval src/euroeval/scores.py `aggregate_scores`; the half width of one trial is `nan`, and of
    no trials both are.
    """
    if len(trials) < 2:
        return Interval(float(trials[0]) if len(trials) else math.nan, math.nan)
    standard_error = float(np.std(trials, ddof=1)) / math.sqrt(len(trials))
    return Interval(float(np.mean(trials)), NORMAL_QUANTILE_95 * standard_error)


def mean_stderr(items: Sequence[float]) -> float:
    """Standard error of the mean over items: sample sd / sqrt(n).

    lm-evaluation-harness lm_eval/api/metrics.py, which has no value for one item either.
    """
    if len(items) < 2:
        raise ValueError(f"a standard error needs two items or more, not {len(items)}")
    return float(np.std(items, ddof=1)) / math.sqrt(len(items))


def pooled_sample_stderr(stderrs: Sequence[float], sizes: Sequence[int]) -> float:
    """Standard error of the mean over all items of several sets, from those of the sets.

    The pooled variance, as if every set had the same mean: lm-evaluation-harness `stderr` of task
    groups, sum((n - 1) n stderr^2) / (N - number of sets) / N with N = sum(n).
    """
    if len(stderrs) != len(sizes):
        raise ValueError(f"{len(stderrs)} standard errors of {len(sizes)} sets; give one a set")
    total = sum(sizes)
    if total <= len(sizes):
        raise ValueError(f"{total} items in {len(sizes)} sets leave no variance to pool")
    squares = sum((n - 1) * n * stderr**2 for stderr, n in zip(stderrs, sizes, strict=True))
    return math.sqrt(squares / (total - len(sizes)) / total)


def bootstrap_stderr(
    metric: Callable[[Sequence[Item]], float], items: Sequence[Item], num_resamples: int
) -> float:
    """Standard error of any metric: the sample sd of its values over resampled items.

    The draws are those of lm-evaluation-harness `bootstrap_stderr`: chunks of 1000 resamples (a
    rest is left out), chunk i by Python's `random.Random(i).choices`.
    """
    chunk = min(_RESAMPLES_A_CHUNK, num_resamples)
    if chunk < 1 or not len(items):
        raise ValueError(f"cannot draw {num_resamples} resamples of {len(items)} items")
    values = []
    for number in range(num_resamples // chunk):
        draws = random.Random(number)
        values += [metric(draws.choices(items, k=len(items))) for _ in range(chunk)]
    if len(values) < 2:
        raise ValueError(f"a standard error needs two resamples or more, not {num_resamples}")
    return float(np.std(values, ddof=1))


def mcnemar(gold: Labels, first: Labels, second: Labels) -> Significance:
    """Whether one system is right more often than the other on the same items: chi-squared.

    (b - c)^2 / (b + c) without continuity correction, b and c the items that only one of them has
    right (huggingface/evaluate comparisons/mcnemar). Two systems that are right on the same items
    raise `ValueError`.
    """
    only_first, only_second = _discordant(gold, first, second)
    if not only_first + only_second:
        raise ValueError(
            "both systems are right on the same items, which leaves McNemar's test nothing to "
            "compare: 0 / 0"
        )
    statistic = (only_first - only_second) ** 2 / (only_first + only_second)
    return Significance(statistic, math.erfc(math.sqrt(statistic / 2)))  # chi-squared, one degree


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values of a family of tests, in the order given (Holm 1979).

    To call those of at most 0.05 different is wrong anywhere in the family in 5 % of families at
    most. The k-th smallest of m is multiplied by m - k + 1, and is no smaller than those before it.
    """
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def _discordant(gold: Labels, first: Labels, second: Labels) -> tuple[int, int]:
    """Items that only the first system has right, and those that only the second has."""
    is_first = np.equal(*checked(gold, first))
    is_second = np.equal(*checked(gold, second))
    return int(np.sum(is_first & ~is_second)), int(np.sum(is_second & ~is_first))


def wilcoxon(first: Sequence[float], second: Sequence[float]) -> Significance:
    """Signed-rank test of paired scores by scipy's default, as huggingface/evaluate calls it.

    Scores that are equal throughout give statistic 0 and p 1, as scipy since 1.17 says.
    """
    from scipy.stats import wilcoxon as signed_rank

    if len(first) != len(second) or not len(first):
        raise ValueError(f"{len(first)} scores against {len(second)}; give pairs of scores")
    if np.array_equal(np.asarray(first), np.asarray(second)):
        return Significance(0.0, 1.0)
    result = signed_rank(first, second)
    return Significance(float(result.statistic), float(result.pvalue))
