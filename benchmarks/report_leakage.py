"""Which rows of the benchmarks stand in the run's own documents, and the scores without them."""

from dataclasses import asdict
from typing import Any

from benchmarks.leakage_scores import reported_split, scores_without, touched_lines
from benchmarks.run_folder import RunFolder
from benchmarks.scores import scores_of
from benchmarks.twin_page import TwinPage
from benchmarks.uncertainty import Estimate
from electrify.leakage_report import (
    LEAKAGE,
    Chance,
    LeakageReport,
    SplitLeakage,
    TaskLeakage,
    TouchedLine,
)

NUM_SHOWN = 8  # rows of a task that are quoted
_EXCERPT = 160
_KINDS = {"whole": "word for word", "contained": "within a sentence", "near": "edited",
          "ngram": "in part"}  # fmt: skip
_SCRIPTS = {"wide": "East Asian", "narrow": "other"}
_MODELS = {"pretrained": "pretrained", "random-init": "untrained"}


def add_leakage(document: TwinPage, run: RunFolder) -> None:
    """What was found of each task, what chance would find, the scores without it, and examples."""
    report = run.leakage
    if report is None:
        document.paragraph("Leakage: not looked for yet. Run: electrify leakage CONFIG")
        return
    document.paragraph(_what(report))
    if _is_stale(run):
        document.paragraph(
            "Beware: the documents were made again since. Run: electrify leakage CONFIG --overwrite"
        )
    if report.missing:
        document.paragraph(f"Not looked for, for want of data: {', '.join(report.missing)}.")
    rows = [_split_row(task, split) for task in report.tasks for split in task.splits]
    headers = [
        "task", "split", "rows", "touched", "%", "of these half or more", "chance: touched",
        "possibly", "chance: both", "texts too short", "how", "source",
    ]  # fmt: skip
    document.table(headers, rows, "Rows that stand in the run's documents")
    _add_scores(document, run)
    for task in report.tasks:
        _add_examples(document, run, task)
    _add_chance(document, report)


def leakage_numbers(run: RunFolder) -> dict[str, Any]:
    """The same for programs; empty where nothing was looked for."""
    if run.leakage is None:
        return {}
    scores, notes = scores_without(run)
    return {
        **run.leakage.model_dump(mode="json"),
        "scores": [asdict(score) for score in scores],
        "notes": list(notes),
    }


def leakage_table(run: RunFolder) -> tuple[list[str], list[list[str]]]:
    """Headers and rows of a short table for a model card: of each scored task the touched rows,
    and the run's own encoder with all rows and without them. No rows where nothing is known."""
    headers = ["task", "rows", "touched", "metric", "all rows", "without the touched ones"]
    if run.leakage is None:
        return headers, []
    without = {
        score.label: score for score in scores_without(run)[0] if score.model == "pretrained"
    }
    rows = []
    for score in scores_of(run):
        split = reported_split(run.leakage, score)
        if split is None or score.encoder:
            continue
        found = without.get(score.label)
        rest = f"{found.surely.value:.4f}" if found and found.surely else "–"
        rows.append([
            score.label, f"{split.examples:,}", f"{split.touched:,}", score.first.metric,
            f"{score.pretrained.summary.mean:.4f}", rest if split.touched else "the same",
        ])  # fmt: skip
    return headers, rows


def _what(report: LeakageReport) -> str:
    rules = report.rules
    shortest, alone, sure = (
        f"{rules[name]['wide']} East Asian or {rules[name]['narrow']} other letters"
        for name in ("min_letters", "alone_letters", "sure_letters")
    )
    return (
        f"The run's {report.documents:,} documents were searched for every text of the dev and "
        f"test rows of {len(report.tasks)} tasks, letter by letter without regard to case, spaces "
        f"and marks. A row is touched if one of its texts stands in a document whole (of {sure} "
        f"anywhere, of {alone} as sentences of its own), with small edits that leave its "
        f"numbers ({rules['near_share']:.0%} of its letters), or with {rules['run_letters']} "
        "letters in a row: what decontamination of the corpus would remove. It is possibly touched "
        f"if the text is shorter, or other numbers stand in it; texts below {shortest} are not "
        "looked for, since they stand in any corpus. A touched row is known text; that its label "
        "was known too does not follow."
    )


def _is_stale(run: RunFolder) -> bool:
    made = run.manifests.get(LEAKAGE, {}).get("inputs", {}).get("clean")
    return "clean" in run.manifests and made != run.manifests["clean"]["digest"]


