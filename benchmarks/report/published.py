"""Published scores beside ours, with what keeps the two, or two of ours, from being compared.

Published scores and costs are read from `benchmarks/report/figures/*.json`. Each figure has its
model, split, protocol and source as far as they are stated; what is not stated says so. Figures are
percent, as printed.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.results.results import Result, differing, percent, task_of
from benchmarks.results.run_folder import RunFolder
from benchmarks.results.table import Record, Table
from benchmarks.statistics.scores import TaskScore, scores_of
from benchmarks.tasks.load import PART, SPLIT_EVAL
from benchmarks.training.recipe import departures
from electrify.config.evaluate import SearchOptions
from electrify.page.page import Page
from electrify.storage.files import read_json, read_toml

_FOLDER = Path(__file__).parent / "figures"
TEXTS = read_toml(Path(__file__).with_name("texts.toml"))
_TRIALS = re.compile(r"trial \d+ of (\d+)")
CUT_FRACTION = 0.05  # of the reported rows, beyond which cutting them is named


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


@cache
def published() -> dict[str, Any]:
    return {path.stem: read_json(path) for path in sorted(_FOLDER.glob("*.json"))}


@cache
def published_tables() -> list[dict[str, list[PublishedScore]]]:
    """Every published table: the scores of each model, in the order of the files."""
    return [
        {
            row["model"]: [
                PublishedScore(
                    **column,
                    model=row["model"],
                    value=value / 100,
                    source=row["source"]["name"],
                    url=row["source"]["url"],
                    protocol=row["protocol"],
                    caution=row.get("caution"),
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
    models = [scores for table in published_tables() for scores in table.values()]
    return [score for scores in models for score in scores if score.task == task]


def published_costs() -> list[dict[str, Any]]:
    """What pretrainings took, `train_flops` as the ELECTRA paper counts them, and what came of it:
    `glue_dev`, the mean of the eight tasks, percent."""
    return [cost for file in published().values() for cost in file.get("costs", ())]


def add_published(page: Page, run: RunFolder) -> None:
    others = [(score, published_scores(score.first.task)) for score in scores_of(run)]
    beside = [(score, rows) for score, rows in others if rows]
    without = ", ".join(score.label for score, rows in others if not rows)
    if not beside:
        page.paragraph(TEXTS["none_published" if without else "none_scored"])
        return
    page.paragraph(TEXTS["published"])
    summary = [_summary_row(*each) for each in beside]
    page.records(summary, "Ours, and the range of the published")
    for score, rows in beside:
        with page.fold(f"Published scores of {score.label} ({len(rows)})"):
            if general := differences_to(score.first):
                page.paragraph(f"Beware: {'; '.join(general)}.")
            page.records(_rows(score, rows))
    sources = {(row.source, row.url) for _, rows in beside for row in rows}
    with page.fold("Sources"):
        page.table(["source", "address"], sorted(sources))
    if without:
        page.paragraph(f"Nothing published is known here of {without}.")


def published_lines(run: RunFolder) -> list[str]:
    """Lines of a Markdown table for the model card, of the run's own export; none of no scores."""
    own = [score for score in scores_of(run) if not score.encoder and score.pretrained.values]
    beside = [(score, published_scores(score.first.task)) for score in own]
    return Table.of([_summary_row(*each) for each in beside if each[1]]).markdown()


def differences_to(ours: Result, published: PublishedScore | None = None) -> list[str]:
    """Why a score of ours does not compare, in words; the gravest first."""
    differences = []
    if published is None:
        if ours.split.endswith((SPLIT_EVAL, PART)):
            differences.append(f"ours is on {ours.split}, a part of the official rows")
    elif ours.split != published.split:
        theirs = published.split
        what = "a split that is not stated" if theirs == "not stated" else f"the {theirs} split"
        differences.append(
            f"other rows: ours are {ours.examples} of {ours.split}, theirs of {what}"
        )
    else:
        differences += [  # a metric on a further split, such as "dev_mismatched_accuracy"
            f"other rows: ours are {here:,} of {split}, which has {officially:,}"
            for split, (here, officially) in ours.parts.items()
            if published.metric.startswith(f"{split}_")
        ]
    most = ours.hyper_parameters.get("max_train_examples")
    if most is not None or ours.train_fraction < 1.0:
        differences.append(f"ours learnt from {ours.num_train_examples:,} examples alone")
    elif "train" in ours.parts:
        here, officially = ours.parts["train"]
        differences.append(
            f"ours learnt from {here:,} examples, the official split has {officially:,}"
        )
    if ours.hyper_parameters.get("freeze", "none") != "none":
        differences.append("ours has frozen layers")
    if ours.truncated_fraction > CUT_FRACTION:
        differences.append(f"{100 * ours.truncated_fraction:.0f} % of our rows are cut")
    return differences


