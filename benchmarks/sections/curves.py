"""Scores over checkpoints and over examples to learn from."""

from collections.abc import Mapping, Sequence

from benchmarks.results.results import Result, percent
from benchmarks.results.run_folder import RunFolder
from benchmarks.results.table import Table
from benchmarks.sections.scores import TEXTS, protocol_differences
from benchmarks.statistics.scores import Sample, encoder_name, sample_of
from electrify.page.page import Page

# Over pretraining.


Curve = list[tuple[float, Sample]]  # over steps, or examples to learn from


def curves_of(run: RunFolder) -> tuple[dict[str, Curve], list[str]]:
    """A curve by task, and what was left out of it for being scored otherwise.

    The ends are those of `evaluate/`, if it is there: random initialisation, which is step 0, and
    the export.
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
    curves: dict[str, Curve] = {}
    left_out = []
    for task, by_step in by_task.items():
        last_result = by_step[max(by_step)][0]
        for step, results in by_step.items():
            if any(protocol_differences(result, last_result) for result in results):
                left_out.append(f"{task} at step {step:,}")
                continue
            curves.setdefault(task, []).append((step, sample_of(results)))
    return curves, left_out


def add_curves(page: Page, run: RunFolder) -> None:
    curves, left_out = curves_of(run)
    page.paragraph(TEXTS["curves" if curves else "no_curves"])
    rows = []
    for task, curve in curves.items():
        points = {"mean over seeds": curve}
        _plot_means(page, f"{task} over pretraining steps", points, "pretraining steps")
        rows += [
            {"task": task, "metric": sample.metric, "step": step, **_seeds(sample)}
            for step, sample in curve
        ]
    if rows:
        with page.fold("Every point of the learning curves"):
            page.records(rows)
    if left_out:
        page.paragraph(f"Scored with other data or settings, and left out: {', '.join(left_out)}.")
    for stage, records in run.low_shot.items():
        _add_low_shot(page, encoder_name(stage), records)


def _plot_means(
    page: Page, title: str, curves: Mapping[str, Curve], over: str, log_x: bool = False
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
    kept, _ = _alike(run.low_shot.get("evaluate", ()))
    return _low_shot_table(kept).markdown()


def _alike(results: Sequence[Result]) -> tuple[list[Result], list[str]]:
    """The results with the settings of the largest part, and the titles of the others."""
    kept, left_out = list[Result](), list[str]()
    largest: dict[tuple[str, str], Result] = {}
    for result in sorted(results, key=lambda result: -result.train_fraction):
        largest.setdefault((result.task, result.role), result)
    for result in results:
        whole = largest[result.task, result.role]
        part = result.model_copy(update={"train_fraction": whole.train_fraction})
        if protocol_differences(part, whole):
            left_out.append(f"{result.title} on {100 * result.train_fraction:g} %")
        else:
            kept.append(result)
    return kept, list(dict.fromkeys(left_out))


def _add_low_shot(page: Page, encoder: str, results: Sequence[Result]) -> None:
    of_encoder = f" of {encoder}" if encoder else ""
    title = f"Scores{of_encoder} with a part of the training split: mean ± sd over seeds"
    results, left_out = _alike(results)
    _low_shot_table(results, title).add_to(page)
    page.paragraph(TEXTS["low_shot"])
    if left_out:
        page.paragraph(f"Scored with other settings, and left out: {', '.join(left_out)}.")
    curves: dict[str, dict[str, Curve]] = {}  # by task and encoder
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
