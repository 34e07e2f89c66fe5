"""How suspicious each word of a text is to a network or to counts of its pieces.

A word is as suspicious as its most suspicious piece.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import AutoModelForMaskedLM, ElectraForPreTraining

from benchmarks.encoder import (
    ModelSource,
    generator_of,
    is_discriminator,
    is_language_model,
    load_network,
    open_model,
)
from benchmarks.finetune.finetune import choose_device
from benchmarks.korean.morphemes import word_spans
from benchmarks.metrics.weighted import Floats
from benchmarks.proofreading.bigram import Bigrams, Ids
from electrify.system.outcome import UserError
from electrify.system.progress import Progress

_BATCH_TOKENS = 4096
MASKED_LM: Any = AutoModelForMaskedLM


@dataclass(frozen=True)
class Pieces:
    """A text as the tokenizer cuts it.

    `ids` (T,) have the special ones; `word_of` (T,) is the position of each piece's word, -1 of a
    special one; `spans` (T,) are characters.
    """

    ids: Ids
    word_of: Ids
    spans: Sequence[tuple[int, int]]


# of texts: the suspicion of each piece, (T,); what it gives special ones does not count
Detector = Callable[[Sequence[Pieces]], list[Floats]]


def cut(tokenizer: Any, texts: Sequence[str]) -> list[Pieces]:
    """The pieces of each text; `ValueError` for a tokenizer that does not say where they stand."""
    if not tokenizer.is_fast:
        raise UserError(
            f"{tokenizer.name_or_path} has a tokenizer in Python: it does not say where a piece "
            "stands in the text; give a model with tokenizer.json"
        )
    encoded = tokenizer(list(texts), return_offsets_mapping=True, return_special_tokens_mask=True)
    return [
        _pieces(text, *columns)
        for text, *columns in zip(
            texts,
            encoded["input_ids"],
            encoded["offset_mapping"],
            encoded["special_tokens_mask"],
            strict=True,
        )
    ]


def _pieces(
    text: str, ids: Sequence[int], spans: Sequence[tuple[int, int]], special: Sequence[int]
) -> Pieces:
    word_at = np.full(len(text), -1)
    for number, (start, end) in enumerate(word_spans(text)):
        word_at[start:end] = number
    # by its last character: the first one may be the space before the word
    word_of = [
        -1 if is_special or end <= start else word_at[end - 1]
        for (start, end), is_special in zip(spans, special, strict=True)
    ]
    return Pieces(np.array(ids), np.array(word_of), spans)


def by_word(pieces: Pieces, scores: Floats, num_words: int) -> Floats:
    """The highest score of each word's pieces; the lowest of all for a word without one."""
    words = np.full(num_words, scores.min())
    is_word = pieces.word_of >= 0
    np.maximum.at(words, pieces.word_of[is_word], scores[is_word])
    return words


def read_models(model: str, generator: str | None) -> Mapping[str, ModelSource]:
    """The encoder, and the discriminator and the generator where their heads are there.

    `model` is a run or an export with the folder `discriminator`, or a model of `transformers`,
    which is one of both or neither. Without a name the generator is the discriminator's.
    """
    folders = [Path(model, folder, "discriminator") for folder in ("", "export")]
    path = next((str(folder) for folder in folders if folder.is_dir()), model)
    generator = generator or generator_of(path)
    found = {"encoder": open_model(path)}
    for source in (found["encoder"], *([open_model(generator)] if generator else [])):
        if is_discriminator(source):
            found.setdefault("discriminator", source)
        elif is_language_model(source):
            found["generator"] = source
    return found


def check_heads(models: Mapping[str, ModelSource]) -> None:
    """`ValueError` where there is no network that could find a mistake."""
    if len(models) == 1:
        raise UserError(
            f"{models['encoder'].path} has neither a discriminator (ElectraForPreTraining) nor a "
            "masked language model (...ForMaskedLM); give a model with one of these heads"
        )


