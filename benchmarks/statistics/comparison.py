"""Whether two models differ on a task, and on which of several; and ranks of more than two.

They are compared with random initialisation, TF-IDF, another encoder or another run.
"""

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict

from benchmarks.results.results import BASELINES, differing
from benchmarks.results.run_folder import RunFolder
from benchmarks.statistics.scores import Sample, TaskScore, encoder_name, scores_by_task, scores_of
from benchmarks.statistics.uncertainty import (
    MAX_UNDEFINED,
    NUM_RESAMPLES,
    Estimate,
    Floats,
    difference,
    p_text,
)
from electrify.system.outcome import UserError

ALPHA = 0.05
OWN = "export"  # names the run's own export among the encoders of a run
METHOD = (
    "Intervals are of 95 %, by Student's t. The standard error has two parts: other examples (the "
    "variance over 200 resamples of the reported examples, the same for all encoders) and other "
    "seeds (the variance of their mean). Scores without files of predictions have the second part "
    "alone. A difference is paired by example, and by seed between an encoder and its baselines; "
    "other encoders are compared by Welch's t. p is the probability of as large a "
    "difference where there is none, corrected for all differences of its table (Holm); up to "
    f"{ALPHA} the outcome is better or worse. An interval is of one difference alone: it can lie "
    "on one side of 0 where the two cannot be told apart, which does not say that they are equal. "
    "sd is the sample standard deviation over seeds."
)


@dataclass(frozen=True)
class Comparison:
    """A sample against another: `difference` is positive where the first is the better one."""

    outcome: str  # "better", "worse", "cannot tell apart", "not comparable" and what is not there
    why: str = ""
    difference: Estimate | None = None  # its interval is not corrected
    p_corrected: float = math.nan  # over the family that it stands in

    @property
    def gain(self) -> float | None:
        return self.difference.value if self.difference else None

    @property
    def verdict(self) -> str:
        return f"{self.outcome}: {self.why}" if self.why else self.outcome


