"""`electrify probe`: which planted mistakes a network finds, and what probes read in its layers.

A layer has linear probes, beside a control task of random labels (Hewitt and Liang 2019). Labels
are made from kiwi's morphemes by rule. Beside its label each example has a type. The control task
gives all examples of a type the same label, drawn at random. Selectivity is the accuracy of a probe
less that on the control task: a probe that learns types by heart is as good at both.
"""

import json
import math
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import TypeAdapter

from benchmarks.analysis.korean import KoreanSentence, analyse, korean_sentences
from benchmarks.analysis.mistakes import (
    AUC,
    KINDS,
    MistakeFigure,
    detectors_of,
    mistake_figures,
    plant_evenly,
    words_by_form,
)
from benchmarks.analysis.reader import Inputs, Reader, TokenizedText, open_reader
from benchmarks.encoder import load_encoder
from benchmarks.metrics.weighted import Floats
from benchmarks.results.results import percent
from benchmarks.results.run_folder import PROBE, Json
from benchmarks.results.table import Part, Table, add_sections, markdown_text, write_page
from benchmarks.statistics.uncertainty import Estimate, estimate
from benchmarks.tasks.texts import texts_of_name
from electrify.config.evaluate import Role
from electrify.page.page import Page
from electrify.stage.folder import write_json
from electrify.storage.files import read_toml
from electrify.system.machine import versions
from electrify.system.outcome import UserError
from electrify.system.progress import log

MODEL, RANDOM_INIT = "model", "random-init"  # networks
_ROLES: Mapping[str, Role] = {MODEL: "pretrained", RANDOM_INIT: "random-init"}
_TEXTS = read_toml(Path(__file__).with_name("texts.toml"))
_MAX_CHARACTERS, _MARGIN = 120, 8
MEAN = -1  # in place of a piece: the mean over the text's pieces
_LABELS = read_toml(Path(__file__).with_name("labels.toml"))
_FUTURE = ("것", "거")  # of 할 것이다
_MIN_OF_LABEL = 30
_TEST_FRACTION = 1 / 3
_MAX_ITERATIONS, _INVERSE_PENALTY = 2000, 0.1


@dataclass(frozen=True)
class ProbeExample:
    """A text, or a piece of it by its number (else `MEAN`), with its label."""

    text: str
    piece: int
    label: str
    type: str
    group: str  # examples of one group are learnt from together, or asked together


def examples_of(
    sentences: Sequence[KoreanSentence],
    texts: Mapping[str, TokenizedText],
    num_examples: int,
    seed: int,
) -> dict[str, list[ProbeExample]]:
    """Examples by property: as many of each label, and at most `num_examples` of a property.

    A property that fewer than two labels have enough examples of is left out.
    """
    draw = random.Random(seed)
    shuffled = draw.sample(sentences, len(sentences))
    candidates = {
        "part of speech": [e for s in shuffled for e in _of_pieces(s, texts[s.text])],
        "length": _by_length(shuffled),
        "tense": [_whole(s, label) for s in shuffled if (label := _tense(s))],
        "level of speech": [_whole(s, label) for s in shuffled if (label := _level(s))],
        "word order": [e for s in shuffled for e in _by_order(s, draw)],
    }
    balanced = {name: _balanced(of, num_examples) for name, of in candidates.items()}
    return {name: of for name, of in balanced.items() if of}


@cache
def part_of_speech(tag: str) -> str | None:
    """Its name in `labels.toml`, by the longest beginning of the tag."""
    names = {start: name for name, starts in _LABELS["part-of-speech"].items() for start in starts}
    return names.get(max(filter(tag.startswith, names), key=len, default=""))


def parts_of_pieces(sentence: KoreanSentence, text: TokenizedText) -> list[str | None]:
    """The part of speech of the morpheme in which each piece begins."""
    at: list[str | None] = [None] * (len(sentence.text) + 1)
    for morpheme in reversed(sentence.morphemes):  # of two in one syllable the first counts
        name = part_of_speech(morpheme.tag)
        at[morpheme.start : morpheme.end] = [name] * (morpheme.end - morpheme.start)
    return [at[start + (sentence.text[start : start + 1] == " ")] for start, _ in text.spans]


