"""Scores without the rows that stand in the run's own documents."""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache

from benchmarks.results.results import task_of
from benchmarks.results.run_folder import RunFolder
from benchmarks.statistics.scores import TaskScore, lines_of, scores_of
from benchmarks.statistics.uncertainty import Estimate, estimate_lines
from benchmarks.tasks.task import Line, Task
from electrify.stage.leakage_report import LEAKAGE, SplitLeakage, TaskLeakage, read_touched


@dataclass(frozen=True)
class ScoreWithout:
    """The headline of one task and model over parts of its reported rows; None of no rows."""

    label: str
    metric: str
    model: str
    num_examples: int
    num_touched: int
    all: Estimate
    without: Estimate | None  # the touched rows
    touched: Estimate | None  # these alone


@cache
def scores_without(run: RunFolder) -> tuple[tuple[ScoreWithout, ...], tuple[str, ...]]:
    """Scores of the tasks with touched rows, and why there are none of others.

    Raises `UserError` for damaged files.
    """
    scores: list[ScoreWithout] = []
    notes: list[str] = []
    for score in scores_of(run):
        searched = searched_split(run, score)
        if searched is None:
            notes.append(f"{score.label}: its rows were not searched for")
        elif searched[1].touched:
            lines, note = lines_of(score.results, run.place(score.stage))
            if note:
                notes.append(f"{score.label}: {note}")
                continue
            task, split = searched
            touched = read_touched(run.folder / LEAKAGE, task)
            ids = {line.id for line in touched if line.split == split.split}
            scores += _scores_without(score, lines, ids)
    return tuple(scores), tuple(notes)


def _scores_without(
    score: TaskScore, lines: Mapping[tuple[str, int], Sequence[Line]], touched: Set[str]
) -> list[ScoreWithout]:
    task, scores = task_of(score.first), list[ScoreWithout]()
    assert task is not None, "`lines_of` has a note for it"
    for model, sample in (
        ("pretrained", score.pretrained),
        ("random-init", score.by_role["random-init"]),
    ):
        runs = {seed: of for (name, seed), of in lines.items() if name == model}
        if runs:
            scores.append(
                ScoreWithout(
                    score.label,
                    score.first.metric,
                    model,
                    score.first.num_examples,
                    len(touched),
                    sample.estimate,
                    _part(task, runs, lambda identity: identity not in touched),
                    _part(task, runs, lambda identity: identity in touched),
                )
            )
    return scores


def _part(
    task: Task, runs: Mapping[int, Sequence[Line]], is_in: Callable[[str], bool]
) -> Estimate | None:
    parts = {seed: [ln for ln in lines if is_in(str(ln["id"]))] for seed, lines in runs.items()}
    return estimate_lines(task, parts) if all(parts.values()) else None


def searched_split(run: RunFolder, score: TaskScore) -> tuple[TaskLeakage, SplitLeakage] | None:
    """The task and split of a score, if just these data were searched for."""
    assert run.leakage is not None
    first = score.first
    for task in run.leakage.tasks:
        same = (task.task, task.task_version) == (first.task, first.task_version)
        if same and sorted(task.data_sha256.values()) == sorted(first.data_sha256.values()):
            return next(((task, of) for of in task.splits if of.split == first.split), None)
    return None
