"""Random numbers as pure functions of a key and a place: any one is had without those before it."""

import hashlib

import numpy as np
from numpy.typing import NDArray

from pipeline.dedup.minhash import splitmix64

_ROUNDS = 8  # of the Feistel network


def make_key(*parts: object) -> int:
    """A 63-bit key from a seed and names of what is drawn."""
    digest = hashlib.sha256(" ".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def hash_pair(seed: int, indices: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A 64-bit hash of (seed, i) for each i: the finaliser of SplitMix64, twice.

    A pure function of its arguments, so no order of calls can change it.
    """
    state = splitmix64(np.array([seed], np.uint64))
    return splitmix64(state + indices.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))


def uniform(key: int, indices: NDArray[np.int64]) -> NDArray[np.float64]:
    """A number in [0, 1) for each index, of 53 random bits."""
    return (hash_pair(key, indices) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def permute(key: int, indices: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Where a random permutation of 0 ... size - 1, fixed by the key, takes each index.

    A Feistel network on the next power of two, walked on until it is back below `size` (Black and
    Rogaway 2002): no table, so a corpus of any size is shuffled globally at once, and any stretch
    of the order is had from its number.
    """
    assert size > 0
    low_bits = max(1, (size - 1).bit_length() // 2)
    high_bits = max(1, (size - 1).bit_length() - low_bits)
    result = indices.astype(np.uint64)
    outside = np.arange(len(result))
    while len(outside):
        result[outside] = _feistel(key, result[outside], high_bits, low_bits)
        outside = outside[result[outside] >= size]
    return result.astype(np.int64)


def _feistel(
    key: int, values: NDArray[np.uint64], high_bits: int, low_bits: int
) -> NDArray[np.uint64]:
    """A bijection of the numbers of high_bits + low_bits bits."""
    shift = np.uint64(low_bits)
    high_mask, low_mask = np.uint64((1 << high_bits) - 1), np.uint64((1 << low_bits) - 1)
    high, low = values >> shift, values & low_mask
    for number in range(_ROUNDS):
        step = np.uint64((key + number * 0x9E3779B97F4A7C15) % 2**64)
        if number % 2:
            high ^= (splitmix64(low + step) >> np.uint64(16)) & high_mask
        else:
            low ^= (splitmix64(high + step) >> np.uint64(16)) & low_mask
    return (high << shift) | low
