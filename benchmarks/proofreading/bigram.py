"""A bigram model of token ids with interpolated Kneser-Ney smoothing (Kneser and Ney 1995)."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from benchmarks.metrics.weighted import Floats
from electrify.system.outcome import UserError

Ids = NDArray[np.int64]


class Bigrams:
    """Counts of single ids and of pairs of ids in a text.

    p(b | a) = max(c(ab) - d, 0) / c(a) + d N(a) / c(a) q(b). N(a) is the number of different ids
    behind a, q(b) the share of all different pairs that end in b, with one more pair for each id.
    The discount d is n1 / (n1 + 2 n2) of the numbers of pairs seen once and twice (Ney et al.
    1994).
    """

    def __init__(self, sequences: Iterable[Ids], num_ids: int) -> None:
        """Raises `ValueError` if no sequence has two ids."""
        rows = [row for row in sequences if len(row) > 1]
        if not rows:
            raise UserError("no pair of pieces to count: give a corpus with text in it")
        codes = np.concatenate([row[:-1] * num_ids + row[1:] for row in rows])
        self._pairs, self._counts = np.unique(codes, return_counts=True)
        first, second = np.divmod(self._pairs, num_ids)
        once, twice = (int((self._counts == n).sum()) for n in (1, 2))
        self._discount = once / (once + 2 * twice) if once else 0.0
        self._num_before = np.bincount(first, self._counts, num_ids)
        self._followers = np.bincount(first, minlength=num_ids)
        self._continuation = (np.bincount(second, minlength=num_ids) + 1) / (len(first) + num_ids)
        ones = np.bincount(np.concatenate(rows), minlength=num_ids) + 1
        self._unigram = ones / ones.sum()
        self._num_ids = num_ids

    def surprisals(self, ids: Ids) -> Floats:
        """-log p of each id after the one before it, (T - 1,), in nats."""
        first, second = ids[:-1], ids[1:]
        codes = first * self._num_ids + second
        places = np.minimum(np.searchsorted(self._pairs, codes), len(self._pairs) - 1)
        counts = np.where(self._pairs[places] == codes, self._counts[places], 0)
        total = np.maximum(self._num_before[first], 1)
        reserved = np.where(
            self._num_before[first] > 0, self._discount * self._followers[first] / total, 1.0
        )
        seen = np.maximum(counts - self._discount, 0) / total
        with np.errstate(divide="ignore"):
            return np.asarray(-np.log(seen + reserved * self._continuation[second]))

    def rarities(self, ids: Ids) -> Floats:
        """-log of the share of each id but the first in the text, with one more of each."""
        return np.asarray(-np.log(self._unigram[ids[1:]]))
