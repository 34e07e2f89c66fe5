"""`electrify probe`: which planted mistakes a network finds, and what probes read in its layers."""

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.analysis.korean import KoreanSentence, analyse, korean_sentences
from benchmarks.analysis.layers import (
    certainty,
    examples_of,
    hidden_states,
    probe_layers,
    replace_pieces,
)
from benchmarks.analysis.mistakes import detectors_of, mistake_figures
from benchmarks.analysis.plant import KINDS, plant_evenly, words_by_form
from benchmarks.analysis.reader import Reader, check_vocabulary, open_reader
from benchmarks.analysis.report import (
    MODEL,
    RANDOM_INIT,
    Certainty,
    Figures,
    LayerFigure,
    blocks_of,
)
from benchmarks.encoder import load_encoder
from benchmarks.results.run_folder import PROBE
from benchmarks.results.table import markdown_text
from benchmarks.tasks.texts import texts_of_name
from electrify.config.evaluate import Role
from electrify.page.page import Page
from electrify.stage.folder import write_json, write_text
from electrify.stage.plan import checkpoint_step, checkpoints
from electrify.stage.provenance import versions
from electrify.system.outcome import UserError
from electrify.system.progress import log

_MAX_CHARACTERS, _MARGIN = 120, 8
Export = Callable[[Path, Path], None]  # checkpoint, folder to write


@dataclass(frozen=True)
class ProbeSizes:
    """How much is measured, at most."""

    mistakes: int  # sentences with a mistake of each kind
    examples: int  # of each property that probes are asked for
    sentences: int  # in which pieces are replaced
    seeds: int  # of probes: other training examples and control labels


def probe(
    model: str,
    generator: str | None,
    texts: Sequence[str],
    data_dirs: Sequence[Path],
    corpus: Sequence[Path],
    steps: Sequence[str],
    sizes: ProbeSizes,
    seed: int,
    output: Path | None,
    export: Export,
) -> Path:
    """Write figures, a page and Markdown into `output`, by default into the run's folder `probe`.

    `texts` names tasks or files with a sentence a line, `corpus` documents that models of counts
    learn from, `steps` networks of earlier steps (`open_steps`). Returns the page.
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
        if (of := plant_evenly(kind, sentences, words, sizes.mistakes, seed))
    }
    mistakes = mistake_figures(reader, detectors, planted) if planted else []
    with open_steps(model, steps, export) as earlier:
        layers, sure = _probe_networks(reader, earlier, sentences, sizes, seed)
    sampled_by = "generator" if reader.generator else "text's own pieces"
    figures = Figures(
        model, tuple(texts), len(sentences), sampled_by, versions(), mistakes, layers, sure
    )
    # what is not a number is null
    record = json.loads(json.dumps(asdict(figures)), parse_constant=lambda constant: None)
    title = f"What the network finds and knows: {model}"
    page, markdown = Page(title), [f"# {markdown_text(title)}"]
    for heading, blocks in blocks_of(figures).items():
        page.heading(heading)
        markdown += [f"# {heading}", *(block.markdown for block in blocks if block.markdown)]
        for block in blocks:
            block.add(page)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / f"{PROBE}.json", record)
    write_text(folder / f"{PROBE}.md", "\n\n".join(markdown) + "\n")
    page.write(folder / f"{PROBE}.html")
    return folder / f"{PROBE}.html"


def held_out(
    names: Sequence[str], data_dirs: Sequence[Path], reader: Reader
) -> list[KoreanSentence]:
    """The Korean sentences of tasks' evaluation examples, or of files; `ValueError` for none.

    Every text of an example, and every line of a file, counts as a sentence. A piece has at least
    one character: what is `_MARGIN` shorter than the model's positions fits, even with a mistake.
    """
    longest = reader.source.max_positions or _MAX_CHARACTERS + _MARGIN
    max_characters = min(_MAX_CHARACTERS, longest - _MARGIN)
    rows = (of for name in names for of in texts_of_name(name, data_dirs).values())
    sentences = korean_sentences((text for of in rows for _, text in of), max_characters)
    if not sentences:
        raise UserError(
            f"no Korean sentence of 4 words to {max_characters} characters in {', '.join(names)}: "
            "name a task such as klue-dp, or a file with one sentence a line"
        )
    return analyse(sentences)


@contextmanager
def open_steps(model: str, named: Sequence[str], export: Export) -> Iterator[dict[str, Reader]]:
    """Networks by step.

    `named` are STEP=FOLDER, each an exported folder or a checkpoint of a run, or "all" for those
    that the run kept. Checkpoints are exported into a folder that is gone afterwards. Raises
    `ValueError` for another form.
    """
    folders: dict[int, Path] = {}
    for text in named:
        step, _, folder = text.partition("=")
        if text == "all":
            run = Path(model)
            kept = checkpoints(run / "pretrain") or checkpoints(run / "pretrain.partial")
            if not kept:
                raise UserError(f"no checkpoint in {model}; name them: --checkpoint STEP=FOLDER")
            folders |= {checkpoint_step(path): path for path in kept}
        elif step.isdecimal() and folder:
            folders[int(step)] = Path(folder)
        else:
            raise UserError(
                f"--checkpoint {text}: give STEP=FOLDER, such as 6000=out/early, or all"
            )
    with tempfile.TemporaryDirectory() as scratch:
        for step_number, place in folders.items():
            if (place / "state.json").is_file():
                folders[step_number] = Path(scratch, str(step_number))
                export(place, folders[step_number])
        yield {str(n): open_reader(str(of), device="auto") for n, of in sorted(folders.items())}


def _probe_networks(
    reader: Reader,
    earlier: dict[str, Reader],
    sentences: Sequence[KoreanSentence],
    sizes: ProbeSizes,
    seed: int,
) -> tuple[list[LayerFigure], list[Certainty]]:
    """The model, the same network with random initialisation, and those of earlier steps."""
    own = [sentence.text for sentence in sentences]
    texts = dict(zip(own, reader.cut(own), strict=True))
    examples = examples_of(sentences, texts, sizes.examples, seed)
    every = [example for of in examples.values() for example in of]
    more = list(dict.fromkeys(e.text for e in every if e.text not in texts))
    texts |= dict(zip(more, reader.cut(more), strict=True)) if more else {}
    replaced = replace_pieces(reader, sentences, texts, sizes.sentences, seed)
    networks: list[tuple[str, Reader, Role]] = [
        (MODEL, reader, "pretrained"),
        (RANDOM_INIT, reader, "random-init"),
        *((step, network, "pretrained") for step, network in earlier.items()),
    ]
    layers: list[LayerFigure] = []
    sure: list[Certainty] = []
    for name, network, variant in networks:
        log(f"probe: {name}")
        check_vocabulary(reader.source, network.source)
        encoder = load_encoder(network.source, variant, seed=0).eval().to(reader.device)
        states, start = hidden_states(reader, encoder, texts, every), 0
        for kind, of_kind in examples.items():
            part = states[:, start : start + len(of_kind)]
            layers += probe_layers(name, kind, part, of_kind, range(sizes.seeds))
            start += len(of_kind)
        if network.discriminator is not None and variant == "pretrained":
            sure += certainty(name, network, replaced)
    return layers, sure
