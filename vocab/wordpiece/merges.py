"""Byte-pair merges over flat arrays: exact, in some 60 bytes a symbol, without a loop over words.

Symbols of all words lie in one array, words parted by a boundary. Pairs whose count is below a
threshold cannot be merged before those above it, so only pairs above it are indexed; once they are
used up the arrays are compacted and indexed again with a lower threshold. Counts are 64-bit.
"""

import heapq
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from electrify.system.progress import Progress

PREFIX = "##"
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
BOUNDARY = -1
_DEAD = -2  # the second half of a merged pair
_PAIRS_INDEXED = 20_000  # at a time: more is memory, fewer is time for indexing again
_FEW = 400  # occurrences, up to which loops over them are faster than calls of numpy
_SHIFT = 32
_LOW = (1 << _SHIFT) - 1

Ints = NDArray[np.integer[Any]]


class PairMerger:
    """Merges the most frequent adjacent pair of pieces, again and again (Sennrich et al. 2016).

    Ties go to the pair of lower ids.
    """

    def __init__(self, symbols: Ints, counts: Ints, first_pieces: Sequence[str]) -> None:
        """`symbols`: ids with a BOUNDARY first, last and between words; `counts`: one a symbol."""
        assert symbols[0] == BOUNDARY == symbols[-1]
        self.pieces = list(first_pieces)
        self._piece_ids = {piece: index for index, piece in enumerate(self.pieces)}
        self._ids = symbols.astype(np.int32, copy=False)
        self._weights = counts
        self._next = np.empty(0, np.int32)
        self._previous = np.empty(0, np.int32)
        self._pair_counts: dict[int, int] = {}
        self._where: dict[int, Ints] = {}
        self._heap: list[tuple[int, int]] = []  # negative count, pair
        self._threshold = 0

    def merge_until(self, size: int, min_frequency: int) -> None:
        """Add pieces until there are `size`, or no pair occurs `min_frequency` times."""
        with Progress("WordPiece merges", size, "pieces", initial=len(self.pieces)) as progress:
            while len(self.pieces) < size:
                if not self._heap:
                    if self._threshold == min_frequency:
                        return
                    self._index(min_frequency)
                    continue
                before = len(self.pieces)
                self._step()
                progress.update(len(self.pieces) - before)

    def _step(self) -> None:
        negative, key = heapq.heappop(self._heap)
        count = self._pair_counts.get(key, 0)
        if count < self._threshold:
            return
        if count < -negative:  # it fell since it was pushed
            heapq.heappush(self._heap, (-count, key))
            return
        self._merge(key)

    def _index(self, min_frequency: int) -> None:
        """Drop merged-away symbols and index the most frequent pairs, down to a lower threshold."""
        alive = self._ids != _DEAD
        self._ids, self._weights = self._ids[alive], self._weights[alive]
        self._next = np.arange(1, len(self._ids) + 1, dtype=np.int32)
        self._previous = np.arange(-1, len(self._ids) - 1, dtype=np.int32)
        self._pair_counts, self._where = {}, {}  # before the new ones are made
        at, groups = self._grouped(np.arange(len(self._ids) - 1, dtype=np.int32))
        sums = groups[:, 1]
        self._threshold = min_frequency
        if len(sums) > _PAIRS_INDEXED:
            kth = int(np.partition(sums, -_PAIRS_INDEXED)[-_PAIRS_INDEXED])
            self._threshold = max(min_frequency, kth)
        chosen = groups[sums >= self._threshold].tolist()
        self._pair_counts = {key: count for key, count, _, _ in chosen}
        self._where = {key: at[start:end].copy() for key, _, start, end in chosen}
        self._heap = [(-count, key) for key, count in self._pair_counts.items()]
        heapq.heapify(self._heap)

    def _merge(self, key: int) -> None:
        first, second = key >> _SHIFT, key & _LOW
        new, is_new = self._new_piece(first, second)
        del self._pair_counts[key]
        at = self._occurrences(self._where.pop(key), first, second)
        behind, before = self._next[at], self._previous[at]
        after = self._next[behind]
        if is_new and len(at) <= _FEW:
            ids_before, ids_after = self._ids[before], self._ids[after]
            weights = self._weights[at].tolist()
            left = _sum_by(ids_before.tolist(), weights)
            right = _sum_by(ids_after.tolist(), weights)
            if not (second in left and first in right):  # else one may stand behind another
                self._replace(at, behind, after, new)
                for neighbour, gone in left.items():
                    self._take((neighbour << _SHIFT) | first, gone)
                    if gone >= self._threshold:
                        where = before[ids_before == neighbour]
                        self._put((neighbour << _SHIFT) | new, gone, where)
                for neighbour, gone in right.items():
                    self._take((second << _SHIFT) | neighbour, gone)
                    if gone >= self._threshold:
                        self._put((new << _SHIFT) | neighbour, gone, at[ids_after == neighbour])
                return
        # pairs that go: those of the neighbours; what stands between two occurrences goes once
        _, groups = self._grouped(np.concatenate([before[_unlike(before, behind)], behind]))
        for key, gone, _, _ in groups.tolist():
            self._take(key, gone)
        self._replace(at, behind, after, new)
        if not is_new:  # spelt before by another pair: count all its occurrences
            at = np.flatnonzero(self._ids == new).astype(np.int32)
        before = self._previous[at]
        # they are all there are of these pairs
        at, groups = self._grouped(np.concatenate([before[_unlike(before, at)], at]))
        for key, count, start, end in groups[groups[:, 1] >= self._threshold].tolist():
            self._put(key, count, at[start:end].copy())

    def _replace(self, at: Ints, behind: Ints, after: Ints, new: int) -> None:
        self._ids[at], self._ids[behind] = new, _DEAD
        self._next[at], self._previous[after] = after, at

    def _take(self, key: int, gone: int) -> None:
        """Lower the count of a pair, if it is indexed."""
        count = self._pair_counts.get(key)
        if count is None:
            return
        if count - gone < self._threshold:
            del self._pair_counts[key], self._where[key]
        else:
            self._pair_counts[key] = count - gone

    def _put(self, key: int, count: int, where: Ints) -> None:
        """Index a pair."""
        self._pair_counts[key], self._where[key] = count, where
        heapq.heappush(self._heap, (-count, key))

    def _new_piece(self, first: int, second: int) -> tuple[int, bool]:
        # two pairs can spell one piece: a + ##bc and ab + ##c
        piece = self.pieces[first] + self.pieces[second].removeprefix(PREFIX)
        known = self._piece_ids.setdefault(piece, len(self.pieces))
        if known < len(self.pieces):
            return known, False
        self.pieces.append(piece)
        return known, True

    def _occurrences(self, at: Ints, first: int, second: int) -> Ints:
        """Where the pair still stands; in `aaa`, from the left and without overlap."""
        at = at[self._ids[at] == first]
        at = at[self._ids[self._next[at]] == second]
        if first != second or len(at) < 2:
            return at
        at.sort()
        starts = np.ones(len(at), bool)
        starts[1:] = self._next[at[:-1]] != at[1:]
        run_start = np.maximum.accumulate(np.where(starts, np.arange(len(at)), 0))
        even: Ints = at[(np.arange(len(at)) - run_start) % 2 == 0]
        return even

    def _grouped(self, at: Ints) -> tuple[Ints, NDArray[np.int64]]:
        """The positions where a pair starts, those of one pair together, and for each pair a row:
        the pair, its count, and where its positions begin and end."""
        left, right = self._ids[at].astype(np.int64), self._ids[self._next[at]]
        there = (left >= 0) & (right >= 0)
        at, keys = at[there], (left[there] << _SHIFT) | right[there]
        order = np.argsort(keys, kind="stable")
        at, keys = at[order], keys[order]
        starts = np.flatnonzero(np.diff(keys, prepend=-1))
        sums = np.add.reduceat(self._weights[at], starts, dtype=np.int64) if len(at) else starts
        ends = np.append(starts, len(at))[1:]
        return at, np.stack([keys[starts], sums, starts, ends], axis=1)


def _sum_by(keys: list[int], weights: list[int]) -> dict[int, int]:
    """The sum of weights of each key that is a piece."""
    sums: dict[int, int] = {}
    for key, weight in zip(keys, weights, strict=True):
        if key >= 0:
            sums[key] = sums.get(key, 0) + weight
    return sums


def _unlike(before: Ints, last: Ints) -> NDArray[np.bool_]:
    """False where the symbol before an occurrence is the last of the occurrence before it."""
    unlike = np.ones(len(before), bool)
    unlike[1:] = before[1:] != last[:-1]
    return unlike
