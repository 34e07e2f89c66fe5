"""What a model is and how it scores: one run, or several side by side."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.report_sections import curve, final_valid, missing, words
from benchmarks.run_folder import RunFolder
from benchmarks.scores import RULE, TaskScore, compare, task_scores
from benchmarks.twin_page import TwinPage
from electrify.progress import duration


def scores_of(run: RunFolder) -> list[TaskScore]:
    """The scores of the run's own export first, then those of other encoders."""
    return [s for stage, records in run.evaluations.items() for s in task_scores(stage, records)]


def add_scores(document: TwinPage, run: RunFolder) -> None:
    """The model in figures, its scores, and whether they say anything."""
    scores = scores_of(run)
    document.paragraph(_model_sentence(run))
    for score in scores:
        document.paragraph(_score_sentence(score))
    missing(document, run, "evaluate", "Scores")
    if scores:
        _add_score_tables(document, scores)
    facts = _facts(run)
    if facts:
        document.table(["", "value"], facts, "The model")


def _facts(run: RunFolder) -> list[tuple[str, object]]:
    """What the model is, in rows of a name and a value."""
    options, summary = run.config("pretrain"), run.summary
    rows: list[tuple[str, object]] = []
    if options:
        generator = options["generator_hidden_fraction"]
        learned = not summary or summary["parameters"]["generator"] > 0
        rows += [
            ("size", options["size"]),
            (
                "discriminator",
                f"{options['num_hidden_layers']} layers, hidden {options['hidden_size']}, "
                f"{options['num_attention_heads']} heads, embedding {options['embedding_size']}",
            ),
            ("objective", options["objective"]),
            *([("generator", f"{generator:.3g} of the discriminator's width")] if learned else []),
            ("sequence length", options["sequence_length"]),
        ]
    if summary:
        count = summary["parameters"]
        steps, tokens = summary["num_steps"], summary["tokens"]
        rows += [
            ("vocabulary", summary.get("vocab_size")),
            ("parameters of the discriminator", count["discriminator"]),
            *([("parameters of the generator", count["generator"])] if count["generator"] else []),
            ("parameters trained, shared ones once", count["trained"]),
            ("pretraining steps", steps),
            ("tokens seen", tokens),
            ("training FLOPs, the paper's count", f"{summary['flops_paper']:.3g}"),
            ("training FLOPs, 6 × parameters × tokens", f"{summary['flops_6nd']:.3g}"),
            ("pretraining time", duration(summary["seconds"])),
            ("tokens per second", round(summary["tokens_per_second"])),
            ("device", summary["device"]),
        ]
    return [(name, value) for name, value in rows if value is not None]


def _model_sentence(run: RunFolder) -> str:
    summary = run.summary
    if not summary:
        return f"{run.name}: not pretrained yet. Run: electrify pretrain CONFIG"
    return (
        f"{run.name}: an ELECTRA discriminator of {summary['parameters']['discriminator']:,} "
        f"parameters, pretrained on {summary['tokens']:,} tokens ({summary['num_steps']:,} steps, "
        f"{summary['flops_paper']:.2g} FLOPs by the paper's count) in "
        f"{duration(summary['seconds'])} on {summary['device']}."
    )


def _score_sentence(score: TaskScore) -> str:
    num_seeds = score.pretrained.summary.num_seeds
    text = f"{score.label}: {score.first.metric} {score.pretrained.text()} over {num_seeds} "
    text += "seed" if num_seeds == 1 else "seeds"
    if score.untrained.values:
        text += (
            f", against {score.untrained.text()} for the same network without pretraining; "
            f"{score.comparison.verdict}"
        )
    found = _degenerate(score)
    return f"{text}. Beware: {found}." if found else f"{text}."


def _degenerate(score: TaskScore) -> str:
    """'2 of 3 pretrained runs are degenerate, 3 of 3 untrained'; empty if none is."""
    counts = []
    for model, name in (("pretrained", "pretrained"), ("random-init", "untrained")):
        runs = [result for result in score.results if result.model == model]
        if failed := sum(result.degenerate is not None for result in runs):
            counts.append(f"{failed} of {len(runs)} {name} runs degenerate")
    return ", ".join(counts)


