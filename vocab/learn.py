"""A WordPiece vocabulary from counts of words: grown by merging pairs, then pruned by use.

Growing is what Hugging Face calls WordPiece training (pair-frequency BPE), but from counts, with
64-bit sums, and with parts of words that pieces may not cross: that is how morphemes guide the
pieces, and why 에서 behind 학교 is learnt as `##에서`, which is what run time looks for.

Pruning is new. Merging and longest match do not agree on what a piece is worth: some pieces only
served as steps to longer ones, and some are taken across a boundary that training respected (`3 |
##명의` for 3명|의, where 명의 was seen elsewhere). So more pieces are learnt than are wanted, all
words are cut as the tokenizer will cut them, and those pieces go that lie across boundaries too
often, then those used least.

Merges are exact, in some 60 bytes a symbol, without a loop over words: symbols of all words lie in
one array, words parted by a boundary. Pairs whose count is below a threshold cannot be merged
before those above it, so only pairs above it are indexed; once they are used up the arrays are
compacted and indexed again with a lower threshold. Counts are 64-bit.
"""

import heapq
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from electrify.config.vocab import VocabConfig
from electrify.system.outcome import UserError
from electrify.system.progress import Progress, log, warn
from vocab.pretokenize import CUT, is_isolated
from vocab.segment import PREFIX, SPECIAL_TOKENS, Segmenter
from vocab.words import Batches, count_characters, word_points

BOUNDARY = -1
_DEAD = -2  # the second half of a merged pair
_PAIRS_INDEXED = 20_000  # at a time: more is memory, fewer is time for indexing again
_FEW = 400  # occurrences, up to which loops over them are faster than calls of numpy
_SHIFT = 32
_LOW = (1 << _SHIFT) - 1
_LEAST_FRACTION = 2e-6  # of the text, that a character is for a piece in an extended vocabulary

Ints = NDArray[np.integer[Any]]


def train_wordpiece(
    batches: Batches,
    options: VocabConfig,
    first_pieces: Sequence[str] = SPECIAL_TOKENS,
    may_be_fewer: bool = False,
) -> list[str]:
    """Learn exactly `options.size` pieces from distinct words with their counts: first pieces,
    characters, merges as they were made.

    `first_pieces` have the first ids: special tokens, or a vocabulary that is kept or extended.
    Each of the `limit_alphabet` most frequent characters gets a piece and, unless it always stands
    alone (punctuation, ideographs), its `##` form, so no word of covered characters is [UNK]. Where
    no limit is given and merges do not fill the size, as of ideographs, more characters do.
    Deterministic, whatever the order of the words. `ValueError` if they do not yield that many,
    unless there `may_be_fewer`.
    """
    seen, min_count = count_characters(batches, options.max_words)
    first = [*first_pieces, *_alphabet(options, first_pieces, seen)]
    pieces = _merged(batches, options, first, min_count)
    num_left = options.num_pieces - len(pieces)
    if num_left > 0 and not options.limit_alphabet and not options.extend:
        first = [*first_pieces, *_alphabet(options, first_pieces, seen, num_left)]
        pieces = _merged(batches, options, first, min_count)
    if len(pieces) < options.num_pieces and not may_be_fewer:
        # left out, the limit would fall with the size, and fewer characters give fewer pieces
        limit = max(options.num_characters, len(seen.keys() & set(first)))
        raise UserError(
            f"vocab.size = {options.size}, but the text yields {len(pieces)} pieces at "
            f"vocab.min_frequency = {options.min_frequency}: "
            f"set vocab.size to at most {len(pieces)} and vocab.limit_alphabet to {limit}, "
            "lower vocab.min_frequency, or give more text"
        )
    kept, num_crossing = prune(
        batches, pieces, len(first), options.num_pieces, options.max_crossing
    )
    log(
        f"{len(kept):,} pieces; {len(pieces) - len(kept):,} more were pruned, {num_crossing:,} of "
        "them because they lay across boundaries"
    )
    return kept


def _merged(
    batches: Batches, options: VocabConfig, first: Sequence[str], min_count: int
) -> list[str]:
    """`first`, and merges up to the size with its surplus."""
    if len(first) >= options.num_pieces:
        return [*first]
    merger = PairMerger(*flat_symbols(batches, min_count, first), first)
    merger.merge_until(round(options.num_pieces * (1 + options.surplus)), options.min_frequency)
    return merger.pieces