def discriminator(source: ModelSource) -> Detector:
    """The logit that a piece was replaced."""
    network = load(source, ElectraForPreTraining)
    pad = source.tokenizer.pad_token_id

    @torch.inference_mode()
    def score(texts: Sequence[Pieces]) -> list[Floats]:
        scores: list[Floats] = [np.empty(0)] * len(texts)
        for batch in batches([len(pieces.ids) for pieces in texts]):
            ids, mask = padded([texts[i].ids for i in batch], pad, network.device)
            logits = network(input_ids=ids, attention_mask=mask).logits.cpu().double().numpy()
            for row, i in enumerate(batch):
                scores[i] = logits[row, : len(texts[i].ids)]
        return scores

    return score


def pseudo_likelihood(source: ModelSource) -> Detector:
    """-log p of each piece where it alone is masked (Salazar et al. 2020)."""
    network = load(source, MASKED_LM)
    tokenizer = source.tokenizer

    @torch.inference_mode()
    def score(texts: Sequence[Pieces]) -> list[Floats]:
        scores = [np.zeros(len(pieces.ids)) for pieces in texts]
        masked = [
            (i, t) for i, pieces in enumerate(texts) for t in np.flatnonzero(pieces.word_of + 1)
        ]
        with Progress("pseudo-likelihood", len(masked), "pieces") as progress:
            for batch in batches([len(texts[i].ids) for i, _ in masked]):
                chosen = [masked[number] for number in batch]
                of_texts = [texts[i].ids for i, _ in chosen]
                ids, mask = padded(of_texts, tokenizer.pad_token_id, network.device)
                rows = torch.arange(len(chosen), device=ids.device)
                places = torch.tensor([t for _, t in chosen], device=ids.device)
                true = ids[rows, places]
                ids[rows, places] = tokenizer.mask_token_id
                logits = logits_at(network, ids, mask, places)
                losses = torch.nn.functional.cross_entropy(logits, true, reduction="none")
                for (i, t), loss in zip(chosen, losses.tolist(), strict=True):
                    scores[i][t] = loss
                progress.update(len(chosen))
        return scores

    return score


def logits_at(network: Any, ids: Tensor, mask: Tensor, places: Tensor) -> Tensor:
    """Logits (B, V) of a masked language model at one place (B,) of each row.

    Its head sees this place alone: over a whole row it costs more than a small network.
    """

    def keep(_module: object, _inputs: object, output: Any) -> Any:
        rows = torch.arange(len(places), device=places.device)
        output.last_hidden_state = output.last_hidden_state[rows, places].unsqueeze(1)
        return output

    handle = network.base_model.register_forward_hook(keep)
    try:
        logits: Tensor = network(input_ids=ids, attention_mask=mask).logits[:, 0]
    finally:
        handle.remove()
    return logits


def bigram(counts: Bigrams) -> Detector:
    """-log p of a piece after the piece before it."""
    return lambda texts: [np.concatenate([[0.0], counts.surprisals(p.ids)]) for p in texts]


def rarity(counts: Bigrams) -> Detector:
    """How rare a piece is, whatever stands around it."""
    return lambda texts: [np.concatenate([[0.0], counts.rarities(p.ids)]) for p in texts]


def load(source: ModelSource, kind: Any) -> Any:
    """The network with its head, on the device; `ValueError` if the folder lacks weights."""
    return load_network(source.path, kind).to(choose_device("auto"))


def batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Positions of rows of about the same length, 4,096 tokens at most or one row at a time."""
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    batch: list[int] = []
    for here, after in pairwise([*order, None]):
        assert here is not None
        batch.append(here)
        if after is None or lengths[after] * (len(batch) + 1) > _BATCH_TOKENS:
            yield batch
            batch = []


def padded(rows: Sequence[Ids], pad: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Ids (B, T) and attention mask (B, T)."""
    length = max(map(len, rows))
    ids, mask = torch.full((len(rows), length), pad), torch.zeros(len(rows), length).long()
    for number, row in enumerate(rows):
        ids[number, : len(row)] = torch.from_numpy(row)
        mask[number, : len(row)] = 1
    return ids.to(device), mask.to(device)
