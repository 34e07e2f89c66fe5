"""Which rows of the benchmarks stand in the run's own documents, and the scores without them."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from benchmarks.results.results import BASELINES, percent, task_of
from benchmarks.results.run_folder import RunFolder
from benchmarks.results.table import Record
from benchmarks.statistics.scores import TaskScore, lines_of, scores_of
from benchmarks.statistics.uncertainty import Estimate, estimate_lines
from benchmarks.tasks.task import Line
from electrify.page.page import Page
from electrify.stage.leakage_report import LEAKAGE, SplitLeakage, TaskLeakage, read_touched
from electrify.storage.files import read_toml

_TEXTS = read_toml(Path(__file__).with_name("texts.toml"))
_ENCODERS = {"pretrained": "encoder", "random-init": BASELINES["random-init"]}


@dataclass(frozen=True)
class ScoreWithout:
    """The headline of one task and encoder over parts of its reported rows; None of no rows."""

    score: TaskScore
    role: str
    num_touched: int
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
            task = task_of(score.first)
            if task is None or note:
                notes.append(f"{score.label}: {note}")
                continue
            of_task = read_touched(run.folder / LEAKAGE, searched[0])
            ids = {line.id for line in of_task if line.split == score.first.split}
            for role in _ENCODERS:
                parts: dict[bool, dict[int, list[Line]]] = {True: {}, False: {}}
                for (of, seed), rows in lines.items():
                    for is_in, runs in parts.items() if of == role else ():
                        runs[seed] = [line for line in rows if (str(line["id"]) in ids) == is_in]
                if parts[True]:
                    touched, without = (
                        estimate_lines(task, runs) if all(runs.values()) else None
                        for runs in parts.values()
                    )
                    scores.append(ScoreWithout(score, role, len(ids), without, touched))
    return tuple(scores), tuple(notes)


def searched_split(run: RunFolder, score: TaskScore) -> tuple[TaskLeakage, SplitLeakage] | None:
    """The task and split of a score, if just its reported rows were searched for."""
    assert run.leakage is not None
    first, known = score.first, task_of(score.first)
    if known is None:
        return None
    wanted = first.task, first.task_version, first.data_sha256.get(known.reported)
    for task in run.leakage.tasks:
        if (task.task, task.task_version, task.data_sha256.get(known.reported)) == wanted:
            return next(((task, of) for of in task.splits if of.split == first.split), None)
    return None


def leakage_rows(run: RunFolder) -> list[Record]:
    """A short table for a model card: of each scored task the touched rows, and the run's own
    encoder with all rows and without them. Nothing where nothing is known."""
    if run.leakage is None:
        return []
    without = {
        of.score.label: of.without for of in scores_without(run)[0] if of.role != "random-init"
    }
    rows: list[Record] = []
    for score in scores_of(run):
        searched = searched_split(run, score)
        if searched is None or score.encoder:
            continue
        split, rest = searched[1], without.get(score.label)
        without_them = percent(rest.value if rest else None)
        rows.append(
            {
                "task": score.label,
                "rows": f"{split.examples:,}",
                "touched": f"{split.touched:,}",
                "metric": score.first.metric,
                "all rows": percent(score.pretrained.mean),
                "without the touched ones": without_them if split.touched else "the same",
            }
        )
    return rows


def add_leakage(page: Page, run: RunFolder) -> None:
    """Touched rows of each task, and the scores without them."""
    report = run.leakage
    if report is None:
        page.paragraph(_TEXTS["none"])
        return
    rows: list[Record] = [
        {
            "task": task.task,
            "split": split.split,
            "rows": split.examples,
            "touched": split.touched,
            "%": f"{100 * split.touched / split.examples:.2g}",
        }
        for task in report.tasks
        for split in task.splits
    ]
    splits = [split for task in report.tasks for split in task.splits]
    page.paragraph(
        _TEXTS["searched"].format(
            documents=report.documents,
            tasks=len(report.tasks),
            touched=sum(split.touched for split in splits),
            rows=sum(split.examples for split in splits),
        )
    )
    searched = run.manifests.get(LEAKAGE, {}).get("inputs", {}).get("clean")
    if "clean" in run.manifests and searched != run.manifests["clean"]["digest"]:
        page.paragraph(_TEXTS["stale"])
    if report.missing:
        missing = ", ".join(report.missing)
        page.paragraph(f"Not searched for, because their data are missing: {missing}.")
    page.records(rows, "Rows that stand in the run's documents")
    _add_scores(page, run)
    if any(split.touched for split in splits):
        page.paragraph(_TEXTS["rows"])


def _add_scores(page: Page, run: RunFolder) -> None:
    scores, notes = scores_without(run)
    rows = [
        {
            "task": of.score.label,
            "metric": of.score.first.metric,
            "encoder": _ENCODERS[of.role],
            "rows": of.score.first.num_examples,
            "all rows": _text(of.score.by_role[of.role].estimate),
            "touched": of.num_touched,
            "without them": _text(of.without),
            "these alone": _text(of.touched),
        }
        for of in scores
    ]
    page.records(rows, "Scores with and without the touched rows; in brackets 95 % intervals")
    if scores:
        page.paragraph(_TEXTS["baseline"])
    elif run.evaluations:
        page.paragraph(_TEXTS["same" if len(notes) < len(scores_of(run)) else "other"])
    for note in notes:
        page.paragraph(f"No score without touched rows: {note}.")


def _text(estimate: Estimate | None) -> str:
    return "–" if estimate is None else f"{percent(estimate.value)} ({estimate.text()})"