def _alphabet(
    options: VocabConfig, first_pieces: Sequence[str], seen: Mapping[str, int], num_more: int = 0
) -> list[str]:
    """The pieces of single characters that come behind the first pieces; `num_more` beyond the
    limit, of characters that occur `min_frequency` times.

    `ValueError` if a new vocabulary has no room for them. In one that is extended they take at most
    half of the new pieces, and one that hardly occurs gets none: it would learn nothing.
    """
    known, room = set(first_pieces), options.num_pieces - len(first_pieces)
    limit = options.num_characters
    ranked = sorted(seen, key=lambda character: (-seen[character], character))
    covered = ranked[:limit]

    def new_pieces(characters: Iterable[str]) -> list[str]:
        plain = sorted(characters)
        continuing = (PREFIX + c for c in plain if not is_isolated(c, options.lowercase))
        return [piece for piece in (*plain, *continuing) if piece not in known]

    def fitting(characters: Sequence[str], room: int) -> Sequence[str]:
        """The first of the characters, as many as their new pieces have room for."""
        ends = [*accumulate(len(new_pieces([character])) for character in characters)]
        return characters[: bisect_right(ends, room)]

    if options.extend:
        least = _LEAST_FRACTION * sum(seen.values())
        covered = [character for character in covered if seen[character] >= least]
        fits = fitting(covered, room // 2)
        if num_left := sum(bool(new_pieces([character])) for character in covered[len(fits) :]):
            taken = f"of the {room:,} pieces added to vocab.extend, characters take at most half"
            warn(
                f"{num_left:,} characters lack a piece, so words with them may be [UNK]: "
                f"{taken if room else 'vocab.extend fills vocab.size'}; raise vocab.size to cover "
                "more"
            )
        return new_pieces(fits)
    if num_more:
        others = [c for c in ranked[limit:] if seen[c] >= options.min_frequency]
        return new_pieces([*covered, *fitting(others, num_more)])
    alphabet = new_pieces(covered)
    left = room - len(alphabet)
    numbers = f"characters take {len(alphabet)} of vocab.size = {options.size} pieces"
    advice = f"raise vocab.size or lower vocab.limit_alphabet = {limit}"
    if left < 0:
        raise UserError(f"{numbers}, beside {len(known)} special ones: {advice}")
    if left < options.num_pieces // 4 and len(known) < options.num_pieces // 2:
        warn(f"{numbers}, so few are left for longer pieces: {advice}")
    return alphabet


def flat_symbols(batches: Batches, min_count: int, pieces: Sequence[str]) -> tuple[Ints, Ints]:
    """All words as ids of one-character pieces, boundaries between, with the count of each word.

    A part after CUT begins with a `##` piece; a character without a piece is a boundary, too.
    """
    initial, continuing = _character_ids(pieces)
    ids: list[Ints] = [np.array([BOUNDARY], np.int32)]
    weights: list[Ints] = [np.zeros(1, np.int64)]
    for batch in batches():
        chosen = np.flatnonzero(batch.counts >= min_count)
        if not len(chosen):
            continue
        points, row_of_point = word_points([batch.words[row] for row in chosen])
        symbols = continuing[points]
        starts = np.flatnonzero(points == ord("\n")) + 1
        symbols[starts] = initial[points[starts]]
        ids.append(symbols)
        weights.append(batch.counts[chosen][row_of_point])
    ids.append(np.array([BOUNDARY], np.int32))
    weights.append(np.zeros(1, np.int64))
    largest = max(int(part.max()) for part in weights)
    narrow = np.int32 if largest < 2**31 else np.int64
    return np.concatenate(ids), np.concatenate([part.astype(narrow) for part in weights])


def _character_ids(pieces: Iterable[str]) -> tuple[Ints, Ints]:
    """By code point, the id of the character's piece at the start of a word and later."""
    initial = np.full(0x110000, BOUNDARY, np.int32)
    continuing = initial.copy()
    for index, piece in enumerate(pieces):
        if len(piece) == 1:
            initial[ord(piece)] = index
        elif len(piece) == 3 and piece.startswith("##"):
            continuing[ord(piece[2])] = index
    for mark in ("\n", CUT):
        assert initial[ord(mark)] == continuing[ord(mark)] == BOUNDARY
    return initial, continuing


# Half of the surplus goes, all words are cut again, the rest goes. On 90 MB of Korean six rounds
# gain 0.05 % of fertility over two.
ROUNDS = 2


def prune(
    batches: Batches, pieces: Sequence[str], num_fixed: int, size: int, max_crossing: float
) -> tuple[list[str], int]:
    """Leave `size` pieces: first those go whose uses cross boundaries too often, then the rarest.
    How many went because they lay across boundaries.

    Crossing is counted over distinct words, because names that training never saw are what suffers
    from it, and rare words are most like them. The first `num_fixed` pieces always stay.
    """
    left, num_crossing = list(pieces), 0
    for number in range(ROUNDS):
        surplus = len(left) - size
        if surplus <= 0:
            break
        occurrences, types, crossings = measure_uses(batches, left)
        free = np.arange(len(left)) >= num_fixed
        bad = free & (crossings > max_crossing * types)
        # worst first, and no more of them than there are to spare
        fraction = crossings / np.maximum(types, 1)
        listed = np.flatnonzero(bad)
        dropped = listed[np.argsort(-fraction[listed], kind="stable")][:surplus]
        num_crossing += len(dropped)
        left_over = surplus - len(dropped)
        quota = left_over if number == ROUNDS - 1 else left_over // 2
        others = np.flatnonzero(free & ~bad)
        # of pieces used alike, the youngest goes first: older merges served more pieces
        order = np.lexsort((-others, occurrences[others]))
        gone = np.concatenate([dropped, others[order[:quota]]])
        keep = np.ones(len(left), bool)
        keep[gone.astype(np.intp)] = False
        left = [piece for piece, kept in zip(left, keep, strict=True) if kept]
    return left[:size], num_crossing


def measure_uses(batches: Batches, pieces: Sequence[str]) -> NDArray[np.int64]:
    """How the tokenizer uses each piece, in three rows: occurrences (each word by its count), types
    (each distinct word once), crossings of a boundary between parts (likewise)."""
    segmenter, length = Segmenter(pieces), len(pieces)
    uses = np.zeros((3, length), np.int64)
    with Progress("pieces in use", None, "words") as progress:
        for batch in batches():
            cut = segmenter.segment(batch.words)
            weights = batch.counts[cut.word].astype(float)
            uses[0] += np.bincount(cut.ids, weights, minlength=length).astype(np.int64)
            uses[1] += np.bincount(cut.ids, minlength=length)
            if len(cut.cut):
                crossing, _ = cut.crossing()  # once for each cut that a piece lies across
                uses[2] += np.bincount(cut.ids[np.unique(crossing)], minlength=length)
            progress.update(len(batch.words))
    return uses


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
        sums = np.add.reduceat(self._weights[at], starts, dtype=np.int64)
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
