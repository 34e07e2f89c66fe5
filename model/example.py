"""A sentence with one word replaced, as the exported discriminator sees it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, ElectraForPreTraining

from electrify.config import RunConfig
from electrify.config_pretrain import PretrainConfig
from electrify.stages import output_dir

EXAMPLE = "example.json"
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


def gives_probabilities(config: PretrainConfig) -> bool:
    """Whether the sigmoid of the exported logit is the probability that a token was replaced.

    Electric's logit is an energy, a probability only together with the noise.
    """
    return config.has_detection_head and config.objective != "electric"


@torch.no_grad()
def mark_example(folder: Path, language: str) -> dict[str, Any]:
    """The example, each token with the probability of being replaced.

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


def read_example(config: RunConfig) -> Mapping[str, Any] | None:
    """The example of an exported run; None where its objective detects no replaced tokens."""
    path = output_dir(config) / "export" / EXAMPLE
    if not path.exists():
        return None
    example: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return example


def _changed_span(before: str, after: str) -> tuple[int, int]:
    """Where `after` differs from `before`, word by word: [start, stop) in characters."""
    old, new = before.split(" "), after.split(" ")
    index = next(i for i, (a, b) in enumerate(zip(old, new, strict=True)) if a != b)
    start = len(" ".join(new[:index])) + (1 if index else 0)
    return start, start + len(new[index])
