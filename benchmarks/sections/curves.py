"""Scores over checkpoints and over examples to learn from, and what they cost."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.results.results import Result, percent
from benchmarks.results.run_folder import RunFolder
from benchmarks.results.table import Record, Table, short
from benchmarks.sections.scores import TEXTS, protocol_differences
from benchmarks.statistics.scores import (
    Sample,
    TaskScore,
    encoder_name,
    sample_of,
    scores_of,
)
from electrify.page.page import Page
from electrify.system.progress import duration

# Over pretraining.


@dataclass(frozen=True)
class CurvePoint:
    """One checkpoint's score on one task; step 0 is random initialisation."""

    step: int
    tokens: float  # seen so far; nan where the run has no figures of it
    flops: float  # so far, by the paper's count
    sample: Sample


def curves_of(run: RunFolder) -> tuple[dict[str, list[CurvePoint]], list[str]]:
    """A curve by task, and what was left out of it for being scored otherwise.

    The ends are those of `evaluate/`, if it is there: random initialisation and the export.
    """
    records = {step: list(results) for step, results in run.checkpoint_evaluations.items()}
    if not records:
        return {}, []
    own = run.evaluations.get("evaluate", ())
    records.setdefault(0, [result for result in own if result.role == "random-init"])
    counts = run.manifests.get("export", {}).get("counts", {})
    if last := int(str(counts.get("checkpoint", "0")).split("-")[-1]):
        records.setdefault(last, [result for result in own if result.role == "pretrained"])
    by_task: dict[str, dict[int, list[Result]]] = {}
    for step in sorted(records):
        for result in records[step]:
            by_task.setdefault(result.task, {}).setdefault(step, []).append(result)
    curves: dict[str, list[CurvePoint]] = {}
    left_out = []
    for task, by_step in by_task.items():
        last_result = by_step[max(by_step)][0]
        for step, results in by_step.items():
            if any(protocol_differences(result, last_result) for result in results):
                left_out.append(f"{task} at step {step:,}")
                continue
            tokens, flops = (_until(run, name, step) for name in ("tokens", "flops_paper"))
            curves.setdefault(task, []).append(CurvePoint(step, tokens, flops, sample_of(results)))
    return curves, left_out


def _until(run: RunFolder, figure: str, step: int) -> float:
    """Tokens or FLOPs until a step, between the two records around it; nan without records."""
    known = {0: 0.0} | {
        int(record["step"]): float(record[figure])
        for record in run.metrics
        if record["kind"] == "train" and record.get(figure) is not None
    }
    if figure in run.summary:
        known[int(run.summary["num_steps"])] = float(run.summary[figure])
    steps = sorted(known)
    return float(np.interp(step, steps, [known[s] for s in steps], right=math.nan))


def add_curves(page: Page, run: RunFolder) -> None:
    curves, left_out = curves_of(run)
    page.paragraph(TEXTS["curves" if curves else "no_curves"])
    rows = []
    for task, curve in curves.items():
        points = {"mean over seeds": [(float(p.step), p.sample) for p in curve]}
        _plot_means(page, f"{task} over pretraining steps", points, "pretraining steps")
        rows += [
            {"task": task, "metric": p.sample.metric, "step": p.step}
            | {"tokens": short(p.tokens), "FLOPs, the paper's count": short(p.flops)}
            | _seeds(p.sample)
            for p in curve
        ]
    if rows:
        with page.fold("Every point of the learning curves"):
            page.records(rows)
    if left_out:
        page.paragraph(f"Scored with other data or settings, and left out: {', '.join(left_out)}.")
    for stage, records in run.low_shot.items():
        _add_low_shot(page, encoder_name(stage), records)


def _plot_means(
    page: Page,
    title: str,
    curves: Mapping[str, Sequence[tuple[float, Sample]]],
    over: str,
    log_x: bool = False,
) -> None:
    metric = next(sample.metric for points in curves.values() for _, sample in points)
    means = {name: [(x, 100 * s.mean) for x, s in points] for name, points in curves.items()}
    bands = {
        name: [(x, 100 * s.range[0], 100 * s.range[1]) for x, s in points]
        for name, points in curves.items()
    }
    page.line_plot(title, means, over, f"{metric}, percent", log_x=log_x, bands=bands)


