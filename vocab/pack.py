"""Token stream to full pretraining sequences, every one computable from its number alone."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vocab.shards import Tokens

SINGLE_SEGMENT_ONE_IN = 10  # build_pretraining_dataset.py of google-research/electra: 10 %


class Stream(Protocol):
    """What packing needs of `vocab.shards.TokenStream`."""

    num_tokens: int

    def read(self, start: int, stop: int) -> Tokens:
        """The ids at [start, stop)."""
        ...


class PackedSequences:
    """The stream cut into `[CLS] A [SEP] B [SEP]` of exactly L = `sequence_length` tokens.

    Sequence i starts at token i (L - 3): A is the first (L - 3) // 2 of its L - 3 tokens (type 0,
    as are its [CLS] and [SEP]), B the rest (type 1). One in ten, chosen by a hash of (seed, i), is
    a single segment `[CLS] A [SEP]` of type 0 over L - 2 tokens: its last token is also the first
    of sequence i + 1. Nothing is padded; `num_dropped_tokens` at the end fill no sequence.
    """

    def __init__(
        self, stream: Stream, sequence_length: int, seed: int, cls_id: int, sep_id: int
    ) -> None:
        if sequence_length < 8:
            raise ValueError(f"sequence_length = {sequence_length} is less than 8")
        self._stream, self._length, self._seed = stream, sequence_length, seed
        self._cls_id, self._sep_id = cls_id, sep_id
        self._content = sequence_length - 3
        # any sequence may be a single segment, so each must find L - 2 tokens
        self.num_sequences = max(0, stream.num_tokens - 1) // self._content
        if not self.num_sequences:
            raise ValueError(
                f"{stream.num_tokens} tokens do not fill one sequence of sequence_length = "
                f"{sequence_length} ({self._content + 1} tokens needed): give more text, a larger "
                "encode.valid_fraction (if these are the valid tokens) or a shorter "
                "encode.sequence_length"
            )
        last = np.array([self.num_sequences - 1])
        used = self.num_sequences * self._content + int(self._is_single(last)[0])
        self.num_dropped_tokens = stream.num_tokens - used
        self._order = lru_cache(maxsize=2)(self._permutation)

    def batch(self, indices: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Sequences by index: `input_ids` [n, L] and `token_type_ids` [n, L], int64."""
        length, num_first = self._length, self._content // 2
        text = np.empty((len(indices), length - 2), np.int64)
        for row, index in enumerate(indices):
            if not 0 <= index < self.num_sequences:
                raise IndexError(f"sequence {index} of {self.num_sequences}")
            start = int(index) * self._content
            text[row] = self._stream.read(start, start + length - 2)
        ids = np.empty((len(indices), length), np.int64)
        types = np.zeros_like(ids)
        ids[:, 0], ids[:, -1] = self._cls_id, self._sep_id
        single = self._is_single(np.asarray(indices))
        ids[single, 1:-1] = text[single]
        pair = ~single
        ids[pair, 1 : num_first + 1] = text[pair, :num_first]
        ids[pair, num_first + 1] = self._sep_id
        ids[pair, num_first + 2 : -1] = text[pair, num_first:-1]
        types[pair, num_first + 2 :] = 1
        return ids, types

    def order(self, epoch: int) -> NDArray[np.int64]:
        """The order of sequences in an epoch: a permutation of `num_sequences` by (seed, epoch)."""
        return self._order(epoch)

    def epoch_and_indices(self, first_sequence: int, count: int) -> tuple[int, NDArray[np.int64]]:
        """Sequences number first..first+count of the endless order, epoch after epoch.

        Returns the epoch that `first_sequence` falls in and the `count` sequence indices.
        """
        parts = list(self._slices(first_sequence, count))
        indices = np.concatenate(parts) if parts else np.zeros(0, np.int64)
        return first_sequence // self.num_sequences, indices

    def _slices(self, first: int, count: int) -> Iterator[NDArray[np.int64]]:
        while count > 0:
            epoch, position = divmod(first, self.num_sequences)
            part = self.order(epoch)[position : position + count]
            yield part
            first, count = first + len(part), count - len(part)

    def _permutation(self, epoch: int) -> NDArray[np.int64]:
        # Sorting the raw 64-bit draws of a counter-based generator: unlike Generator.permutation,
        # NumPy promises that these never change between versions (NEP 19).
        draws = np.random.Philox(key=np.array([self._seed, epoch], np.uint64)).random_raw(
            self.num_sequences
        )
        order = np.argsort(draws, kind="stable")
        order.flags.writeable = False  # it is shared by every caller
        return order

    def _is_single(self, indices: NDArray[np.int64]) -> NDArray[np.bool_]:
        remainder = hash_pair(self._seed, indices) % np.uint64(SINGLE_SEGMENT_ONE_IN)
        single: NDArray[np.bool_] = remainder == 0
        return single


def hash_pair(seed: int, indices: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A 64-bit hash of (seed, i) for each i: the SplitMix64 finaliser (Steele et al. 2014), twice.

    A pure function of its arguments, so no order of calls can change it.
    """
    state = _mix(np.array([seed], np.uint64))
    with np.errstate(over="ignore"):
        return _mix(state + indices.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))


def _mix(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    with np.errstate(over="ignore"):
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))
