"""Scores over checkpoints, over examples to learn from and over FLOPs, and what they cost."""

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

import numpy as np

from benchmarks.report.published import differences_to, published_costs, published_scores
from benchmarks.results.results import Result, differing, percent
from benchmarks.results.run_folder import RunFolder
from benchmarks.results.table import Record, Table, record_lines, short
from benchmarks.statistics.scores import (
    ELECTRA_AVERAGE,
    Sample,
    TaskScore,
    encoder_name,
    overall,
    sample_of,
    scores_of,
)
from electrify.config.evaluate import SearchOptions
from electrify.page.page import Page
from electrify.system.progress import duration

_GLUE_LABEL = "GLUE dev, mean of 8 tasks"
_FLOPS_LABEL = "pretraining FLOPs, the paper's count"
_MAX_OPEN_PLOTS = 4
Points = list[tuple[float, float]]
Marks = list[tuple[float, float, str]]  # FLOPs, score, label


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
    groups: dict[str, dict[int, list[Result]]] = {}
    for step in sorted(records):
        for result in records[step]:
            groups.setdefault(result.task, {}).setdefault(step, []).append(result)
    curves: dict[str, list[CurvePoint]] = {}
    left_out = []
    for task, by_step in groups.items():
        last_result = by_step[max(by_step)][0]
        for step, results in by_step.items():
            if any(_is_other_protocol(result, last_result) for result in results):
                left_out.append(f"{task} at step {step:,}")
                continue
            tokens, flops = (figure_until(run, name, step) for name in ("tokens", "flops_paper"))
            curves.setdefault(task, []).append(CurvePoint(step, tokens, flops, sample_of(results)))
    return curves, left_out


def _is_other_protocol(result: Result, other: Result) -> bool:
    """Whether two scores are no points of one curve; micro-batches change no score, and a search
    may choose other options for each checkpoint."""
    free = {"micro_batch_size"}
    if result.search and other.search:
        free |= {*SearchOptions.model_fields, "num_steps", "warmup_steps"}
    settings, others = (
        {k: v for k, v in of.hyper_parameters.items() if k not in free} for of in (result, other)
    )
    same = result.selection == other.selection and settings == others
    return not same or bool(differing(result, other))


def figure_until(run: RunFolder, figure: str, step: int) -> float:
    """Tokens or FLOPs until a step, between the two records around it; nan without records."""
    known = {0: 0.0} | {
        int(record["step"]): float(record[figure])
        for record in run.metrics
        if record["kind"] == "train" and record.get(figure) is not None
    }
    if figure in run.summary:
        known[int(run.summary["num_steps"])] = float(run.summary[figure])
    if step > max(known):
        return math.nan
    steps = sorted(known)
    return float(np.interp(step, steps, [known[s] for s in steps]))


# Over pretraining.


def add_mean_curve(page: Page, run: RunFolder) -> None:
    """Scores against the tokens seen, a line a task; nothing where no checkpoint is scored."""
    lines = {
        task: [(p.tokens, 100 * p.sample.mean) for p in curve]
        for task, curve in curves_of(run)[0].items()
        if len(curve) > 1
    }
    if lines:
        title = "Scores of the checkpoints; at 0 tokens: random initialisation"
        page.line_plot(title, lines, "tokens seen in pretraining", "score, percent")


