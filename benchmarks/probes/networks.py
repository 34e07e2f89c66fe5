"""What the pretrained networks themselves say of words and sentences, before any fine-tuning."""

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModelForMaskedLM, ElectraForPreTraining

from benchmarks.encoder import (
    ModelSource,
    generator_of,
    is_discriminator,
    is_language_model,
    load_network,
)
from benchmarks.finetune.finetune import choose_device
from benchmarks.probes.templates.read import Sentence

Floats = NDArray[np.float64]
_BATCH_SIZE = 64


def open_discriminator(source: ModelSource) -> Any | None:
    """ELECTRA's discriminator with its head; None of another model."""
    return _read(source.path, ElectraForPreTraining) if is_discriminator(source) else None


def open_language_model(source: ModelSource) -> Any | None:
    """The masked language model: the encoder itself, or the generator of a discriminator; None
    where there is none."""
    path = source.path if is_language_model(source) else None
    if is_discriminator(source):
        path = generator_of(source.path)
    return _read(path, AutoModelForMaskedLM) if path else None


def replaced_probabilities(network: Any, tokenizer: Any, sentences: Sequence[Sentence]) -> Floats:
    """(sentences,) the discriminator's mean P(replaced) over the pieces of each word."""
    rows = [_encoded(tokenizer, sentence) for sentence in sentences]
    logits = _outputs(network, tokenizer, [ids for ids, _ in rows])
    return np.array(
        [
            float(torch.sigmoid(row[word]).mean())
            for row, (_, word) in zip(logits, rows, strict=True)
        ]
    )


def word_log_probabilities(network: Any, tokenizer: Any, sentences: Sequence[Sentence]) -> Floats:
    """(sentences,) the sum of log P over the pieces of each word, all of them masked."""
    rows = [_encoded(tokenizer, sentence) for sentence in sentences]
    masked = [_masked(ids, word, tokenizer) for ids, word in rows]
    logits = _outputs(network, tokenizer, masked)
    return np.array(
        [
            _log_probability(row[word], [ids[place] for place in word])
            for row, (ids, word) in zip(logits, rows, strict=True)
        ]
    )


def pair_scores(network: Any, tokenizer: Any, pairs: Sequence[tuple[str, str]]) -> Floats:
    """(pairs, 2) log P of the pieces that both texts of a pair share, each masked in turn, given
    the rest of its own text (Nangia et al. 2020, CrowS-Pairs)."""
    scores = np.zeros((len(pairs), 2))
    for number, pair in enumerate(pairs):
        both = [tokenizer(text, truncation=True, **_limit(tokenizer))["input_ids"] for text in pair]
        matcher = SequenceMatcher(a=both[0], b=both[1], autojunk=False)
        blocks = matcher.get_matching_blocks()
        for side, ids in enumerate(both):
            places = [block[side] + step for block in blocks for step in range(block.size)]
            places = [place for place in places if ids[place] not in tokenizer.all_special_ids]
            masked = [_masked(ids, [place], tokenizer) for place in places]
            logits = _outputs(network, tokenizer, masked)
            scores[number, side] = sum(
                _log_probability(row[[place]], [ids[place]])
                for row, place in zip(logits, places, strict=True)
            )
    return scores


def _read(path: str, kind: Any) -> Any:
    return load_network(path, kind).to(choose_device("auto"))


def _limit(tokenizer: Any) -> dict[str, int]:
    return {"max_length": min(tokenizer.model_max_length, 512)}


def _encoded(tokenizer: Any, sentence: Sentence) -> tuple[list[int], list[int]]:
    """Ids, and the places of the pieces of the word."""
    row = tokenizer(sentence.text, return_offsets_mapping=True)
    places = [
        place
        for place, (start, end) in enumerate(row["offset_mapping"])
        if start < min(end, sentence.end) and end > sentence.start
    ]
    return row["input_ids"], places


def _masked(ids: Sequence[int], places: Sequence[int], tokenizer: Any) -> list[int]:
    masked = list(ids)
    for place in places:
        masked[place] = tokenizer.mask_token_id
    return masked


def _log_probability(logits: torch.Tensor, ids: Sequence[int]) -> float:
    """Of ids at places with these logits (places, vocabulary)."""
    found = torch.log_softmax(logits.double(), dim=-1)
    return float(found[torch.arange(len(ids)), torch.tensor(ids)].sum())


def _outputs(network: Any, tokenizer: Any, rows: Sequence[Sequence[int]]) -> Iterator[torch.Tensor]:
    """The logits of each row, (T,) or (T, vocabulary), with its padding behind it."""
    for start in range(0, len(rows), _BATCH_SIZE):
        batch = tokenizer.pad(
            {"input_ids": [list(row) for row in rows[start : start + _BATCH_SIZE]]},
            return_tensors="pt",
        ).to(network.device)
        with torch.inference_mode():
            yield from network(**batch).logits.cpu()
