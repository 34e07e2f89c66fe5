"""The last checkpoint as `transformers` folders, proven equal to the model in memory."""

import copy
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import (
    AutoTokenizer,
    ElectraConfig,
    ElectraForMaskedLM,
    ElectraForPreTraining,
    PreTrainedModel,
)
from transformers.utils.logging import disable_progress_bar

from electrify.artifacts import run_stage, write_json
from electrify.config import RunConfig
from electrify.progress import log, warn
from electrify.stages import export_stage, output_dir
from model.card import write_cards
from model.checkpoint import load_model, newest
from model.data import SequenceData
from model.electra import ElectraPretrainer
from model.layers import EncoderShape

MAX_LOGIT_DIFFERENCE = 1e-5
# untyped in transformers
_disable_progress_bar: Callable[[], None] = disable_progress_bar

# A word that does not belong, in a sentence of the corpus' main language.
EXAMPLES = {
    "ko": (
        "봄이 오면 공원에 꽃이 피고 사람들이 산책을 나온다.",
        "봄이 오면 공원에 금리가 피고 사람들이 산책을 나온다.",
    ),
    "en": (
        "In spring the flowers open and people walk in the park.",
        "In spring the taxes open and people walk in the park.",
    ),
}

_EMBEDDINGS = {
    "word.": "word_embeddings.",
    "position.": "position_embeddings.",
    "token_type.": "token_type_embeddings.",
    "norm.": "LayerNorm.",
}
_LAYER = {
    "query.": "attention.self.query.",
    "key.": "attention.self.key.",
    "value.": "attention.self.value.",
    "attention_output.": "attention.output.dense.",
    "attention_norm.": "attention.output.LayerNorm.",
    "intermediate.": "intermediate.dense.",
    "output.": "output.dense.",
    "output_norm.": "output.LayerNorm.",
}
_HEADS = {
    "generator_head.dense.": "generator_predictions.dense.",
    "generator_head.norm.": "generator_predictions.LayerNorm.",
    "generator_head.bias": "generator_lm_head.bias",
    "discriminator_head.dense.": "discriminator_predictions.dense.",
    "discriminator_head.prediction.": "discriminator_predictions.dense_prediction.",
}


def export(config: RunConfig, overwrite: bool = False) -> None:
    """Write `export/{discriminator,generator}` from the newest checkpoint and check them."""
    run_stage(export_stage(config), lambda folder: _export(config, folder), overwrite)


def _export(config: RunConfig, folder: Path) -> Mapping[str, Any]:
    _disable_progress_bar()  # a bar for each file that is written or read back in no time
    run = output_dir(config)
    data = SequenceData.from_config(run / "shards", "valid", config.encode, config.seed)
    model = ElectraPretrainer(config.pretrain, data.vocab_size, data.special).eval()
    checkpoint = newest(run / "pretrain")
    load_model(checkpoint, model)
    tokenizer = AutoTokenizer.from_pretrained(run / "vocab")
    tokenizer.model_max_length = config.pretrain.max_position_embeddings
    for kind in ("discriminator", "generator"):
        to_transformers(model, kind).save_pretrained(folder / kind)
        tokenizer.save_pretrained(folder / kind)
        # the very file that encoded the corpus, whatever save_pretrained made of it
        shutil.copyfile(run / "vocab" / "tokenizer.json", folder / kind / "tokenizer.json")
        shutil.copyfile(run / "vocab" / "vocab.txt", folder / kind / "vocab.txt")
    differences = verify(model, folder, data)
    example = mark_example(folder / "discriminator", config.clean.sources[0].language)
    write_json(folder / "example.json", example)
    write_cards(config, folder, differences)
    _warn_of_untrained_positions(config)
    return {"checkpoint": checkpoint.name, "max_logit_difference": differences}


def to_transformers(model: ElectraPretrainer, kind: str) -> PreTrainedModel:
    """The discriminator or the generator as a `transformers` model with the same weights."""
    shape = model.shape if kind == "discriminator" else model.generator_shape
    config = transformers_config(shape, model)
    architecture = ElectraForPreTraining if kind == "discriminator" else ElectraForMaskedLM
    made: PreTrainedModel = architecture(config)
    weights = transformers_names(model.state_dict(), kind)
    if kind == "generator":
        weights["generator_lm_head.weight"] = weights["electra.embeddings.word_embeddings.weight"]
    made.load_state_dict(weights, strict=True)
    made.train(False)
    return made


def transformers_config(shape: EncoderShape, model: ElectraPretrainer) -> ElectraConfig:
    """The `ElectraConfig` of one network."""
    return ElectraConfig(
        vocab_size=shape.vocab_size,
        embedding_size=shape.embedding_size,
        hidden_size=shape.hidden_size,
        num_hidden_layers=shape.num_hidden_layers,
        num_attention_heads=shape.num_attention_heads,
        intermediate_size=shape.intermediate_size,
        max_position_embeddings=shape.max_position_embeddings,
        hidden_dropout_prob=shape.hidden_dropout_prob,
        attention_probs_dropout_prob=shape.attention_probs_dropout_prob,
        layer_norm_eps=shape.layer_norm_eps,
        initializer_range=model.config.initializer_range,
        hidden_act="gelu",
        type_vocab_size=2,
        pad_token_id=model.special.pad,
    )