def _split_row(task: TaskLeakage, split: SplitLeakage) -> tuple[object, ...]:
    share = 100 * split.touched / split.examples
    return (
        task.task, split.split, split.examples, split.touched, f"{share:.2g}",
        split.touched_by_half, _chance(split.expected_touched), split.possible,
        _chance(split.expected_found), split.too_short,
        ", ".join(f"{_KINDS[kind]} {n:,}" for kind, n in split.kinds.items()),
        ", ".join(f"{source} {n:,}" for source, n in split.sources.items()),
    )  # fmt: skip


def _chance(expected: float) -> str:
    return "0" if expected == 0 else f"{expected:.2g}" if expected < 10 else f"{expected:,.0f}"


def _add_scores(document: TwinPage, run: RunFolder) -> None:
    scores, notes = scores_without(run)
    if scores:
        rows = [
            (
                score.label, score.metric, _MODELS[score.model], score.num_examples,
                *_cells(score.all), score.num_touched, *_cells(score.surely),
                *_cells(score.touched), score.num_possible, *_cells(score.strictly),
            )
            for score in scores
        ]  # fmt: skip
        headers = ["task", "metric", "model", "rows", "all rows", "95 % interval", "touched",
                   "without them", "95 % interval", "touched ones alone", "95 % interval",
                   "possibly", "without either", "95 % interval"]  # fmt: skip
        document.table(headers, rows, "Scores with and without the touched rows")
        document.paragraph(
            "The untrained network has seen no documents: where its score changes as much, the "
            "touched rows are easier or harder than others, and nothing was gained by knowing "
            "them. Other encoders learnt from other documents, of which nothing is known here."
        )
    elif run.evaluations:
        document.paragraph(
            "No row of the scored tasks was found: scores without touched rows are the same."
            if len(notes) < len(scores_of(run))
            else "None of the scores is of rows that were looked for."
        )
    for note in notes:
        document.paragraph(f"No score without touched rows: {note}.")


def _cells(estimate: Estimate | None) -> tuple[float | None, str]:
    return (None, "–") if estimate is None else (estimate.value, estimate.text())


def _add_examples(document: TwinPage, run: RunFolder, task: TaskLeakage) -> None:
    """Rows and the places in documents; those of the largest share first."""
    first: dict[tuple[str, str], TouchedLine] = {}
    for line in touched_lines(run, task.task):
        first.setdefault((line.split, line.id), line)
    if not first:
        return
    order = sorted(first.values(), key=lambda x: (x.strength != "touched", -x.example_share, x.id))
    with document.fold(f"{task.task}: what was found"):
        rows = [
            (line.id, line.text, f"{line.strength}, {_KINDS[line.kind]}", line.example_share,
             line.wanted[:_EXCERPT], line.excerpt[:_EXCERPT], line.documents, line.source)
            for line in order[:NUM_SHOWN]
        ]  # fmt: skip
        headers = ["row", "text", "found", "share of the row", "looked for", "in a document",
                   "documents", "source"]  # fmt: skip
        document.table(headers, rows, f"{min(NUM_SHOWN, len(order))} of {len(order)} rows")
        if task.documents:
            held = [(one.document, one.source, one.examples) for one in task.documents]
            document.table(["document", "source", "rows"], held, "Documents with most touched rows")


def _add_chance(document: TwinPage, report: LeakageReport) -> None:
    with document.fold("What chance finds"):
        document.paragraph(
            "Sentences of the corpus itself were looked for in its other documents in the same "
            "way, as many of each source. What is found of them in another source is commonplaces, "
            "quotations and what two sources have in common. So many rows of a benchmark would be "
            "found without any leak if its texts were as much like this corpus as its sources are "
            "like each other: an estimate from above, which does not say which rows."
            if report.sources > 1
            else "Sentences of the corpus itself were looked for in its other documents in the "
            "same way. The corpus has one source, whose documents repeat each other more than a "
            "benchmark repeats them: a rough estimate from above."
        )
        headers = ["letters", "length from", "sentences", "touched", "found at all",
                   "touched in another source", "found in another source"]  # fmt: skip
        document.table(headers, [_chance_row(one) for one in report.chance])


def _chance_row(one: Chance) -> tuple[object, ...]:
    return (
        _SCRIPTS[one.script], one.min_letters, one.sentences, one.touched, one.found,
        one.other_touched, one.other_found,
    )  # fmt: skip