def add_curves(page: Page, run: RunFolder) -> None:
    """Scores over pretraining, then over the size of the training split."""
    curves, left_out = curves_of(run)
    page.paragraph(
        "Every checkpoint is fine-tuned on the same rows with the same settings; step 0 is random "
        "initialisation. Lines are means over seeds, bands the lowest and the highest seed."
        if curves
        else "No checkpoint on the way is scored. Run: electrify evaluate CONFIG --checkpoints all "
        "(pretrain.keep_every_steps has pretraining keep some of them)"
    )
    for task, curve in curves.items():
        points = {"mean over seeds": [(float(p.step), p.sample) for p in curve]}
        _plot_means(page, f"{task} over pretraining steps", points, "pretraining steps")
    rows = [
        {"task": task, "metric": p.sample.metric, "step": p.step}
        | {"tokens": short(p.tokens), "FLOPs, the paper's count": short(p.flops)}
        | _seeds(p.sample)
        for task, curve in curves.items()
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
    """Means over seeds as lines, the lowest and the highest seed as bands."""
    metric = next(sample.metric for points in curves.values() for _, sample in points)
    means = {name: [(x, 100 * s.mean) for x, s in of] for name, of in curves.items()}
    bands = {
        name: [(x, 100 * s.range[0], 100 * s.range[1]) for x, s in of]
        for name, of in curves.items()
    }
    page.line_plot(title, means, over, f"{metric}, percent", log_x=log_x, bands=bands)


def _seeds(sample: Sample) -> dict[str, object]:
    low, high = sample.range
    return {
        "score": sample.text(),
        "lowest": percent(low),
        "highest": percent(high),
        "seeds": sample.num_seeds,
    }


# Over the examples to learn from.


def low_shot_lines(run: RunFolder) -> list[str]:
    """Lines of a Markdown table for the model card, of the run's own export."""
    return _low_shot_table(run.low_shot.get("evaluate", ())).markdown()


def _add_low_shot(page: Page, encoder: str, results: Sequence[Result]) -> None:
    of_encoder = f" of {encoder}" if encoder else ""
    title = f"Scores{of_encoder} with a part of the training split: mean ± sd over seeds"
    _low_shot_table(results, title).add_to(page)
    page.paragraph(
        "A part is drawn by the seed, class by class with at least one example of each; the "
        "smaller stands inside the larger. Epochs and rates are those of the whole split, so that "
        "a small part has few steps, unless evaluate.min_steps asks for more."
    )
    for task in dict.fromkeys(result.task for result in results):
        of_task = [result for result in results if result.task == task]
        curves: dict[str, list[tuple[float, Sample]]] = {}
        for records in _parts(sorted(of_task, key=lambda result: result.train_fraction)):
            point = float(records[0].num_train_examples), sample_of(records)
            curves.setdefault(records[0].encoder, []).append(point)
        label = "examples to learn from"
        title = f"{of_task[0].title}{of_encoder} over {label}"
        _plot_means(page, title, curves, label, log_x=True)


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
    """FLOPs, time and memory of each fine-tuning, with the scores; then scores against FLOPs."""
    scores = scores_of(run)
    if not scores:
        page.paragraph("Nothing is scored yet, so that no score has a cost.")
        return
    page.records(_cost_rows(scores), "Fine-tuning, the mean of a seed; FLOPs of matrix products")
    page.paragraph(
        "Fine-tuning FLOPs are those of forward and backward passes, padding included; FLOPs an "
        "example those of one forward pass over it, without padding. Memory is what the process "
        "held on a CPU, libraries included, and what was allocated on a GPU. A dash: the cost is "
        "unknown. It could not be counted, or the record is from before it was."
    )
    records = [result for results in run.evaluations.values() for result in results]
    total, pretraining = sum(_known(records, "train_flops")), run.summary.get("flops_matmul")
    if pretraining and total:
        times = total / pretraining
        much = f"{times:,.0f} times" if times >= 2 else f"{100 * times:.2g} % of"
        page.paragraph(
            f"All {len(records)} fine-tunings together took {total:.3g} FLOPs, {much} what "
            f"pretraining took, and {duration(sum(record.seconds for record in records))} with "
            "their predictions."
        )
    add_score_against_flops(page, [run], [run.name])


def cost_lines(run: RunFolder) -> list[str]:
    """Lines of a Markdown table for the model card: fine-tunings of the run's own export."""
    return record_lines(_cost_rows(score for score in scores_of(run) if not score.encoder))


def _cost_rows(scores: Iterable[TaskScore]) -> list[Record]:
    rows: list[Record] = []
    for score in scores:
        for model, sample in score.by_role.items():
            records = [result for result in score.results if result.role == model]
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
                    "FLOPs an example": short(_mean(records, "inference_flops")),
                    "time": None if seconds is None else duration(seconds),
                    "peak memory (MB)": int(max(memory)) if memory else None,
                    "device": ", ".join(devices) or None,
                }
            )
    return rows


def _known(records: Sequence[Result], name: str) -> list[float]:
    """The figure of every record; nothing where one lacks it."""
    values = [getattr(record, name) for record in records]
    return [] if None in values else values


def _mean(records: Sequence[Result], name: str) -> float | None:
    values = _known(records, name)
    return sum(values) / len(values) if values else None


# Against FLOPs.


