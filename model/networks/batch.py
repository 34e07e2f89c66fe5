"""What goes into a forward pass and what comes out of it.

Shapes: B sequences, L positions, N slots for chosen positions, V pieces, H hidden size.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, Self, TypeVar

import torch
from torch import Tensor

from model.devices.device import spread


@dataclass(frozen=True)
class SpecialTokens:
    pad: int
    cls: int
    sep: int
    mask: int


@dataclass(frozen=True)
class Noise:
    """Everything random in a step but dropout: draws, uniform in [0, 1), a row a sequence.

    They are made on the CPU for all sequences of a process in a step and cut with them, so a
    sequence has the same draws whatever the device and the number of micro-batches.
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
    """Full sequences of one length; rows of [PAD] alone fill a batch up and count for nothing."""

    input_ids: Tensor  # (B, L) int64
    token_type_ids: Tensor  # (B, L) int64, 0 in the first segment, 1 in the second
    noise: Noise
    languages: Tensor  # (B,) int64, number of each sequence's language
    mask_fraction: float | None = None  # of this phase of the run; None: the config's

    def rows(self, rows: slice) -> "Batch":
        return map_tensors(self, lambda tensor: tensor[rows])

    def split(self, size: int) -> list["Batch"]:
        """Into batches of so many sequences."""
        num_rows = len(self.input_ids)
        if size >= num_rows:
            return [self]
        return [self.rows(slice(start, start + size)) for start in range(0, num_rows, size)]

    def to(self, device: torch.device) -> "Batch":
        """Move; from the CPU to itself is free."""
        return map_tensors(self, lambda tensor: spread(tensor, device))

    def tensors(self) -> list[Tensor]:
        noise = self.noise
        draws = [noise.positions, noise.mask, noise.samples]
        return [self.input_ids, self.token_type_ids, *draws, self.languages]

    def filled_up(self, num_sequences: int, pad: int) -> "Batch":
        """With sequences of padding alone, which count for nothing, up to a number of sequences."""
        missing = num_sequences - len(self.input_ids)
        if not missing:
            return self
        filled = map_tensors(
            self, lambda rows: torch.cat([rows, rows.new_zeros(missing, *rows.shape[1:])])
        )
        filled.input_ids[-missing:] = pad
        return filled


Tensors = TypeVar("Tensors", bound=Noise | Batch)


def map_tensors(data: Tensors, function: Callable[[Tensor], Tensor]) -> Tensors:
    """A dataclass with another tensor in place of each."""
    changed: dict[str, Any] = {}
    for part in fields(data):
        value = getattr(data, part.name)
        if isinstance(value, Tensor):
            changed[part.name] = function(value)
        elif isinstance(value, Noise):
            changed[part.name] = map_tensors(value, function)
    return replace(data, **changed)


@dataclass(frozen=True)
class Masked:
    """A batch with its positions chosen and masked: all that does not depend on weights."""

    batch: Batch
    tokens: Tensor  # (B, L) bool, False in rows that fill a batch up
    # (B, 1, L, L) bool, True where attended, or documents (B, L) int64; None: everywhere
    attention_mask: Tensor | None
    position_ids: Tensor | None  # (B, L) int64; None: 0 ... L - 1
    positions: Tensor  # (B, N) int64
    weights: Tensor  # (B, N) fp32, 1 where a position was really chosen, else 0
    originals: Tensor  # (B, N) int64, the tokens that stood there
    masked_ids: Tensor  # (B, L) int64, the generator's input
    hidden: Tensor  # (B, N) fp32, 1 where a position was chosen and its token is not in that input

    @property
    def context(self) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """What a network reads beside ids: token types, attention mask, positions."""
        return self.batch.token_type_ids, self.attention_mask, self.position_ids


UNITS = ("chosen", "tokens")  # chosen positions, real tokens


def counts_of(masked: Masked) -> Tensor:
    """What losses are means over: (2,) fp32, a number for each of `UNITS`."""
    counted = masked.weights, masked.tokens
    return torch.stack([flags.sum(dtype=torch.float32) for flags in counted])


@dataclass(frozen=True)
class Term:
    """One part of the loss: a sum, what it is to be divided by, and its factor."""

    total: Tensor  # scalar, fp32, with gradient
    per: Literal["chosen", "tokens"]
    weight: float

    def count(self, counts: Tensor) -> Tensor:
        """Its own of the numbers of `counts_of`."""
        return counts[UNITS.index(self.per)]

    def mean(self, counts: Tensor) -> Tensor:
        """The mean over all that `counts` covers, of which `total` may be a part."""
        return self.total / self.count(counts).clamp(min=1)


Terms = dict[str, Term]  # of `generator`, `discriminator` (the main network) and `baseline`


@dataclass(frozen=True)
class Predictions:
    """What a head over the vocabulary makes of the chosen positions, without gradient."""

    losses: Tensor  # (B, N) -log p(original)
    hits: Tensor  # (B, N) bool, no token is more likely than the original


@dataclass(frozen=True)
class Samples:
    """What the generator puts at the chosen positions, without gradient."""

    ids: Tensor  # (B, N) int64
    predicted: Predictions


@dataclass(frozen=True)
class Corrupted:
    """The main network's input."""

    ids: Tensor  # (B, L) int64
    labels: Tensor  # (B, L) fp32, 1 where replaced


@dataclass(frozen=True)
class Detected:
    """What the main network tells of each token, without gradient."""

    logits: Tensor  # (B, L) fp32, high means replaced
    losses: Tensor  # (B, L) binary cross-entropies
    counted: Tensor  # (B, L) bool, the tokens that the network is trained to tell of


@dataclass(frozen=True)
class Outputs:
    """One forward pass: the terms of its loss and what the metrics are made of."""

    masked: Masked
    terms: Terms
    samples: Samples | None = None
    corrupted: Corrupted | None = None
    detected: Detected | None = None
    predicted: Predictions | None = None  # by the main network

    @property
    def counts(self) -> Tensor:
        return counts_of(self.masked)

    def without_gradient(self) -> "Outputs":
        terms = {n: replace(term, total=term.total.detach()) for n, term in self.terms.items()}
        return replace(self, terms=terms)

    def loss(self, counts: Tensor | None = None) -> Tensor:
        """The weighted sum of the terms; `counts` of the whole step, else of this pass alone."""
        counts = self.counts if counts is None else counts
        terms = [term.weight * term.mean(counts) for term in self.terms.values()]
        return torch.stack(terms).sum()
