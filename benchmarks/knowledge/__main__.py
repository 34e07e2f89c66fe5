"""What an encoder knows: probes by layer, and where its discriminator is sure.

python -m benchmarks.knowledge MODEL --text NAME ... [--checkpoints [STEP=DIR ...]] ...
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from benchmarks.encoder import ModelSource, is_discriminator, load_encoder
from benchmarks.finetune.finetune import choose_device
from benchmarks.knowledge.certainty import certainty, corrupt
from benchmarks.knowledge.checkpoints import earlier
from benchmarks.knowledge.probing import Probe, probe_layers, states_of
from benchmarks.knowledge.properties import Example, examples_of
from benchmarks.pages.knowledge import MODEL, UNTRAINED, add_knowledge, knowledge_lines
from benchmarks.pages.standalone import figures_parser, write_figures
from benchmarks.proofreading.detectors import Pieces, cut, read_models
from benchmarks.proofreading.texts import held_out
from benchmarks.results.run_folder import KNOWLEDGE, Json
from electrify.config.evaluate import Role
from electrify.stage.provenance import versions
from electrify.system.outcome import UserError
from electrify.system.progress import log


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, write JSON, Markdown and HTML; the exit status: 0 done, 1 refused."""
    options, title = _parser().parse_args(arguments), "What the network knows"
    return write_figures(options, KNOWLEDGE, title, measure, add_knowledge, knowledge_lines)


def measure(options: argparse.Namespace) -> Json:
    """Probe the model, the same network with random weights, and the networks at earlier steps."""
    models = read_models(options.model, options.generator)
    source = models["encoder"]
    sentences = held_out(options.text, options.data_dir, source.max_positions)
    pieces = _cut(source, [sentence.text for sentence in sentences])
    examples = examples_of(sentences, pieces, options.num_examples, options.seed)
    pieces |= _cut(source, [e.text for of in examples.values() for e in of if e.text not in pieces])
    generator = models.get("generator")
    if generator:
        _check_same_pieces(source, generator)
    corrupted = corrupt(sentences, pieces, generator, options.num_sentences, options.seed)
    seeds = range(options.num_seeds)
    probes: list[Json] = []
    sure: list[Json] = []
    with earlier(options.model, options.checkpoints) as networks:
        stages: list[tuple[str, ModelSource, Role]] = [
            (MODEL, source, "pretrained"),
            (UNTRAINED, source, "random-init"),
            *((str(step), network, "pretrained") for step, network in networks.items()),
        ]
        for stage, network, variant in stages:
            log(f"knowledge: {stage}")
            _check_same_pieces(source, network)
            found = _probe(network, variant, pieces, examples, seeds)
            probes += [{"network": stage, **asdict(probe)} for probe in found]
            if is_discriminator(network) and variant == "pretrained":
                groups = certainty(network, corrupted)
                sure += [{"network": stage, **asdict(group)} for group in groups]
    return {
        "model": options.model,
        "text": options.text,
        "num_sentences": len(sentences),
        "num_seeds": options.num_seeds,
        "sampled_by": "generator" if generator else "the text's own pieces",
        "versions": versions(),
        "probes": probes,
        "certainty": sure,
    }


def _check_same_pieces(source: ModelSource, other: ModelSource) -> None:
    if other.tokenizer.get_vocab() != source.tokenizer.get_vocab():
        raise UserError(
            f"{other.name} has another vocabulary than {source.name}: give networks with the same"
        )


def _cut(source: ModelSource, texts: Sequence[str]) -> dict[str, Pieces]:
    return dict(zip(texts, cut(source.tokenizer, texts), strict=True)) if texts else {}


def _probe(
    source: ModelSource,
    variant: Role,
    pieces: Mapping[str, Pieces],
    examples: Mapping[str, Sequence[Example]],
    seeds: Sequence[int],
) -> list[Probe]:
    """Every property in every layer."""
    everything = [example for found in examples.values() for example in found]
    encoder = load_encoder(source, variant, seed=0).eval().to(choose_device("auto"))
    states = states_of(encoder, source.tokenizer.pad_token_id, pieces, everything)
    probes: list[Probe] = []
    start = 0
    for name, found in examples.items():
        of_property = states[:, start : start + len(found)]
        start += len(found)
        probes += probe_layers(name, of_property, found, seeds)
    return probes


def _parser() -> argparse.ArgumentParser:
    parser = figures_parser(KNOWLEDGE)
    add = parser.add_argument
    steps = "networks at earlier steps; with no name, those that the run kept"
    add("--checkpoints", metavar="STEP=DIR", nargs="*", help=steps)
    examples = "of each property, at most"
    add("--examples", metavar="N", type=int, default=2000, dest="num_examples", help=examples)
    sentences = "in which pieces are replaced, at most"
    add("--sentences", metavar="N", type=int, default=1000, dest="num_sentences", help=sentences)
    seeds = "of probes: other training examples and control labels"
    add("--seeds", metavar="N", type=int, default=5, dest="num_seeds", help=seeds)
    return parser


if __name__ == "__main__":
    sys.exit(main())
