"""Scores over pretraining checkpoints, and over the number of examples to learn from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.pages.twin_page import Record, TwinPage, record_lines
from benchmarks.results.results import Result
from benchmarks.results.run_folder import RunFolder
from benchmarks.statistics.scores import Sample, encoder_name, sample_of

_HOW_TO_CURVE = (
    "No checkpoint on the way is scored. Run: electrify evaluate CONFIG --checkpoints "
    "(pretrain.keep_every_steps has pretraining keep some of them)"
)
_MEAN = "mean over seeds"
# what must be the same in all points of a curve; micro-batches change no score
_PROTOCOL = ("task_version", "metric", "split", "num_examples", "data_sha256", "selection")


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
    untrained = [result for result in own if result.model == "random-init"]
    records.setdefault(0, untrained)
    if last := _exported_step(run):
        records.setdefault(last, [result for result in own if result.model == "pretrained"])
    groups: dict[str, dict[int, list[Result]]] = {}
    for step in sorted(records):
        for result in records[step]:
            groups.setdefault(result.task, {}).setdefault(step, []).append(result)
    curves: dict[str, list[CurvePoint]] = {}
    left_out = []
    for task, by_step in groups.items():
        wanted = _protocol(by_step[max(by_step)][0])
        for step, results in by_step.items():
            if any(_protocol(result) != wanted for result in results):
                left_out.append(f"{task} at step {step:,}")
                continue
            tokens, flops = (
                figure_until(run, figure, step) for figure in ("tokens", "flops_paper")
            )
            point = CurvePoint(step, tokens, flops, sample_of(results))
            curves.setdefault(task, []).append(point)
    return curves, left_out


def add_curves(document: TwinPage, run: RunFolder) -> None:
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


def low_shot_lines(run: RunFolder) -> list[str]:
    """Lines of a Markdown table for the model card, of the run's own export."""
    return record_lines(_low_shot_rows(run.low_shot.get("evaluate", ())))


def _add_learning_curves(document: TwinPage, curves: Mapping[str, Sequence[CurvePoint]]) -> None:
    document.paragraph(
        "Every checkpoint is fine-tuned alike, on the same seeds; step 0 is the network with "
        "random weights. Lines are means over seeds, bands the lowest and the highest seed."
    )
    points = [point for curve in curves.values() for point in curve if point.step]
    over: list[tuple[str, str]] = [("step", "pretraining steps")]
    if not all(np.isfinite([point.tokens, point.flops]).all() for point in points):
        document.paragraph("The run's metrics.jsonl does not say what each step cost.")
    elif _proportional(points):
        document.paragraph(
            f"A step is {points[0].tokens / points[0].step:,.0f} tokens and "
            f"{points[0].flops / points[0].step:.3g} FLOPs by the paper's count, throughout."
        )
    else:
        over += [("tokens", "tokens seen"), ("flops", "FLOPs, the paper's count")]
    for task, curve in curves.items():
        metric = curve[0].sample.metric
        for name, label in over:
            document.line_plot(
                f"{task} over {label}",
                {_MEAN: [(float(getattr(p, name)), p.sample.summary.mean) for p in curve]},
                label,
                metric,
                bands={_MEAN: [(float(getattr(p, name)), *p.sample.range) for p in curve]},
            )
    with document.fold("Every point of the learning curves"):
        document.records(
            [
                {
                    "task": task,
                    "metric": p.sample.metric,
                    "step": p.step,
                    "tokens": _shown(p.tokens),
                    "FLOPs, the paper's count": _shown(p.flops),
                    "score": p.sample.text(),
                    "lowest": p.sample.range[0],
                    "highest": p.sample.range[1],
                    "seeds": p.sample.summary.num_seeds,
                }
                for task, curve in curves.items()
                for p in curve
            ]
        )


def _proportional(points: Sequence[CurvePoint]) -> bool:
    """Whether tokens and FLOPs a step are the same in all points, to a hundredth."""
    rates = np.array([[p.tokens / p.step, p.flops / p.step] for p in points])
    return bool((rates.max(axis=0) <= 1.01 * rates.min(axis=0)).all())


def _shown(value: float) -> str | None:
    return f"{value:.3g}" if np.isfinite(value) else None


def _add_low_shot(document: TwinPage, encoder: str, results: Sequence[Result]) -> None:
    parts = _by_part(results)
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
    for task in dict.fromkeys(task for task, _, _ in parts):
        series: dict[str, list[tuple[float, float]]] = {}
        bands: dict[str, list[tuple[float, float, float]]] = {}
        for (of, _, _), records in sorted(parts.items(), key=lambda part: part[0][2]):
            if of == task:
                sample, size = sample_of(records), float(records[0].num_train_examples)
                name = records[0].encoder
                series.setdefault(name, []).append((size, sample.summary.mean))
                bands.setdefault(name, []).append((size, *sample.range))
        metric = next(r.metric for (of, _, _), (r, *_) in parts.items() if of == task)
        document.line_plot(
            f"{task}{of_encoder} over examples to learn from",
            series,
            "examples to learn from",
            metric,
            log_x=True,
            bands=bands,
        )


def _low_shot_rows(results: Sequence[Result]) -> list[Record]:
    return [
        {
            "task": task,
            "metric": records[0].metric,
            "encoder": records[0].encoder,
            "share": f"{100 * fraction:g} %",
            "trained on": records[0].num_train_examples,
            "score": sample.text(),
            "lowest": sample.range[0],
            "highest": sample.range[1],
            "seeds": sample.summary.num_seeds,
        }
        for (task, model, fraction), records in _by_part(results).items()
        for sample in [sample_of(records)]
    ]


def _by_part(results: Sequence[Result]) -> dict[tuple[str, str, float], list[Result]]:
    """By task, model and share, in order of first appearance."""
    groups: dict[tuple[str, str, float], list[Result]] = {}
    for result in results:
        key = result.task, result.model, result.train_fraction
        groups.setdefault(key, []).append(result)
    return groups


def _protocol(result: Result) -> dict[str, Any]:
    settings = {k: v for k, v in result.hyper_parameters.items() if k != "micro_batch_size"}
    return {name: getattr(result, name) for name in _PROTOCOL} | settings


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
