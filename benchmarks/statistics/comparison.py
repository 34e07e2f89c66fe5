"""Whether two models differ on a task, and on which of several: an encoder is compared with random
initialisation, TF-IDF, another encoder or another run."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain

from benchmarks.results.results import BASELINES, differing
from benchmarks.results.run_folder import RunFolder
from benchmarks.statistics.scores import Sample, TaskScore, scores_by_task, scores_of
from benchmarks.statistics.uncertainty import Interval, difference, p_text

ALPHA = 0.05


@dataclass(frozen=True)
class Comparison:
    """A sample against another: `difference` is positive where the first is the better one."""

    # "better", "worse", "no significant difference", "not comparable" and what is not there
    outcome: str
    why: str = ""
    difference: Interval | None = None  # its interval is not corrected
    p_corrected: float = math.nan  # over the family that it stands in

    @property
    def verdict(self) -> str:
        return f"{self.outcome}: {self.why}" if self.why else self.outcome


def compare(sample: Sample, other: Sample, shares_seeds: bool = False) -> Comparison:
    """Two encoders on the same examples; a family of one. `shares_seeds` as `difference`."""
    if not sample.values or not other.values:
        return Comparison("nothing to compare with" if sample.values else "not scored")
    if sample.draws and other.draws and sample.draws.ids != other.draws.ids:
        return Comparison("not comparable", "ids or groups of the examples differ: evaluate again")
    gain = difference(sample.values, sample.draws, other.values, other.draws, shares_seeds)
    why = ""
    if not all(map(math.isfinite, [*sample.values.values(), *other.values.values()])):
        why = "undefined scores"
    elif min(len(sample.values), len(other.values)) < 2:
        why = "fewer than two seeds"
    elif math.isnan(gain.p):
        why = "too many resamples have no score"
    return corrected([Comparison("no significant difference", why, gain)])[0]


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values of a family of tests, in the order given (Holm 1979).

    The k-th smallest of m is multiplied by m - k + 1, and is no smaller than those before it. A p
    that is not known (nan) counts as 1.
    """
    p_values = [1.0 if math.isnan(p) else p for p in p_values]
    adjusted, largest = [0.0] * len(p_values), 0.0
    for position, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - position) * p_values[index]))
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
            word = "no significant difference" if p > ALPHA else "better" if is_better else "worse"
            comparison = replace(comparison, outcome=word, p_corrected=p)
        decided.append(comparison)
    return decided


@dataclass(frozen=True)
class ComparedScore:
    """One task of one encoder, against what it is compared with."""

    score: TaskScore
    run: str  # its name, where runs are compared
    baseline: str
    comparison: Comparison


def verdict_sentence(against: ComparedScore) -> str:
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
def compare_in_run(run: RunFolder) -> tuple[ComparedScore, ...]:
    """Every encoder of a run against its baselines, a family each; and the run's own, or the first
    that is scored, against every other encoder, one family."""
    by_stage: dict[str, list[TaskScore]] = {}
    for score in scores_of(run):
        by_stage.setdefault(score.stage, []).append(score)
    first, *others = by_stage.values() or [[]]
    own = {score.first.task: score for score in first}
    beside = (
        ComparedScore(own[s.first.task], "", s.encoder, _comparison(own[s.first.task], s))
        for s in chain.from_iterable(others)
        if s.first.task in own
    )
    families = (against_baselines(scores) for scores in by_stage.values())
    return (*chain.from_iterable(families), *_corrected(beside))


def against_baselines(scores: Sequence[TaskScore]) -> tuple[ComparedScore, ...]:
    """Encoders against both of their baselines, one family; nothing where those are not scored."""
    return _corrected(
        ComparedScore(s, "", name, compare(s.pretrained, other, shares_seeds=True))
        for role, name in BASELINES.items()
        for s in scores
        if (other := s.by_role[role]).values and s.pretrained.values
    )


def compare_runs(runs: Sequence[RunFolder]) -> tuple[ComparedScore, ...]:
    """Every other run against the first, task by task and encoder by encoder: one family."""
    first, *others = [scores_by_task(run) for run in runs]
    return _corrected(
        ComparedScore(scores[key], run.name, runs[0].name, _comparison(scores[key], base))
        for key, base in first.items()
        for run, scores in zip(runs[1:], others, strict=True)
        if key in scores
    )


def _comparison(score: TaskScore, base: TaskScore) -> Comparison:
    if other := differing(score.first, base.first):
        return Comparison("not comparable", f"{other} differs")
    return compare(score.pretrained, base.pretrained)


def _corrected(against: Iterable[ComparedScore]) -> tuple[ComparedScore, ...]:
    family = list(against)
    outcomes = corrected([each.comparison for each in family])
    return tuple(replace(a, comparison=c) for a, c in zip(family, outcomes, strict=True))
