"""A WordPiece vocabulary from counts of words: pairs of pieces merged by frequency (BPE).

Hugging Face calls this WordPiece training, too. Their trainer cannot take counts, overflows pair
counts above 2^31 and knows continuing pieces (`##`) only inside a unit; here a unit may itself
continue a word. That is how morphemes guide the pieces: the units are morphemes, no piece crosses
their border, and 에서 behind 학교 is learnt as `##에서`, which is what run time looks for.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from itertools import pairwise

from electrify.progress import Progress, warn
from vocab.pretokenize import is_isolated, morphemes_of

PREFIX = "##"
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
# Above this, rare words are left out: pure Python needs some 1 KB and 60 us for each.
MAX_TRAINING_WORDS = 500_000
_KIWI_WORDS = 50_000  # between two updates of the progress bar

Pair = tuple[int, int]


@dataclass(frozen=True)
class Vocabulary:
    """Pieces in the order of their ids: special tokens, characters, merges as they were made."""

    pieces: list[str]
    num_characters: int  # covered
    num_characters_seen: int
    num_words: int  # distinct, that took part in training
    min_word_count: int  # of those words


def train_wordpiece(
    words: Mapping[str, int],
    size: int,
    use_morphemes: bool,
    min_frequency: int,
    limit_alphabet: int,
    lowercase: bool = False,
) -> Vocabulary:
    """Learn exactly `size` pieces from distinct words with their counts.

    Each of the `limit_alphabet` most frequent characters gets a piece and, unless it always stands
    alone (punctuation, ideographs), its `##` form, so no word of covered characters is [UNK].
    Deterministic. `ValueError` if the words do not yield that many pieces.
    """
    kept, min_count = frequent_words(words, MAX_TRAINING_WORDS)
    seen = characters(words)
    covered = nsmallest(limit_alphabet, seen, key=lambda character: (-seen[character], character))
    alphabet = _alphabet_pieces(covered, lowercase)
    _check_room(size, len(alphabet), limit_alphabet)
    units = training_units(kept, use_morphemes)
    learner = _Learner(units, [*SPECIAL_TOKENS, *alphabet])
    learner.merge_until(size, min_frequency)
    if len(learner.pieces) < size:
        raise ValueError(
            f"vocab.size = {size}, but the text yields {len(learner.pieces)} pieces at "
            f"vocab.min_frequency = {min_frequency} ({len(words)} distinct words): set vocab.size "
            f"to at most {len(learner.pieces)}, lower vocab.min_frequency, or give more text"
        )
    return Vocabulary(learner.pieces, len(covered), len(seen), len(kept), min_count)


def frequent_words(words: Mapping[str, int], limit: int) -> tuple[dict[str, int], int]:
    """The words with a count of at least t, and the least t that leaves at most `limit` of them.

    A bound on the count, not on the rank, so that no word is cut by its spelling.
    """
    if len(words) <= limit:
        return dict(words), min(words.values(), default=0)
    threshold = sorted(words.values(), reverse=True)[limit] + 1
    return {word: count for word, count in words.items() if count >= threshold}, threshold


def characters(words: Mapping[str, int]) -> Counter[str]:
    """How often each character occurs."""
    seen: Counter[str] = Counter()
    for word, count in words.items():
        for character in word:
            seen[character] += count
    return seen


def training_units(words: Mapping[str, int], use_morphemes: bool) -> Counter[str]:
    """Units with their counts; `##` leads a unit that continues a word, as in `##에서`.

    A word cannot start with `##` itself: `#` is punctuation and always stands alone.
    """
    if not use_morphemes:
        return Counter(words)
    units: Counter[str] = Counter()
    listed = sorted(words)
    with Progress("morphemes", len(listed), "words") as progress:
        for start in range(0, len(listed), _KIWI_WORDS):
            batch = listed[start : start + _KIWI_WORDS]
            for word, (first, *rest) in zip(batch, morphemes_of(batch), strict=True):
                units[first] += words[word]
                for piece in rest:
                    units[PREFIX + piece] += words[word]
            progress.update(len(batch))
    return units


def _check_room(size: int, num_alphabet: int, limit_alphabet: int) -> None:
    left = size - len(SPECIAL_TOKENS) - num_alphabet
    numbers = f"characters take {num_alphabet} of vocab.size = {size} pieces"
    advice = f"raise vocab.size or lower vocab.limit_alphabet = {limit_alphabet}"
    if left < 0:
        raise ValueError(f"{numbers}, beside {len(SPECIAL_TOKENS)} special tokens: {advice}")
    if left < size // 4:
        warn(f"{numbers}, so few are left for longer pieces: {advice}")


def _alphabet_pieces(covered: Iterable[str], lowercase: bool) -> list[str]:
    plain = sorted(covered)
    return plain + [PREFIX + char for char in plain if not is_isolated(char, lowercase)]


def symbols(unit: str) -> list[str]:
    """The one-character pieces of a unit: 학교 is 학 ##교, ##에서 is ##에 ##서."""
    start = len(PREFIX) if len(unit) > len(PREFIX) and unit.startswith(PREFIX) else 0
    continuing = [PREFIX + character for character in unit[start + 1 :]]
    return [unit[: start + 1], *continuing]


