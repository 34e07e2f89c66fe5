"""`electrify probe`: which planted mistakes a network finds, and what probes read in its layers."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.analysis.korean import KoreanSentence, analyse, korean_sentences
from benchmarks.analysis.layers import ProbeExample, examples_of, hidden_states, probe_layers
from benchmarks.analysis.mistakes import detectors_of, mistake_figures
from benchmarks.analysis.plant import KINDS, plant_evenly, words_by_form
from benchmarks.analysis.reader import Reader, open_reader
from benchmarks.analysis.report import (
    MODEL,
    RANDOM_INIT,
    Figures,
    LayerFigure,
    sections_of,
)
from benchmarks.encoder import load_encoder
from benchmarks.results.run_folder import PROBE
from benchmarks.results.table import add_parts, markdown_parts, markdown_text
from benchmarks.tasks.texts import texts_of_name
from electrify.config.evaluate import Role
from electrify.page.page import Page
from electrify.stage.folder import write_json, write_text
from electrify.system.machine import versions
from electrify.system.outcome import UserError
from electrify.system.progress import log

_MAX_CHARACTERS, _MARGIN = 120, 8


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
    sentences = held_out(texts, data_dirs, reader)
    detectors = detectors_of(reader, corpus)
    words = words_by_form(sentences)
    planted = {
        kind: of
        for kind in KINDS
        if (of := plant_evenly(kind, sentences, words, num_mistakes, seed))
    }
    mistakes = mistake_figures(reader, detectors, planted) if planted else []
    texts_cut = {text.text: text for text in reader.cut([s.text for s in sentences])}
    examples = examples_of(sentences, texts_cut, num_examples, seed)
    layers = _probe_layers(reader, examples, range(num_seeds)) if examples else []
    figures = Figures(model, tuple(texts), len(sentences), versions(), mistakes, layers)
    # what is not a number is null
    record = json.loads(json.dumps(asdict(figures)), parse_constant=lambda constant: None)
    title = f"What the network finds and knows: {model}"
    page, markdown = Page(title), [f"# {markdown_text(title)}"]
    for heading, parts in sections_of(figures).items():
        page.heading(heading)
        add_parts(page, parts)
        markdown += [f"# {heading}", *markdown_parts(parts)]
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / f"{PROBE}.json", record)
    write_text(folder / f"{PROBE}.md", "\n\n".join(markdown) + "\n")
    page.write(folder / f"{PROBE}.html")
    return folder / f"{PROBE}.html"


def held_out(
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


def _probe_layers(
    reader: Reader, examples: Mapping[str, Sequence[ProbeExample]], seeds: Sequence[int]
) -> list[LayerFigure]:
    """Of the model, and of the same network with random initialisation."""
    figures: list[LayerFigure] = []
    roles: dict[str, Role] = {MODEL: "pretrained", RANDOM_INIT: "random-init"}
    for name, role in roles.items():
        log(f"probe: layers of {name}")
        encoder = load_encoder(reader.source, role, seed=0).eval().to(reader.device)
        for kind, of_kind in examples.items():
            states = hidden_states(reader, encoder, of_kind)
            figures += probe_layers(name, kind, states, of_kind, seeds)
    return figures