def add_score_against_flops(page: Page, runs: Sequence[RunFolder], names: Sequence[str]) -> None:
    """Scores against pretraining FLOPs, published ones behind: of GLUE's mean where a run has all
    of its tasks, else task by task where two points or more are known."""
    named = list(zip(names, runs, strict=True))
    if ours := {name: points for name, run in named if (points := _glue_points(run))}:
        title = f"{_GLUE_LABEL}, against {_FLOPS_LABEL}"
        series, behind = _published_marks()
        _plot_flops(page, title, _GLUE_LABEL, ours, {"published": behind}, series)
        page.paragraph(
            "Published: Table 1 and Table 2 of the ELECTRA paper, medians over fine-tunings; both "
            "sides count FLOPs as the paper does."
        )
        records = [r for run in runs for r in run.evaluations.get("evaluate", ())]
        if glue := [d for r in records if r.suite == "glue" for d in differences_to(r)]:
            page.paragraph(f"Beware: {'; '.join(dict.fromkeys(glue))}.")
    flops_of = {cost.model: cost.train_flops for cost in published_costs()}
    own = [score for run in runs for score in scores_of(run) if not score.encoder]
    plots = []
    for task, metric in {score.first.task: score.first.metric for score in own}.items():
        ours = {name: points for name, run in named if (points := _task_points(run, task))}
        behind = [
            (spent, 100 * row.value, row.model)
            for row in published_scores(task)
            if row.metric == metric and (spent := flops_of.get(row.model))
        ]
        if ours and len(ours) + len(behind) > 1:
            others = {"published, by their own protocols": behind} if behind else {}
            title, label = f"{task} against {_FLOPS_LABEL}", f"{metric}, percent"
            plots.append(partial(_plot_flops, page, title, label, ours, others))
    fold = page.fold("Scores against FLOPs, task by task")
    with fold if len(plots) > _MAX_OPEN_PLOTS else nullcontext():
        for plot in plots:
            plot()


def _plot_flops(
    page: Page,
    title: str,
    label: str,
    ours: Mapping[str, Points],
    others: Mapping[str, Marks],
    lines: Mapping[str, Marks] | None = None,
) -> None:
    """The last point of each run with its line, before what others published."""
    drawn = {name: [mark[:2] for mark in line] for name, line in (lines or {}).items()}
    drawn |= {name: points for name, points in ours.items() if len(points) > 1}
    marks = {"ours": [(*points[-1], name) for name, points in ours.items()], **others}
    page.scatter_plot(title, marks, _FLOPS_LABEL, label, log_x=True, lines=drawn)


def _glue_points(run: RunFolder) -> Points:
    """(FLOPs, mean of GLUE's tasks in percent) of the checkpoints on the way and of the export."""
    scored = [
        (figure_until(run, "flops_paper", step), records)
        for step, records in run.checkpoint_evaluations.items()
    ]
    scored.append((_flops(run), run.evaluations.get("evaluate", ())))
    means = [(x, overall(of).get((ELECTRA_AVERAGE, "pretrained"), math.nan)) for x, of in scored]
    return sorted((x, 100 * mean) for x, mean in means if math.isfinite(x * mean))


def _task_points(run: RunFolder, task: str) -> Points:
    """The same of one task."""
    points = {p.flops: p.sample.mean for p in curves_of(run)[0].get(task, []) if p.step}
    for score in scores_of(run):
        if score.first.task == task and not score.encoder:
            points[_flops(run)] = score.pretrained.mean
    return sorted((x, 100 * mean) for x, mean in points.items() if math.isfinite(x * mean))


def _flops(run: RunFolder) -> float:
    """Pretraining so far, by the paper's count; nan where that is not known."""
    known = [r["flops_paper"] for r in (*run.metrics, run.summary) if r.get("flops_paper")]
    return float(known[-1]) if known else math.nan


def _published_marks() -> tuple[dict[str, Marks], Marks]:
    """The published rows of each series by rising FLOPs; all of them, those of no series last."""
    lines: dict[str, Marks] = {}
    alone: Marks = []
    for cost in published_costs():
        if not cost.train_flops or not cost.glue_dev:
            continue
        name = cost.model
        if cost.series and " %" in name:  # the line says the rest of "..., 6.25 % of the steps"
            name = name.split(", ")[-1].removesuffix(" of the steps")
        mark = cost.train_flops, cost.glue_dev, name
        (lines.setdefault(cost.series, []) if cost.series else alone).append(mark)
    lines = {name: sorted(line) for name, line in lines.items()}
    return lines, [mark for line in lines.values() for mark in line] + alone