def transformers_names(state: Mapping[str, Tensor], kind: str) -> dict[str, Tensor]:
    """Our state dict's tensors of one network under `transformers`' names."""
    renamed = {}
    for name, tensor in state.items():
        if name.startswith("embeddings."):
            renamed[f"electra.embeddings.{_swap(name[11:], _EMBEDDINGS)}"] = tensor
        elif name.startswith(f"{kind}.project."):
            renamed[name.replace(f"{kind}.project.", "electra.embeddings_project.")] = tensor
        elif name.startswith(f"{kind}.layers."):
            number, rest = name.removeprefix(f"{kind}.layers.").split(".", 1)
            renamed[f"electra.encoder.layer.{number}.{_swap(rest, _LAYER)}"] = tensor
        elif name.startswith(f"{kind}_head."):
            renamed[_swap(name, _HEADS)] = tensor
    return renamed


def _swap(name: str, table: Mapping[str, str]) -> str:
    for ours, theirs in table.items():
        if name.startswith(ours):
            return theirs + name[len(ours) :]
    raise AssertionError(f"no transformers name for {name}")


@torch.no_grad()
def verify(model: ElectraPretrainer, folder: Path, data: SequenceData) -> dict[str, float]:
    """Largest logit difference between the folders as loaded and the model in memory.

    In double precision, where equal networks differ by nothing: in single precision the order of
    additions alone moves a well-trained discriminator's logits by 6e-5. `ValueError` above 1e-5.
    """
    model = copy.deepcopy(model).double()
    batch = data.batch(0, min(4, data.num_sequences))
    ids, types = batch.input_ids, batch.token_type_ids
    double = torch.float64
    everywhere = torch.arange(ids.shape[1]).expand(ids.shape[0], -1)
    discriminator = ElectraForPreTraining.from_pretrained(folder / "discriminator", dtype=double)
    generator = ElectraForMaskedLM.from_pretrained(folder / "generator", dtype=double)
    pairs = {
        "discriminator": (
            model.discriminate(ids, types),
            discriminator(input_ids=ids, token_type_ids=types).logits,
        ),
        "generator": (
            model.generate(ids, types, everywhere),
            generator(input_ids=ids, token_type_ids=types).logits,
        ),
    }
    differences = {kind: float((a - b).abs().max()) for kind, (a, b) in pairs.items()}
    for kind, difference in differences.items():
        log(f"{kind}: largest logit difference to the trained model {difference:.1e}")
        if difference > MAX_LOGIT_DIFFERENCE:
            raise ValueError(
                f"the exported {kind} differs from the trained one by {difference:.1e} "
                f"(allowed {MAX_LOGIT_DIFFERENCE}): installed transformers may have changed; "
                "pin it as constraints.txt does"
            )
    return differences


@torch.no_grad()
def mark_example(folder: Path, language: str) -> dict[str, Any]:
    """A sentence with one word replaced, each token with the probability of being replaced.

    Read from the exported folder alone, as a user would.
    """
    sentence, corrupted = EXAMPLES.get(language, EXAMPLES["en"])
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = ElectraForPreTraining.from_pretrained(folder)
    encoded = tokenizer(corrupted, return_tensors="pt", return_offsets_mapping=True)
    offsets = encoded.pop("offset_mapping")[0].tolist()
    probabilities = model(**encoded).logits[0].sigmoid().tolist()
    start, stop = _changed_span(sentence, corrupted)
    tokens = tokenizer.convert_ids_to_tokens(encoded["input_ids"][0].tolist())
    marked = [
        {"token": token, "replaced": a < stop and b > start, "probability": round(p, 4)}
        for token, (a, b), p in zip(tokens, offsets, probabilities, strict=True)
    ]
    return {"sentence": sentence, "corrupted": corrupted, "tokens": marked}


def format_example(example: Mapping[str, Any]) -> str:
    """The example as one line for a terminal; the replaced tokens stand in brackets."""
    parts = [
        f"[{t['token']}] {t['probability']:.2f}" if t["replaced"]
        else f"{t['token']} {t['probability']:.2f}"
        for t in example["tokens"][1:-1]
    ]  # fmt: skip
    return "  ".join(parts)


def read_example(config: RunConfig) -> Mapping[str, Any]:
    """The example of an exported run."""
    path = output_dir(config) / "export" / "example.json"
    example: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return example


def _changed_span(before: str, after: str) -> tuple[int, int]:
    """Where `after` differs from `before`, word by word: [start, stop) in characters."""
    old, new = before.split(" "), after.split(" ")
    index = next(i for i, (a, b) in enumerate(zip(old, new, strict=True)) if a != b)
    start = len(" ".join(new[:index])) + (1 if index else 0)
    return start, start + len(new[index])


def _warn_of_untrained_positions(config: RunConfig) -> None:
    length, positions = config.encode.sequence_length, config.pretrain.max_position_embeddings
    if length < positions:
        warn(
            f"positions {length} to {positions - 1} were never trained: fine-tune with sequences "
            f"of at most {length} tokens, or train on with a longer encode.sequence_length"
        )
