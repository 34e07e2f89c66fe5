"""Whether two models differ on a task, and on which of several.

They are compared with random initialisation, TF-IDF, another encoder or another run.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

from benchmarks.metrics.statistics import holm
from benchmarks.results.results import FLOORS, differing
from benchmarks.results.run_folder import RunFolder
from benchmarks.statistics.scores import Sample, TaskScore, encoder_name, scores_by_task, scores_of
from benchmarks.statistics.uncertainty import Estimate, difference, p_text
from electrify.system.outcome import UserError

ALPHA = 0.05
UNTRAINED = "random-init"
OWN = "export"  # names the run's own export among the encoders of a run
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
    "seed between an encoder and random initialisation, for which a seed draws the same training "
    "rows; other encoders are compared by Welch's t. p is the probability of as large a difference "
    "where there is none. It is corrected for all differences of its table (Holm), and up to "
    f"{ALPHA} the outcome is better or worse. An interval is of one difference alone and is not "
    "corrected: it can lie on one side of 0 where the two cannot be told apart, which does not say "
    "that they are equal. sd is the sample standard deviation over seeds."
)


@dataclass(frozen=True)
class Comparison:
    """A sample against another: `difference` is positive where the first is the better one."""

    outcome: str  # "better", "worse", "cannot tell apart", "not comparable" and what is not there
    why: str = ""
    difference: Estimate | None = None  # its interval is not corrected
    p_corrected: float = math.nan  # over the family that it stands in
    family_size: int = 1

    @property
    def gain(self) -> float | None:
        return self.difference.value if self.difference else None

    @property
    def verdict(self) -> str:
        """The outcome, with the reason where there is one to give."""
        return f"{self.outcome}: {self.why}" if self.why else self.outcome


def compare(
    sample: Sample, other: Sample, higher_is_better: bool, shares_seeds: bool = False
) -> Comparison:
    """Two models on the same examples; a family of one. `shares_seeds` as `difference`."""
    if not sample.values or not other.values:
        return Comparison("nothing to compare with" if sample.values else "not scored")
    if sample.draws and other.draws and sample.draws.ids != other.draws.ids:
        return Comparison("not comparable", "ids of the examples differ")
    first, second = (sample, other) if higher_is_better else (other, sample)
    found = difference(first.values, first.draws, second.values, second.draws, shares_seeds)
    why = ""
    if not all(map(math.isfinite, [*sample.values.values(), *other.values.values()])):
        why = "undefined scores"
    elif min(len(sample.values), len(other.values)) < 2:
        why = "fewer than two seeds"
    elif math.isnan(found.p):
        why = "most resamples have no score"
    return corrected([Comparison("cannot tell apart", why, found)])[0]


def corrected(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """The outcomes with p corrected over those that can be told, which are one family."""
    family = [c for c in comparisons if c.difference and not c.why]
    adjusted = iter(holm([c.difference.p for c in family if c.difference]))
    return [
        _decided(c, next(adjusted), len(family)) if c.difference and not c.why else c
        for c in comparisons
    ]


def _decided(comparison: Comparison, p: float, family_size: int) -> Comparison:
    assert comparison.difference is not None
    is_better = comparison.difference.value > 0
    word = "cannot tell apart" if p > ALPHA else "better" if is_better else "worse"
    return replace(comparison, outcome=word, p_corrected=p, family_size=family_size)


@dataclass(frozen=True)
class Baseline:
    """`run` is the number of the run that others are compared with; `stage` the evaluation that the
    others of a run are compared with, None for each one's floors."""

    run: int = 0
    stage: str | None = None


@dataclass(frozen=True)
class Against:
    """One task of one encoder, against what it is compared with."""

    score: TaskScore
    run: str  # its name, where runs are compared
    baseline: str
    comparison: Comparison


def resolve_baseline(name: str | None, runs: Sequence[RunFolder], names: Sequence[str]) -> Baseline:
    """The baseline of that name: a run, an encoder of one (`evaluate-<name>`, with or without the
    first word; "export" for its own), or "random-init"; `ValueError` for any other."""
    if name is None or name == UNTRAINED:
        return Baseline()
    if name in names:
        return Baseline(run=list(names).index(name))
    stages = {
        known: stage
        for run in runs
        for stage in run.evaluations
        for known in (stage, encoder_name(stage) or OWN)
    }
    if name not in stages:
        known = ", ".join(dict.fromkeys([UNTRAINED, *names, *stages]))
        raise UserError(f"no baseline {name!r} in these runs (known: {known})")
    return Baseline(stage=stages[name])


def verdict_sentence(against: Against) -> str:
    """The outcome; the difference, its own interval and the corrected p, or why there is none."""
    found, other = against.comparison, against.baseline
    links = {
        "better": " than ",
        "worse": " than ",
        "cannot tell apart": " from ",
        "not comparable": " with ",
    }
    text = found.outcome + (links[found.outcome] + other if found.outcome in links else "")
    if found.difference is None or math.isnan(found.p_corrected):
        return f"{text}: {found.why}" if found.why else text
    estimate, p = found.difference, p_text(found.p_corrected) or ""
    interval, p = estimate.text(), p if p.startswith("<") else f"= {p}"
    if found.family_size > 1:
        interval += " for this difference alone"
        p += f", corrected for {found.family_size} differences (Holm)"
    return f"{text}: {100 * estimate.value:+.2f} (95 % interval {interval}; p {p})"


@cache
def within(run: RunFolder, baseline: Baseline) -> tuple[Against, ...]:
    """Every encoder of a run against the baseline, one family; nothing where it is missing."""
    scores = scores_of(run)
    if baseline.stage is None or baseline.stage not in run.evaluations:
        return against_floors(scores)
    name = encoder_name(baseline.stage) or OWN
    bases = {s.first.task: s for s in scores if s.stage == baseline.stage}
    return _corrected(
        [
            Against(s, "", name, _comparison(s, bases[s.first.task]))
            for s in scores
            if s.stage != baseline.stage and s.first.task in bases
        ]
    )


def against_floors(scores: Sequence[TaskScore]) -> tuple[Against, ...]:
    """Every encoder against random initialisation and against TF-IDF, one family; nothing where
    those are not scored."""
    found = []
    for floor, name in FLOORS.items():
        for s in scores:
            if s.arms[floor].values and s.pretrained.values:
                higher = s.first.higher_is_better
                comparison = compare(s.pretrained, s.arms[floor], higher, shares_seeds=True)
                found.append(Against(s, "", name, comparison))
    return _corrected(found)


def between(
    runs: Sequence[RunFolder], names: Sequence[str], baseline: Baseline
) -> tuple[Against, ...]:
    """Every other run against the baseline's, task by task and encoder by encoder, one family."""
    base = scores_by_task(runs[baseline.run])
    others = [
        (name, scores_by_task(run))
        for number, (run, name) in enumerate(zip(runs, names, strict=True))
        if number != baseline.run
    ]
    found = [
        Against(run[key], name, names[baseline.run], _comparison(run[key], score))
        for key, score in base.items()
        for name, run in others
        if key in run
    ]
    return _corrected(found)


def _comparison(score: TaskScore, base: TaskScore) -> Comparison:
    if other := differing(score.first, base.first):
        return Comparison("not comparable", f"{other} differs")
    return compare(score.pretrained, base.pretrained, base.first.higher_is_better)


def _corrected(found: Sequence[Against]) -> tuple[Against, ...]:
    outcomes = corrected([against.comparison for against in found])
    return tuple(replace(a, comparison=c) for a, c in zip(found, outcomes, strict=True))
