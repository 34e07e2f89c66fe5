"""What the pretraining step is timed on: weights, sequences in a run's layout, and their draws.

Token ids follow Zipf's law, since the gradients of the shared embedding meet in the rows of common
tokens, and a flat or constant stream would hide what that costs.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from electrify.config.pretrain import PretrainConfig
from model.batch import Batch, Noise, SpecialTokens
from model.electra import ElectraPretrainer
from model.masking import num_slots
from model.train.data import HostBatch, SequenceData, noise_key, open_shards
from vocab.shards.files import token_dtype

SEED = 0
BERT_SPECIAL = SpecialTokens(pad=0, cls=101, sep=102, mask=103)
BERT_VOCAB_SIZE = 30_522
_FIRST_WORD = 999  # where the words of BERT's vocabulary begin, after special and unused pieces
_ZIPF_EXPONENT = 1.0
_POOL = 16  # batches that are made before any clock runs, then used round and round
_SHORTEST = 0.5  # of the length: what the shortest padded sequence holds


@dataclass(frozen=True)
class Pool:
    """Batches on the host; their draws are made anew for every step, as a run does."""

    input_ids: list[Tensor]  # each (B, L) int64
    token_type_ids: list[Tensor]
    packed: bool
    slots: int
    vocab_size: int
    special: SpecialTokens
    name: str

    def batch(self, step: int) -> Batch:
        """The batch of a step on the CPU."""
        return self.host_batch(step).to(torch.device("cpu"))

    def host_batch(self, step: int, num_parts: int = 1) -> HostBatch:
        """The same as a run has it, for so many forward passes; the draws are made here."""
        ids = self.input_ids[step % len(self.input_ids)].numpy()
        types = self.token_type_ids[step % len(self.input_ids)].numpy()
        number, length = ids.shape
        return HostBatch.of(
            ids.astype(token_dtype(self.vocab_size)),
            types.astype(np.uint8),
            np.zeros(number, np.int64),
            Noise.draw(noise_key(0, step), number, length, self.slots),
            self.packed,
            number // num_parts,
        )

    def tokens(self, step: int) -> int:
        """Tokens of a step that are not padding."""
        return int((self.input_ids[step % len(self.input_ids)] != self.special.pad).sum())

    @property
    def shape(self) -> tuple[int, int]:
        """Sequences a batch and their length."""
        batch_size, length = self.input_ids[0].shape
        return batch_size, length


def zipf_pool(
    config: PretrainConfig,
    batch_size: int,
    length: int,
    packed: bool,
    vocab_size: int = BERT_VOCAB_SIZE,
    special: SpecialTokens = BERT_SPECIAL,
    seed: int = 0,
) -> Pool:
    """Pairs of segments, [CLS] ... [SEP] ... [SEP], of words whose rank r comes 1 / r of the time.

    Packed sequences are full; others hold between half of the length and all of it, evenly.
    """
    assert length >= 16, length
    rng = np.random.default_rng(seed)
    words = _words(vocab_size, special)
    chances = 1.0 / np.arange(1, len(words) + 1) ** _ZIPF_EXPONENT
    cumulative = np.cumsum(chances / chances.sum())
    batches = []
    for _ in range(_POOL):
        ranks = np.searchsorted(cumulative, rng.random((batch_size, length)), side="right")
        ids = words[np.minimum(ranks, len(words) - 1)]
        least = length if packed else int(length * _SHORTEST)
        lengths = rng.integers(least, length + 1, batch_size)
        middles = rng.integers(4, least - 3, batch_size)
        batches.append(_laid_out(ids, lengths, middles, special))
    ids_of, types_of = zip(*batches, strict=True)
    name = "Zipf, packed" if packed else "Zipf, padded"
    slots = num_slots(config, length)
    return Pool(list(ids_of), list(types_of), packed, slots, vocab_size, special, name)


def _words(vocab_size: int, special: SpecialTokens) -> np.ndarray:
    """Ids of words, the most common first."""
    first = _FIRST_WORD if vocab_size > 2 * _FIRST_WORD else 0
    taken = {special.pad, special.cls, special.sep, special.mask}
    return np.array([word for word in range(first, vocab_size) if word not in taken])


def _laid_out(
    ids: np.ndarray, lengths: np.ndarray, middles: np.ndarray, special: SpecialTokens
) -> tuple[Tensor, Tensor]:
    """With [CLS], the two [SEP] and padding in their places, and the token types."""
    column = np.arange(ids.shape[1])
    ids[:, 0] = special.cls
    ids[column == middles[:, None]] = special.sep
    ids[column == lengths[:, None] - 1] = special.sep
    ids[column >= lengths[:, None]] = special.pad
    types = (column > middles[:, None]) & (column < lengths[:, None])
    return torch.from_numpy(ids.astype(np.int64)), torch.from_numpy(types.astype(np.int64))


def shard_pool(folder: Path, config: PretrainConfig, batch_size: int, length: int) -> Pool:
    """Sequences of a run's own shards, `<folder>/shards`, in the order training reads them."""
    shards = open_shards(folder / "shards", ["train"])
    slots = num_slots(config, length)
    data = SequenceData(shards, "train", length, seed=0, slots=slots)
    batches = [data.batch(step * batch_size, batch_size) for step in range(_POOL)]
    return Pool(
        [batch.input_ids for batch in batches],
        [batch.token_type_ids for batch in batches],
        batches[0].packed,
        slots,
        data.vocab_size,
        data.special,
        "shards of a run",
    )


def make_model(config: PretrainConfig, pool: Pool) -> ElectraPretrainer:
    """Ours on the CPU, the same weights each time."""
    torch.manual_seed(SEED)
    return ElectraPretrainer(config, pool.vocab_size, pool.special)
