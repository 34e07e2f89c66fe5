"""Scores over checkpoints, over examples to learn from and over FLOPs, and what they cost."""

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np

from benchmarks.pages.references import differences_to, published_costs, published_scores
from benchmarks.results.results import Result, differing, percent
from benchmarks.results.run_folder import RunFolder
from benchmarks.results.table import Record, record_lines, short
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
Marks = list[tuple[float, float, str]]  # FLOPs, score, label
Lines = dict[str, list[tuple[float, float]]]
TaskPlot = tuple[str, dict[str, Marks], str, Lines]  # title, points, metric, lines
_HOW_TO_CURVE = (
    "No checkpoint on the way is scored. Run: electrify evaluate CONFIG --checkpoints all "
    "(pretrain.keep_every_steps has pretraining keep some of them)"
)
_MEAN = "mean over seeds"


@dataclass(frozen=True)
class CurvePoint:
    """One checkpoint's score on one task; step 0 is the untrained network."""

    step: int
    tokens: float  # seen so far; nan where the run has no figures of it
    flops: float  # so far, by the paper's count
    sample: Sample


def curves_of(run: RunFolder) -> tuple[dict[str, list[CurvePoint]], list[str]]:
    """A curve by task, and what was left out of it for being scored otherwise.

    The ends are those of `evaluate/`, if it is there: the untrained control and the export.
    """
    records: dict[int, list[Result]] = {s: list(r) for s, r in run.checkpoint_evaluations.items()}
    if not records:
        return {}, []
    own = run.evaluations.get("evaluate", ())
    untrained = [result for result in own if result.role == "random-init"]
    records.setdefault(0, untrained)
    if last := _exported_step(run):
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


def add_curves(document: Page, run: RunFolder) -> None:
    """Scores over pretraining, then over the size of the training split."""
    curves, left_out = curves_of(run)
    if curves:
        _add_learning_curves(document, curves)
    else:
        document.paragraph(_HOW_TO_CURVE)
    if left_out:
        document.paragraph(
            f"Scored with other data or settings, and left out: {', '.join(left_out)}."
        )
    for stage, records in run.low_shot.items():
        _add_low_shot(document, encoder_name(stage), records)


def add_mean_curve(document: Page, run: RunFolder) -> None:
    """Scores against the tokens seen, a line a task; nothing where no checkpoint is scored."""
    curves, _ = curves_of(run)
    lines = {
        task: [(p.tokens, 100 * p.sample.summary.mean) for p in curve]
        for task, curve in curves.items()
        if len(curve) > 1
    }
    if lines:
        title = "Scores of the checkpoints; at 0 tokens: random initialisation"
        document.line_plot(title, lines, "tokens seen in pretraining", "score, percent")


def low_shot_lines(run: RunFolder) -> list[str]:
    """Lines of a Markdown table for the model card, of the run's own export."""
    return record_lines(_low_shot_rows(run.low_shot.get("evaluate", ())))


def _add_learning_curves(document: Page, curves: Mapping[str, Sequence[CurvePoint]]) -> None:
    document.paragraph(
        "Every checkpoint is fine-tuned on the same rows with the same settings; step 0 is random "
        "initialisation. Lines are means over seeds, bands the lowest and the highest seed."
    )
    for task, curve in curves.items():
        document.line_plot(
            f"{task} over pretraining steps",
            {_MEAN: [(float(p.step), 100 * p.sample.summary.mean) for p in curve]},
            "pretraining steps",
            f"{curve[0].sample.metric}, percent",
            bands={_MEAN: [(float(p.step), *_percents(p.sample)) for p in curve]},
        )
    with document.fold("Every point of the learning curves"):
        document.records(
            [
                {
                    "task": task,
                    "metric": p.sample.metric,
                    "step": p.step,
                    "tokens": short(p.tokens),
                    "FLOPs, the paper's count": short(p.flops),
                    "score": p.sample.text(),
                    "lowest": percent(p.sample.range[0]),
                    "highest": percent(p.sample.range[1]),
                    "seeds": p.sample.summary.num_seeds,
                }
                for task, curve in curves.items()
                for p in curve
            ]
        )


def _add_low_shot(document: Page, encoder: str, results: Sequence[Result]) -> None:
    of_encoder = f" of {encoder}" if encoder else ""
    document.records(
        _low_shot_rows(results),
        f"Scores{of_encoder} with a part of the training split: mean ± sd over seeds",
    )
    document.paragraph(
        "A part is drawn by the seed, class by class with at least one example of each; the "
        "smaller stands inside the larger. Epochs and rates are those of the whole split, so that "
        "a small part has few steps, unless evaluate.min_steps asks for more."
    )
    for task in dict.fromkeys(result.task for result in results):
        series: dict[str, list[tuple[float, float]]] = {}
        bands: dict[str, list[tuple[float, float, float]]] = {}
        of_task = [result for result in results if result.task == task]
        for records in _parts(sorted(of_task, key=lambda result: result.train_fraction)):
            sample, size = sample_of(records), float(records[0].num_train_examples)
            series.setdefault(records[0].encoder, []).append((size, 100 * sample.summary.mean))
            bands.setdefault(records[0].encoder, []).append((size, *_percents(sample)))
        label = "examples to learn from"
        title = f"{of_task[0].title}{of_encoder} over {label}"
        metric = f"{of_task[0].metric}, percent"
        document.line_plot(title, series, label, metric, log_x=True, bands=bands)