def compare(
    sample: Sample, other: Sample, higher_is_better: bool, shares_seeds: bool = False
) -> Comparison:
    """Two encoders on the same examples; a family of one. `shares_seeds` as `difference`."""
    if not sample.values or not other.values:
        return Comparison("nothing to compare with" if sample.values else "not scored")
    if sample.draws and other.draws and sample.draws.ids != other.draws.ids:
        return Comparison("not comparable", "ids of the examples differ")
    first, second = (sample, other) if higher_is_better else (other, sample)
    gain = difference(first.values, first.draws, second.values, second.draws, shares_seeds)
    why = ""
    if not all(map(math.isfinite, [*sample.values.values(), *other.values.values()])):
        why = "undefined scores"
    elif min(len(sample.values), len(other.values)) < 2:
        why = "fewer than two seeds"
    elif math.isnan(gain.p):
        why = "most resamples have no score"
    return corrected([Comparison("cannot tell apart", why, gain)])[0]


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values of a family of tests, in the order given (Holm 1979).

    The k-th smallest of m is multiplied by m - k + 1, and is no smaller than those before it. A p
    that is not known (nan) counts as 1.
    """
    p_values = [1.0 if math.isnan(p) else p for p in p_values]
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def corrected(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """The outcomes with p corrected over those that can be told, which are one family."""
    p_values = [c.difference.p for c in comparisons if c.difference and not c.why]
    adjusted = iter(holm(p_values))
    decided = []
    for comparison in comparisons:
        if comparison.difference and not comparison.why:
            p, is_better = next(adjusted), comparison.difference.value > 0
            word = "cannot tell apart" if p > ALPHA else "better" if is_better else "worse"
            comparison = replace(comparison, outcome=word, p_corrected=p)
        decided.append(comparison)
    return decided


# what others are compared with: a run, of several by default the first, or within a run the
# evaluation of this stage or this role of `BASELINES`; without one, both of each encoder
Baseline = RunFolder | str | None


@dataclass(frozen=True)
class Against:
    """One task of one encoder, against what it is compared with."""

    score: TaskScore
    run: str  # its name, where runs are compared
    baseline: str
    comparison: Comparison


def resolve_baseline(name: str | None, runs: Sequence[RunFolder]) -> Baseline:
    """The baseline of that name: a run, an encoder of one (`evaluate-<name>`, with or without the
    first word; "export" for its own), or a role; `ValueError` for any other."""
    known: dict[str, Baseline] = {role: role for role in BASELINES}
    known |= {title: role for role, title in BASELINES.items()}
    known |= {run.name: run for run in runs}
    for stage in dict.fromkeys(stage for run in runs for stage in run.evaluations):
        known.setdefault(stage, stage)
        known.setdefault(encoder_name(stage) or OWN, stage)
    if name is not None and name not in known:
        raise UserError(f"no baseline {name!r} in these runs (known: {', '.join(known)})")
    return None if name is None else known[name]


def verdict_sentence(against: Against) -> str:
    """'better: +16.20 over random initialisation (95 % CI 6.10 to 26.40, p = 0.007, Holm)', or why
    there is no such figure. The interval is that of one difference alone."""
    comparison, gain = against.comparison, against.comparison.difference
    if gain is None or math.isnan(comparison.p_corrected):
        return comparison.verdict
    p = p_text(comparison.p_corrected) or ""
    p = p if p.startswith("<") else f"= {p}"
    return (
        f"{comparison.outcome}: {100 * gain.value:+.2f} over {against.baseline} "
        f"(95 % CI {gain.text()}, p {p}, Holm)"
    )


@cache
def within(run: RunFolder, baseline: Baseline) -> tuple[Against, ...]:
    """Every encoder of a run against the baseline, one family; nothing where it is missing."""
    scores = scores_of(run)
    if not isinstance(baseline, str) or baseline not in run.evaluations:
        return against_baselines(scores, baseline)
    name = encoder_name(baseline) or OWN
    bases = {s.first.task: s for s in scores if s.stage == baseline}
    others = [s for s in scores if s.stage != baseline and s.first.task in bases]
    return _corrected(Against(s, "", name, _comparison(s, bases[s.first.task])) for s in others)


def against_baselines(scores: Sequence[TaskScore], one: Baseline = None) -> tuple[Against, ...]:
    """Every encoder against both of its baselines, or against that of the role `one`, one family;
    nothing where those are not scored."""
    return _corrected(
        Against(s, "", name, compare(s.pretrained, other, s.first.higher_is_better, True))
        for role, name in BASELINES.items()
        if role == one or one not in BASELINES
        for s in scores
        if (other := s.by_role[role]).values and s.pretrained.values
    )


def between(runs: Sequence[RunFolder], baseline: Baseline) -> tuple[Against, ...]:
    """Every other run against the baseline's, task by task and encoder by encoder, one family; or
    every run against the encoder or role of that name in it."""
    if isinstance(baseline, str):
        having = [run for run in runs if baseline in (*BASELINES, *run.evaluations)]
        return _corrected(
            replace(against, run=run.name) for run in having for against in within(run, baseline)
        )
    base_run = baseline if isinstance(baseline, RunFolder) else runs[0]
    scores = {run.name: scores_by_task(run) for run in runs}
    return _corrected(
        Against(run[key], name, base_run.name, _comparison(run[key], base))
        for key, base in scores[base_run.name].items()
        for name, run in scores.items()
        if name != base_run.name and key in run
    )


def _comparison(score: TaskScore, base: TaskScore) -> Comparison:
    if other := differing(score.first, base.first):
        return Comparison("not comparable", f"{other} differs")
    return compare(score.pretrained, base.pretrained, base.first.higher_is_better)


def _corrected(against: Iterable[Against]) -> tuple[Against, ...]:
    family = list(against)
    outcomes = corrected([each.comparison for each in family])
    return tuple(replace(a, comparison=c) for a, c in zip(family, outcomes, strict=True))


class Tested(BaseModel):
    """A line of a table, with a p that `corrected_lines` corrects over it (Holm)."""

    model_config = ConfigDict(extra="ignore", frozen=True)  # a table may be of an earlier version

    p_corrected: float = 1.0

    @property
    def is_found(self) -> bool:
        return self.p_corrected <= ALPHA


_Line = TypeVar("_Line", bound=Tested)


def corrected_lines(lines: Sequence[_Line]) -> list[_Line]:
    """The lines, each with its own p so far, as one family; a p that is not known counts as 1."""
    adjusted = holm([line.p_corrected for line in lines])
    return [
        line.model_copy(update={"p_corrected": p}) for line, p in zip(lines, adjusted, strict=True)
    ]


# Ranks of encoders on a task and over several, with bootstrap intervals. Encoders stay correlated:
# a resample draws the same examples, and the same seeds, for all of them. A rank is 1 + the number
# of encoders with a better score; equal scores share a rank. The interval has 95 % of the ranks in
# the resamples. It is a percentile interval: of three seeds it is narrower than Student's t would
# make it.


@dataclass(frozen=True)
class Rank:
    """Of one encoder. `over` says what was resampled: "examples and seeds", "examples", "seeds",
    "seeds of encoders with several", or "" for nothing; then `low` and `high` are not known and
    are 0."""

    value: int
    low: int
    high: int
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
    given = np.array(values)[:, None]
    drawn = resampled[:, ~np.isnan(resampled[~np.isnan(given[:, 0])]).any(axis=0)]
    is_enough = drawn.shape[1] >= (1 - MAX_UNDEFINED) * resampled.shape[1]
    ranks = []
    for value, resamples in zip(_ranks(given), _ranks(drawn), strict=True):
        low, high = 0, 0
        if over and is_enough:
            low, high = (
                int(np.quantile(resamples, level, method="nearest")) for level in (0.025, 0.975)
            )
        ranks.append(Rank(int(value[0]), low, high, over))
    return ranks


def _ranks(scores: Floats) -> Floats:
    """(encoders, resamples) to ranks in each resample."""
    from scipy.stats import rankdata

    descending = -np.where(np.isnan(scores), -math.inf, scores)
    return np.asarray(rankdata(descending, method="min", axis=0), np.float64)


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
