"""What goes into a forward pass and what comes out of it.

Documents that share a packed sequence are told apart, so that each is attended to by itself. Pure
functions of tensors; static shapes. B sequences, L positions.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, Self, TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F

from model.devices.device import spread
from model.ordered import running_maximum, running_sum


@dataclass(frozen=True)
class SpecialTokens:
    pad: int
    cls: int
    sep: int
    mask: int


@dataclass(frozen=True)
class Noise:
    """Everything random in a step but dropout: draws, uniform in [0, 1), a row a sequence.

    They are made on the CPU for the whole batch of a step and cut with it, so a sequence has the
    same draws whatever the device, the number of processes or of micro-batches.
    """

    positions: Tensor  # (B, L) fp32: which tokens are chosen
    mask: Tensor  # (B, N) fp32: which of the chosen become [MASK]
    samples: Tensor  # (B, N, 2) fp64: what the generator puts there

    @classmethod
    def draw(cls, key: int, num_sequences: int, length: int, num_slots: int) -> Self:
        rng = torch.Generator().manual_seed(key)
        slots = num_sequences, num_slots
        return cls(
            torch.rand(num_sequences, length, generator=rng),
            torch.rand(*slots, generator=rng),
            torch.rand(*slots, 2, generator=rng, dtype=torch.float64),
        )


@dataclass(frozen=True)
class Batch:
    """Sequences of one length. [PAD] stands nowhere but behind the last [SEP]."""

    input_ids: Tensor  # (B, L) int64
    token_type_ids: Tensor  # (B, L) int64, 0 in the first segment, 1 in the second
    noise: Noise
    languages: Tensor  # (B,) int64, number of each sequence's language
    packed: bool = True  # no sequence has padding; the same for all batches of a run

    def rows(self, rows: slice) -> "Batch":
        return map_tensors(self, lambda tensor: tensor[rows])

    def to(self, device: torch.device) -> "Batch":
        """Move; from the CPU to itself is free."""
        return map_tensors(self, lambda tensor: spread(tensor, device))

    def tensors(self) -> list[Tensor]:
        noise = self.noise
        drawn = [noise.positions, noise.mask, noise.samples]
        return [self.input_ids, self.token_type_ids, *drawn, self.languages]

    def filled_up(self, num_sequences: int, pad: int) -> "Batch":
        """With sequences of padding alone, which count for nothing, up to a number of sequences."""

        def filled(rows: Tensor, value: int = 0) -> Tensor:
            return torch.cat([rows, rows.new_full((missing, *rows.shape[1:]), value)])

        missing = num_sequences - len(self.input_ids)
        if not missing:
            return self
        return replace(map_tensors(self, filled), input_ids=filled(self.input_ids, pad))


Tensors = TypeVar("Tensors", bound=Noise | Batch)


def map_tensors(data: Tensors, function: Callable[[Tensor], Tensor]) -> Tensors:
    """A dataclass with another tensor in place of each."""
    changed: dict[str, Any] = {}
    for field in fields(data):
        value = getattr(data, field.name)
        if isinstance(value, Tensor):
            changed[field.name] = function(value)
        elif isinstance(value, Noise):
            changed[field.name] = map_tensors(value, function)
    return replace(data, **changed)


@dataclass(frozen=True)
class Masked:
    """A batch with its positions chosen and masked: all that does not depend on weights.

    B sequences, L positions, N slots for chosen positions.
    """

    batch: Batch
    tokens: Tensor  # (B, L) bool, False at padding
    maskable: Tensor  # (B, L) bool: real tokens but [CLS], [SEP] and [MASK]
    attention_mask: Tensor | None  # (B, 1, 1 or L, L) bool, True where attended; None: everywhere
    position_ids: Tensor | None  # (B, L) int64; None: 0 ... L - 1
    positions: Tensor  # (B, N) int64
    weights: Tensor  # (B, N) fp32, 1 where a position was really chosen, else 0
    originals: Tensor  # (B, N) int64, the tokens that stood there
    masked_ids: Tensor  # (B, L) int64, the generator's input
    hidden: Tensor  # (B, N) fp32, 1 where a position was chosen and its token is not in that input

    @property
    def beside(self) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """What a network reads beside ids: token types, attention mask, positions."""
        return self.batch.token_type_ids, self.attention_mask, self.position_ids


Unit = Literal["chosen", "tokens", "candidates"]


@dataclass(frozen=True)
class Counts:
    """What losses are means over: scalars, of one forward pass or of a whole step."""

    chosen: Tensor  # chosen positions
    tokens: Tensor  # real tokens, [CLS] and [SEP] included
    candidates: Tensor  # maskable tokens

    @classmethod
    def of(cls, masked: Masked) -> Self:
        parts = masked.weights, masked.tokens, masked.maskable
        return cls(*(part.sum(dtype=torch.float32) for part in parts))

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            self.chosen + other.chosen,
            self.tokens + other.tokens,
            self.candidates + other.candidates,
        )


@dataclass(frozen=True)
class Term:
    """One part of the loss: a sum, what it is to be divided by, and its factor."""

    total: Tensor  # scalar, fp32, with gradient
    per: Unit
    weight: float

    def mean(self, counts: Counts) -> Tensor:
        """The mean over all that `counts` covers, of which `total` may be a share."""
        count: Tensor = getattr(counts, self.per)
        return self.total / count.clamp(min=1)


@dataclass(frozen=True)
class Outputs:
    """One forward pass: the terms of its loss and what the metrics are made of.

    Names of terms: `generator` (the learned generator's), `discriminator` (the main network's),
    `baseline` (of electra-adversarial). What an objective does not have is None.
    """

    terms: dict[str, Term]
    counts: Counts
    languages: Tensor  # (B,)
    tokens: Tensor  # (B, L) bool, those whose detection counts: real ones, or some of them
    weights: Tensor  # (B, N) 1 where a position was really chosen
    hidden: Tensor  # (B, N) 1 where its token was hidden as well: what is told there is a guess
    sampled: Tensor | None = None  # (B, N) int64 what the generator put at the chosen positions
    noise_log_probs: Tensor | None = None  # (B, L) log q of the main network's input; electric
    sample_hits: Tensor | None = None  # (B, N) bool, the sample is the original
    generator_losses: Tensor | None = None  # (B, N) -log p(original), detached
    generator_hits: Tensor | None = None  # (B, N) bool, no token is more likely than the original
    language_losses: Tensor | None = None  # (B, N) the same of the main network
    language_hits: Tensor | None = None  # (B, N)
    corrupted_ids: Tensor | None = None  # (B, L) the main network's input
    labels: Tensor | None = None  # (B, L) fp32, 1 where replaced
    discriminator_logits: Tensor | None = None  # (B, L) detached; high means replaced
    discriminator_losses: Tensor | None = None  # (B, L) binary cross-entropies, detached

    def loss(self, counts: Counts | None = None) -> Tensor:
        """The weighted sum of the terms; `counts` of the whole step, else of this pass alone."""
        terms = [term.weight * term.mean(counts or self.counts) for term in self.terms.values()]
        return torch.stack(terms).sum()


def document_blocks(
    input_ids: Tensor, token_type_ids: Tensor, tokens: Tensor, sep_id: int
) -> Tensor:
    """The number of the document that each token belongs to, from 0 on in every row: (B, L) int64.

    Rows are `[CLS] A [SEP] B [SEP]`, or `[CLS] A [SEP]` of one segment, then padding; A and B are
    runs of a stream in which each document ends with a [SEP] of its own. That [SEP] is its
    document's last token. The row's own two, the one before the second segment and the last token,
    end no document and belong with the token before them: a document that ends where a segment
    does has two. [CLS] belongs with the token after it, and padding is a block of its own.

    `tokens` is (B, L) bool, False at padding. A document that goes on from the first segment in
    the second is one block. Where a row begins with the very end of a document, [CLS] has nothing
    but that [SEP] beside it.
    """
    following = F.pad(tokens[:, 1:], (0, 1))
    last = tokens & ~following
    second = token_type_ids > 0
    own = last | (tokens & ~second & F.pad(second[:, 1:], (0, 1)))
    ends = (input_ids == sep_id) & tokens & ~own
    # where the row's own [SEP] comes right behind, the document ends with that one
    own_next = F.pad(own[:, 1:], (0, 1))
    ends_before = F.pad(ends[:, :-1], (1, 0))
    ends = (ends & ~own_next) | (own & ends_before) | last
    return running_sum(F.pad(ends[:, :-1], (1, 0)), torch.int64)


def document_positions(blocks: Tensor) -> Tensor:
    """Each token's place in its block, which begins at 0: (B, L) int64."""
    column = torch.arange(blocks.shape[1], device=blocks.device).expand_as(blocks)
    inside = F.pad(blocks[:, 1:] == blocks[:, :-1], (1, 0))  # the row's first token is not
    return column - running_maximum(column.masked_fill(inside, 0))


def document_mask(blocks: Tensor, tokens: Tensor) -> Tensor:
    """(B, 1, L, L) bool: tokens attend inside their own block.

    Padding attends to padding: a row of the mask with nothing in it would make its softmax NaN.
    """
    same = blocks[:, :, None] == blocks[:, None, :]
    return (same & (tokens[:, :, None] == tokens[:, None, :]))[:, None]
