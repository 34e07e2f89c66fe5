"""Whether two models differ on a task, and on which of several.

They are compared with their untrained twin, another encoder or another run.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchmarks.metrics.statistics import holm
from benchmarks.results.results import BAG_OF_WORDS, FLOORS, Result
from benchmarks.results.run_folder import RunFolder, once_a_run
from benchmarks.statistics.scores import Sample, TaskScore, encoder_name, scores_by_task, scores_of
from benchmarks.statistics.uncertainty import Difference, difference, p_text

ALPHA = 0.05
UNTRAINED = "random-init"
# floors as they stand in tables, in words
_IN_WORDS = {
    FLOORS["random-init"]: "the same network with random weights",
    FLOORS["bag-of-words"]: BAG_OF_WORDS,
}
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
    "seed between an encoder and the same network with random weights, for which a seed draws the "
    "same training rows; other encoders are compared by Welch's t. p says how often as large a "
    "difference comes about where there is none. It is corrected for all comparisons of its table "
    f"(Holm), and up to {ALPHA} the outcome is better or worse. Otherwise the two cannot be told "
    "apart, which does not say that they are equal. sd is the sample standard deviation over seeds."
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


@dataclass(frozen=True)
class Baseline:
    """`run` is the number of the run that others are compared with; `stage` the evaluation that the
    others of a run are compared with, None for each one's untrained twin."""

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
        raise ValueError(f"no baseline {name!r} in these runs (known: {known})")
    return Baseline(stage=stages[name])


def verdict_sentence(against: Against) -> str:
    """Better or worse than what, or not to be told apart from it, by how much, and why."""
    found, other = against.comparison, _IN_WORDS.get(against.baseline, against.baseline)
    if found.difference is None or found.gain is None or found.p_corrected is None:
        links = {"cannot tell apart": f" from {other}", "not comparable": f" with {other}"}
        why = f": {found.why}" if found.why else ""
        return f"{found.outcome}{links.get(found.outcome, '')}{why}."
    estimate, p = found.difference.estimate, p_text(found.p_corrected) or ""
    sure = (
        f"(95 % interval {estimate.low:.4f} to {estimate.high:.4f}, "
        f"p {p if p.startswith('<') else f'= {p}'}, corrected for all comparisons)"
    )
    if found.outcome == "cannot tell apart":
        if abs(found.gain) < 5e-5:
            return f"cannot tell apart from {other}: the means are equal to four digits."
        return (
            f"cannot tell apart from {other}: other {estimate.over} alone may make as large a "
            f"difference as {found.gain:+.4f} {sure}."
        )
    return (
        f"{found.outcome} than {other}, by {abs(found.gain):.4f}: other {estimate.over} alone "
        f"would hardly make as large a difference {sure}."
    )


@once_a_run
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
    """Every encoder against its own network with random weights and against a bag of words, one
    family; nothing where those are not scored."""
    return _corrected(
        [
            Against(
                s, "", name, compare(s.pretrained, s.arms[floor], _higher(s), shares_seeds=True)
            )
            for floor, name in FLOORS.items()
            for s in scores
            if s.arms[floor].values and s.pretrained.values
        ]
    )


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
    return incomparable(score.first, base.first) or compare(
        score.pretrained, base.pretrained, _higher(base)
    )


def _corrected(found: Sequence[Against]) -> tuple[Against, ...]:
    outcomes = corrected([against.comparison for against in found])
    return tuple(
        Against(a.score, a.run, a.baseline, outcome)
        for a, outcome in zip(found, outcomes, strict=True)
    )


def _higher(score: TaskScore) -> bool:
    return score.first.higher_is_better
