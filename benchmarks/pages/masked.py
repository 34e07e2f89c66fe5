"""How well a run's networks name hidden tokens, beside what the ELECTRA paper says of its own."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.pages.twin_page import TwinPage
from benchmarks.results.run_folder import RunFolder
from electrify.stage.masked_report import (
    FIGURES,
    Context,
    Estimate,
    Example,
    Figure,
    Gain,
    MaskedReport,
    Predictor,
    read_sequences,
)
from electrify.system.resampling import outcome, ratio_intervals

STAGE = "masked"
_SEED = 20_030_555
PREDICTORS: Mapping[Predictor, str] = {
    "generator": "generator",
    "discriminator": "discriminator alone",
    "inversion": "discriminator by inversion",
    "main": "main network",
}
_TITLES: Mapping[Figure, str] = {
    "accuracy": "first guess right",
    "top5_accuracy": "among the first five",
    "log_likelihood": "log-likelihood (nats)",
}
_CONTEXTS: Mapping[Context, str] = {
    "as in training": "with all others that training would choose",
    "one at a time": "alone, the rest of the text as it was",
}
# model, how, accuracy in percent
PUBLISHED = (
    ("BERT-Base", "its own prediction at [MASK]", 77.9),
    ("ELECTRA-Base", "by inversion of the best discriminator", 75.5),
)
SOURCE = (
    "Published figures: ELECTRA (Clark et al. 2020), appendix G, known here by two accounts of the "
    "paper that agree on the figures and the method, not by its own text; which text and how many "
    "candidates were used could not be confirmed. They are of English and of another vocabulary, "
    "so only the difference of the two compares with one between runs on the same text, never the "
    "height."
)


def add_masked(document: TwinPage, run: RunFolder) -> None:
    """Each predictor's figures with intervals, gains over the generator, languages, examples."""
    report = run.masked.get(STAGE) or _last_on_the_way(run)
    if report is None:
        document.paragraph("Hidden tokens: not there yet. Run: electrify predict-masked CONFIG")
        return
    _add_what(document, report)
    rows = [
        (_CONTEXTS[context], PREDICTORS[name], *(_text(of.get(figure)) for figure in FIGURES))
        for context, figures in report.contexts.items()
        for name, of in _ordered(figures.all.predictors)
    ]
    document.table(["hidden", "named by", *_TITLES.values()], rows, "Hidden tokens, 95 % intervals")
    _add_gains(document, report)
    _add_languages(document, report)
    _add_on_the_way(document, run)
    document.table(["model", "how", "first guess right (%)"], PUBLISHED, "As published")
    document.paragraph(SOURCE)
    _add_examples(document, report.examples)


def _last_on_the_way(run: RunFolder) -> MaskedReport | None:
    return max(run.masked.values(), key=lambda report: report.step, default=None)


def _add_what(document: TwinPage, report: MaskedReport) -> None:
    group = next(iter(report.contexts.values())).all
    document.paragraph(
        f"{group.num_positions:,} tokens hidden in {group.num_sequences:,} held-out sequences of "
        f"{report.sequence_length} tokens, at step {report.step:,}; objective {report.objective}, "
        f"{100 * report.mask_fraction:g} % of the tokens chosen. The same tokens are hidden in two "
        "ways; intervals are over sequences, drawn again with all their tokens."
    )
    if report.num_candidates is None:
        return
    shares = ", ".join(
        f"{_text(figures.all.coverage)} where it is hidden {_CONTEXTS[context]}"
        for context, figures in report.contexts.items()
        if figures.all.coverage is not None
    )
    document.paragraph(
        f"The discriminator reads the text with each of the generator's {report.num_candidates} "
        f"likeliest tokens in the hidden place. The share of hidden tokens among these: "
        f"{shares}. Any other is a miss, with the generator's log-likelihood. Alone, the "
        "discriminator orders candidates by its probability of being the original, and states no "
        "distribution; by inversion, its training is solved for the data's distribution, with the "
        "generator's probabilities as those that replacements came from."
    )


def _add_gains(document: TwinPage, report: MaskedReport) -> None:
    rows = [
        (_CONTEXTS[context], PREDICTORS[name], _TITLES[figure], *_gain_cells(gain))
        for context, figures in report.contexts.items()
        for name, of in _ordered(figures.all.gains)
        for figure, gain in of.items()
    ]
    if rows:
        document.table(
            ["hidden", "named by", "figure", "gain", "95 % interval", "outcome"],
            rows,
            "Against the generator, on the same tokens",
        )
        document.paragraph(
            "The outcome is whether the interval leaves 0 out; it is not corrected for the number "
            "of rows."
        )


def _add_languages(document: TwinPage, report: MaskedReport) -> None:
    rows = [
        (
            language,
            _CONTEXTS[context],
            group.num_positions,
            PREDICTORS[name],
            *(_text(of.get(figure)) for figure in FIGURES),
        )
        for context, figures in report.contexts.items()
        for language, group in figures.languages.items()
        for name, of in _ordered(group.predictors)
    ]
    if rows:
        headers = ["language", "hidden", "tokens", "named by", *_TITLES.values()]
        with document.fold("By language"):
            document.table(headers, rows)


