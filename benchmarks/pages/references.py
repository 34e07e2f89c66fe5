"""Published scores beside ours, with what keeps the two from being compared.

Published scores and costs are read from `benchmarks/pages/published/*.json`. Each figure has its
model, split, protocol and source as far as they are stated; what is not stated says so. Figures are
percent, as printed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.results.results import Result, percent
from benchmarks.results.run_folder import RunFolder
from benchmarks.results.table import Record, record_lines
from benchmarks.statistics.scores import TaskScore, scores_of
from benchmarks.tasks.data import PART, SPLIT_EVAL
from electrify.page.page import Page
from electrify.storage.files import read_json

FOLDER = Path(__file__).parent / "published"


@dataclass(frozen=True)
class PublishedScore:
    """One figure, 0..1."""

    task: str
    metric: str
    split: str  # "not stated" where it is not
    model: str
    value: float
    source: str
    url: str
    protocol: str
    caution: str | None


@dataclass(frozen=True)
class PublishedCost:
    """What a pretraining took, and what came of it."""

    model: str
    train_flops: float | None  # as the ELECTRA paper counts them
    glue_dev: float | None  # mean of the eight tasks, percent
    series: str | None  # rows of one are joined by a line


@cache
def published() -> dict[str, Any]:
    """Every file by name."""
    return {path.stem: read_json(path) for path in sorted(FOLDER.glob("*.json"))}


def published_tables() -> list[dict[str, list[PublishedScore]]]:
    """Every published table: the scores of each model, in the order of the files."""
    return [
        {
            row["model"]: [
                PublishedScore(
                    column["task"],
                    column["metric"],
                    column["split"],
                    row["model"],
                    value / 100,
                    row["source"]["name"],
                    row["source"]["url"],
                    row["protocol"],
                    row.get("caution"),
                )
                for column, value in zip(table["columns"], row["values"], strict=True)
                if value is not None
            ]
            for row in table["rows"]
        }
        for file in published().values()
        for table in file["tables"]
    ]


def published_scores(task: str) -> list[PublishedScore]:
    """Every published score of a task, in the order of the files."""
    models = [scores for table in published_tables() for scores in table.values()]
    return [score for scores in models for score in scores if score.task == task]


def published_costs() -> list[PublishedCost]:
    return [
        PublishedCost(c["model"], c.get("train_flops"), c.get("glue_dev"), c.get("series"))
        for file in published().values()
        for c in file.get("costs", ())
    ]


CUT_FRACTION = 0.05  # of the reported rows, beyond which cutting them is named


def add_references(document: Page, run: RunFolder) -> None:
    """What others report on the same tasks."""
    found = [(score, published_scores(score.first.task)) for score in scores_of(run)]
    without = [score.label for score, rows in found if not rows]
    found = [(score, rows) for score, rows in found if rows]
    if not found:
        document.paragraph(
            "No published score of these tasks is known here (benchmarks/pages/published)."
            if without
            else "Nothing is scored yet that published scores could stand beside."
        )
        return
    document.paragraph(
        "Published scores may follow other protocols than ours: each row below names its own, and "
        "its source. They say where a score lies, not which model is better."
    )
    document.records(
        [_summary_row(score, rows) for score, rows in found], "Ours, and the range of the published"
    )
    for score, rows in found:
        _add_task(document, score, rows)
    sources = dict.fromkeys((row.source, row.url) for _, rows in found for row in rows)
    with document.fold("Sources"):
        document.table(["source", "address"], sorted(sources))
    if without:
        document.paragraph(f"Nothing published is known here of {', '.join(without)}.")


def references_lines(run: RunFolder) -> list[str]:
    """Lines of a Markdown table for the model card, of the run's own export; none of no scores."""
    own = [score for score in scores_of(run) if not score.encoder and score.pretrained.values]
    rows = [(score, published_scores(score.first.task)) for score in own]
    return record_lines([_summary_row(score, found) for score, found in rows if found])


def mean_of(score: TaskScore, metric: str) -> float | None:
    """Ours over the pretrained model's seeds; None where a seed has no such metric."""
    values = [r.metrics.get(metric) for r in score.results if r.role == "pretrained"]
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if values and len(known) == len(values) else None


