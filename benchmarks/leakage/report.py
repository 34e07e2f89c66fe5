"""Which rows of the benchmarks stand in the run's own documents, and the scores without them."""

from benchmarks.leakage.scores import reported_split, scores_without, touched_lines
from benchmarks.results.results import BASELINES, percent
from benchmarks.results.run_folder import RunFolder
from benchmarks.results.table import Record
from benchmarks.statistics.scores import scores_of
from benchmarks.statistics.uncertainty import Estimate
from electrify.page.page import Page
from electrify.stage.leakage_report import LEAKAGE, LeakageReport, TaskLeakage, TouchedLine

NUM_SHOWN = 8  # rows of a task that are quoted
_EXCERPT = 160
_KINDS = {
    "whole": "word for word",
    "contained": "within a sentence",
    "near": "edited",
    "ngram": "in part",
}
_MODELS = {"pretrained": "encoder"} | BASELINES


def add_leakage(document: Page, run: RunFolder, with_texts: bool = True) -> None:
    """What was found of each task, what chance would find, the scores without it, and examples,
    which are not quoted unless `with_texts`."""
    report = run.leakage
    if report is None:
        document.paragraph("Leakage: not looked for yet. Run: electrify leakage CONFIG")
        return
    document.paragraph(_summary(report))
    if _is_stale(run):
        document.paragraph(
            "Beware: the documents were made again since. Run: electrify leakage CONFIG --overwrite"
        )
    if report.missing:
        document.paragraph(
            f"Not searched, because their data are missing: {', '.join(report.missing)}."
        )
    _add_found(document, report)
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
        split = reported_split(run.leakage, score)
        if split is None or score.encoder:
            continue
        found = without.get(score.label)
        rest = percent(found.surely.value) if found and found.surely else "–"
        rows.append(
            {
                "task": score.label,
                "rows": f"{split.examples:,}",
                "touched": f"{split.touched:,}",
                "metric": score.first.metric,
                "all rows": percent(score.pretrained.summary.mean),
                "without the touched ones": rest if split.touched else "the same",
            }
        )
    return rows


def _summary(report: LeakageReport) -> str:
    splits = [split for task in report.tasks for split in task.splits]
    touched, rows = (
        sum(getattr(split, name) for split in splits) for name in ("touched", "examples")
    )
    return (
        f"The run's {report.documents:,} documents were searched for the dev and test rows of "
        f"{len(report.tasks)} tasks: {touched:,} of {rows:,} rows are touched, that is, a text of "
        "theirs stands in a document whole, nearly, or with a long part. Such a row is known text; "
        "that its label was known too does not follow."
    )


def _add_found(document: Page, report: LeakageReport) -> None:
    """Splits of which something was found; the others by name; all figures folded away."""
    splits = [(task.task, split) for task in report.tasks for split in task.splits]
    found = [(task, split) for task, split in splits if split.touched + split.possible]
    document.records(
        [
            {
                "task": task,
                "split": split.split,
                "rows": split.examples,
                "touched": split.touched,
                "%": f"{100 * split.touched / split.examples:.2g}",
                "by half": split.touched_by_half,
                "by chance": _chance(split.expected_touched),
                "possibly": split.possible,
                "where the touched ones stand": ", ".join(
                    f"{source} {n:,}" for source, n in split.sources.items()
                ),
            }
            for task, split in found
        ],
        "Rows that stand in the run's documents",
    )
    if others := [f"{task} {split.split}" for task, split in splits if (task, split) not in found]:
        document.paragraph(f"No row was found of: {', '.join(others)}.")
    document.paragraph(
        "Touched: a text of the row stands in a document whole, with small edits or with a long "
        "part; by half: that is half of the letters of all its texts or more; possibly: the text "
        "is shorter, or other numbers stand in it. By chance: how many rows would be found without "
        "any leak, estimated from above. Every figure stands in leakage/report.json, the rules in "
        "docs/benchmarks.md."
    )


def _is_stale(run: RunFolder) -> bool:
    made = run.manifests.get(LEAKAGE, {}).get("inputs", {}).get("clean")
    return "clean" in run.manifests and made != run.manifests["clean"]["digest"]


def _chance(expected: float) -> str:
    return "0" if expected == 0 else f"{expected:.2g}" if expected < 10 else f"{expected:,.0f}"


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
                "without them": _text(score.surely),
                "these alone": _text(score.touched),
                "possibly": score.num_possible,
                "without either": _text(score.strictly),
            }
            for score in scores
        ]
        title = "Scores with and without the touched rows; in brackets 95 % intervals"
        document.records(rows, title)
        document.paragraph(
            "Random initialisation has seen no documents: where its score changes as much, the "
            "touched rows are easier or harder than others, and the change is no sign of leakage. "
            "Other encoders learnt from other documents, of which nothing is known here."
        )
    elif run.evaluations:
        document.paragraph(
            "No row of the scored tasks was found: scores without touched rows are the same."
            if len(notes) < len(scores_of(run))
            else "None of the scores is of rows that were looked for."
        )
    for note in notes:
        document.paragraph(f"No score without touched rows: {note}.")


def _text(estimate: Estimate | None) -> str:
    return "–" if estimate is None else f"{percent(estimate.value)} ({estimate.text()})"


def _add_examples(document: Page, run: RunFolder, task: TaskLeakage, with_texts: bool) -> None:
    """Rows and the places in documents; those of the largest share first."""
    first: dict[tuple[str, str], TouchedLine] = {}
    for line in touched_lines(run, task):
        first.setdefault((line.split, line.id), line)
    if not first:
        return
    order = sorted(first.values(), key=lambda x: (x.strength != "touched", -x.example_share, x.id))
    with document.fold(f"{task.task}: what was found"):
        rows = [
            {
                "row": line.id,
                "text": line.text,
                "found": f"{line.strength}, {_KINDS[line.kind]}",
                "share of the row": line.example_share,
                "looked for": line.wanted[:_EXCERPT] if with_texts else None,
                "in a document": line.excerpt[:_EXCERPT] if with_texts else None,
                "documents": line.documents,
                "source": line.source,
            }
            for line in order[:NUM_SHOWN]
        ]
        document.records(rows, f"{min(NUM_SHOWN, len(order))} of {len(order)} rows")
        if task.documents:
            held = [(one.document, one.source, one.examples) for one in task.documents]
            document.table(["document", "source", "rows"], held, "Documents with most touched rows")