def _of_pieces(sentence: KoreanSentence, text: TokenizedText) -> Iterator[ProbeExample]:
    """The type is the piece itself."""
    for piece, name in enumerate(parts_of_pieces(sentence, text)):
        if name:
            yield ProbeExample(text.text, piece, name, str(text.ids[piece]), text.text)


def _by_length(sentences: Sequence[KoreanSentence]) -> list[ProbeExample]:
    """Quarters of the sentences by their number of words, which is the type."""
    lengths = [sentence.text.count(" ") + 1 for sentence in sentences]
    limits = np.quantile(lengths, (0.25, 0.5, 0.75))
    return [
        ProbeExample(s.text, MEAN, f"quarter {np.searchsorted(limits, n) + 1}", str(n), s.text)
        for s, n in zip(sentences, lengths, strict=True)
    ]


def _whole(sentence: KoreanSentence, label: str, text: str | None = None) -> ProbeExample:
    """A sentence, or another text made of it; the type is the last word."""
    last = sentence.text.rpartition(" ")[2]
    return ProbeExample(text or sentence.text, MEAN, label, last, sentence.text)


def _last_word(sentence: KoreanSentence, tag: str) -> list[str]:
    """The forms of its morphemes with the tag."""
    start = sentence.text.rfind(" ")
    return [m.form for m in sentence.morphemes if m.start > start and m.tag == tag]


def _tense(sentence: KoreanSentence) -> str | None:
    """Past or present, of a sentence with a final ending."""
    labels, tenses = _LABELS["tense"], {*_last_word(sentence, "EP")}
    is_future = {*_last_word(sentence, "NNB")} & {*_FUTURE} or tenses & {*labels["left-out"]}
    if is_future or not _last_word(sentence, "EF"):
        return None
    return "past" if tenses & {*labels["past"]} else "present"


def _level(sentence: KoreanSentence) -> str | None:
    endings = _last_word(sentence, "EF")
    levels = _LABELS["level"].items() if endings else ()
    return next((name for name, form in levels if re.fullmatch(form, endings[-1])), None)


def _by_order(sentence: KoreanSentence, draw: random.Random) -> list[ProbeExample]:
    """The sentence, and with two neighbouring words exchanged; the last word stays, with its full
    stop (the bigram shift of Conneau et al. 2018)."""
    words = sentence.text.split(" ")
    place = draw.randrange(len(words) - 2)
    moved = [*words[:place], words[place + 1], words[place], *words[place + 2 :]]
    if moved == words:
        return []
    other = _whole(sentence, "two words exchanged", " ".join(moved))
    return [_whole(sentence, "as it was"), other]


