"""What scores cost: pretraining and fine-tuning beside them, and score against FLOPs."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext

from benchmarks.pages.curves import curves_of, figure_until
from benchmarks.pages.references import differences_to, published_costs, published_scores
from benchmarks.pages.twin_page import Record, TwinPage, record_lines
from benchmarks.results.results import Result
from benchmarks.results.run_folder import RunFolder
from benchmarks.statistics.scores import ELECTRA_AVERAGE, TaskScore, overall, scores_of
from electrify.system.progress import duration

_GLUE_LABEL = "GLUE dev, mean of 8 tasks"
_FLOPS_LABEL = "pretraining FLOPs, the paper's count"
_MAX_OPEN_PLOTS = 4
Marks = list[tuple[float, float, str]]  # FLOPs, score, label
Lines = dict[str, list[tuple[float, float]]]
TaskPlot = tuple[str, dict[str, Marks], str, Lines]  # title, points, metric, lines


def add_score_cost(document: TwinPage, run: RunFolder) -> None:
    """FLOPs, time and memory of pretraining and of each fine-tuning, with the scores."""
    if rows := _pretraining_rows(run):
        document.table(["", "value"], rows, "Pretraining")
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
    document: TwinPage, runs: Sequence[RunFolder], names: Sequence[str]
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


def _pretraining_rows(run: RunFolder) -> list[tuple[str, object]]:
    summary = run.summary
    if not summary:
        return []
    rows = [
        ("FLOPs of matrix products", _short(summary.get("flops_matmul"))),
        ("FLOPs, the paper's count", _short(summary.get("flops_paper"))),
        ("FLOPs, 6 × parameters × tokens", _short(summary.get("flops_6nd"))),
        ("tokens", summary["tokens"]),
        ("hours", _short(summary["seconds"] / 3600)),
        ("device", summary["device"]),
        ("peak memory (MB)", run.manifests.get("pretrain", {}).get("peak_memory_mb")),
    ]
    return [(name, value) for name, value in rows if value is not None]


def _finetuning_rows(scores: Iterable[TaskScore]) -> list[Record]:
    rows: list[Record] = []
    for score in scores:
        for model, records in _by_model(score).items():
            seconds = _mean(records, "train_seconds")
            rows.append(
                {
                    "task": score.label,
                    "encoder": records[0].encoder,
                    "score": score.arms[model].text(),
                    "fine-tuning FLOPs": _short(_mean(records, "train_flops")),
                    "FLOPs an example": _short(_mean(records, "inference_flops")),
                    "time": None if seconds is None else duration(seconds),
                    "peak memory (MB)": _most(records),
                    "device": _device(records),
                }
            )
    return rows


def _total_sentence(run: RunFolder) -> str:
    """All fine-tunings of the run beside its pretraining; empty where one is not known."""
    records = [result for results in run.evaluations.values() for result in results]
    flops = [record.train_flops for record in records]
    pretraining = run.summary.get("flops_matmul")
    if not pretraining or not flops or any(value is None for value in flops):
        return ""
    total = sum(value for value in flops if value is not None)
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
        (figure_until(run, "flops_paper", step), r)
        for step, r in run.checkpoint_evaluations.items()
    ]
    scored.append((_flops(run) or math.nan, run.evaluations.get("evaluate", ())))
    marks: Marks = []
    for flops, records in scored:
        found = overall(records).get((ELECTRA_AVERAGE, "pretrained"), math.nan)
        if math.isfinite(found) and math.isfinite(flops):
            marks.append((flops, 100 * found, name))
    return sorted(marks)


def _flops(run: RunFolder) -> float | None:
    """Of pretraining so far, by the paper's count."""
    if "flops_paper" in run.summary:
        return float(run.summary["flops_paper"])
    known = [r["flops_paper"] for r in run.metrics if r.get("flops_paper") is not None]
    return float(known[-1]) if known else None


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
            if score.first.task == task and not score.encoder and flops and math.isfinite(value):
                ours.append((flops, value, name))
                metric = score.first.metric
        curve = curves_of(run)[0].get(task, [])
        points = [(p.flops, p.sample.summary.mean) for p in curve if p.step and p.flops > 0]
        if len(points) > 1:
            lines[name] = points
            metric = metric or curve[0].sample.metric
    flops_of = {cost.model: cost.train_flops for cost in published_costs()}
    behind: Marks = [
        (flops, row.value, row.model)
        for row in published_scores(task)
        if row.column.metric == metric and (flops := flops_of.get(row.model))
    ]
    if not ours or len(ours) + len(behind) < 2:
        return None
    marks = {"ours": ours} | ({"published, by their own protocols": behind} if behind else {})
    return f"{task} against {_FLOPS_LABEL}", marks, metric, lines


def _by_model(score: TaskScore) -> dict[str, list[Result]]:
    groups: dict[str, list[Result]] = {}
    for result in score.results:
        groups.setdefault(result.model, []).append(result)
    return groups


def _over(records: Iterable[Result], name: str, of: Callable[[list[float]], float]) -> float | None:
    """None where a record lacks the figure."""
    values = [getattr(record, name) for record in records]
    return None if any(value is None for value in values) else of(values)


def _mean(records: Sequence[Result], name: str) -> float | None:
    return _over(records, name, lambda values: sum(values) / len(values))


def _most(records: Sequence[Result]) -> int | None:
    found = _over(records, "peak_memory_mb", max)
    return None if found is None else int(found)


def _device(records: Sequence[Result]) -> str | None:
    return ", ".join(dict.fromkeys(r.device for r in records if r.device)) or None


def _short(value: float | None) -> str | None:
    return None if value is None else f"{value:.3g}"
