"""Several runs side by side: scores, differences to one of them, pretraining figures, curves."""

from collections.abc import Sequence
from typing import Any

from benchmarks.pages.scores import add_differences
from benchmarks.pages.sections import curve, final_valid, words
from benchmarks.pages.twin_page import TwinPage
from benchmarks.results.run_folder import RunFolder
from benchmarks.statistics.comparison import METHOD, Baseline, between
from benchmarks.statistics.scores import Sample, scores_by_task


def add_comparison(
    document: TwinPage, runs: Sequence[RunFolder], names: Sequence[str], baseline: Baseline
) -> None:
    """Scores with their differences to the baseline, pretraining figures and loss curves."""
    _add_scores(document, runs, names, baseline)
    figures = [{**final_valid(run), **_summary_figures(run)} for run in runs]
    keys = [
        "generator_loss",
        "generator_accuracy",
        "language_loss",
        "language_accuracy",
        "discriminator_loss",
        "rtd_loss",
        "replaced_fraction",
        "rtd_accuracy",
        "rtd_auc",
        "tokens",
        "parameters",
        "seconds",
        "flops_paper",
    ]
    keys = [key for key in keys if any(key in found for found in figures)]
    document.table(
        ["", *names],
        [(words(k), *(f.get(k) for f in figures)) for k in keys],
        "Pretraining: last figures on held-out text, and cost",
    )
    for metric in ("generator_loss", "language_loss", "discriminator_loss"):
        curves = {
            name: curve(run, "valid", metric, "tokens")
            for name, run in zip(names, runs, strict=True)
        }
        title = words(metric).capitalize() + ", held-out text"
        if any(curves.values()):
            document.line_plot(title, curves, "tokens", "nats per token", log_y=True)


def _add_scores(
    document: TwinPage, runs: Sequence[RunFolder], names: Sequence[str], baseline: Baseline
) -> None:
    scores = [scores_by_task(run) for run in runs]
    tasks = list(dict.fromkeys(key for run in scores for key in run))
    if not tasks:
        document.paragraph("None of the runs is evaluated yet. Run: electrify evaluate CONFIG")
        return
    rows = [
        (*key, *(_cell(run[key].pretrained) if key in run else None for run in scores))
        for key in tasks
    ]
    document.table(
        ["task", "metric", *names], rows, "Scores: mean ± sd over seeds, with the 95 % interval"
    )
    if compared := between(runs, names, baseline):
        add_differences(document, compared, f"Against {names[baseline.run]}")
        document.paragraph(METHOD)


def _cell(sample: Sample) -> str:
    interval = sample.estimate.text()
    return sample.text() if interval == "–" else f"{sample.text()}, {interval}"


def _summary_figures(run: RunFolder) -> dict[str, Any]:
    found = {k: run.summary[k] for k in ("tokens", "seconds", "flops_paper") if k in run.summary}
    if "parameters" in run.summary:
        found["parameters"] = run.summary["parameters"]["discriminator"]
    return found
