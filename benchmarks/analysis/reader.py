"""What ELECTRA's two networks say of a text of any length; every analysis reads by this.

A text with more pieces than the model has positions is read in windows that overlap by half. Each
piece is judged in the window that shows most of its surroundings.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import AutoModelForMaskedLM

from benchmarks.encoder import (
    ModelSource,
    generator_of,
    is_discriminator,
    load_discriminator,
    load_network,
    open_model,
    replaced_logits,
)
from benchmarks.model_name import encoder_path
from electrify.system.outcome import UserError

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]
_MASKED_LM: Any = AutoModelForMaskedLM


@dataclass(frozen=True)
class TokenizedText:
    """A text in NFC and its N pieces, special tokens left out.

    `ids` are (N,), `spans` the characters [start, stop) of each piece, `words` the number of the
    word that the tokenizer cut it from.
    """

    text: str
    ids: Ids
    spans: Sequence[tuple[int, int]]
    words: Sequence[int]


@dataclass(frozen=True)
class TextWindow:
    """The pieces of a text that a network reads at once, and those of them that it judges."""

    shown: range
    judged: range


def windows_of(num_pieces: int, size: int) -> list[TextWindow]:
    """Windows of `size` pieces that overlap by half; each piece is judged in one of them.

    The first half of an overlap belongs to the earlier window.
    """
    overlap = size // 2
    step, boundary = size - overlap, overlap // 2
    last = max(0, -((size - num_pieces) // step))
    return [
        TextWindow(
            range(k * step, min(k * step + size, num_pieces)),
            range(
                k and k * step + boundary, num_pieces if k == last else (k + 1) * step + boundary
            ),
        )
        for k in range(last + 1)
    ]


@dataclass(frozen=True)
class Reader:
    """A tokenizer, and the networks that read its ids."""

    source: ModelSource
    discriminator: Any  # tells replaced tokens
    generator: Any  # a masked language model or None
    before: tuple[int, ...]  # the special tokens around a text
    after: tuple[int, ...]

    @property
    def max_pieces(self) -> int | None:
        """How many pieces a window holds; None if there is no limit."""
        longest = self.source.max_positions
        return longest and longest - len(self.before) - len(self.after)

    def cut(self, text: str) -> TokenizedText:
        """Its pieces, in NFC: `tokenizers` gives of letters that it composes the first part
        alone."""
        text = unicodedata.normalize("NFC", text)
        encoded = self.source.tokenizer(
            text, add_special_tokens=False, return_offsets_mapping=True, verbose=False
        )
        ids = np.array(encoded["input_ids"], np.int64)
        return TokenizedText(text, ids, encoded["offset_mapping"], encoded.word_ids())

    def windows(self, num_pieces: int) -> list[TextWindow]:
        return windows_of(num_pieces, self.max_pieces or max(1, num_pieces))

    def row(self, ids: Ids, window: TextWindow) -> Ids:
        """What a network reads of a text: the pieces of the window between special tokens."""
        return np.array([*self.before, *ids[window.shown.start : window.shown.stop], *self.after])

    def column(self, piece: int, window: TextWindow) -> int:
        return piece - window.shown.start + len(self.before)

    def window_of(self, piece: int, num_pieces: int) -> TextWindow:
        return next(each for each in self.windows(num_pieces) if piece in each.judged)

    @torch.inference_mode()
    def replaced_logits(self, ids: Ids) -> Floats:
        """The discriminator's logits that each piece of a text was replaced, (N,)."""
        logits = np.empty(len(ids))
        for window in self.windows(len(ids)):
            outputs = self.discriminator(**self._inputs(self.row(ids, window))).logits
            judged, start = window.judged, self.column(window.judged.start, window)
            of_row = replaced_logits(outputs)[0].numpy()
            logits[judged.start : judged.stop] = of_row[start : start + len(judged)]
        return logits

    @torch.inference_mode()
    def masked_logits(self, ids: Ids, pieces: Sequence[int]) -> Tensor:
        """The generator's logits (M, V) of M pieces of a text, all [MASK] at once. One window must
        show them together."""
        window = self.window_of(pieces[0], len(ids))
        assert all(piece in window.shown for piece in pieces)
        row, columns = self.row(ids, window), [self.column(piece, window) for piece in pieces]
        row[columns] = self.source.tokenizer.mask_token_id
        logits: Tensor = self.generator(**self._inputs(row)).logits[0, columns]
        return logits

    def _inputs(self, row: Ids) -> dict[str, Tensor]:
        ids = torch.from_numpy(row)[None]
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def open_reader(model: str, generator: str | None = None) -> Reader:
    """The networks of a run, an export, a folder or a hub name; `ValueError` for a model without a
    discriminator.

    Without a name the generator is the one beside the discriminator.
    """
    path = encoder_path(model)
    source = open_model(path)
    tokenizer = source.tokenizer
    if not is_discriminator(source):
        raise UserError(f"{path} has no discriminator: give a folder such as export/discriminator")
    if not tokenizer.is_fast:
        raise UserError(f"{path}: save its tokenizer as tokenizer.json, which gives positions")
    if tokenizer.mask_token_id is None:
        raise UserError(f"{path}: the tokenizer has no mask token; save one with it (mask_token)")
    generator = generator or generator_of(path)
    second = open_model(generator) if generator else None
    if second and second.tokenizer.get_vocab() != tokenizer.get_vocab():
        raise UserError(f"{generator} has another vocabulary than {path}: give networks of one")
    encoded = tokenizer("a", return_special_tokens_mask=True)
    marks = encoded["special_tokens_mask"]
    first, last = (order.index(0) for order in (marks, marks[::-1]))
    return Reader(
        source,
        load_discriminator(source),
        load_network(second, _MASKED_LM) if second else None,
        tuple(encoded["input_ids"][:first]),
        tuple(encoded["input_ids"][len(marks) - last :]),
    )