def _add_on_the_way(document: TwinPage, run: RunFolder) -> None:
    """First guesses over the steps of pretraining, where several checkpoints were measured."""
    reports = sorted({r.step: r for r in run.masked.values()}.items())
    if len(reports) < 2:
        return
    series: dict[str, list[tuple[float, float]]] = {}
    for step, report in reports:
        for name, of in _ordered(report.contexts["one at a time"].all.predictors):
            series.setdefault(PREDICTORS[name], []).append((step, of["accuracy"].value))
    document.line_plot(
        "Hidden tokens named at the first guess, alone", series, "step", "share of tokens"
    )


def _add_examples(document: TwinPage, examples: Sequence[Example]) -> None:
    if not examples:
        return
    names = [name for name in PREDICTORS if name in examples[0].guesses]
    rows = [
        (e.language, f"{e.before} ____ {e.after}", e.hidden, *(_guesses(e, name) for name in names))
        for e in examples
    ]
    with document.fold("Examples of hidden tokens"):
        document.table(["language", "text", "hidden", *(PREDICTORS[n] for n in names)], rows)


def _guesses(example: Example, name: Predictor) -> str:
    return ", ".join(f"{g.token} {g.probability:.2f}" for g in example.guesses.get(name, [])[:3])


def add_masked_comparison(
    document: TwinPage, runs: Sequence[RunFolder], names: Sequence[str]
) -> None:
    """What each run's main network comes to, and its gain over the first that was measured."""
    measured = [
        (name, run, run.masked[STAGE])
        for name, run in zip(names, runs, strict=True)
        if STAGE in run.masked
    ]
    if len(measured) < 2:
        return
    base_name, base_run, base = measured[0]
    rows: list[tuple[object, ...]] = []
    for name, run, report in measured:
        gains = None if run is base_run else _gains_between((run, report), (base_run, base))
        for context, figures in report.contexts.items():
            of = figures.all.predictors[report.main]
            cells: tuple[object, ...] = (None, None, f"not comparable: {_why_not(report, base)}")
            if run is base_run:
                cells = (None, None, None)
            elif gains is not None:
                cells = _gain_cells(gains[context])
            rows.append(
                (
                    name,
                    _CONTEXTS[context],
                    PREDICTORS[report.main],
                    *(_text(of.get(figure)) for figure in FIGURES),
                    *cells,
                )
            )
    headers = ["run", "hidden", "named by", *_TITLES.values(), "gain", "95 % interval", "outcome"]
    document.table(headers, rows, f"Hidden tokens; gains at the first guess, over {base_name}")
    document.paragraph(SOURCE)


def _why_not(report: MaskedReport, base: MaskedReport) -> str:
    for what in ("sequence_length", "mask_fraction", "seed"):
        if getattr(report, what) != getattr(base, what):
            return f"{what.replace('_', ' ')} differs"
    return "other texts or other hidden tokens"


def _gains_between(
    first: tuple[RunFolder, MaskedReport], second: tuple[RunFolder, MaskedReport]
) -> dict[Context, Gain] | None:
    """Gains at the first guess on the same hidden tokens; None where they are not the same."""
    if first[1].positions_sha256 != second[1].positions_sha256:
        return None
    sides = [(read_sequences(run.place(STAGE)), report.main) for run, report in (first, second)]
    counts = np.array([s.num_positions for s in sides[0][0]], dtype=np.float64)
    contexts = list(first[1].contexts)
    columns = [
        np.array(
            [
                a.sums[context][sides[0][1]]["accuracy"] - b.sums[context][sides[1][1]]["accuracy"]
                for a, b in zip(sides[0][0], sides[1][0], strict=True)
            ]
        )
        for context in contexts
    ]
    ratios, bounds = ratio_intervals(np.stack(columns, axis=1), counts, _SEED)
    gains = {}
    for context, ratio, pair in zip(contexts, ratios, bounds, strict=True):
        low, high = (None if np.isnan(bound) else float(bound) for bound in pair)
        gains[context] = Gain(value=float(ratio), low=low, high=high, outcome=outcome(low, high))
    return gains


def masked_numbers(run: RunFolder) -> dict[str, Any]:
    """The figures by stage, for programs; no text."""
    return {
        stage: report.model_dump(mode="json", exclude={"examples"})
        for stage, report in run.masked.items()
    }


def _ordered(of: Mapping[Predictor, Any]) -> list[tuple[Predictor, Any]]:
    """In the order of `PREDICTORS`; JSON sorts them."""
    return [(name, of[name]) for name in PREDICTORS if name in of]


def _text(estimate: Estimate | None) -> str | None:
    if estimate is None or estimate.low is None or estimate.high is None:
        return None if estimate is None else f"{estimate.value:.3f}"
    return f"{estimate.value:.3f} ({estimate.low:.3f} to {estimate.high:.3f})"


def _gain_cells(gain: Gain) -> tuple[object, ...]:
    known = gain.low is not None and gain.high is not None
    return gain.value, f"{gain.low:.4f} to {gain.high:.4f}" if known else None, gain.outcome
