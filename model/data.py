"""Batches of packed sequences, each computable from its step number alone."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

import torch
from torch import Tensor

from electrify.config_vocab import EncodeConfig
from electrify.progress import is_main_process
from model.electra import SpecialTokens
from vocab.pack import Packing
from vocab.reader import SequenceReader
from vocab.shards import TokenShards
from vocab.tokenizer import TOKENIZER_FILE, tokenizer_sha256


@dataclass(frozen=True)
class Batch:
    """Sequences of one length. [PAD] stands nowhere but behind the last [SEP]."""

    input_ids: Tensor  # (B, L) int64
    token_type_ids: Tensor  # (B, L) int64, 0 in the first segment, 1 in the second
    packed: bool = True  # no sequence has padding; the same for all batches of a run


class SequenceData:
    """One split of a shards folder, as an endless run of batches.

    The order is a permutation by (seed, epoch), so a resumed run needs no loader state but its
    step, and batch size may change without re-encoding.
    """

    def __init__(
        self,
        folder: Path,
        split: Literal["train", "valid"],
        sequence_length: int,
        seed: int,
        packing: Packing = "full",
        temperature: float = 1.0,
    ) -> None:
        shards = TokenShards(folder)
        _check_tokenizer(shards)
        if is_main_process():
            shards.verify([split])
        self.vocab_size = shards.vocab_size
        self.special = special_tokens(shards)
        self.reader = SequenceReader(shards, split, sequence_length, seed, packing, temperature)
        self.num_documents = self.reader.num_documents

    @classmethod
    def from_config(
        cls, folder: Path, split: Literal["train", "valid"], options: EncodeConfig, seed: int
    ) -> Self:
        """A split read as the config says."""
        temperature = options.mixture.temperature
        return cls(folder, split, options.sequence_length, seed, options.packing, temperature)

    @property
    def num_sequences(self) -> int:
        """Sequences in one epoch."""
        return self.reader.num_sequences

    def batch(self, first_sequence: int, count: int, rank: int = 0, num_ranks: int = 1) -> Batch:
        """Sequences number `first_sequence`... of the endless order; of `count`, a rank's share."""
        ids, types = self.reader.batch(first_sequence, count, rank, num_ranks)
        return Batch(torch.from_numpy(ids), torch.from_numpy(types), self.reader.is_full)


def _check_tokenizer(shards: TokenShards) -> None:
    """The vocabulary beside the shards, if it is there, must be the one that made them."""
    vocab = shards.folder.parent / "vocab"
    if (vocab / TOKENIZER_FILE).exists():
        shards.check_tokenizer(tokenizer_sha256(vocab), vocab / TOKENIZER_FILE)


def special_tokens(shards: TokenShards) -> SpecialTokens:
    """The special ids that the shards were made with."""
    ids = shards.special_token_ids
    return SpecialTokens(pad=ids["[PAD]"], cls=ids["[CLS]"], sep=ids["[SEP]"], mask=ids["[MASK]"])


def to_device(batch: Batch, device: torch.device) -> Batch:
    """Move a batch; from the CPU to itself is free."""
    return Batch(
        batch.input_ids.to(device, non_blocking=True),
        batch.token_type_ids.to(device, non_blocking=True),
        batch.packed,
    )
