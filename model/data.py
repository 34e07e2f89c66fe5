"""Batches of packed sequences, each computable from its step number alone."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from model.electra import SpecialTokens
from vocab.pack import PackedSequences
from vocab.shards import TokenShards


@dataclass(frozen=True)
class Batch:
    """Full sequences, no padding."""

    input_ids: Tensor  # (B, L) int64
    token_type_ids: Tensor  # (B, L) int64, 0 in the first segment, 1 in the second


class SequenceData:
    """One split of a shards folder, as an endless run of batches.

    The order is a permutation by (seed, epoch), so a resumed run needs no loader state but its
    step, and batch size may change without re-encoding.
    """

    def __init__(
        self, folder: Path, split: Literal["train", "valid"], sequence_length: int, seed: int
    ) -> None:
        shards = TokenShards(folder)
        self.vocab_size = shards.vocab_size
        self.special = special_tokens(shards)
        stream = shards.stream(split)
        self.num_documents = stream.num_documents
        self.sequences = PackedSequences(
            stream, sequence_length, seed, self.special.cls, self.special.sep
        )

    @property
    def num_sequences(self) -> int:
        """Sequences in one epoch."""
        return self.sequences.num_sequences

    def batch(self, first_sequence: int, count: int) -> Batch:
        """Sequences number `first_sequence`... of the endless shuffled order."""
        _, indices = self.sequences.epoch_and_indices(first_sequence, count)
        input_ids, token_type_ids = self.sequences.batch(indices)
        return Batch(torch.from_numpy(input_ids), torch.from_numpy(token_type_ids))


def special_tokens(shards: TokenShards) -> SpecialTokens:
    """The special ids that the shards were made with."""
    ids = shards.special_token_ids
    return SpecialTokens(pad=ids["[PAD]"], cls=ids["[CLS]"], sep=ids["[SEP]"], mask=ids["[MASK]"])


def to_device(batch: Batch, device: torch.device) -> Batch:
    """Move a batch; from the CPU to itself is free."""
    return Batch(
        batch.input_ids.to(device, non_blocking=True),
        batch.token_type_ids.to(device, non_blocking=True),
    )