def _summary_row(score: TaskScore, others: Sequence[PublishedScore]) -> Record:
    own = [row for row in others if row.metric == score.first.metric]
    own = [row for row in own if row.split == score.first.split] or own
    beware = list(dict.fromkeys(d for r in own or others for d in differences_to(score.first, r)))
    if not own:
        metrics = dict.fromkeys(row.metric for row in others)
        beware.insert(0, f"other metric: published are {', '.join(metrics)}")
    values = [row.value for row in own]
    return {
        "task": score.label,
        "metric": score.first.metric,
        "ours": score.pretrained.text(),
        "published": f"{percent(min(values))} to {percent(max(values))}" if values else None,
        "rows": len(own or others),
        "beware": "; ".join(beware) or None,
    }


def _rows(score: TaskScore, others: Sequence[PublishedScore]) -> list[Record]:
    """Ours by metric, then every published score of it, the highest first."""
    metrics = list(dict.fromkeys(row.metric for row in others))
    num_seeds, own = score.pretrained.num_seeds, score.first
    how = "the last step" if own.selection == "last" else "best on held-out training rows"
    protocol = f"mean of {num_seeds} {'seed' if num_seeds == 1 else 'seeds'}, {how}"

    def record(model: str, metric: str, value: float | None, *about: str | None) -> Record:
        names = ("split", "protocol", "beware", "source")
        shown = {"model": model, "metric": metric, "score": percent(value)}
        return shown | dict(zip(names, about, strict=True))

    rows = [
        record("ours", metric, _mean(score, metric), own.split, protocol, None, None)
        for metric in metrics
    ]
    for row in sorted(others, key=lambda row: (metrics.index(row.metric), -row.value)):
        are_other = any(d.startswith("other rows") for d in differences_to(own, row))
        beware = " ".join(["OTHER ROWS THAN OURS."] * are_other + [row.caution or ""]).strip()
        about = row.split, row.protocol, beware or None, row.source
        rows.append(record(row.model, row.metric, row.value, *about))
    return rows


def _mean(score: TaskScore, metric: str) -> float | None:
    """Of the encoder's seeds; None where one has no such metric."""
    values = [r.metrics.get(metric) for r in score.results if r.role == "pretrained"]
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


# Whether two scores of ours may stand in one order: the same rows, the same recipe.


def protocol_of(result: Result) -> Mapping[str, Any]:
    """The recipe of a fine-tuning, and each setting that is not the recipe's own.

    A recipe has its own rates for each size of a network: an encoder of size small and one of size
    base follow one recipe. What a search chose is free; how many trials it had is not.
    """
    settings = result.hyper_parameters
    protocol = {"recipe": settings.get("recipe"), **departures(task_of(result), settings)}
    if result.search:
        for name in SearchOptions.model_fields:
            protocol.pop(name, None)
        trials = _TRIALS.match(str(result.search.get("best", "")))
        protocol["trials of the search"] = trials[1] if trials else "not known"
        # of a full grid, as they were before, the whole
        protocol["steps of its trials"] = result.search.get("fraction_of_steps", 1.0)
    protocol["selection"] = result.selection
    return protocol | {"fraction of the training rows": result.train_fraction}


def protocol_differences(result: Result, other: Result) -> list[str]:
    """What keeps the two from being compared, each in words; empty where nothing does."""
    if what := differing(result, other):
        return [f"other {what}" if what == "data sha256" else f"another {what}"]
    first, second = protocol_of(result), protocol_of(other)
    return [
        f"{name.replace('_', ' ')} {_value(first, name)} and {_value(second, name)}"
        for name in dict.fromkeys((*first, *second))
        if first.get(name) != second.get(name)
    ]


def _value(protocol: Mapping[str, Any], name: str) -> str:
    return str(protocol[name]) if name in protocol else "of the recipe"
