"""Figures of `electrify probe` on a page and in Markdown: planted mistakes and layers."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.analysis.plant import KINDS
from benchmarks.metrics.statistics import holm
from benchmarks.results.results import percent
from benchmarks.results.run_folder import Json
from benchmarks.results.table import Block, Record, record_lines
from benchmarks.statistics.uncertainty import Estimate
from electrify.page.page import Page

MODEL, RANDOM_INIT = "model", "random-init"  # networks
_LEVEL = 0.05
_METRICS = {
    "auc": "AUC against the other words of the sentence",
    "recall at 1%": "Recall where 1 % of right words are flagged",
    "precision at 1%": "Precision where 1 % of right words are flagged",
}
_HOW_MISTAKES = (
    "One mistake is planted in each right sentence. A word is as suspicious as its most suspicious "
    "piece. AUC: chance that a mistake is more suspicious than another word of its sentence. "
    "Recall and precision: at the threshold above which stand 1 % of the words of right sentences. "
    "In parentheses: 95 % intervals over sentences, each alone. All in percent; guessing has an "
    "AUC of 50."
)
_HOW_PROBES = (
    "A probe is logistic regression on frozen hidden states: of a piece for part of speech, of the "
    "mean over the sentence's pieces for the rest. The control task gives every type (piece, "
    "number of words, last word) a random label. Selectivity is the accuracy less that on the "
    "control task. Labels are equally frequent. Layer 0 is the embeddings. Intervals are over "
    "seeds. The best layer is chosen on the examples that it is scored on."
)


@dataclass(frozen=True)
class MistakeFigure:
    """One figure with its interval over sentences; `p` is of a difference, for itself alone."""

    kind: str
    num_sentences: int
    detector: str
    metric: str
    estimate: Estimate


@dataclass(frozen=True)
class LayerFigure:
    """What one layer of a network tells of one property, over seeds."""

    network: str
    property: str
    layer: int  # 0: embeddings
    num_examples: int
    num_labels: int
    accuracy: Estimate
    control: Estimate
    selectivity: Estimate


@dataclass(frozen=True)
class Figures:
    """What `electrify probe` measured of one model."""

    model: str
    text: Sequence[str]
    num_sentences: int
    versions: Mapping[str, str]
    mistakes: Sequence[MistakeFigure]
    layers: Sequence[LayerFigure]


def read_figures(record: Json) -> Figures:
    """Those of `probe.json`."""
    kinds: dict[str, Any] = {
        "mistakes": MistakeFigure,
        "layers": LayerFigure,
    }
    rows = {
        name: [
            kind(**{k: _estimate(v) if isinstance(v, dict) else v for k, v in row.items()})
            for row in record[name]
        ]
        for name, kind in kinds.items()
    }
    return Figures(**{**record, **rows})


def _estimate(record: Mapping[str, Any]) -> Estimate:
    numbers: dict[str, Any] = {n: math.nan if of is None else of for n, of in record.items()}
    return Estimate(**numbers)


def blocks_of(figures: Figures) -> dict[str, list[Block]]:
    """The sections that have something to show, by title."""
    sections = {
        "Which planted mistakes it finds": list(_mistake_blocks(figures)),
        "What the network knows": list(_layer_blocks(figures)),
    }
    return {title: blocks for title, blocks in sections.items() if blocks}


def _text(text: str) -> Block:
    return Block(lambda page: page.paragraph(text), text)


def _table(title: str, rows: Sequence[Record]) -> Block:
    return Block(
        lambda page: page.records(rows, title), "\n".join([f"## {title}", "", *record_lines(rows)])
    )


def _interval(estimate: Estimate) -> str | None:
    """'81.2 (80.1 to 82.3)' in percent; None of no value."""
    if math.isnan(estimate.value):
        return None
    value, low, high = (percent(x, 1) for x in (estimate.value, estimate.low, estimate.high))
    return value if math.isnan(estimate.low) else f"{value} ({low} to {high})"


# --- planted mistakes -----------------------------------------------------------------------------


def _mistake_blocks(figures: Figures) -> Iterator[Block]:
    every = figures.mistakes
    if not every:
        return
    gaps = [m for m in every if " - " in m.detector]
    whole = [m for m in every if " - " not in m.detector]
    aucs: dict[str, list[Estimate]] = {}
    for m in whole:
        if m.metric == "auc":
            aucs.setdefault(m.detector, []).append(m.estimate)
    yield _text(_verdict(gaps) if gaps else f"Only {whole[0].detector} was measured.")
    yield Block(
        lambda page: page.bar_plot(
            "AUC by kind of mistake, percent; 50 is guessing",
            list(dict.fromkeys(KINDS[m.kind] for m in whole)),
            {name: [100 * e.value for e in of] for name, of in aucs.items()},
            "AUC, percent",
            {name: [100 * e.half_width for e in of] for name, of in aucs.items()},
        )
    )
    yield _text(_HOW_MISTAKES)
    for metric, title in _METRICS.items():
        yield _table(title, _mistake_rows([m for m in whole if m.metric == metric]))
    if gaps:
        yield _table("Differences in AUC", _mistake_rows(gaps))


def _verdict(gaps: Sequence[MistakeFigure]) -> str:
    """On which kinds the first detector is better than each other one, corrected by Holm."""
    p_values = [1.0 if math.isnan(gap.estimate.p) else gap.estimate.p for gap in gaps]
    shown = [gap for gap, p in zip(gaps, holm(p_values), strict=True) if p <= _LEVEL]
    sentences = []
    for pair in dict.fromkeys(gap.detector for gap in gaps):
        first, _, other = pair.partition(" - ")
        higher, lower = (
            [KINDS[g.kind] for g in shown if g.detector == pair and (g.estimate.value > 0) == up]
            for up in (True, False)
        )
        sentences.append(
            f"Beside {other}, {first} is shown to have a higher AUC on {len(higher)} of "
            f"{len({gap.kind for gap in gaps})} kinds ({', '.join(higher) or 'none'}) and a lower "
            f"one on {len(lower)} ({', '.join(lower) or 'none'})."
        )
    return " ".join([*sentences, f"Corrected for {len(gaps)} differences (Holm)."])


def _mistake_rows(figures: Sequence[MistakeFigure]) -> list[Record]:
    """A row a kind, a column a detector."""
    rows: dict[str, dict[str, object]] = {}
    for m in figures:
        start: dict[str, object] = {"kind": KINDS[m.kind], "sentences": m.num_sentences}
        rows.setdefault(m.kind, start)[m.detector] = _interval(m.estimate)
    return list(rows.values())


# --- layers ---------------------------------------------------------------------------------------

Layers = Mapping[str, Sequence[LayerFigure]]  # by property, layer after layer


def _layer_blocks(figures: Figures) -> Iterator[Block]:
    networks: dict[str, dict[str, list[LayerFigure]]] = {}
    for figure in figures.layers:
        of_network = networks.setdefault(figure.network, {})
        of_network.setdefault(figure.property, []).append(figure)
    if not networks:
        return
    model, baseline = networks[MODEL], networks[RANDOM_INIT]
    yield Block(lambda page: _plot_layers(page, model))
    parts = [
        f"{name} {percent(best.selectivity.value, 1)} in layer {best.layer} (random "
        f"initialisation {percent(_best(baseline[name]).selectivity.value, 1)} in its best)"
        for name, best in ((name, _best(of)) for name, of in model.items())
    ]
    yield _text(f"The highest measured selectivity: {', '.join(parts)}.")
    yield _text(_HOW_PROBES)
    yield _table("Probes by layer, percent", _layer_rows(model, baseline))


def _best(rows: Sequence[LayerFigure]) -> LayerFigure:
    return max(rows, key=lambda row: row.selectivity.value)


def _plot_layers(page: Page, model: Layers) -> None:
    page.line_plot(
        "Selectivity of probes by layer, percent",
        {name: [(r.layer, 100 * r.selectivity.value) for r in of] for name, of in model.items()},
        "layer",
        "selectivity, percent",
        bands={
            name: [(r.layer, 100 * r.selectivity.low, 100 * r.selectivity.high) for r in of]
            for name, of in model.items()
        },
    )


def _layer_rows(model: Layers, baseline: Layers) -> list[Record]:
    return [
        {
            "property": name,
            "examples": row.num_examples,
            "labels": row.num_labels,
            "layer": str(row.layer),
            "accuracy": _interval(row.accuracy),
            "control": _interval(row.control),
            "selectivity": _interval(row.selectivity),
            "random-init accuracy": _interval(other.accuracy),
            "random-init selectivity": _interval(other.selectivity),
        }
        for name, rows in model.items()
        for row, other in zip(rows, baseline[name], strict=True)
    ]
