"""A discriminator's verdict on a text: each piece with its probability of being replaced, and what
the generator would write in its place.

A text longer than the model's positions is read in windows that overlap by half. The verdict on a
piece comes from the window that shows most of its surroundings.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch
from torch import Tensor
from transformers import ElectraForMaskedLM, ElectraForPreTraining

from benchmarks.encoder import ModelSource, generator_of, load_network, open_model
from electrify.system.outcome import UserError

NUM_PROPOSALS = 5


@dataclass(frozen=True)
class Piece:
    """A token of the text: its characters [start, stop), and where the verdict on it was read."""

    token: str
    start: int
    stop: int
    word: int  # number of its word in the text
    logit: float  # of having been replaced
    window: int
    position: int  # in the window, special tokens counted

    @property
    def probability(self) -> float:
        return float(torch.tensor(self.logit).sigmoid())


@dataclass(frozen=True)
class Word:
    """Pieces that the tokenizer joins to a word; it is as suspicious as its worst piece."""

    text: str
    pieces: tuple[Piece, ...]

    @property
    def worst(self) -> Piece:
        return max(self.pieces, key=lambda piece: piece.logit)

    @property
    def probability(self) -> float:
        return self.worst.probability

    @property
    def span(self) -> tuple[int, int]:
        """Characters [start, stop) of the text."""
        return self.pieces[0].start, self.pieces[-1].stop


@dataclass(frozen=True)
class Window:
    """Ids (1, T) that the model reads at once, and the word of each; None: a special token."""

    ids: Tensor
    words: tuple[int | None, ...]


@dataclass(frozen=True)
class Verdict:
    """A text, its windows and its words."""

    text: str
    windows: tuple[Window, ...]
    words: tuple[Word, ...]


@dataclass(frozen=True)
class Proposal:
    """What the generator would write for a piece, and the word that it makes."""

    token: str
    word: str
    probability: float


@dataclass(frozen=True)
class Proposals:
    """The likeliest other tokens in place of a piece, and the probability of the piece itself."""

    own_probability: float
    others: tuple[Proposal, ...]


@dataclass(frozen=True)
class Detector:
    """A discriminator with its tokenizer and, where there is one, its generator, on the CPU."""

    source: ModelSource
    discriminator: Any
    generator: Any = None

    @property
    def max_pieces(self) -> int | None:
        """How many pieces a window holds, special tokens left out; None if there is no limit."""
        longest = self.source.max_positions
        return longest and longest - self.source.tokenizer.num_special_tokens_to_add()

    def read(self, text: str) -> Verdict:
        """The verdict on each piece of a text of any length.

        The text becomes NFC: `tokenizers` gives of letters that it composes the first part alone.
        """
        text = unicodedata.normalize("NFC", text)
        encoded = self._encode(text)
        numbers = range(len(encoded["input_ids"]))
        rows, tokens = map(encoded.word_ids, numbers), list(map(encoded.tokens, numbers))
        windows = tuple(
            Window(torch.tensor([ids]), tuple(words))
            for ids, words in zip(encoded["input_ids"], rows, strict=True)
        )
        logits = [self.logits(window.ids)[0].tolist() for window in windows]
        pieces = []
        for window, position in self._places(windows):
            token, word = tokens[window][position], windows[window].words[position]
            assert word is not None
            start, stop = encoded["offset_mapping"][window][position]
            logit = logits[window][position]
            pieces.append(Piece(token, start, stop, word, logit, window, position))
        words = []
        for _, group in groupby(pieces, key=lambda piece: piece.word):
            together = tuple(group)
            words.append(Word(text[together[0].start : together[-1].stop], together))
        return Verdict(text, windows, tuple(words))

    @torch.no_grad()
    def logits(self, ids: Tensor) -> Tensor:
        """Logits (B, T) of having been replaced, of ids (B, T)."""
        found: Tensor = self.discriminator(input_ids=ids).logits
        return found

    @torch.no_grad()
    def propose(self, verdict: Verdict, piece: Piece) -> Proposals:
        """What the generator expects where a piece stands, the piece alone being hidden."""
        tokenizer = self.source.tokenizer
        ids = verdict.windows[piece.window].ids.clone()
        own = int(ids[0, piece.position])
        ids[0, piece.position] = tokenizer.mask_token_id
        chances = self.generator(input_ids=ids).logits[0, piece.position].softmax(-1)
        own_probability = float(chances[own])
        chances[[own, *tokenizer.all_special_ids]] = 0.0
        around = verdict.words[piece.word].pieces
        others = []
        for chance, token in zip(*(x.tolist() for x in chances.topk(NUM_PROPOSALS)), strict=True):
            spelled = [
                token if other is piece else int(tokenizer.convert_tokens_to_ids(other.token))
                for other in around
            ]
            others.append(
                Proposal(tokenizer.convert_ids_to_tokens(token), tokenizer.decode(spelled), chance)
            )
        return Proposals(own_probability, tuple(others))

    def _encode(self, text: str) -> Any:
        options: dict[str, Any] = {}
        if self.max_pieces is not None:
            limit, overlap = self.source.max_positions, self.max_pieces // 2
            options = {"truncation": True, "max_length": limit, "stride": overlap}
        return self.source.tokenizer(
            [text], return_overflowing_tokens=True, return_offsets_mapping=True, **options
        )

    def _places(self, windows: Sequence[Window]) -> Iterator[tuple[int, int]]:
        """(window, position) of each piece of the text, in order."""
        rows = [[i for i, word in enumerate(w.words) if word is not None] for w in windows]
        size = self.max_pieces or len(rows[0])
        overlap = size // 2
        step = size - overlap
        for index in range(step * (len(rows) - 1) + len(rows[-1])):
            number = window_of(index, step, overlap, len(rows))
            yield number, rows[number][index - number * step]


def window_of(index: int, step: int, overlap: int, num_windows: int) -> int:
    """The window of the piece at `index`: the first half of an overlap belongs to the earlier one.

    Windows begin every `step` pieces and share `overlap` of them.
    """
    return min(max(index - overlap // 2, 0) // step, num_windows - 1)


def open_detector(path: str, generator: str | None = None) -> Detector:
    """The discriminator of a folder or hub name, and its generator.

    Without a name the generator is that of `generator_of`. Raises `ValueError` for a model without
    ELECTRA's detection head, a tokenizer that does not say where its tokens stand, and a generator
    of another vocabulary.
    """
    source = open_model(path)
    if not source.tokenizer.is_fast:
        raise UserError(f"{path}: save its tokenizer as tokenizer.json, which gives positions")
    if source.tokenizer.mask_token_id is None:
        raise UserError(f"{path}: the tokenizer has no mask token; save one with it (mask_token)")
    discriminator = load_network(path, ElectraForPreTraining)
    generator = generator or generator_of(path)
    if generator is None:
        return Detector(source, discriminator)
    theirs = open_model(generator).tokenizer
    if theirs.get_vocab() != source.tokenizer.get_vocab():
        raise UserError(f"the generator {generator} has another vocabulary than {path}")
    return Detector(source, discriminator, load_network(generator, ElectraForMaskedLM))
