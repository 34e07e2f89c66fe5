"""The endless order of sequences: languages in their shares, each in shuffled epochs of its own."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vocab.draws import make_key, permute, uniform
from vocab.mixture import sampling_shares
from vocab.stream import Int64s

PERIOD = 65_536  # positions after which the schedule of languages repeats


class Schedule:
    """Which sequence stands at a position of the endless order, from the position alone.

    Languages with n sequences are drawn in proportion to n ** temperature. At 1 there is one
    shuffle over all sequences, and every epoch holds each exactly once. Below 1 a small language
    is drawn more often than it has text: a table of `PERIOD` positions, in which every stretch has
    each language's share to within two, says whose turn it is, and each language goes through
    shuffles of its own, a new one each time it has been read through.
    """

    def __init__(self, sizes: Sequence[int], temperature: float, seed: int) -> None:
        assert sum(sizes) > 0
        self.sizes, self._seed = tuple(sizes), seed
        self._firsts = np.cumsum([0, *sizes])[:-1]
        if temperature == 1.0 or sum(size > 0 for size in sizes) == 1:
            self.shares = [size / sum(sizes) for size in sizes]
            self._group_sizes, self._group_firsts = np.array([sum(sizes)]), np.array([0])
            self._quotas = np.array([PERIOD])
        else:
            named = {str(number): float(size) for number, size in enumerate(sizes)}
            shares = np.array(list(sampling_shares(named, temperature).values()))
            self._group_sizes, self._group_firsts = np.array(sizes), self._firsts
            self._quotas = share_out(shares, PERIOD)
            self.shares = [int(quota) / PERIOD for quota in self._quotas]
        self._turn, self._nth = _table(self._quotas, make_key(seed, "schedule"))

    def indices(self, positions: Int64s) -> Int64s:
        """The sequence at each position; sequences are numbered language after language."""
        period, place = np.divmod(positions, PERIOD)
        group = self._turn[place]
        nth = period * self._quotas[group] + self._nth[place]
        epoch, step = np.divmod(nth, self._group_sizes[group])
        result = np.empty_like(positions)
        for which, when in sorted(set(zip(group.tolist(), epoch.tolist(), strict=True))):
            here = np.flatnonzero((group == which) & (epoch == when))
            key = make_key(self._seed, "order", which, when)
            size = int(self._group_sizes[which])
            result[here] = self._group_firsts[which] + permute(key, step[here], size)
        return result

    def locate(self, indices: Int64s) -> tuple[Int64s, Int64s]:
        """The language of each sequence, and its number in that language."""
        language = np.searchsorted(self._firsts, indices, side="right") - 1
        return language, indices - self._firsts[language]

    def passes(self, num_positions: int) -> list[float]:
        """How often each language's text is read in so many positions."""
        pairs = zip(self.shares, self.sizes, strict=True)
        return [share * num_positions / size if size else 0.0 for share, size in pairs]


def share_out(shares: NDArray[np.float64], total: int) -> Int64s:
    """Whole numbers in proportion to the shares, which sum to `total`: by largest remainder.

    At least 1 where the share is above 0.
    """
    exact = shares / shares.sum() * total
    quotas: Int64s = np.maximum(np.floor(exact), shares > 0).astype(np.int64)
    while quotas.sum() != total:
        step = 1 if quotas.sum() < total else -1
        gap = np.where((shares > 0) & (quotas + step > 0), step * (exact - quotas), -np.inf)
        quotas[np.argmax(gap)] += step
    return quotas


def _table(quotas: Int64s, key: int) -> tuple[Int64s, Int64s]:
    """Whose turn each position is, and how many turns of the same language came before it.

    The j-th of a language's q turns falls at a random place of the j-th of q equal stretches of
    the period: even shares everywhere, but no beat that could fall in step with ranks.
    """
    language = np.repeat(np.arange(len(quotas)), quotas)
    nth = np.arange(PERIOD) - np.repeat(np.cumsum(quotas) - quotas, quotas)
    places = (nth + uniform(key, np.arange(PERIOD))) / quotas[language]
    order = np.argsort(places, kind="stable")
    # within a language places rise, so its turns stay in their order
    return language[order], nth[order]
