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

        A slice for each range and one call that joins them: 0.3 us a range, however many parts
        there are. A gather would need the position of every entry.
        """
        if not len(starts) or not len(self):
            assert not lengths.any()
            return np.zeros(0, self._dtype)
        starts, stops = _merged(starts, starts + lengths)
        assert starts.min() >= 0
        assert stops.max() <= len(self)
        number = np.searchsorted(self._starts[:-1], starts, side="right") - 1
        first, parts = self._starts[number], self._parts
        places = (number.tolist(), (starts - first).tolist(), (stops - first).tolist())
        found = [parts[n][start:stop] for n, start, stop in zip(*places, strict=True)]
        for cut in np.flatnonzero(stops > self._starts[number + 1]).tolist():
            found[cut] = self.read(int(starts[cut]), int(stops[cut]))  # from one part into the next
        return np.concatenate(found)


def _merged(starts: Int64s, stops: Int64s) -> tuple[Int64s, Int64s]:
    """Ranges, of which one that begins where the one before it ends is joined to it."""
    opens = np.flatnonzero(starts[1:] != stops[:-1]) + 1
    return starts[np.append(0, opens)], stops[np.append(opens - 1, len(stops) - 1)]


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
        self.dtype = dtype
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