def _percents(sample: Sample) -> tuple[float, float]:
    """The lowest and the highest seed."""
    low, high = sample.range
    return 100 * low, 100 * high


def _low_shot_rows(results: Sequence[Result]) -> list[Record]:
    return [
        {
            "task": records[0].title,
            "metric": records[0].metric,
            "encoder": records[0].encoder,
            "share": f"{100 * records[0].train_fraction:g} %",
            "trained on": records[0].num_train_examples,
            "score": sample.text(),
            "lowest": percent(sample.range[0]),
            "highest": percent(sample.range[1]),
            "seeds": sample.summary.num_seeds,
        }
        for records in _parts(results)
        for sample in [sample_of(records)]
    ]


def _parts(results: Sequence[Result]) -> list[list[Result]]:
    """The seeds of each task, model and share, in order of first appearance."""
    groups: dict[tuple[str, str, float], list[Result]] = {}
    for result in results:
        key = result.task, result.role, result.train_fraction
        groups.setdefault(key, []).append(result)
    return list(groups.values())


def _exported_step(run: RunFolder) -> int:
    """Of the checkpoint that the export was made from; 0 if none is."""
    counts = run.manifests.get("export", {}).get("counts", {})
    return int(str(counts.get("checkpoint", "0")).split("-")[-1])


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
        return float("nan")
    steps = sorted(known)
    return float(np.interp(step, steps, [known[s] for s in steps]))


# What scores cost.


def add_score_cost(document: Page, run: RunFolder) -> None:
    """FLOPs, time and memory of each fine-tuning, with the scores; then scores against FLOPs."""
    scores = scores_of(run)
    if not scores:
        document.paragraph("Nothing is scored yet, so that no score has a cost.")
        return
    title = "Fine-tuning, the mean of a seed; FLOPs of matrix products"
    document.records(_finetuning_rows(scores), title)
    document.paragraph(
        "Fine-tuning FLOPs are those of forward and backward passes, padding included; FLOPs an "
        "example those of one forward pass over it, without padding. Memory is what the process "
        "held on a CPU, libraries included, and what was allocated on a GPU. A dash: the cost is "
        "unknown. It could not be counted, or the record is from before it was."
    )
    if sentence := _total_sentence(run):
        document.paragraph(sentence)
    add_score_against_flops(document, [run], [run.name])


def add_score_against_flops(
    document: Page, runs: Sequence[RunFolder], names: Sequence[str]
) -> None:
    """Scores against pretraining FLOPs, published ones behind: of GLUE's mean where a run has all
    of its tasks, else task by task where two points or more are known."""
    found = {name: _averages(run, name) for name, run in zip(names, runs, strict=True)}
    ours = [line[-1] for line in found.values() if line]
    if ours:
        lines = _published_lines()
        behind = [mark for line in lines.values() for mark in line] + _published_marks(lines)
        lines |= {name: line for name, line in found.items() if len(line) > 1}
        document.scatter_plot(
            f"{_GLUE_LABEL}, against {_FLOPS_LABEL}",
            {"ours": ours, "published": behind},
            _FLOPS_LABEL,
            _GLUE_LABEL,
            log_x=True,
            lines={name: [(x, y) for x, y, _ in line] for name, line in lines.items()},
        )
        document.paragraph(
            "Published: Table 1 and Table 2 of the ELECTRA paper, medians over fine-tunings; both "
            "sides count FLOPs as the paper does."
        )
        records = [r for run in runs for r in run.evaluations.get("evaluate", ())]
        glue = [d for r in records if r.suite == "glue" for d in differences_to(r)]
        if glue:
            document.paragraph(f"Beware: {'; '.join(dict.fromkeys(glue))}.")
    tasks = dict.fromkeys(s.first.task for run in runs for s in scores_of(run) if not s.encoder)
    plots = [plot for task in tasks if (plot := _task_plot(task, runs, names))]
    fold = document.fold("Scores against FLOPs, task by task")
    with fold if len(plots) > _MAX_OPEN_PLOTS else nullcontext():
        for plot in plots:
            document.scatter_plot(*plot[:2], _FLOPS_LABEL, plot[2], log_x=True, lines=plot[3])


def cost_lines(run: RunFolder) -> list[str]:
    """Lines of a Markdown table for the model card: fine-tunings of the run's own export."""
    return record_lines(_finetuning_rows(score for score in scores_of(run) if not score.encoder))


