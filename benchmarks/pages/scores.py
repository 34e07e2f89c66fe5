"""What a model is and how it scores, with what that is worth; several runs side by side."""

import json
import math
from collections import Counter
from collections.abc import Sequence

from benchmarks.pages.training import curve, final_valid, missing, words
from benchmarks.pages.twin_page import Record, TwinPage, short
from benchmarks.results.results import FLOORS
from benchmarks.results.run_folder import STAGES, RunFolder
from benchmarks.statistics.comparison import (
    METHOD,
    OWN,
    Against,
    Baseline,
    between,
    verdict_sentence,
    within,
)
from benchmarks.statistics.scores import TaskScore, scores_by_task, scores_of
from benchmarks.statistics.uncertainty import NUM_RESAMPLES, p_text
from electrify.system.progress import duration


def add_scores(document: TwinPage, run: RunFolder, baseline: Baseline | None = None) -> None:
    """The model in figures, its scores, and whether they say anything."""
    scores, compared = scores_of(run), within(run, baseline or Baseline())
    document.paragraph(_model_sentence(run))
    if lost := _lost_sentence(compared):
        document.paragraph(lost)
    for score in scores:
        of_score = [a for a in compared if a.score is score]
        document.paragraph(_score_sentence(score, of_score))
    if not _holds_other_encoders_alone(run):
        missing(document, run, "evaluate", "Scores")
    if scores:
        _add_score_tables(document, scores, compared)
    if facts := _facts(run):
        document.table(["", "value"], facts, "The model")


def _lost_sentence(compared: Sequence[Against]) -> str:
    """The tasks on which no comparison with a floor was won, and what to do; empty of none."""
    lost: dict[str, list[str]] = {}
    for a in compared:
        if a.baseline in FLOORS.values() and a.comparison.outcome in ("worse", "cannot tell apart"):
            lost.setdefault(a.baseline, []).append(a.score.label)
    if not lost:
        return ""
    losses = "; ".join(f"{', '.join(tasks)} (against: {floor})" for floor, tasks in lost.items())
    return (
        f"Not better than a floor on: {losses}. More steps, and text of the tasks' kind, will "
        "serve more than another fine-tuning: see whether the frozen probe still rises and whether "
        "an alarm was raised, under Pretraining."
    )


def add_differences(document: TwinPage, compared: Sequence[Against], caption: str) -> None:
    """A table of differences with their intervals, and how many are better or worse."""
    several = any(against.run for against in compared)
    has_floors = any(against.baseline in FLOORS.values() for against in compared)
    rows = [
        {
            **place,
            "metric": a.score.first.metric,
            **({"run": a.run} if several else {}),
            **({"to": a.baseline} if has_floors else {}),
            "difference": a.comparison.gain,
            "95 % interval": a.comparison.difference and a.comparison.difference.text(),
            "p, corrected": p_text(a.comparison.p_corrected),
            "outcome": a.comparison.verdict,
        }
        for a, place in zip(compared, _places([a.score for a in compared]), strict=True)
    ]
    document.records(rows, caption)
    counted = Counter(a.comparison.outcome for a in compared)
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in counted.items())
    document.paragraph(f"Comparisons: {len(compared)}, of which {outcomes}.")


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
            ("training FLOPs in matrix products", short(summary.get("flops_matmul"))),
            ("training FLOPs, the paper's count", f"{summary['flops_paper']:.3g}"),
            ("training FLOPs, 6 × parameters × tokens", f"{summary['flops_6nd']:.3g}"),
            ("pretraining time", duration(summary["seconds"])),
            ("tokens per second", round(summary["tokens_per_second"])),
            ("device", summary["device"]),
            ("peak memory (MB)", run.manifests.get("pretrain", {}).get("peak_memory_mb")),
        ]
    return [(name, value) for name, value in rows if value is not None]


def _model_sentence(run: RunFolder) -> str:
    summary = run.summary
    if _holds_other_encoders_alone(run):
        return f"{run.name}: scores of encoders that were made elsewhere."
    if not summary:
        return f"{run.name}: not pretrained yet. Run: electrify pretrain CONFIG"
    return (
        f"{run.name}: an ELECTRA discriminator of {summary['parameters']['discriminator']:,} "
        f"parameters, pretrained on {summary['tokens']:,} tokens ({summary['num_steps']:,} steps, "
        f"{summary['flops_paper']:.2g} FLOPs by the paper's count) in "
        f"{duration(summary['seconds'])} on {summary['device']}."
    )


def _holds_other_encoders_alone(run: RunFolder) -> bool:
    """Whether the folder has scores (`evaluate --model`) and no stage of a run."""
    made = (STAGES.keys() - {"evaluate"}) & {*run.manifests, *run.unfinished}
    return bool(run.evaluations) and not made


def _score_sentence(score: TaskScore, compared: Sequence[Against]) -> str:
    num_seeds, interval = score.pretrained.summary.num_seeds, score.pretrained.estimate
    text = f"{score.label}: {score.first.metric} {score.pretrained.text()} over {num_seeds} "
    text += "seed" if num_seeds == 1 else "seeds"
    if not math.isnan(interval.low):
        text += f", 95 % interval {interval.text()}"
    for against in compared:
        verdict = verdict_sentence(against)
        text += f". {verdict[:1].upper()}{verdict[1:-1]}"
    found = _degenerate(score)
    return f"{text}. Beware: {found}." if found else f"{text}."


def _degenerate(score: TaskScore) -> str:
    """'2 of 3 runs of bert degenerate, 3 of 3 runs of random weights degenerate'; empty if none
    is."""
    return ", ".join(
        f"{summary.num_degenerate} of {summary.num_seeds} runs of {name} degenerate"
        for name, sample in score.samples.items()
        if (summary := sample.summary).num_degenerate
    )


