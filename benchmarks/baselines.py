"""What models are compared with: their untrained twin, another encoder, another run."""

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.comparison import Comparison, compare, corrected, incomparable
from benchmarks.run_folder import RunFolder, once_a_run
from benchmarks.scores import TaskScore, encoder_name, scores_by_task, scores_of
from benchmarks.uncertainty import p_text

UNTRAINED = "random-init"
TWIN = "untrained"  # names the same network with random weights in tables
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


def verdict_sentence(against: Against) -> str:
    """Better or worse than what, or not to be told apart from it, by how much, and why."""
    found, other = against.comparison, against.baseline
    if other == TWIN:
        other = "the same network with random weights"
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
        return against_twins(scores)
    name = encoder_name(baseline.stage) or OWN
    bases = {s.first.task: s for s in scores if s.stage == baseline.stage}
    return _corrected(
        [
            Against(s, "", name, _comparison(s, bases[s.first.task]))
            for s in scores
            if s.stage != baseline.stage and s.first.task in bases
        ]
    )


def against_twins(scores: Sequence[TaskScore]) -> tuple[Against, ...]:
    """Every encoder against its own network with random weights, one family; nothing where that is
    not scored."""
    return _corrected(
        [
            Against(s, "", TWIN, compare(s.pretrained, s.untrained, _higher(s), shares_seeds=True))
            for s in scores
            if s.untrained.values and s.pretrained.values
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