def _seeds(sample: Sample) -> dict[str, object]:
    low, high = map(percent, sample.range)
    return {"score": sample.text(), "lowest": low, "highest": high, "seeds": sample.num_seeds}


# Over the examples to learn from.


def low_shot_lines(run: RunFolder) -> list[str]:
    return _low_shot_table(run.low_shot.get("evaluate", ())).markdown()


def _add_low_shot(page: Page, encoder: str, results: Sequence[Result]) -> None:
    of_encoder = f" of {encoder}" if encoder else ""
    title = f"Scores{of_encoder} with a part of the training split: mean ± sd over seeds"
    _low_shot_table(results, title).add_to(page)
    page.paragraph(TEXTS["low_shot"])
    curves: dict[str, dict[str, list[tuple[float, Sample]]]] = {}  # by task and encoder
    for records in _parts(sorted(results, key=lambda result: result.train_fraction)):
        first = records[0]
        of_task = curves.setdefault(f"{first.title}{of_encoder}", {})
        point = float(first.num_train_examples), sample_of(records)
        of_task.setdefault(first.encoder, []).append(point)
    for task, of_task in curves.items():
        label = "examples to learn from"
        _plot_means(page, f"{task} over {label}", of_task, label, log_x=True)


def _low_shot_table(results: Sequence[Result], caption: str = "") -> Table:
    rows = [
        {
            "task": records[0].title,
            "metric": records[0].metric,
            "encoder": records[0].encoder,
            "fraction": f"{100 * records[0].train_fraction:g} %",
            "trained on": records[0].num_train_examples,
            **_seeds(sample_of(records)),
        }
        for records in _parts(results)
    ]
    return Table.of(rows, caption)


def _parts(results: Sequence[Result]) -> list[list[Result]]:
    """The seeds of each task, model and fraction, in order of first appearance."""
    groups: dict[tuple[str, str, float], list[Result]] = {}
    for result in results:
        key = result.task, result.role, result.train_fraction
        groups.setdefault(key, []).append(result)
    return list(groups.values())


# What scores cost.


def add_score_cost(page: Page, run: RunFolder) -> None:
    scores = scores_of(run)
    if not scores:
        page.paragraph("Nothing is scored yet, so that no score has a cost.")
        return
    page.records(_cost_rows(scores), "Fine-tuning, the mean of a seed; FLOPs of matrix products")
    page.paragraph(TEXTS["cost"])


def cost_lines(run: RunFolder) -> list[str]:
    own = (score for score in scores_of(run) if not score.encoder)
    return Table.of(_cost_rows(own)).markdown()


def _cost_rows(scores: Iterable[TaskScore]) -> list[Record]:
    rows: list[Record] = []
    for score in scores:
        for role, sample in score.by_role.items():
            records = [result for result in score.results if result.role == role]
            if not records:
                continue
            seconds, memory = _mean(records, "train_seconds"), _known(records, "peak_memory_mb")
            devices = dict.fromkeys(record.device for record in records if record.device)
            rows.append(
                {
                    "task": score.label,
                    "encoder": records[0].encoder,
                    "score": sample.text(),
                    "fine-tuning FLOPs": short(_mean(records, "train_flops")),
                    "FLOPs per example": short(_mean(records, "inference_flops")),
                    "time": None if seconds is None else duration(seconds),
                    "peak memory (MB)": int(max(memory, default=0)) or None,
                    "device": ", ".join(devices) or None,
                }
            )
    return rows


def _known(records: Sequence[Result], name: str) -> list[float]:
    values = [getattr(record, name) for record in records]
    return [] if None in values else values


def _mean(records: Sequence[Result], name: str) -> float | None:
    values = _known(records, name)
    return sum(values) / len(values) if values else None