def _finetuning_rows(scores: Iterable[TaskScore]) -> list[Record]:
    rows: list[Record] = []
    for score in scores:
        for model, sample in score.by_role.items():
            if not sample.values:
                continue
            records = [result for result in score.results if result.role == model]
            seconds, memory = _mean(records, "train_seconds"), _known(records, "peak_memory_mb")
            rows.append(
                {
                    "task": score.label,
                    "encoder": records[0].encoder,
                    "score": sample.text(),
                    "fine-tuning FLOPs": short(_mean(records, "train_flops")),
                    "FLOPs an example": short(_mean(records, "inference_flops")),
                    "time": None if seconds is None else duration(seconds),
                    "peak memory (MB)": int(max(memory)) if memory else None,
                    "device": ", ".join(dict.fromkeys(r.device for r in records if r.device))
                    or None,
                }
            )
    return rows


def _total_sentence(run: RunFolder) -> str:
    """All fine-tunings of the run beside its pretraining; empty where one is not known."""
    records = [result for results in run.evaluations.values() for result in results]
    total = sum(_known(records, "train_flops"))
    pretraining = run.summary.get("flops_matmul")
    if not pretraining or not total:
        return ""
    times = total / pretraining
    share = f"{times:,.0f} times" if times >= 2 else f"{100 * times:.2g} % of"
    time = duration(sum(record.seconds for record in records))
    return (
        f"All {len(records)} fine-tunings together took {total:.3g} FLOPs, {share} what "
        f"pretraining took, and {time} with their predictions."
    )


def _averages(run: RunFolder, name: str) -> Marks:
    """The run's mean of GLUE's tasks, percent, of the checkpoints on the way and of the export."""
    scored = [
        (figure_until(run, "flops_paper", step), records)
        for step, records in run.checkpoint_evaluations.items()
    ]
    scored.append((_flops(run), run.evaluations.get("evaluate", ())))
    marks: Marks = []
    for flops, records in scored:
        mean = overall(records).get((ELECTRA_AVERAGE, "pretrained"), math.nan)
        if math.isfinite(mean) and math.isfinite(flops):
            marks.append((flops, 100 * mean, name))
    return sorted(marks)


def _flops(run: RunFolder) -> float:
    """Pretraining so far, by the paper's count; nan where that is not known."""
    known = [r["flops_paper"] for r in (*run.metrics, run.summary) if r.get("flops_paper")]
    return float(known[-1]) if known else math.nan


def _published_lines() -> dict[str, Marks]:
    """The published rows of each series, by rising FLOPs."""
    lines: dict[str, Marks] = {}
    for cost in published_costs():
        if cost.series and cost.train_flops and cost.glue_dev:
            mark = cost.train_flops, cost.glue_dev, _short_name(cost.model)
            lines.setdefault(cost.series, []).append(mark)
    return {name: sorted(line) for name, line in lines.items()}


def _published_marks(lines: Mapping[str, Marks]) -> Marks:
    """The published rows that are of no series."""
    return [
        (cost.train_flops, cost.glue_dev, cost.model)
        for cost in published_costs()
        if cost.train_flops and cost.glue_dev and cost.series not in lines
    ]


def _short_name(model: str) -> str:
    """ "6.25 %" of "ELECTRA-Small, 6.25 % of the steps": its line says the rest."""
    return model.split(", ")[-1].removesuffix(" of the steps") if " %" in model else model


def _task_plot(task: str, runs: Sequence[RunFolder], names: Sequence[str]) -> TaskPlot | None:
    """Our runs on a task and what is published of it with its FLOPs; None of a single point."""
    ours: Marks = []
    lines: Lines = {}
    metric = ""
    for run, name in zip(runs, names, strict=True):
        for score in scores_of(run):
            flops, value = _flops(run), score.pretrained.summary.mean
            if score.first.task == task and not score.encoder and math.isfinite(flops * value):
                ours.append((flops, 100 * value, name))
                metric = score.first.metric
        curve = curves_of(run)[0].get(task, [])
        points = [(p.flops, 100 * p.sample.summary.mean) for p in curve if p.step and p.flops > 0]
        if len(points) > 1:
            lines[name] = points
            metric = metric or curve[0].sample.metric
    flops_of = {cost.model: cost.train_flops for cost in published_costs()}
    behind: Marks = [
        (spent, 100 * row.value, row.model)
        for row in published_scores(task)
        if row.metric == metric and (spent := flops_of.get(row.model))
    ]
    if not ours or len(ours) + len(behind) < 2:
        return None
    marks = {"ours": ours} | ({"published, by their own protocols": behind} if behind else {})
    return f"{task} against {_FLOPS_LABEL}", marks, f"{metric}, percent", lines


def _known(records: Sequence[Result], name: str) -> list[float]:
    """The figure of every record; nothing where one lacks it."""
    values = [getattr(record, name) for record in records]
    return [] if None in values else values


def _mean(records: Sequence[Result], name: str) -> float | None:
    values = _known(records, name)
    return sum(values) / len(values) if values else None
