"""What a model is and how it scores, with what that is worth."""

import json
import math
from collections import Counter
from collections.abc import Sequence

from benchmarks.pages.sections import missing
from benchmarks.pages.twin_page import TwinPage
from benchmarks.results.results import FLOORS
from benchmarks.results.run_folder import STAGES, RunFolder
from benchmarks.statistics.comparison import (
    METHOD,
    OWN,
    Against,
    Baseline,
    verdict_sentence,
    within,
)
from benchmarks.statistics.scores import TaskScore, scores_of
from benchmarks.statistics.uncertainty import NUM_RESAMPLES, Estimate, p_text
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
    facts = _facts(run)
    if facts:
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
    baselines = {against.baseline for against in compared}
    names, places = _places([against.score for against in compared])
    rows = []
    for a, place in zip(compared, places, strict=True):
        found = a.comparison
        difference = found.difference
        rows.append(
            {
                **dict(zip(names, place, strict=True)),
                "metric": a.score.first.metric,
                **({"run": a.run} if several else {}),
                **({"to": a.baseline} if baselines & {*FLOORS.values()} else {}),
                "difference": found.gain,
                "95 % interval": difference and _interval(difference.estimate),
                "p, corrected": difference and p_text(found.p_corrected),
                "outcome": found.verdict,
            }
        )
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
            ("training FLOPs, the paper's count", f"{summary['flops_paper']:.3g}"),
            ("training FLOPs, 6 × parameters × tokens", f"{summary['flops_6nd']:.3g}"),
            ("pretraining time", duration(summary["seconds"])),
            ("tokens per second", round(summary["tokens_per_second"])),
            ("device", summary["device"]),
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
    return bool(run.evaluations) and not STAGES.keys() & {*run.manifests, *run.unfinished}


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
    names, places = _places(scores)
    arms = {"pretrained": "score"} | _floors_scored(scores)
    rows = [
        (
            *place,
            score.first.metric,
            *(
                cell
                for variant in arms
                for sample in [score.arms[variant]]
                for cell in (sample.text(), _interval(sample.estimate))
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
            *names,
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
    document.paragraph(
        "Untrained: the same network with random weights, fine-tuned alike. Bag of words: TF-IDF "
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
    names, places = _places(scores)
    document.records(
        [
            {
                **dict(zip(names, place, strict=True)),
                "weights": name,
                "mean": sample.summary.mean,
                "median": sample.median,
                "sd": sample.summary.sd,
                "lowest": sample.range[0],
                "highest": sample.range[1],
                "seeds": sample.summary.num_seeds,
            }
            for score, place in zip(scores, places, strict=True)
            for name, sample in score.samples.items()
        ],
        "Over seeds",
    )
    rows = []
    for score, place in zip(scores, places, strict=True):
        # jobs that ran side by side stand in the order they finished
        for result in sorted(score.results, key=lambda result: (result.model, result.seed)):
            others = (
                f"{name} {value:.4f}"
                for name, value in result.metrics.items()
                if name != result.metric
            )
            rows.append(
                {
                    **dict(zip(names, place, strict=True)),
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


def _places(scores: Sequence[TaskScore]) -> tuple[list[str], list[tuple[str, ...]]]:
    """Headers that tell scores apart and their cells: the task, and the encoder of several."""
    if not any(score.encoder for score in scores):
        return ["task"], [(score.first.task,) for score in scores]
    return ["task", "encoder"], [(s.first.task, s.encoder or OWN) for s in scores]


def _interval(found: Estimate) -> str | None:
    return None if math.isnan(found.low) else found.text()
