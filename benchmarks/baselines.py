"""What models are compared with: their untrained twin, another encoder, another run."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from benchmarks.comparison import Comparison, compare, corrected, incomparable
from benchmarks.run_folder import RunFolder
from benchmarks.scores import TaskScore, encoder_name, scores_by_task, scores_of

UNTRAINED = "random-init"
OWN = "export"  # names the run's own export among the encoders of a run


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


@lru_cache(maxsize=16)
def within(run: RunFolder, baseline: Baseline) -> tuple[Against, ...]:
    """Every encoder of a run against the baseline, one family; nothing where it is missing."""
    scores = scores_of(run)
    if baseline.stage is None or baseline.stage not in run.evaluations:
        found = [
            Against(s, "", "untrained", compare(s.pretrained, s.untrained, _higher(s), True))
            for s in scores
            if s.untrained.values and s.pretrained.values
        ]
    else:
        name = encoder_name(baseline.stage) or OWN
        bases = {s.first.task: s for s in scores if s.stage == baseline.stage}
        found = [
            Against(s, "", name, _comparison(s, bases[s.first.task]))
            for s in scores
            if s.stage != baseline.stage and s.first.task in bases
        ]
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