def _add_score_tables(document: TwinPage, scores: Sequence[TaskScore]) -> None:
    rows = [
        (
            score.label, score.first.metric, score.pretrained.text(), score.untrained.text(),
            score.comparison.gain, score.comparison.verdict, score.pretrained.summary.num_seeds,
            score.first.split, score.first.num_examples, score.first.num_train_examples,
            f"{100 * score.first.truncated_fraction:.1f} %",
        )
        for score in scores
    ]  # fmt: skip
    document.table(
        ["task", "metric", "pretrained", "untrained", "gain", "beyond the seeds' spread?",
         "seeds", "split", "examples", "trained on", "truncated"],
        rows,
        "Scores: mean ± sd over seeds",
    )  # fmt: skip
    document.paragraph(
        f"Untrained: the same network with random weights, fine-tuned alike. {RULE} "
        f"Selection: {_selection(scores)}; no checkpoint was chosen on the reported examples."
    )
    for score in scores:
        if found := _degenerate(score):
            document.paragraph(f"Degenerate: {score.label}, {found}; what each did stands below.")
    _add_bars(document, scores)
    _add_seeds(document, scores)


def _selection(scores: Sequence[TaskScore]) -> str:
    if {result.selection for score in scores for result in score.results} == {"last"}:
        return "the last step of every seed is scored"
    return (
        "each record names the step that is scored, the last or the best on held-out training "
        "examples"
    )


def _add_bars(document: TwinPage, scores: Sequence[TaskScore]) -> None:
    samples = {"pretrained": [score.pretrained for score in scores]}
    if any(score.untrained.values for score in scores):
        samples["untrained"] = [score.untrained for score in scores]
    document.bar_plot(
        "Scores; error bars: one sd over seeds",
        [f"{score.label}, {score.first.metric}" for score in scores],
        {name: [sample.summary.mean for sample in column] for name, column in samples.items()},
        "score",
        {name: [sample.summary.sd for sample in column] for name, column in samples.items()},
    )


def _add_seeds(document: TwinPage, scores: Sequence[TaskScore]) -> None:
    rows = []
    for score in scores:
        # jobs that ran side by side stand in the order they finished
        for result in sorted(score.results, key=lambda result: (result.model, result.seed)):
            others = (
                f"{name} {value:.4f}"
                for name, value in result.metrics.items()
                if name != result.metric
            )
            rows.append(
                (score.label, result.model, result.seed, result.value, ", ".join(others),
                 duration(result.seconds), result.degenerate)
            )  # fmt: skip
    headers = ["task", "encoder", "seed", "score", "other metrics", "time", "degenerate"]
    document.table(headers, rows, "Each seed")
    for score in scores:
        settings = json.dumps(score.first.hyper_parameters, ensure_ascii=False, indent=1)
        document.code(f"How {score.label} was fine-tuned", settings)


def add_comparison(document: TwinPage, runs: Sequence[RunFolder], names: Sequence[str]) -> None:
    """Scores, pretraining figures and loss curves of several runs."""
    scores = [{(s.label, s.first.metric): s for s in scores_of(run)} for run in runs]
    tasks = list(dict.fromkeys(key for run in scores for key in run))
    if tasks:
        rows = [
            (*key, *(run[key].pretrained.text() if key in run else None for run in scores))
            for key in tasks
        ]
        document.table(["task", "metric", *names], rows, "Scores: mean ± sd over seeds")
        _add_gains(document, scores, names)
    else:
        document.paragraph("None of the runs is evaluated yet. Run: electrify evaluate CONFIG")
    figures = [{**final_valid(run), **_summary_figures(run)} for run in runs]
    keys = [
        "generator_loss", "generator_accuracy", "language_loss", "language_accuracy",
        "discriminator_loss", "rtd_loss", "replaced_fraction", "rtd_accuracy", "rtd_auc",
        "tokens", "parameters", "seconds", "flops_paper",
    ]  # fmt: skip
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


def _add_gains(
    document: TwinPage,
    scores: Sequence[Mapping[tuple[str, str], TaskScore]],
    names: Sequence[str],
) -> None:
    """Each run against the first, task by task."""
    rows = []
    for key, base in scores[0].items():
        for name, run in zip(names[1:], scores[1:], strict=True):
            if key in run:
                rows.append((*key, name, *_gain(run[key], base)))
    if rows:
        headers = ["task", "metric", "run", "gain", "beyond the seeds' spread?"]
        document.table(headers, rows, f"Against {names[0]}")
        document.paragraph(RULE)


def _gain(score: TaskScore, base: TaskScore) -> tuple[float | None, str]:
    for what in ("task_version", "split", "num_examples", "data_sha256"):
        if getattr(score.first, what) != getattr(base.first, what):
            return None, f"not comparable: {words(what)} differs"
    found = compare(score.pretrained, base.pretrained, base.first.higher_is_better)
    return found.gain, found.verdict


def _summary_figures(run: RunFolder) -> dict[str, Any]:
    found = {k: run.summary[k] for k in ("tokens", "seconds", "flops_paper") if k in run.summary}
    if "parameters" in run.summary:
        found["parameters"] = run.summary["parameters"]["discriminator"]
    return found