class _Learner:
    """Merges the most frequent adjacent pair of pieces, again and again (Sennrich et al. 2016)."""

    def __init__(self, units: Mapping[str, int], first_pieces: Sequence[str]) -> None:
        self.pieces = list(first_pieces)
        self._ids = {piece: index for index, piece in enumerate(self.pieces)}
        self._units: list[list[int]] = []
        self._counts: list[int] = []
        self._pair_counts: defaultdict[Pair, int] = defaultdict(int)
        self._where: defaultdict[Pair, set[int]] = defaultdict(set)  # units that may hold the pair
        for unit in sorted(units):
            for run in self._covered_runs(unit):
                self._add(run, units[unit])
        self._heap = [(-count, pair) for pair, count in self._pair_counts.items()]
        heapq.heapify(self._heap)

    def merge_until(self, size: int, min_frequency: int) -> None:
        """Add pieces until there are `size`, or no pair occurs `min_frequency` times."""
        with Progress("WordPiece merges", size, "pieces", initial=len(self.pieces)) as progress:
            while len(self.pieces) < size and self._heap:
                negative, pair = heapq.heappop(self._heap)
                count = self._pair_counts.get(pair, 0)
                if count != -negative:  # an old entry: the count fell since it was pushed
                    if 0 < count < -negative:
                        heapq.heappush(self._heap, (-count, pair))
                    continue
                if count < min_frequency:
                    break
                before = len(self.pieces)
                self._merge(pair)
                progress.update(len(self.pieces) - before)

    def _covered_runs(self, unit: str) -> list[list[int]]:
        """The unit as ids, cut where a character is not covered."""
        runs: list[list[int]] = [[]]
        for symbol in symbols(unit):
            if symbol in self._ids:
                runs[-1].append(self._ids[symbol])
            else:
                runs.append([])
        return [run for run in runs if len(run) > 1]  # a single piece has nothing to merge

    def _add(self, unit: list[int], count: int) -> None:
        for pair in pairwise(unit):
            self._pair_counts[pair] += count
            self._where[pair].add(len(self._units))
        self._units.append(unit)
        self._counts.append(count)

    def _merge(self, pair: Pair) -> None:
        new = self._new_piece(pair)
        grown: set[Pair] = set()
        for index in self._where.pop(pair):
            old, count = self._units[index], self._counts[index]
            unit = _merged(old, pair, new)
            if len(unit) == len(old):  # the pair went with an earlier merge
                continue
            for gone in pairwise(old):
                self._pair_counts[gone] -= count
            for here in pairwise(unit):
                self._pair_counts[here] += count
                if new in here:
                    self._where[here].add(index)
                    grown.add(here)
            self._units[index] = unit
        self._pair_counts.pop(pair, None)
        for here in grown:
            heapq.heappush(self._heap, (-self._pair_counts[here], here))

    def _new_piece(self, pair: Pair) -> int:
        # two pairs can spell one piece: a + ##bc and ab + ##c
        piece = self.pieces[pair[0]] + self.pieces[pair[1]].removeprefix(PREFIX)
        if piece not in self._ids:
            self._ids[piece] = len(self.pieces)
            self.pieces.append(piece)
        return self._ids[piece]


def _merged(unit: list[int], pair: Pair, new: int) -> list[int]:
    merged, index = [], 0
    while index < len(unit):
        if tuple(unit[index : index + 2]) == pair:
            merged.append(new)
            index += 2
        else:
            merged.append(unit[index])
            index += 1
    return merged
