"""Scores without the rows that stand in the run's own documents."""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache

from benchmarks.results.results import task_of
from benchmarks.results.run_folder import RunFolder
from benchmarks.statistics.scores import TaskScore, lines_of, scores_of
from benchmarks.statistics.uncertainty import Estimate, estimate_lines
from benchmarks.tasks.task import Line, Task
from electrify.stage.leakage_report import (
    LEAKAGE,
    LeakageReport,
    SplitLeakage,
    TaskLeakage,
    TouchedLine,
    check_touched,
    read_touched,
)


@dataclass(frozen=True)
class ScoreWithout:
    """The headline of one task and model over parts of its reported rows; None of no rows.

    `surely`: without the touched rows; `strictly`: without those possibly touched too.
    """

    label: str
    metric: str
    model: str
    num_examples: int
    num_touched: int
    num_possible: int
    all: Estimate
    surely: Estimate | None
    strictly: Estimate | None
    touched: Estimate | None  # over the touched rows alone


@cache
def scores_without(run: RunFolder) -> tuple[tuple[ScoreWithout, ...], tuple[str, ...]]:
    """Scores of the tasks of which rows were found, and why there are none of others.

    Raises `ValueError` for damaged files.
    """
    assert run.leakage is not None
    found: list[ScoreWithout] = []
    notes: list[str] = []
    for score in scores_of(run):
        split = reported_split(run.leakage, score)
        if split is None:
            if any(task.task == score.first.task for task in run.leakage.tasks):
                notes.append(f"{score.label}: scored on other data than were looked for")
            else:
                notes.append(f"{score.label}: not looked for")
        elif split.touched + split.possible:
            lines, note = lines_of(score.results, run.place(score.stage))
            if note:
                notes.append(f"{score.label}: {note}")
                continue
            touched, possible = _ids(run, score, split.split)
            found += _scores_without(score, lines, touched, possible)
    return tuple(found), tuple(notes)


def _scores_without(
    score: TaskScore,
    lines: Mapping[tuple[str, int], Sequence[Line]],
    touched: Set[str],
    possible: Set[str],
) -> list[ScoreWithout]:
    task, found = task_of(score.first), list[ScoreWithout]()
    assert task is not None, "`lines_of` has a note for it"
    for model, sample in (
        ("pretrained", score.pretrained),
        ("random-init", score.by_role["random-init"]),
    ):
        runs = {seed: of for (name, seed), of in lines.items() if name == model}
        if not runs:
            continue
        found.append(
            ScoreWithout(
                score.label,
                score.first.metric,
                model,
                score.first.num_examples,
                len(touched),
                len(possible),
                sample.estimate,
                _part(task, runs, lambda identity: identity not in touched),
                _part(task, runs, lambda identity: identity not in touched | possible),
                _part(task, runs, lambda identity: identity in touched),
            )
        )
    return found


def _part(
    task: Task, runs: Mapping[int, Sequence[Line]], is_in: Callable[[str], bool]
) -> Estimate | None:
    parts = {seed: [ln for ln in lines if is_in(str(ln["id"]))] for seed, lines in runs.items()}
    return estimate_lines(task, parts) if all(parts.values()) else None


def _ids(run: RunFolder, score: TaskScore, split: str) -> tuple[set[str], set[str]]:
    """The ids of the rows of a split that are touched, and of others that possibly are."""
    assert run.leakage is not None
    task = next(task for task in run.leakage.tasks if task.task == score.first.task)
    found = [line for line in touched_lines(run, task) if line.split == split]
    touched = {line.id for line in found if line.strength == "touched"}
    return touched, {line.id for line in found} - touched


def touched_lines(run: RunFolder, task: TaskLeakage) -> list[TouchedLine]:
    """Every text found of a task's examples; `ValueError` for a damaged file."""
    lines = list(read_touched(run.folder / LEAKAGE, task.task))
    check_touched(run.folder / LEAKAGE, task, lines)
    return lines


def reported_split(report: LeakageReport, score: TaskScore) -> SplitLeakage | None:
    """What was found of the rows that a score is of, if those were looked for."""
    first = score.first
    for task in report.tasks:
        same = (task.task, task.task_version) == (first.task, first.task_version)
        if same and sorted(task.data_sha256.values()) == sorted(first.data_sha256.values()):
            return next((split for split in task.splits if split.split == first.split), None)
    return None
