"""Figures of `electrify probe` on a page and in Markdown: planted mistakes and layers."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.analysis.plant import KINDS
from benchmarks.results.results import percent
from benchmarks.results.run_folder import Json
from benchmarks.results.table import Part, Table
from benchmarks.statistics.uncertainty import Estimate
from electrify.storage.files import read_toml

MODEL, RANDOM_INIT = "model", "random-init"  # networks
AUC, RECALL = "auc", "recall at 1%"
_TEXTS = read_toml(Path(__file__).with_name("texts.toml"))


@dataclass(frozen=True)
class MistakeFigure:
    """One figure with its interval over sentences."""

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

    def read(kind: Any, rows: Sequence[Json]) -> list[Any]:
        return [
            kind(**{k: _estimate(v) if isinstance(v, dict) else v for k, v in row.items()})
            for row in rows
        ]

    mistakes = read(MistakeFigure, record["mistakes"])
    return Figures(
        **{**record, "mistakes": mistakes, "layers": read(LayerFigure, record["layers"])}
    )


def _estimate(record: Json) -> Estimate:
    values: Json = {name: math.nan if of is None else of for name, of in record.items()}
    return Estimate(**values)


def sections_of(figures: Figures) -> dict[str, list[Part]]:
    """The sections that have something to show, by title."""
    sections = {
        "Which planted mistakes it finds": list(_mistakes(figures.mistakes)),
        "What the network knows": list(_layers(figures.layers)),
    }
    return {title: parts for title, parts in sections.items() if parts}


def _interval(estimate: Estimate) -> str | None:
    """'81.2 (80.1 to 82.3)' in percent; None of no value."""
    if math.isnan(estimate.value):
        return None
    value, low, high = (percent(x, 1) for x in (estimate.value, estimate.low, estimate.high))
    return value if math.isnan(estimate.low) else f"{value} ({low} to {high})"


def _mistakes(figures: Sequence[MistakeFigure]) -> Iterator[Part]:
    if not figures:
        return
    aucs: dict[str, list[Estimate]] = {}
    for m in figures:
        if m.metric == AUC:
            aucs.setdefault(m.detector, []).append(m.estimate)
    yield lambda page: page.bar_plot(
        "AUC by kind of mistake, percent; 50 is guessing",
        list(dict.fromkeys(KINDS[m.kind] for m in figures)),
        {name: [100 * e.value for e in of] for name, of in aucs.items()},
        "AUC, percent",
        {name: [100 * e.half_width for e in of] for name, of in aucs.items()},
    )
    yield _TEXTS["mistakes"]
    for metric, title in _TEXTS["metrics"].items():
        rows: dict[str, dict[str, object]] = {}  # a row a kind, a column a detector
        for m in figures:
            if m.metric == metric:
                start: dict[str, object] = {"kind": KINDS[m.kind], "sentences": m.num_sentences}
                rows.setdefault(m.kind, start)[m.detector] = _interval(m.estimate)
        yield Table.of(list(rows.values()), title)


def _layers(figures: Sequence[LayerFigure]) -> Iterator[Part]:
    networks: dict[str, dict[str, list[LayerFigure]]] = {}  # by property, layer after layer
    for figure in figures:
        of_network = networks.setdefault(figure.network, {})
        of_network.setdefault(figure.property, []).append(figure)
    if not networks:
        return
    model, baseline = networks[MODEL], networks[RANDOM_INIT]
    yield lambda page: page.line_plot(
        "Selectivity of probes by layer, percent",
        {name: [(r.layer, 100 * r.selectivity.value) for r in of] for name, of in model.items()},
        "layer",
        "selectivity, percent",
        bands={
            name: [(r.layer, 100 * r.selectivity.low, 100 * r.selectivity.high) for r in of]
            for name, of in model.items()
        },
    )
    parts = [
        f"{name} {percent(best.selectivity.value, 1)} in layer {best.layer} (random "
        f"initialisation {percent(_best(baseline[name]).selectivity.value, 1)} in its best)"
        for name, best in ((name, _best(of)) for name, of in model.items())
    ]
    yield f"The highest measured selectivity: {', '.join(parts)}."
    yield _TEXTS["layers"]
    rows = [
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
        for name, of in model.items()
        for row, other in zip(of, baseline[name], strict=True)
    ]
    yield Table.of(rows, "Probes by layer, percent")


def _best(rows: Sequence[LayerFigure]) -> LayerFigure:
    return max(rows, key=lambda row: row.selectivity.value)
