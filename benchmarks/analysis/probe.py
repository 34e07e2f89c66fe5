"""`electrify probe`: which planted mistakes a network finds, and what probes read in its layers."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.analysis.korean import KoreanSentence, analyse, korean_sentences
from benchmarks.analysis.layers import (
    LayerFigure,
    ProbeExample,
    examples_of,
    hidden_states,
    probe_layers,
)
from benchmarks.analysis.mistakes import (
    AUC,
    KINDS,
    MistakeFigure,
    detectors_of,
    mistake_figures,
    plant_evenly,
    words_by_form,
)
from benchmarks.analysis.reader import Reader, open_reader
from benchmarks.encoder import load_encoder
from benchmarks.results.results import percent
from benchmarks.results.run_folder import PROBE, Json
from benchmarks.results.table import Part, Table, add_parts, markdown_parts, markdown_text
from benchmarks.statistics.uncertainty import Estimate
from benchmarks.tasks.texts import texts_of_name
from electrify.config.evaluate import Role
from electrify.page.page import Page
from electrify.stage.folder import write_json, write_text
from electrify.storage.files import read_toml
from electrify.system.machine import versions
from electrify.system.outcome import UserError
from electrify.system.progress import log

MODEL, RANDOM_INIT = "model", "random-init"  # networks
_ROLES: Mapping[str, Role] = {MODEL: "pretrained", RANDOM_INIT: "random-init"}
_TEXTS = read_toml(Path(__file__).with_name("texts.toml"))
_MAX_CHARACTERS, _MARGIN = 120, 8


@dataclass(frozen=True)
class Figures:
    """What `electrify probe` measured of one model; the content of `probe.json`."""

    model: str
    text: Sequence[str]
    num_sentences: int
    versions: Mapping[str, str]
    mistakes: Sequence[MistakeFigure]
    layers: Sequence[LayerFigure]


def probe(
    model: str,
    generator: str | None,
    texts: Sequence[str],
    data_dirs: Sequence[Path],
    corpus: Sequence[Path],
    num_mistakes: int,
    num_examples: int,
    num_seeds: int,
    seed: int,
    output: Path | None,
) -> Path:
    """Write figures, a page and Markdown into `output`, by default into the run's folder `probe`.

    `texts` names tasks or files with a sentence a line, `corpus` documents that models of counts
    learn from. At most `num_mistakes` sentences of each kind and `num_examples` of each property
    are measured, and probes of `num_seeds` seeds. Returns the page.
    """
    if output is None and not (Path(model) / "export").is_dir():
        raise UserError(f"{model} is no run folder: say with --output where the figures go")
    folder = output or Path(model) / PROBE
    reader = open_reader(model, generator, "auto")
    sentences = _held_out(texts, data_dirs, reader)
    detectors = detectors_of(reader, corpus)
    words = words_by_form(sentences)
    by_kind = {kind: plant_evenly(kind, sentences, words, num_mistakes, seed) for kind in KINDS}
    planted = {kind: mistakes for kind, mistakes in by_kind.items() if mistakes}
    mistakes = mistake_figures(reader, detectors, planted) if planted else []
    texts_cut = {text.text: text for text in reader.cut([s.text for s in sentences])}
    examples = examples_of(sentences, texts_cut, num_examples, seed)
    layers = _layer_figures(reader, examples, range(num_seeds)) if examples else []
    figures = Figures(model, tuple(texts), len(sentences), versions(), mistakes, layers)
    # what is not a number is null
    record = json.loads(json.dumps(asdict(figures)), parse_constant=lambda constant: None)
    title = f"What the network finds and knows: {model}"
    page, blocks = Page(title), [f"# {markdown_text(title)}"]
    for heading, parts in sections_of(figures).items():
        page.heading(heading)
        add_parts(page, parts)
        blocks += [f"# {heading}", *markdown_parts(parts)]
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / f"{PROBE}.json", record)
    write_text(folder / f"{PROBE}.md", "\n\n".join(blocks) + "\n")
    page.write(folder / f"{PROBE}.html")
    return folder / f"{PROBE}.html"


def _held_out(
    names: Sequence[str], data_dirs: Sequence[Path], reader: Reader
) -> list[KoreanSentence]:
    """The Korean sentences of tasks' evaluation examples, or of files.

    Every text of an example, and every line of a file, counts as a sentence. A piece has at least
    one character: what is `_MARGIN` shorter than the model's positions fits, even with a mistake.
    """
    longest = reader.source.max_positions or _MAX_CHARACTERS + _MARGIN
    max_characters = min(_MAX_CHARACTERS, longest - _MARGIN)
    splits = (of for name in names for of in texts_of_name(name, data_dirs).values())
    sentences = korean_sentences((text for of in splits for _, text in of), max_characters)
    if not sentences:
        raise UserError(
            f"no Korean sentence of 4 words to {max_characters} characters in {', '.join(names)}: "
            "name a task such as klue-dp, or a file with one sentence a line"
        )
    return analyse(sentences)


def _layer_figures(
    reader: Reader, examples: Mapping[str, Sequence[ProbeExample]], seeds: Sequence[int]
) -> list[LayerFigure]:
    """Of the model, and of the same network with random initialisation."""
    figures: list[LayerFigure] = []
    for name, role in _ROLES.items():
        log(f"probe: layers of {name}")
        encoder = load_encoder(reader.source, role, seed=0).eval().to(reader.device)
        for kind, of_kind in examples.items():
            states = hidden_states(reader, encoder, of_kind)
            figures += probe_layers(name, kind, states, of_kind, seeds)
    return figures


# What pages say of them.


def sections_of(figures: Figures) -> dict[str, list[Part]]:
    sections = {
        "Which planted mistakes it finds": list(_mistakes(figures.mistakes)),
        "What the network knows": list(_layers(figures.layers)),
    }
    return {title: parts for title, parts in sections.items() if parts}


def read_figures(record: Json) -> Figures:
    def estimate(record: Json) -> Estimate:
        values: Json = {name: math.nan if of is None else of for name, of in record.items()}
        return Estimate(**values)

    def read(kind: Any, rows: Sequence[Json]) -> list[Any]:
        return [
            kind(**{k: estimate(v) if isinstance(v, dict) else v for k, v in row.items()})
            for row in rows
        ]

    mistakes = read(MistakeFigure, record["mistakes"])
    layers = read(LayerFigure, record["layers"])
    return Figures(**{**record, "mistakes": mistakes, "layers": layers})


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
    estimates = {n: [(r.layer, r.selectivity) for r in of] for n, of in model.items()}
    yield lambda page: page.line_plot(
        "Selectivity of probes by layer, percent",
        {name: [(x, 100 * e.value) for x, e in of] for name, of in estimates.items()},
        "layer",
        "selectivity, percent",
        bands={
            name: [(x, 100 * e.low, 100 * e.high) for x, e in of] for name, of in estimates.items()
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
