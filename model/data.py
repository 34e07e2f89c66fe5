"""Batches of packed sequences, each computable from its step number alone."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Self

import numpy as np
import torch
from torch import Tensor

from electrify.config import RunConfig
from electrify.progress import is_main_process
from electrify.stages import output_dir
from model.batch import Batch, Noise, SpecialTokens
from model.host_batch import HostBatch
from model.masking import num_slots
from model.schedule import Phase, phase_at, phases_of, sequences_until
from vocab.pack import Packing
from vocab.reader import SequenceReader
from vocab.shards import TokenShards
from vocab.tokenizer import TOKENIZER_FILE, tokenizer_sha256

Split = Literal["train", "valid"]
_CPU = torch.device("cpu")
_COUNTED_TOKENS = 2**20  # at once: counting makes them int64


class SequenceData:
    """One split of a shards folder, as an endless run of batches of one sequence length.

    The order is a permutation by (seed, epoch), so a resumed run needs no loader state but its
    step, and batch size may change without re-encoding.
    """

    def __init__(
        self,
        shards: TokenShards,
        split: Split,
        sequence_length: int,
        seed: int,
        packing: Packing = "full",
        temperature: float = 1.0,
        slots: int = 1,
    ) -> None:
        self.vocab_size, self._slots = shards.vocab_size, slots
        self.special = special_tokens(shards)
        self.reader = SequenceReader(shards, split, sequence_length, seed, packing, temperature)
        self.num_documents = self.reader.num_documents
        self.languages: Sequence[str] = self.reader.languages

    @classmethod
    def from_config(
        cls,
        config: RunConfig,
        split: Split,
        sequence_length: int | None = None,
        shards: TokenShards | None = None,
    ) -> Self:
        """A split read as the config says; of `sequence_length` in a phase of the curriculum."""
        options = config.encode
        length = sequence_length or options.sequence_length
        return cls(
            shards or open_shards(output_dir(config) / "shards", [split]),
            split,
            length,
            config.seed,
            options.packing,
            options.mixture.temperature,
            num_slots(config.pretrain, length),
        )

    @property
    def num_sequences(self) -> int:
        """Sequences in one epoch."""
        return self.reader.num_sequences

    def batch(
        self, first_sequence: int, count: int, key: int = 0, rank: int = 0, num_ranks: int = 1
    ) -> Batch:
        """Sequences number `first_sequence`... of the endless order; of `count`, a rank's share.

        `key` decides the draws of the whole batch, of which a rank has its rows.
        """
        return self.host_batch(first_sequence, count, key, rank, num_ranks).to(_CPU)

    def host_batch(
        self,
        first_sequence: int,
        count: int,
        key: int = 0,
        rank: int = 0,
        num_ranks: int = 1,
        micro_batch_size: int | None = None,
    ) -> HostBatch:
        """The same as it is read."""
        reader = self.reader
        indices = reader.indices(first_sequence, count, rank, num_ranks)
        ids, types = reader.sequences(indices)
        noise = Noise.draw(key, count, reader.sequence_length, self._slots)
        return HostBatch.of(
            ids,
            types,
            reader.language_numbers(indices),
            noise.rows(slice(rank, None, num_ranks)),
            reader.is_full,
            micro_batch_size,
        )


class StepData:
    """The micro-batches of each step of a run, through all phases of its curriculum."""

    def __init__(self, config: RunConfig, shards: TokenShards, rank: int, num_ranks: int) -> None:
        self._rank, self._num_ranks, self._seed = rank, num_ranks, config.seed
        self.phases = phases_of(config.pretrain, config.encode.sequence_length)
        lengths = {phase.sequence_length for phase in self.phases}
        self._data = {
            length: SequenceData.from_config(config, "train", length, shards) for length in lengths
        }
        for phase in self.phases:
            _check_shares(phase, num_ranks)
        self.last = self._data[self.phases[-1].sequence_length]

    def micro_batches(self, step: int) -> list[Batch]:
        """This rank's share of the batch that follows `step` finished steps, on the CPU."""
        return self.host_batch(step).micro_batches(_CPU)

    def host_batch(self, step: int) -> HostBatch:
        """The same as it is read, from `step` alone and in any thread.

        A phase begins where the sequences of the phases before it ended: another length has
        another order, so this only keeps two phases of one length from repeating.
        """
        phase = phase_at(self.phases, step)
        return self._data[phase.sequence_length].host_batch(
            sequences_until(self.phases, step),
            phase.batch_size,
            noise_key(self._seed, step),
            self._rank,
            self._num_ranks,
            min(phase.micro_batch_size, phase.batch_size // self._num_ranks),
        )


def noise_key(seed: int, step: int) -> int:
    """The key of a step's draws."""
    return (seed * 0x9E3779B97F4A7C15 + step * 0xBF58476D1CE4E5B9 + 0x2545F4914F6CDD1D) % 2**63


def open_shards(folder: Path, splits: Sequence[Split]) -> TokenShards:
    """The run's shards, checksums checked by rank 0.

    Raises `ValueError` if the vocabulary beside them, where there is one, did not make them.
    """
    shards = TokenShards(folder)
    vocab = folder.parent / "vocab"
    if (vocab / TOKENIZER_FILE).exists():
        shards.check_tokenizer(tokenizer_sha256(vocab), vocab / TOKENIZER_FILE)
    if is_main_process():
        shards.verify(splits)
    return shards


def special_tokens(shards: TokenShards) -> SpecialTokens:
    """The special ids that the shards were made with."""
    ids = shards.special_token_ids
    return SpecialTokens(pad=ids["[PAD]"], cls=ids["[CLS]"], sep=ids["[SEP]"], mask=ids["[MASK]"])


def noise_probabilities(kind: str, shards: TokenShards, data: SequenceData) -> Tensor | None:
    """Of a generator without weights, (V,) fp64: uniform over all pieces but special tokens, or
    unigram as training reads them; None for a learned one.

    A language counts by how often its sequences are drawn.
    """
    if kind == "learned":
        return None
    probabilities = np.ones(shards.vocab_size)
    if kind == "unigram":
        probabilities = np.zeros(shards.vocab_size)
        shares = data.reader.passes(data.num_sequences)
        for language in data.languages:
            counts = np.zeros(shards.vocab_size)
            for shard in shards.stream("train", [language]).shards:
                for start in range(0, len(shard.tokens), _COUNTED_TOKENS):
                    part = shard.tokens[start : start + _COUNTED_TOKENS]
                    counts += np.bincount(part, minlength=shards.vocab_size)
            probabilities += shares[language] * counts
    probabilities[list(shards.special_token_ids.values())] = 0
    return torch.from_numpy(probabilities / probabilities.sum())


def _check_shares(phase: Phase, num_ranks: int) -> None:
    share = phase.batch_size // num_ranks
    if phase.batch_size % num_ranks:
        raise ValueError(
            f"pretrain.batch_size = {phase.batch_size} must divide by the {num_ranks} processes"
        )
    if share % min(phase.micro_batch_size, share):
        raise ValueError(
            f"of pretrain.batch_size = {phase.batch_size} each of {num_ranks} processes has "
            f"{share}, which must divide by pretrain.micro_batch_size = {phase.micro_batch_size}"
        )
