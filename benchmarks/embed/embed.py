"""`electrify embed`: an encoder to a sentence encoder, by contrastive training on pairs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from huggingface_hub import ModelCard, ModelCardData

from benchmarks.embed.pairs import Pair, read_pairs
from benchmarks.embed.sentences import SentenceEncoder, open_sentence_encoder, write_folder
from benchmarks.embed.training import recipe_of, train
from benchmarks.encoder import (
    ModelSource,
    fitting_length,
    open_model,
    quiet_transformers,
)
from benchmarks.finetune.finetune import sampled_examples
from benchmarks.finetune.training import is_out_of_memory
from benchmarks.model_name import encoder_path, pinned
from benchmarks.results.table import Table
from electrify.config.run import EvaluationRun
from electrify.stage.folder import digest_of, write_text
from electrify.stage.plan import CARD, embed_stage
from electrify.stage.run import run_stage
from electrify.system.outcome import UserError
from electrify.system.progress import log, stop_on_signal, warn

MAX_DIFFERENCE = 1e-5  # between embeddings of the folder as read back and those in memory
_VERIFIED_TEXTS = 8
_UNFINISHED = "unfinished.pt"
_USAGE = """\
```
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("PATH_OR_NAME")
embeddings = model.encode(["...", "..."])  # of length 1: a dot product is a cosine
```"""


def embed(config: EvaluationRun, model: str, overwrite: bool = False) -> Path:
    """Train the encoder of `model`, a run, an export, a folder or a hub name, on `embed.pairs`;
    the folder `embed/` of the run, which `SentenceTransformer` reads.

    Raises `ValueError` for sources without pairs and an unreadable model, before any training, and
    `Stopped` when asked to stop: the same command resumes.
    """
    options = config.embed
    if not options.pairs:
        raise UserError(
            "nothing to learn from: give --pairs with a table of the columns anchor and positive, "
            "the folder of a run, or a task such as klue-nli or klue-mrc"
        )
    path = encoder_path(model)
    at, commit = pinned(path)
    sources = {}
    for name in options.pairs:
        pairs = read_pairs(name, config.evaluate.data_dirs)
        pairs = [pairs[n] for n in sampled_examples(len(pairs), options.max_pairs, config.seed)]
        log(f"embed: {len(pairs):,} pairs of {name}")
        sources[name] = pairs
    if sum(map(len, sources.values())) < 2:
        raise UserError("embed.pairs: one pair has no other to be told from; give more pairs")
    stage = embed_stage(config, at, digest_of([list(map(list, of)) for of in sources.values()]))

    def work(partial: Path) -> dict[str, Any]:
        source = open_model(path, commit=commit)
        was_given = "max_sequence_length" in options.model_fields_set
        key = "embed.max_sequence_length"
        length = fitting_length(options.max_sequence_length, source, was_given, key)
        encoder = open_sentence_encoder(
            source, options.device, options.precision, length, options.pooling
        )
        unfinished = partial / _UNFINISHED
        parts = list(sources.values())
        try:
            with stop_on_signal("the training is resumed where it is") as stop:
                num_steps, loss = train(encoder, parts, options, config.seed, unfinished, stop)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            raise UserError(
                f"embed: out of memory with batches of {options.batch_size} pairs of up to "
                f"{length} pieces; lower embed.batch_size or embed.max_sequence_length"
            ) from None
        with quiet_transformers():
            write_folder(encoder, partial)
        counts = {
            "steps": num_steps,
            "loss": loss,
            "pairs": {name: len(pairs) for name, pairs in sources.items()},
            "max_difference": _verify(encoder, partial, next(iter(sources.values()))),
        }
        write_text(partial / CARD, _card(encoder, config, counts, model))
        unfinished.unlink(missing_ok=True)
        return counts

    run_stage(stage, work, overwrite)
    return stage.folder


def _verify(encoder: SentenceEncoder, folder: Path, pairs: Sequence[Pair]) -> float:
    """The largest difference of embeddings to those of the folder as read back."""
    texts = [pair.positive for pair in pairs[:_VERIFIED_TEXTS]]
    device, precision = encoder.device.type, encoder.precision
    written = open_sentence_encoder(open_model(str(folder)), device, precision)
    difference = float(np.abs(written.embed(texts) - encoder.embed(texts)).max())
    if not difference <= MAX_DIFFERENCE:
        raise UserError(
            f"embeddings of {folder} differ from the trained ones by {difference:.1e} (allowed "
            f"{MAX_DIFFERENCE}): installed transformers may have changed; pin it as "
            "constraints.txt does"
        )
    return difference


def _card(
    encoder: SentenceEncoder, config: EvaluationRun, counts: Mapping[str, Any], model: str
) -> str:
    source, options = encoder.source, config.embed
    rate = recipe_of(options, source.config.hidden_size).learning_rate
    metadata = ModelCardData(
        library_name="sentence-transformers",
        pipeline_tag="sentence-similarity",
        base_model=source.path if source.commit else None,
        tags=["sentence-transformers", "feature-extraction", "sentence-similarity"],
        **_licence(source),
    )
    pairs = "; ".join(f"{count:,} of {Path(n).name}" for n, count in counts["pairs"].items())
    rows = [
        ("Encoder", source.path if source.commit else Path(model).name),
        ("Training", f"InfoNCE over the batch, cosines / {options.temperature:g}"),
        ("Pairs", pairs),
        (
            "Steps",
            f"{counts['steps']:,} of {options.batch_size} pairs, {options.num_epochs} epochs",
        ),
        ("Learning rate", f"{rate:g}"),
        ("Loss at the end", f"{counts['loss']:.3f}"),
        ("Seed", config.seed),
        ("Embedding", f"{encoder.pooling} of {source.config.hidden_size} numbers, length 1"),
        ("Longest text", f"{encoder.max_length} tokens; what is behind is not read"),
    ]
    return "\n".join(
        [
            f"---\n{metadata.to_yaml()}\n---\n\n# A sentence encoder\n\n{_USAGE}\n",
            *Table(["", "value"], rows).markdown(),
            "\nThe licence of the encoder and that of the pairs hold for these weights, too.",
            "",
        ]
    )


def _licence(source: ModelSource) -> dict[str, Any]:
    """What the card of the encoder's folder names."""
    card = Path(source.path, CARD)
    if not card.is_file():
        return {}
    try:
        data = ModelCard.load(card, ignore_metadata_errors=True).data
    except Exception as error:  # of YAML
        warn(f"{card} is not read: {error}")
        return {}
    names = ("license", "license_name", "license_link", "language")
    return {name: value for name in names if (value := getattr(data, name, None))}
