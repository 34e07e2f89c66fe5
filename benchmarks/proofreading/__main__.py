"""Korean mistakes planted in held-out text, and who finds them.

python -m benchmarks.proofreading MODEL --text NAME ... [--corpus FILE ...] [--output DIR] ...
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.pages.proofreading import add_proofreading, proofreading_lines
from benchmarks.pages.standalone import figures_parser, write_figures
from benchmarks.proofreading.detectors import (
    Detector,
    bigram,
    check_heads,
    discriminator,
    pseudo_likelihood,
    rarity,
    read_models,
)
from benchmarks.proofreading.measure import judge, rows_of
from benchmarks.proofreading.plant import KINDS, plant_evenly, words_by_form
from benchmarks.proofreading.texts import count_pairs, held_out
from benchmarks.results.run_folder import PROOFREADING, Json
from electrify.stage.provenance import versions
from electrify.system.progress import log


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, write JSON, Markdown and HTML; the exit status: 0 done, 1 refused."""
    options, title = _parser().parse_args(arguments), "Planted mistakes"
    return write_figures(
        options, PROOFREADING, title, measure, add_proofreading, proofreading_lines
    )


def measure(options: argparse.Namespace) -> Json:
    """Plant mistakes, ask every detector, and compare them."""
    models = read_models(options.model, options.generator)
    check_heads(models)
    sentences = held_out(options.text, options.data_dir, models["encoder"].max_positions)
    words = words_by_form(sentences)
    planted = {
        kind: plant_evenly(kind, sentences, words, options.num_sentences, options.seed)
        for kind in KINDS
    }
    planted = {kind: found for kind, found in planted.items() if found}
    detectors: dict[str, tuple[object, Detector]] = {}
    for name, make in (("discriminator", discriminator), ("generator", pseudo_likelihood)):
        if name in models:
            detectors[name] = models[name].tokenizer, make(models[name])
    if options.corpus:
        counts = count_pairs(models["encoder"].tokenizer, options.corpus)
        detectors["bigram"] = models["encoder"].tokenizer, bigram(counts)
        detectors["rarity"] = models["encoder"].tokenizer, rarity(counts)
    texts = [text for found in planted.values() for p in found for text in (p.clean, p.text)]
    scores = {}
    for name, (tokenizer, detector) in detectors.items():
        log(f"proofreading: {name}, {len(texts):,} sentences")
        scores[name] = judge(tokenizer, detector, texts)
    return {
        "model": options.model,
        "text": options.text,
        "num_sentences": len(sentences),
        "seed": options.seed,
        "detectors": list(detectors),
        "versions": versions(),
        "rows": [asdict(row) for row in rows_of(planted, scores)],
    }


def _parser() -> argparse.ArgumentParser:
    parser = figures_parser(PROOFREADING)
    add = parser.add_argument
    corpus = "documents that the bigram model learns from: Parquet, or a text a line"
    add("--corpus", metavar="FILE", nargs="+", type=Path, help=corpus)
    sentences = "of each kind of mistake, at most"
    add("--sentences", metavar="N", type=int, default=500, dest="num_sentences", help=sentences)
    return parser


if __name__ == "__main__":
    sys.exit(main())
