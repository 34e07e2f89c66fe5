"""Batches of packed sequences from a folder of shards, each from its position alone.

The position is all there is to save: a run that resumes at step s reads on at position s times the
batch size, bit for bit, and batch size or number of ranks may change without a loader state.

The order of sequences is endless: languages by their fractions, each in shuffled epochs of its own.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from electrify.config.pretrain import SequenceConfig
from electrify.system.outcome import UserError
from electrify.system.progress import warn
from vocab.shards.files import Int64s, Tokens, TokenShards
from vocab.shards.pack import PackedSequences, make_key, permute, uniform

PERIOD = 65_536  # positions after which the schedule of languages repeats


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


def limited_fractions(
    fractions: Mapping[str, float], most: Mapping[str, float]
) -> dict[str, float]:
    """The fractions, none above its limit: what is over goes to the others in proportion.

    `UserError` where the limits leave positions without text.
    """
    limited: dict[str, float] = {}
    while True:
        free = {name: of for name, of in fractions.items() if name not in limited}
        scale = (1.0 - sum(limited.values())) / (sum(free.values()) or 1.0)
        over = {n: most[n] for n, of in free.items() if of and of * scale > most.get(n, np.inf)}
        if not over:
            break
        limited |= over
    if not any(free.values()) and sum(limited.values()) < 1.0 - 1e-9:
        raise UserError(
            f"pretrain.mixture: max_tokens and max_epochs leave {sum(limited.values()):.0%} of "
            f"what the steps read (of {', '.join(limited)}): take fewer steps, raise them or give "
            "more text"
        )
    return {name: limited.get(name, of * scale) for name, of in fractions.items()}


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

    def __init__(
        self,
        shards: TokenShards,
        split: str,
        options: SequenceConfig,
        seed: int,
    ) -> None:
        """`UserError` if no language fills a sequence."""
        length = options.sequence_length
        self.languages = shards.languages(split)
        streams = [shards.stream(split, language) for language in self.languages]
        self._packed = [
            PackedSequences(
                stream, options.packing, length, (seed, language), shards.special_token_ids
            )
            for language, stream in zip(self.languages, streams, strict=True)
        ]
        sizes = [packed.num_sequences for packed in self._packed]
        if not sum(sizes):
            raise UserError(
                f"the {sum(stream.num_tokens for stream in streams):,} tokens of the {split} split "
                f"do not fill one sequence of pretrain.sequence_length = {length} ({length - 2} "
                "tokens of one language needed): give more text, a "
                f"{'larger' if split == 'valid' else 'smaller'} encode.valid_fraction or a shorter "
                'pretrain.sequence_length, or pretrain.packing = "sentence", which pads'
            )
        for language, stream, size in zip(self.languages, streams, sizes, strict=True):
            if not size:
                warn(
                    f"{language} is left out of the {split} split: its {stream.num_tokens:,} "
                    f"tokens do not fill one sequence of {length}"
                )
        self.num_sequences = sum(sizes)  # of one pass over everything
        self.sequence_length = length
        self.is_full = all(packed.mode.is_full for packed in self._packed)
        self.mixture, self._key = options.mixture, make_key(seed, split)
        self.limit(None)
        self._dtype = shards.dtype

    def limit(self, most: Mapping[str, float] | None) -> None:
        """Draw no language beyond a fraction of the positions; None: as the mixture has them."""
        sizes = dict(zip(self.languages, [p.num_sequences for p in self._packed], strict=True))
        fractions = sampling_fractions(
            {name: float(size) for name, size in sizes.items()},
            self.mixture.temperature,
            self.mixture.weight,
        )
        is_limited = most is not None and any(
            fractions[name] > of for name, of in most.items() if sizes.get(name)
        )
        if is_limited:
            fractions = limited_fractions(fractions, most or {})
        follows = self.mixture.follows_the_corpus and not is_limited
        given = None if follows else [fractions[name] for name in self.languages]
        self.schedule = Schedule([*sizes.values()], given, self._key)

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
        """The place in `languages` of the language of each of these sequences."""
        return self.schedule.locate(indices)[0]

    def passes(self, num_sequences: int) -> dict[str, float]:
        """How often each language's text is read in so many sequences."""
        return dict(zip(self.languages, self.schedule.passes(num_sequences), strict=True))
