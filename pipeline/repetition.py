"""How much of a text repeats itself, from hashes of its words: numpy, no dictionary of n-grams."""

import numpy as np
from numpy.typing import NDArray


def grams(keys: NDArray[np.uint64], size: int) -> NDArray[np.uint64]:
    """A hash of every run of `size` units: sum of key_i * odd^i modulo 2^64, mixed."""
    powers = np.cumprod(np.full(size, 0x9E3779B97F4A7C15, dtype=np.uint64))
    mixed = keys * np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(31)
    num = len(keys) - size + 1
    hashes: NDArray[np.uint64] = mixed[:num] * powers[0]
    for index in range(1, size):
        hashes += mixed[index : index + num] * powers[index]
    return hashes


def repeated_fraction(keys: NDArray[np.uint64], lengths: NDArray[np.int64], size: int) -> float:
    """Share of the characters that lie in a run of `size` units that stood earlier in the text.

    Never more for a larger size: a repeated long run is made of repeated short ones.
    """
    if len(keys) <= size:
        return 0.0
    hashes = grams(keys, size)
    chosen = _not_alone(hashes)
    ordered = np.sort(hashes[chosen])  # 5 times faster than argsort
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    if not len(repeated):
        return 0.0
    at = np.minimum(np.searchsorted(repeated, hashes[chosen]), len(repeated) - 1)
    places = chosen[repeated[at] == hashes[chosen]]
    order = places[np.argsort(hashes[places], kind="stable")]
    again = order[1:][hashes[order[1:]] == hashes[order[:-1]]]
    # +1 where a repeated run starts, -1 behind it: inside is where the sum is positive
    edges = np.bincount(again, minlength=len(keys) + 1)
    edges -= np.bincount(again + size, minlength=len(keys) + 1)
    inside = np.cumsum(edges)[:-1] > 0
    return float(lengths[inside].sum() / lengths.sum())


def top_fraction(keys: NDArray[np.uint64], lengths: NDArray[np.int64], size: int) -> float:
    """Share of the characters in the most frequent run of `size` units; the longest of a tie.

    Overlapping runs count as often as they stand, as with Gopher; 0 if none stands twice.
    """
    if len(keys) <= size:
        return 0.0
    hashes = grams(keys, size)
    ordered = np.sort(hashes[_not_alone(hashes)])
    if not len(ordered):
        return 0.0
    edges = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    starts = np.concatenate(([0], edges))
    counts = np.concatenate((edges, [len(ordered)])) - starts
    highest = int(counts.max())
    if highest == 1:
        return 0.0
    most = ordered[starts[counts == highest]]
    at = np.minimum(np.searchsorted(most, hashes), len(most) - 1)
    places = np.flatnonzero(most[at] == hashes)
    ends = np.cumsum(lengths)
    longest = int((ends[places + size - 1] - ends[places] + lengths[places]).max())
    return min(1.0, longest * highest / int(ends[-1]))


def most_in_a_bin(keys: NDArray[np.uint64], size: int) -> int:
    """The most frequent run of `size` units stands in the text no more often; nearly as often."""
    if len(keys) < size:
        return 0
    return int(np.bincount(_bins(grams(keys, size))).max())


def _not_alone(hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Places of those that may stand twice: counting bins takes a tenth of the time of sorting."""
    bins = _bins(hashes)
    return np.flatnonzero(np.bincount(bins).take(bins) > 1)


def _bins(hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The first bits of each hash: four to eight bins for each of them."""
    bits = len(hashes).bit_length() + 2
    return (hashes >> np.uint64(64 - bits)).view(np.int64)
