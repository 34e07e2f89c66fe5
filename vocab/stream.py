"""Token shards read as one run of tokens, documents and sentences."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Tokens: TypeAlias = NDArray[np.unsignedinteger[Any]]  # uint16 or uint32
Int64s: TypeAlias = NDArray[np.int64]


class Joined:
    """Several one-dimensional arrays, memory maps as a rule, read as one."""

    def __init__(self, parts: Sequence[NDArray[Any]], dtype: np.dtype[Any]) -> None:
        # plain views: slicing an np.memmap itself costs five times as much
        self._parts = [np.asarray(part) for part in parts if len(part)]
        self._starts = np.cumsum([0, *map(len, self._parts)], dtype=np.int64)
        self._dtype = dtype

    def __len__(self) -> int:
        return int(self._starts[-1])

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """The entries at [start, stop): a view where they lie in one part."""
        if not 0 <= start <= stop <= len(self):
            raise IndexError(f"tokens {start}..{stop} of a stream of {len(self)}")
        number = int(np.searchsorted(self._starts, start, side="right")) - 1
        found: list[NDArray[Any]] = []
        while start < stop:
            first = int(self._starts[number])
            part = self._parts[number][start - first : stop - first]
            found.append(part)
            start, number = start + len(part), number + 1
        if len(found) == 1:  # the common case: a view of the map, no copy
            return found[0]
        return np.concatenate(found) if found else np.zeros(0, self._dtype)

    def take(self, starts: Int64s, lengths: Int64s) -> NDArray[Any]:
        """The ranges [start, start + length) one after the other; all inside the array.

        One gather for each part touched, not a loop over ranges: 2 ns an entry.
        """
        if not len(starts):
            return np.zeros(0, self._dtype)
        assert starts.min() >= 0
        assert (starts + lengths).max() <= len(self)
        positions = ranges(starts, lengths)
        if len(self._parts) == 1:
            return self._parts[0][positions]
        number = np.searchsorted(self._starts, positions, side="right") - 1
        order = np.argsort(number, kind="stable")
        edges = np.searchsorted(number[order], np.arange(len(self._parts) + 1))
        taken = np.empty(len(positions), self._dtype)
        for part in np.flatnonzero(np.diff(edges)):
            where = order[edges[part] : edges[part + 1]]
            taken[where] = self._parts[part][positions[where] - self._starts[part]]
        return taken


def ranges(starts: Int64s, lengths: Int64s) -> Int64s:
    """start, start + 1 ... of each range, one after the other."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(starts - (ends - lengths), lengths) + np.arange(total, dtype=np.int64)


@dataclass(frozen=True)
class Shard:
    """One shard, opened. Document and sentence starts are positions in `tokens`, and both lists
    end with the number of tokens."""

    tokens: Tokens
    documents: Int64s
    sentences: Int64s


class TokenStream:
    """Random access to several shards as one contiguous stream of tokens.

    Each document is its tokens and a last [SEP]; sentences cut documents without a gap.
    """

    def __init__(self, shards: Sequence[Shard], dtype: np.dtype[Any]) -> None:
        self.shards = [shard for shard in shards if len(shard.tokens)]
        self.tokens = Joined([shard.tokens for shard in self.shards], dtype)
        self.num_tokens = len(self.tokens)
        self.num_documents = sum(len(shard.documents) - 1 for shard in self.shards)
        self.num_sentences = sum(len(shard.sentences) - 1 for shard in self.shards)

    def read(self, start: int, stop: int) -> Tokens:
        """The ids at [start, stop), 1-D, in the dtype of the shards."""
        return self.tokens.read(start, stop)

    @cached_property
    def token_starts(self) -> Int64s:
        """Of each shard, in the stream."""
        return np.cumsum([0, *(len(shard.tokens) for shard in self.shards)], dtype=np.int64)

    @cached_property
    def sentence_starts(self) -> Int64s:
        """Of each shard, the number of its first sentence."""
        counts = [0, *(len(shard.sentences) - 1 for shard in self.shards)]
        return np.cumsum(counts, dtype=np.int64)

    @cached_property
    def _sentences(self) -> Joined:
        return Joined([shard.sentences[:-1] for shard in self.shards], np.dtype(np.int64))

    def sentence_positions(self, first: Int64s, counts: Int64s) -> Int64s:
        """Starts, in the stream, of sentences first ... first + count of each range."""
        local: Int64s = self._sentences.take(first, counts)
        shard = np.searchsorted(self.sentence_starts, first, side="right") - 1
        return local + np.repeat(self.token_starts[shard], counts)