def _add_score_tables(
    document: TwinPage, scores: Sequence[TaskScore], compared: Sequence[Against]
) -> None:
    arms = {"pretrained": "score"} | _floors_scored(scores)
    places = _places(scores)
    rows = [
        (
            *place.values(),
            score.first.metric,
            *(
                cell
                for variant in arms
                for sample in [score.arms[variant]]
                for cell in (sample.text(), sample.estimate.text())
            ),
            score.pretrained.summary.num_seeds,
            score.first.split,
            score.first.examples,
            score.first.num_train_examples,
            f"{100 * score.first.truncated_fraction:.1f} %",
        )
        for score, place in zip(scores, places, strict=True)
    ]
    document.table(
        [
            *places[0],
            "metric",
            *(header for name in arms.values() for header in (name, "95 % interval")),
            "seeds",
            "split",
            "examples",
            "trained on",
            "truncated",
        ],
        rows,
        "Scores: mean ± sd over seeds",
    )
    _add_bars(document, scores)
    if compared:
        baselines = dict.fromkeys(against.baseline for against in compared)
        add_differences(document, compared, f"Difference to: {', '.join(baselines)}")
    alike = "fine-tuned alike"
    if any(result.search for score in scores for result in score.results):
        alike = "with the best options of its own among the same trials"
    document.paragraph(
        f"Untrained: the same network with random weights, {alike}. Bag of words: TF-IDF "
        f"of words or characters with logistic regression, on the same rows. {METHOD} "
        f"Selection: {_selection(scores)}; no checkpoint was chosen on the reported examples."
    )
    for text in _cautions(scores):
        document.paragraph(text)
    _add_seeds(document, scores)


def _floors_scored(scores: Sequence[TaskScore]) -> dict[str, str]:
    return {
        variant: name
        for variant, name in FLOORS.items()
        if any(score.arms[variant].values for score in scores)
    }


def _cautions(scores: Sequence[TaskScore]) -> list[str]:
    """What keeps a score from being worth what it seems."""
    found = []
    for score in scores:
        if text := _degenerate(score):
            found.append(f"Degenerate: {score.label}, {text}; what each did stands below.")
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


def _add_bars(document: TwinPage, scores: Sequence[TaskScore]) -> None:
    arms = {"pretrained": "encoder"} | _floors_scored(scores)
    samples = {name: [score.arms[variant] for score in scores] for variant, name in arms.items()}
    document.bar_plot(
        "Scores; error bars: half of the 95 % interval",
        [f"{score.label}, {score.first.metric}" for score in scores],
        {name: [sample.summary.mean for sample in column] for name, column in samples.items()},
        "score",
        {
            name: [(sample.estimate.high - sample.estimate.low) / 2 for sample in column]
            for name, column in samples.items()
        },
    )


def _add_seeds(document: TwinPage, scores: Sequence[TaskScore]) -> None:
    rows = []
    for score, place in zip(scores, _places(scores), strict=True):
        # jobs that ran side by side stand in the order they finished
        for result in sorted(score.results, key=lambda result: (result.model, result.seed)):
            others = (
                f"{name} {value:.4f}"
                for name, value in result.metrics.items()
                if name != result.metric
            )
            rows.append(
                {
                    **place,
                    "weights": result.encoder,
                    "seed": result.seed,
                    "score": result.value,
                    "other metrics": ", ".join(others),
                    "time": duration(result.seconds),
                    "degenerate": result.degenerate,
                }
            )
    document.records(rows, "Each seed")
    for score in scores:
        settings = json.dumps(score.first.hyper_parameters, ensure_ascii=False, indent=1)
        document.code(f"How {score.label} was fine-tuned", settings)
        searches = {r.encoder: r.search for r in score.results if r.search}
        for encoder, search in searches.items():
            document.paragraph(
                f"{score.label}, {encoder}: {search['best']}, {search['value']:.4f} on "
                f"{search['num_held_out']:,} held-out rows of the training split."
            )


def _places(scores: Sequence[TaskScore]) -> list[Record]:
    """What tells scores apart, by header: the task, and the encoder of several."""
    several = any(score.encoder for score in scores)
    return [
        {"task": s.first.task, **({"encoder": s.encoder or OWN} if several else {})} for s in scores
    ]


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


def add_comparison(
    document: TwinPage, runs: Sequence[RunFolder], names: Sequence[str], baseline: Baseline
) -> None:
    """Scores with their differences to the baseline, pretraining figures and loss curves."""
    scores = [scores_by_task(run) for run in runs]
    if tasks := list(dict.fromkeys(key for run in scores for key in run)):
        rows = [(*key, *(_score_cell(run.get(key)) for run in scores)) for key in tasks]
        headers = ["task", "metric", *names]
        document.table(headers, rows, "Scores: mean ± sd over seeds, with the 95 % interval")
    else:
        document.paragraph("None of the runs is evaluated yet. Run: electrify evaluate CONFIG")
    if compared := between(runs, names, baseline):
        add_differences(document, compared, f"Against {names[baseline.run]}")
        document.paragraph(METHOD)
    figures = []
    for run in runs:
        found = {**final_valid(run), **run.summary}
        if run.summary:
            found["parameters"] = run.summary["parameters"]["discriminator"]
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


def _score_cell(score: TaskScore | None) -> str | None:
    if score is None:
        return None
    text, interval = score.pretrained.text(), score.pretrained.estimate
    return text if math.isnan(interval.low) else f"{text}, {interval.text()}"
