"""What ELECTRA's two networks say of a text of any length; every analysis reads by this.

A text with more pieces than the model has positions is read in windows that overlap by half. Each
piece is judged in the window that shows most of its surroundings.
"""

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import AutoModelForMaskedLM

from benchmarks.encoder import (
    ModelSource,
    generator_of,
    is_discriminator,
    is_language_model,
    load_discriminator,
    load_network,
    open_model,
    replaced_logits,
)
from benchmarks.model_name import encoder_path
from benchmarks.training.finetune import choose_device
from electrify.system.outcome import UserError

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]
Inputs = Mapping[str, Tensor]  # `input_ids` and `attention_mask`, (B, T) each
_BATCH_TOKENS = 4096
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
    """A tokenizer, and the networks that read its ids, where there are some."""

    source: ModelSource
    discriminator: Any  # tells replaced tokens; or None
    generator: Any  # a masked language model or None
    before: tuple[int, ...]  # the special tokens around a text
    after: tuple[int, ...]
    device: torch.device

    @property
    def max_pieces(self) -> int | None:
        """How many pieces a window holds; None if there is no limit."""
        longest = self.source.max_positions
        return longest and longest - len(self.before) - len(self.after)

    def cut(self, texts: Sequence[str]) -> list[TokenizedText]:
        """The pieces of each text.

        Texts become NFC: `tokenizers` gives of letters that it composes the first part alone.
        """
        texts = [unicodedata.normalize("NFC", text) for text in texts]
        encoded = self.source.tokenizer(
            texts, add_special_tokens=False, return_offsets_mapping=True, verbose=False
        )
        columns = zip(texts, encoded["input_ids"], encoded["offset_mapping"], strict=True)
        return [
            TokenizedText(text, np.array(ids, np.int64), spans, encoded.word_ids(number))
            for number, (text, ids, spans) in enumerate(columns)
        ]

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
    def replaced_logits(self, texts: Sequence[Ids]) -> list[Floats]:
        """The discriminator's logits that each piece was replaced, (N,) of each text."""
        logits = [np.empty(len(ids)) for ids in texts]
        windows = [(n, window) for n, ids in enumerate(texts) for window in self.windows(len(ids))]
        rows = [self.row(texts[n], window) for n, window in windows]
        for batch in batches(rows):
            outputs = self.discriminator(**self._padded([rows[i] for i in batch])).logits
            for output, i in zip(replaced_logits(outputs).cpu().numpy(), batch, strict=True):
                number, window = windows[i]
                judged, start = window.judged, self.column(window.judged.start, window)
                logits[number][judged.start : judged.stop] = output[start : start + len(judged)]
        return logits

    @torch.inference_mode()
    def masked_logits(self, ids: Ids, pieces: Sequence[int]) -> Tensor:
        """The generator's logits (M, V) of M pieces of a text, all [MASK] at once. One window must
        show them together."""
        window = self.window_of(pieces[0], len(ids))
        assert all(piece in window.shown for piece in pieces)
        row, columns = self.row(ids, window), [self.column(piece, window) for piece in pieces]
        row[columns] = self.source.tokenizer.mask_token_id
        where = torch.zeros(len(pieces), dtype=torch.int64), torch.tensor(columns)
        return logits_at(self.generator, self._padded([row]), *where).cpu()

    def _padded(self, rows: Sequence[Ids]) -> dict[str, Tensor]:
        pad = torch.nn.utils.rnn.pad_sequence
        ids = pad(list(map(torch.from_numpy, rows)), True, self.source.tokenizer.pad_token_id)
        mask = pad([torch.ones(len(row), dtype=torch.int64) for row in rows], True)
        return {"input_ids": ids.to(self.device), "attention_mask": mask.to(self.device)}


def logits_at(network: Any, inputs: Inputs, rows: Tensor, columns: Tensor) -> Tensor:
    """Logits (M, V) of a masked language model at M places of a batch.

    Its head sees these places alone: over whole rows it costs more than a small network. An ONNX
    file is one piece.
    """
    if not isinstance(network, nn.Module):
        return cast(Tensor, network(**inputs).logits[rows, columns])

    def keep(_module: object, _inputs: object, output: Any) -> Any:
        output.last_hidden_state = output.last_hidden_state[rows, columns].unsqueeze(0)
        return output

    base: Any = network.base_model
    handle = base.register_forward_hook(keep)
    try:
        logits: Tensor = network(**inputs).logits[0]
    finally:
        handle.remove()
    return logits


def batches(rows: Sequence[Ids]) -> Iterator[list[int]]:
    """Numbers of rows of about the same length, 4,096 tokens at most or one row at a time."""
    batch: list[int] = []
    for number in sorted(range(len(rows)), key=lambda number: len(rows[number])):
        if batch and len(rows[number]) * (len(batch) + 1) > _BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch


def open_reader(model: str, generator: str | None = None, device: str = "cpu") -> Reader:
    """The networks of a run, an export, a folder or a hub name.

    Without a name the generator is the one beside the discriminator.
    """
    path = encoder_path(model)
    source = open_model(path)
    tokenizer = source.tokenizer
    if not tokenizer.is_fast:
        raise UserError(f"{path}: save its tokenizer as tokenizer.json, which gives positions")
    if tokenizer.mask_token_id is None:
        raise UserError(f"{path}: the tokenizer has no mask token; save one with it (mask_token)")
    generator = generator or (path if is_language_model(source) else generator_of(path))
    second = open_model(generator) if generator else None
    if second and second.tokenizer.get_vocab() != tokenizer.get_vocab():
        raise UserError(f"{generator} has another vocabulary than {path}: give networks of one")
    where = choose_device(device)
    encoded = tokenizer("a", return_special_tokens_mask=True)
    marks = encoded["special_tokens_mask"]
    first, last = (order.index(0) for order in (marks, marks[::-1]))
    return Reader(
        source,
        load_discriminator(source).to(where) if is_discriminator(source) else None,
        load_network(second, _MASKED_LM).to(where) if second else None,
        tuple(encoded["input_ids"][:first]),
        tuple(encoded["input_ids"][len(marks) - last :]),
        where,
    )
