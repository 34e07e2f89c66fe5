"""Every score of a run with its interval, each seed, and how it was fine-tuned."""

import json
from collections.abc import Sequence
from typing import Any

from benchmarks.pages.summary import degenerate_text, difference_table
from benchmarks.pages.training import curve, final_valid, missing, words
from benchmarks.results.results import percent
from benchmarks.results.run_folder import RunFolder, has_stages
from benchmarks.results.table import short
from benchmarks.statistics.comparison import METHOD, Against
from benchmarks.statistics.scores import TaskScore, scores_of
from benchmarks.statistics.uncertainty import NUM_RESAMPLES
from electrify.page.page import Page
from electrify.system.progress import duration


def add_scores(document: Page, run: RunFolder, compared: Sequence[Against]) -> None:
    """Tables of the scores, the differences and the seeds, and the settings of fine-tuning."""
    scores = scores_of(run)
    if has_stages(run):
        missing(document, run, "evaluate", "Scores")
    if not scores:
        return
    document.table(
        ["task", "metric", "weights", "score ± sd", "95 % interval", "seeds"],
        [
            (
                score.label,
                words(score.first.metric),
                name,
                sample.text(),
                sample.estimate.text(),
                sample.summary.num_seeds,
            )
            for score in scores
            for name, sample in score.samples.items()
        ],
        "Scores in percent: mean ± standard deviation over seeds",
    )
    own = [a for a in compared if any(a.score is score for score in scores)]
    if own:
        document.table(*difference_table(own), "Differences in points")
    document.table(
        ["task", "split", "rows scored", "learnt from", "cut"],
        [
            (
                score.label,
                score.first.split,
                score.first.examples,
                score.first.num_train_examples,
                f"{100 * score.first.truncated_fraction:.1f} %",
            )
            for score in scores
        ],
        "Rows. A split that ends with -eval is the part of the official rows that was not learnt "
        "from; cut: rows longer than the model takes",
    )
    alike = "fine-tuned alike"
    if any(result.search for score in scores for result in score.results):
        alike = "with the best options of its own among the same trials"
    document.paragraph(
        f"Random initialisation: the same network without pretraining, {alike}. TF-IDF: logistic "
        "regression on n-grams of words or characters, of the same rows; the headline metric on "
        f"held-out training rows chose its settings. {METHOD} "
        f"Selection: {_selection(scores)}; no checkpoint was chosen on the reported examples."
    )
    for text in _cautions(scores):
        document.paragraph(text)
    with document.fold("Each seed"):
        document.records([row for score in scores for row in _seed_rows(score)])
    with document.fold("How it was fine-tuned"):
        _add_settings(document, scores)


def _cautions(scores: Sequence[TaskScore]) -> list[str]:
    """What keeps a score from being worth what it seems."""
    found = []
    for score in scores:
        if text := degenerate_text(score):
            found.append(f"Degenerate: {score.label}, {text}; what each did stands below.")
        notes = (note for result in score.results for note in result.notes)
        found += [f"{score.label}: {note}." for note in dict.fromkeys(notes)]
        if score.note:
            found.append(f"{score.label}: intervals over seeds alone, {score.note}.")
        for name, sample in score.samples.items():
            if undefined := sample.estimate.num_undefined:
                found.append(
                    f"{score.label}, {name}: of {NUM_RESAMPLES:,} resamples {undefined:,} have no "
                    "score; they are left out of the interval."
                )
    return found


def _selection(scores: Sequence[TaskScore]) -> str:
    if {result.selection for score in scores for result in score.results} == {"last"}:
        return "the last step of every seed is scored"
    return (
        "each record names the step that is scored, the last or the best on held-out training "
        "examples"
    )


def _seed_rows(score: TaskScore) -> list[dict[str, object]]:
    # jobs that ran side by side stand in the order they finished
    return [
        {
            "task": score.label,
            "weights": result.encoder,
            "seed": result.seed,
            "score": percent(result.value),
            "other metrics": ", ".join(
                f"{words(name)} {percent(value)}"
                for name, value in result.metrics.items()
                if name != result.metric
            ),
            "time": duration(result.seconds),
            "degenerate": result.degenerate,
        }
        for result in sorted(score.results, key=lambda result: (result.role, result.seed))
    ]


def _add_settings(document: Page, scores: Sequence[TaskScore]) -> None:
    """What all tasks share once, then what differs by task, and what a search chose."""
    settings = {score.label: dict(score.first.hyper_parameters) for score in scores}
    first = next(iter(settings.values()))
    shared: dict[str, Any] = {
        name: value
        for name, value in first.items()
        if all(name in own and own[name] == value for own in settings.values())
    }
    document.code("Settings of all tasks", json.dumps(shared, ensure_ascii=False, indent=1))
    own_names = [n for own in settings.values() for n in own if n not in shared]
    if names := list(dict.fromkeys(own_names)):
        document.table(
            ["", *settings],
            [(words(n), *(_setting(own.get(n)) for own in settings.values())) for n in names],
            "Settings by task",
        )
    for score in scores:
        for encoder, search in {r.encoder: r.search for r in score.results if r.search}.items():
            document.paragraph(
                f"{score.label}, {encoder}: {search['best']}, {percent(search['value'])} on "
                f"{search['num_held_out']:,} held-out rows of the training split."
            )


def _setting(value: object) -> object:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value


# Several runs.

_FIGURES = (
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
)


def add_comparison(document: Page, runs: Sequence[RunFolder], names: Sequence[str]) -> None:
    """Pretraining figures and loss curves of several runs."""
    figures = []
    for run in runs:
        found = {**final_valid(run), **run.summary}
        if run.summary:
            found["parameters"] = run.summary["parameters"]["discriminator"]
            found["flops_paper"] = short(found["flops_paper"])
        figures.append(found)
    document.table(
        ["", *names],
        [
            (words(key), *(found.get(key) for found in figures))
            for key in _FIGURES
            if any(key in found for found in figures)
        ],
        "Pretraining: last figures on held-out text, and cost",
    )
    for metric in ("generator_loss", "language_loss", "discriminator_loss"):
        curves = {n: curve(r, "valid", metric, "tokens") for n, r in zip(names, runs, strict=True)}
        title = words(metric).capitalize() + ", held-out text"
        if any(curves.values()):
            document.line_plot(title, curves, "tokens", "nats per token", log_y=True)