def differences_to(ours: Result, published: PublishedScore | None = None) -> list[str]:
    """Why a score of ours does not compare, in words; loudest first."""
    found = []
    if published is not None and ours.split != published.split:
        theirs = published.split
        what = "a split that is not stated" if theirs == "not stated" else f"the {theirs} split"
        found.append(f"other rows: ours are {ours.examples} of {ours.split}, theirs of {what}")
    elif published is not None and (other := _other_size(ours, published.metric)):
        found.append(f"other rows: ours are {other}")
    elif published is None and ours.split.endswith((SPLIT_EVAL, PART)):
        found.append(f"ours is on {ours.split}, a part of the official rows")
    most = ours.hyper_parameters.get("max_train_examples")
    if most is not None or ours.train_fraction < 1.0:
        found.append(f"ours learnt from {ours.num_train_examples:,} examples alone")
    elif "train" in ours.parts:
        here, officially = ours.parts["train"]
        found.append(f"ours learnt from {here:,} examples, the official split has {officially:,}")
    if ours.hyper_parameters.get("freeze", "none") != "none":
        found.append("ours has frozen layers")
    if ours.truncated_fraction > CUT_FRACTION:
        found.append(f"{100 * ours.truncated_fraction:.0f} % of our rows are cut")
    return found


def _other_size(ours: Result, metric: str) -> str:
    """Of a metric on a further split, "dev_mismatched_accuracy": how many rows it is on, where that
    split has another size than the official one; else empty."""
    for split, (here, officially) in ours.parts.items():
        if metric.startswith(f"{split}_"):
            return f"{here:,} of {split}, which has {officially:,}"
    return ""


def _summary_row(score: TaskScore, rows: Sequence[PublishedScore]) -> Record:
    own = [row for row in rows if row.metric == score.first.metric]
    own = [row for row in own if row.split == score.first.split] or own
    beware = list(dict.fromkeys(d for row in own or rows for d in differences_to(score.first, row)))
    if not own:
        metrics = dict.fromkeys(row.metric for row in rows)
        beware.insert(0, f"other metric: published are {', '.join(metrics)}")
    values = [row.value for row in own]
    return {
        "task": score.label,
        "metric": score.first.metric,
        "ours": score.pretrained.text(),
        "published": f"{percent(min(values))} to {percent(max(values))}" if values else None,
        "rows": len(own or rows),
        "beware": _sentence(beware),
    }


def _add_task(document: Page, score: TaskScore, rows: Sequence[PublishedScore]) -> None:
    metrics = list(dict.fromkeys(row.metric for row in rows))
    with document.fold(f"Published scores of {score.label} ({len(rows)})"):
        if general := differences_to(score.first):
            document.paragraph(f"Beware: {_sentence(general)}.")
        body: list[Record] = [
            {
                "model": "ours",
                "metric": metric,
                "score": percent(mean_of(score, metric)),
                "split": score.first.split,
                "protocol": _protocol_of(score),
                "beware": None,
                "source": None,
            }
            for metric in metrics
        ]
        for row in sorted(rows, key=lambda row: (metrics.index(row.metric), -row.value)):
            others = any(d.startswith("other rows") for d in differences_to(score.first, row))
            notes = [*(["OTHER ROWS THAN OURS."] if others else []), row.caution or ""]
            body.append(
                {
                    "model": row.model,
                    "metric": row.metric,
                    "score": percent(row.value),
                    "split": row.split,
                    "protocol": row.protocol,
                    "beware": " ".join(notes).strip() or None,
                    "source": row.source,
                }
            )
        document.records(body)


def _protocol_of(score: TaskScore) -> str:
    seeds = score.pretrained.summary.num_seeds
    how = "the last step" if score.first.selection == "last" else "best on held-out training rows"
    return f"mean of {seeds} {'seed' if seeds == 1 else 'seeds'}, {how}"


def _sentence(parts: Sequence[str]) -> str | None:
    return "; ".join(parts) or None