def _balanced(examples: Sequence[ProbeExample], num_examples: int) -> list[ProbeExample]:
    """The first of each label; labels with few examples are left out."""
    by_label: dict[str, list[ProbeExample]] = {}
    for example in examples:
        by_label.setdefault(example.label, []).append(example)
    enough = {label: of for label, of in by_label.items() if len(of) >= _MIN_OF_LABEL}
    if len(enough) < 2:
        return []
    count = min(num_examples // len(enough), *map(len, enough.values()))
    return [example for label in sorted(enough) for example in enough[label][:count]]


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


def hidden_states(reader: Reader, encoder: Any, examples: Sequence[ProbeExample]) -> Floats:
    """Hidden states of each example, (layers + 1, examples, H); each text fits a window."""

    def layers(batch: Inputs) -> torch.Tensor:
        return torch.stack(encoder(**batch, output_hidden_states=True).hidden_states, dim=2)

    by_text: dict[str, list[int]] = {}
    for number, example in enumerate(examples):
        by_text.setdefault(example.text, []).append(number)
    numbers = list(by_text.values())
    hidden: list[Any] = [None] * len(examples)
    for row, _, of_pieces in reader.judge([t.ids for t in reader.cut(list(by_text))], layers):
        for number in numbers[row]:
            piece = examples[number].piece
            hidden[number] = of_pieces.mean(axis=0) if piece == MEAN else of_pieces[piece]
    return np.stack(hidden, axis=1)


def probe_layers(
    network: str, name: str, hidden: Floats, examples: Sequence[ProbeExample], seeds: Sequence[int]
) -> list[LayerFigure]:
    """Probes of one property; `hidden` are (layers + 1, examples, H)."""
    labels = np.array([example.label for example in examples])
    figures = []
    for layer, of_layer in enumerate(hidden):
        accuracy, control = {}, {}
        for seed in seeds:
            draw = np.random.default_rng(seed)  # groups stay together
            asked = {g: draw.random() < _TEST_FRACTION for g in sorted({e.group for e in examples})}
            is_test = np.array([asked[example.group] for example in examples])
            accuracy[seed] = _accuracy(of_layer, labels, is_test)
            control[seed] = _accuracy(of_layer, control_labels(examples, seed), is_test)
        selectivity = {seed: accuracy[seed] - control[seed] for seed in seeds}
        one, two = (estimate(values, None, (0.0, 1.0)) for values in (accuracy, control))
        gain, count = estimate(selectivity, None), len(examples)
        figures.append(LayerFigure(network, name, layer, count, len(set(labels)), one, two, gain))
    return figures


def control_labels(examples: Sequence[ProbeExample], seed: int) -> Any:
    """A label for each type, whatever its examples have: (examples,).

    Types come in random order. Each gets the label that has the fewest examples so far: labels
    stay about as frequent as in the task, so that no control task is easier by its most frequent
    label.
    """
    draw = np.random.default_rng(seed)
    counts = Counter(example.type for example in examples)
    filled = {str(label): 0 for label in draw.permutation(sorted({e.label for e in examples}))}
    labels = {}
    for kind in draw.permutation(sorted(counts)):
        labels[kind] = min(filled, key=filled.__getitem__)
        filled[labels[kind]] += counts[kind]
    return np.array([labels[example.type] for example in examples])


def _accuracy(hidden: Floats, labels: Any, is_test: Any) -> float:
    """Of logistic regression, standardised; of one label in training, its fraction."""
    from sklearn.linear_model import LogisticRegression  # slow, and not for the report
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    learnt = labels[~is_test]
    if len(set(learnt)) == 1:
        return float((labels[is_test] == learnt[0]).mean())
    model = make_pipeline(
        StandardScaler(), LogisticRegression(C=_INVERSE_PENALTY, max_iter=_MAX_ITERATIONS)
    )
    model.fit(hidden[~is_test], learnt)
    return float(model.score(hidden[is_test], labels[is_test]))


# The command.


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
    page = Page(title)
    blocks = [f"# {markdown_text(title)}", *add_sections(page, sections_of(figures))]
    place = write_page(folder, PROBE, page, blocks)
    write_json(folder / f"{PROBE}.json", record)
    return place


def _held_out(
    names: Sequence[str], data_dirs: Sequence[Path], reader: Reader
) -> list[KoreanSentence]:
    """The Korean sentences of tasks' evaluation examples, or of files.

    Every text of an example, and every line of a file, counts as a sentence. A piece has at least
    one character: what is `_MARGIN` shorter than the model's positions fits, even with a mistake.
    """
    longest = reader.source.max_positions or _MAX_CHARACTERS + _MARGIN
    max_characters = min(_MAX_CHARACTERS, longest - _MARGIN)
    options = "--text", "--data-dir"
    splits = (of for name in names for of in texts_of_name(name, data_dirs, options).values())
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
    """Of the content of `probe.json`, where what is not a number is null."""
    return TypeAdapter(Figures).validate_python(record)


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
