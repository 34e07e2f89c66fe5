"""Ranks of encoders on a task and over several, with bootstrap intervals.

Encoders stay correlated: a resample draws the same examples, and the same seeds, for all of them.
A rank is 1 + the number of encoders with a better score; equal scores share a rank. The interval
has 95 % of the ranks in the resamples. It is a percentile interval: of three seeds it is narrower
than Student's t would make it.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.metrics.weighted import Floats
from benchmarks.statistics.scores import Sample
from benchmarks.statistics.uncertainty import MAX_UNDEFINED, NUM_RESAMPLES


@dataclass(frozen=True)
class Rank:
    """Of one encoder among `num_encoders`. `over` says what was resampled: "examples and seeds",
    "examples", "seeds", "seeds of encoders with several", or "" for nothing; then `low` and `high`
    are not known and are 0."""

    value: int
    low: int
    high: int
    num_encoders: int
    over: str

    def text(self) -> str:
        """'2 (1–3)'; the rank alone where there is no interval."""
        return f"{self.value} ({self.low}–{self.high})" if self.low else str(self.value)


def resampled_means(samples: Sequence[Sample], name: str) -> tuple[Floats, str]:
    """The mean over seeds of each sample in each resample, (samples, resamples), and what varies.

    Examples are resampled where all samples have scores on the same resampled examples. Samples
    with the same seeds get the same draws of seeds; `name`, a task's, makes the draws.
    """
    draws = [sample.draws for sample in samples]
    digests = {draw.ids if draw else None for draw in draws}
    has_examples = len(digests) == 1 and None not in digests
    rows = []
    for sample in samples:
        seeds = sorted(sample.values)
        scores = np.array(
            [
                sample.draws.scores[seed]
                if has_examples and sample.draws
                else np.full(NUM_RESAMPLES, sample.values[seed])
                for seed in seeds
            ]
        )  # (seeds, resamples)
        if len(seeds) > 1:
            digest = hashlib.sha256(f"{name}\n{seeds}".encode()).digest()
            generator = np.random.default_rng(int.from_bytes(digest[:16], "big"))
            drawn = generator.integers(0, len(seeds), scores.shape)
            scores = np.take_along_axis(scores, drawn, axis=0)
        rows.append(scores.mean(axis=0))
    several = [sample.num_seeds > 1 for sample in samples]
    of_seeds = "seeds" if all(several) else "seeds of encoders with several"
    over = " and ".join(["examples"] * has_examples + [of_seeds] * any(several))
    return np.array(rows), over


def ranks_of(values: Sequence[float], resampled: Floats, over: str) -> list[Rank]:
    """Rank values, of which the larger is the better; undefined ones come last.

    `resampled` is (values, resamples). Resamples without a score of a value that is defined are
    left out; where they are more than a twentieth, no rank has an interval.
    """
    given = np.array(values)
    drawn = resampled[:, ~np.isnan(resampled[~np.isnan(given)]).any(axis=0)]
    is_enough = drawn.shape[1] >= (1 - MAX_UNDEFINED) * resampled.shape[1]
    ranks = []
    for value, resamples in zip(_ranks(given[:, None]), _ranks(drawn), strict=True):
        low, high = 0, 0
        if over and is_enough:
            low, high = (
                int(np.quantile(resamples, level, method="nearest")) for level in (0.025, 0.975)
            )
        ranks.append(Rank(int(value[0]), low, high, len(given), over))
    return ranks


def _ranks(scores: Floats) -> Floats:
    """(encoders, resamples) to ranks in each resample."""
    worst_last = np.where(np.isnan(scores), -math.inf, scores)
    better = worst_last[None, :, :] > worst_last[:, None, :]
    ranks: Floats = 1.0 + better.sum(axis=1)
    return ranks


def rank_samples(samples: Sequence[Sample], higher_is_better: bool, name: str) -> list[Rank]:
    """Ranks of encoders on one task, of which `name` is the name."""
    resampled, over = resampled_means(samples, name)
    sign = 1.0 if higher_is_better else -1.0
    return ranks_of([sign * sample.mean for sample in samples], sign * resampled, over)


def rank_over_tasks(by_task: Mapping[str, Sequence[Sample]]) -> list[Rank]:
    """Ranks of encoders by their mean over tasks on which the larger score is the better; the
    samples of each task stand in the same order of encoders."""
    resampled = {name: resampled_means(samples, name) for name, samples in by_task.items()}
    means = np.mean([[sample.mean for sample in samples] for samples in by_task.values()], axis=0)
    kinds = dict.fromkeys(over for _, over in resampled.values())
    drawn = np.mean([scores for scores, _ in resampled.values()], axis=0)
    return ranks_of(means.tolist(), drawn, ", ".join(filter(None, kinds)))
