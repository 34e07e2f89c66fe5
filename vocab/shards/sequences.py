"""Sequences of one length from a folder of shards, each computable from its number.

The order of sequences is endless: languages by their fractions, each in shuffled epochs of its own.
The position in it is all there is to save: a run that resumes at step s reads on at position s
times the batch size, bit for bit, and batch size or number of ranks may change without a loader
state. Random numbers are pure functions of a key and an index: any one is computed without those
before it, and a sequence length is chosen when the shards are read, not when they are written.
"""

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from electrify.config.pretrain import SequenceConfig
from electrify.system.outcome import UserError
from electrify.system.progress import warn
from pipeline.dedup.minhash import splitmix64
from vocab.shards.files import Int64s, Tokens, TokenShards, TokenStream

SINGLE_SEGMENT = 0.1  # as build_pretraining_dataset.py of google-research/electra has it
_ROUNDS = 8  # of the Feistel network
PERIOD = 65_536  # positions after which the schedule of languages repeats


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


class PackedSequences:
    """A language's stream of tokens in full sequences, from one document on into the next.

    `[CLS] A [SEP] B [SEP]` with token type 1 in B and its [SEP]; one in ten is a single segment
    `[CLS] A [SEP]`. Sequence i begins at token i (L - 3): A is the first (L - 3) // 2 of its L - 3
    tokens, B the rest. A single segment has L - 2 tokens: its last token is also the first of
    sequence i + 1. The last sequence begins earlier, so that it is full too: every token is in a
    sequence, nothing is padded, and some tokens of the end come twice.
    """

    def __init__(
        self, stream: TokenStream, length: int, key: object, special_token_ids: Mapping[str, int]
    ) -> None:
        if length < 8:
            raise UserError(f"sequence_length = {length} is less than 8")
        self._stream, self._length = stream, length
        self._cls, self._sep = special_token_ids["[CLS]"], special_token_ids["[SEP]"]
        self._content = length - 3
        fits = stream.num_tokens >= length - 2  # any sequence may be a single segment
        self.num_sequences = -(-stream.num_tokens // self._content) if fits else 0
        self._single = make_key(key, "single")

    def batch(self, indices: Int64s) -> tuple[Tokens, NDArray[np.uint8]]:
        """Sequences by number: `input_ids` [n, L] as narrow as the shards, `token_type_ids` [n, L]
        uint8."""
        indices = np.asarray(indices, np.int64)
        assert ((indices >= 0) & (indices < self.num_sequences)).all()
        is_single = uniform(self._single, indices) < SINGLE_SEGMENT
        lengths = self._content + is_single
        starts = np.minimum(indices * self._content, self._stream.num_tokens - lengths)
        ids = np.full((len(indices), self._length), self._sep, self._stream.dtype)
        ids[:, 0] = self._cls
        column = np.arange(self._length)
        first = np.where(is_single, lengths, self._content // 2)[:, None]
        # the last column and, between the segments, column first + 1 are [SEP]
        is_text = (column > 0) & (column != first + 1) & (column < self._length - 1)
        ids[is_text] = self._stream.take(starts, lengths)
        return ids, (column > first + 1).view(np.uint8)


class Schedule:
    """Which sequence stands at a position of the endless order, from the position alone.

    Where languages are drawn as the corpus has them there is one shuffle over all sequences, and
    every epoch holds each exactly once. With other fractions a small language may be drawn more
    often than it has text: a table of `PERIOD` positions says whose turn it is. Every stretch of it
    has each language by its fraction, to within two. Each language goes through shuffles of its
    own, a new one each time it has been read through.
    """

    def __init__(self, sizes: Sequence[int], fractions: Sequence[float] | None, seed: int) -> None:
        """`fractions` None: as the sizes are."""
        assert sum(sizes) > 0
        self.sizes, self._seed = tuple(sizes), seed
        self._firsts = np.cumsum([0, *sizes])[:-1]
        if fractions is None or sum(size > 0 for size in sizes) == 1:
            self.fractions = [size / sum(sizes) for size in sizes]
            self._group_sizes, self._group_firsts = np.array([sum(sizes)]), np.array([0])
            self._quotas = np.array([PERIOD])
        else:
            self._group_sizes, self._group_firsts = np.array(sizes), self._firsts
            self._quotas = whole_quotas(np.array(fractions), PERIOD)
            self.fractions = [int(quota) / PERIOD for quota in self._quotas]
        self._turn, self._nth = _table(self._quotas, make_key(seed, "schedule"))

    def indices(self, positions: Int64s) -> Int64s:
        """The sequence at each position; sequences are numbered language after language."""
        period, offset = np.divmod(positions, PERIOD)
        group = self._turn[offset]
        nth = period * self._quotas[group] + self._nth[offset]
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
        pairs = zip(self.fractions, self.sizes, strict=True)
        return [fraction * num_positions / size if size else 0.0 for fraction, size in pairs]


def sampling_fractions(
    sizes: Mapping[str, float], temperature: float, weight: Mapping[str, float] | None = None
) -> dict[str, float]:
    """The fraction of each language in a mixture, p ~ weight size^temperature: 1 as they are, 0 all
    alike.

    Empty languages get nothing. Fractions sum to one. `UserError` where all weights are 0.
    """
    largest = max(sizes.values(), default=0)
    powers = {
        name: (weight or {}).get(name, 1.0) * (size / largest) ** temperature if size else 0.0
        for name, size in sizes.items()
    }
    total = sum(powers.values())
    if largest and not total:
        raise UserError(f"pretrain.mixture.weight = {dict(weight or {})} leaves no text to read")
    return {name: power / total for name, power in powers.items()} if total else dict(powers)


def whole_quotas(fractions: NDArray[np.float64], total: int) -> Int64s:
    """Whole numbers in proportion to the fractions, which sum to `total`: by largest remainder.

    At least 1 where the fraction is above 0.
    """
    exact = fractions / fractions.sum() * total
    quotas: Int64s = np.maximum(np.floor(exact), fractions > 0).astype(np.int64)
    while quotas.sum() != total:
        step = 1 if quotas.sum() < total else -1
        gap = np.where((fractions > 0) & (quotas + step > 0), step * (exact - quotas), -np.inf)
        quotas[np.argmax(gap)] += step
    return quotas


def _table(quotas: Int64s, key: int) -> tuple[Int64s, Int64s]:
    """Whose turn each position is, and how many turns of the same language came before it.

    The j-th of a language's q turns falls at a random place of the j-th of q equal stretches of
    the period: even everywhere, but no beat that could fall in step with ranks.
    """
    language = np.repeat(np.arange(len(quotas)), quotas)
    nth = np.arange(PERIOD) - np.repeat(np.cumsum(quotas) - quotas, quotas)
    places = (nth + uniform(key, np.arange(PERIOD))) / quotas[language]
    order = np.argsort(places, kind="stable")
    # within a language places rise, so its turns stay in their order
    return language[order], nth[order]


class SequenceReader:
    """One split of a shards folder as an endless, shuffled run of sequences of L tokens."""

    def __init__(self, shards: TokenShards, split: str, options: SequenceConfig, seed: int) -> None:
        """`UserError` if no language fills a sequence."""
        length = options.sequence_length
        self.languages = shards.languages(split)
        streams = [shards.stream(split, language) for language in self.languages]
        self._packed = [
            PackedSequences(stream, length, (seed, language), shards.special_token_ids)
            for language, stream in zip(self.languages, streams, strict=True)
        ]
        sizes = [packed.num_sequences for packed in self._packed]
        if not sum(sizes):
            raise UserError(
                f"the {sum(stream.num_tokens for stream in streams):,} tokens of the {split} split "
                f"do not fill one sequence of pretrain.sequence_length = {length} ({length - 2} "
                "tokens of one language needed): give more text, a "
                f"{'larger' if split == 'valid' else 'smaller'} encode.valid_fraction or a shorter "
                "pretrain.sequence_length"
            )
        for language, stream, size in zip(self.languages, streams, sizes, strict=True):
            if not size:
                warn(
                    f"{language} is left out of the {split} split: its {stream.num_tokens:,} "
                    f"tokens do not fill one sequence of {length}"
                )
        self.num_sequences = sum(sizes)  # of one pass over everything
        self.sequence_length = length
        self._dtype = shards.dtype
        mixture = options.mixture
        fractions = sampling_fractions(
            dict(zip(self.languages, map(float, sizes), strict=True)),
            mixture.temperature,
            mixture.weight,
        )
        given = None if mixture.follows_the_corpus else [*fractions.values()]
        self.schedule = Schedule(sizes, given, make_key(seed, split))

    def indices(self, first: int, count: int, rank: int = 0, num_ranks: int = 1) -> Int64s:
        """The sequences at positions first ... first + count of the endless order.

        Rank r of R gets every R-th of them, from the r-th on: together the ranks get what one alone
        would.
        """
        return self.schedule.indices(np.arange(first + rank, first + count, num_ranks))

    def sequences(self, indices: Int64s) -> tuple[Tokens, NDArray[np.uint8]]:
        """Sequences by number, 0 ... `num_sequences`, language after language: ids [n, L] as narrow
        as the shards, types [n, L] uint8."""
        language, local = self.schedule.locate(indices)
        shape = len(indices), self.sequence_length
        ids, types = np.empty(shape, self._dtype), np.empty(shape, np.uint8)
        for number in np.unique(language).tolist():
            rows = np.flatnonzero(language == number)
            ids[rows], types[rows] = self._packed[number].batch(local[rows])
        return ids, types

    def language_numbers(self, indices: Int64s) -> Int64s:
        """The index in `languages` of the language of each of these sequences."""
        return self.schedule.locate(indices)[0]

    def passes(self, num_sequences: int) -> dict[str, float]:
        """How often each language's text is read in so many sequences."""
        return dict(zip(self.languages, self.schedule.passes(num_sequences), strict=True))
