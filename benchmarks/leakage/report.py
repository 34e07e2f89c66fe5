"""Which rows of the benchmarks stand in the run's own documents, and the scores without them."""

from benchmarks.leakage.scores import scores_without, searched_split
from benchmarks.results.results import BASELINES, percent
from benchmarks.results.run_folder import RunFolder
from benchmarks.results.table import Record
from benchmarks.statistics.scores import scores_of
from benchmarks.statistics.uncertainty import Estimate
from electrify.page.page import Page
from electrify.stage.leakage_report import LEAKAGE, TaskLeakage, TouchedLine, read_touched

NUM_SHOWN = 8  # rows of a task that are quoted
_EXCERPT = 160
_KINDS = {"sentence": "word for word", "near": "edited", "ngram": "in part"}
_MODELS = {"pretrained": "encoder"} | BASELINES


def add_leakage(document: Page, run: RunFolder, with_texts: bool = True) -> None:
    """Touched rows of each task, the scores without them, and examples, which are not quoted unless
    `with_texts`."""
    report = run.leakage
    if report is None:
        document.paragraph("Leakage: not searched for yet. Run: electrify leakage CONFIG")
        return
    splits = [(task.task, split) for task in report.tasks for split in task.splits]
    num_touched, num_rows = (
        sum(getattr(split, name) for _, split in splits) for name in ("touched", "examples")
    )
    document.paragraph(
        f"The run's {report.documents:,} documents were searched for the dev and test rows of "
        f"{len(report.tasks)} tasks: {num_touched:,} of {num_rows:,} rows are touched, that is, a "
        "text of theirs stands in a document: whole, with small edits, or a long part of it. The "
        "text of such a row is known; its label may not be."
    )
    if _is_stale(run):
        document.paragraph(
            "Warning: the documents have changed since. Run: electrify leakage CONFIG --overwrite"
        )
    if report.missing:
        document.paragraph(
            f"Not searched for, because their data are missing: {', '.join(report.missing)}."
        )
    document.records(
        [
            {
                "task": task,
                "split": split.split,
                "rows": split.examples,
                "touched": split.touched,
                "%": f"{100 * split.touched / split.examples:.2g}",
            }
            for task, split in splits
        ],
        "Rows that stand in the run's documents",
    )
    _add_scores(document, run)
    for task in report.tasks:
        _add_examples(document, run, task, with_texts)


def leakage_rows(run: RunFolder) -> list[Record]:
    """A short table for a model card: of each scored task the touched rows, and the run's own
    encoder with all rows and without them. Nothing where nothing is known."""
    if run.leakage is None:
        return []
    without = {
        score.label: score for score in scores_without(run)[0] if score.model == "pretrained"
    }
    rows: list[Record] = []
    for score in scores_of(run):
        searched = searched_split(run, score)
        if searched is None or score.encoder:
            continue
        split, rest = searched[1], without.get(score.label)
        value = percent(rest.without.value) if rest and rest.without else "–"
        rows.append(
            {
                "task": score.label,
                "rows": f"{split.examples:,}",
                "touched": f"{split.touched:,}",
                "metric": score.first.metric,
                "all rows": percent(score.pretrained.summary.mean),
                "without the touched ones": value if split.touched else "the same",
            }
        )
    return rows


def _is_stale(run: RunFolder) -> bool:
    clean = run.manifests.get(LEAKAGE, {}).get("inputs", {}).get("clean")
    return "clean" in run.manifests and clean != run.manifests["clean"]["digest"]


def _add_scores(document: Page, run: RunFolder) -> None:
    scores, notes = scores_without(run)
    if scores:
        rows = [
            {
                "task": score.label,
                "metric": score.metric,
                "weights": _MODELS[score.model],
                "rows": score.num_examples,
                "all rows": _text(score.all),
                "touched": score.num_touched,
                "without them": _text(score.without),
                "these alone": _text(score.touched),
            }
            for score in scores
        ]
        title = "Scores with and without the touched rows; in brackets 95 % intervals"
        document.records(rows, title)
        document.paragraph(
            "Random initialisation has seen no documents: where its score changes as much, the "
            "touched rows are easier or harder than others, and the change is no sign of leakage. "
            "The documents of other encoders are not known here."
        )
    elif run.evaluations:
        document.paragraph(
            "No row of the scored tasks was found: scores without touched rows are the same."
            if len(notes) < len(scores_of(run))
            else "None of the scores is of rows that were searched for."
        )
    for note in notes:
        document.paragraph(f"No score without touched rows: {note}.")


def _text(estimate: Estimate | None) -> str:
    return "–" if estimate is None else f"{percent(estimate.value)} ({estimate.text()})"


def _add_examples(document: Page, run: RunFolder, task: TaskLeakage, with_texts: bool) -> None:
    """Some touched rows and the places in documents; those of the largest fraction first."""
    first: dict[tuple[str, str], TouchedLine] = {}
    for line in read_touched(run.folder / LEAKAGE, task):
        first.setdefault((line.split, line.id), line)
    shown = sorted(first.values(), key=lambda line: (-line.fraction, line.id))[:NUM_SHOWN]
    if not shown:
        return
    with document.fold(f"{task.task}: touched rows"):
        rows = [
            {
                "row": line.id,
                "text": line.text,
                "found": _KINDS[line.kind],
                "fraction of the text": line.fraction,
                "searched for": line.wanted[:_EXCERPT] if with_texts else None,
                "in a document": line.excerpt[:_EXCERPT] if with_texts else None,
                "documents": line.documents,
                "source": line.source,
            }
            for line in shown
        ]
        document.records(rows, f"{len(shown)} of {len(first)} rows")
