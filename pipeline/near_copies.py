"""Where items of an index stand in a run of letters: seeds, diagonals, then letter by letter.

A gram that text and item share gives a diagonal: where in the text the item would begin. Seeds of
one item on neighbouring diagonals are a candidate, as in BLAST. Only candidates, few in a text, are
compared letter by letter.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.decontaminate import in_bitmap
from pipeline.letters import Ints, Keys, Letters, gram_keys

LONG_LETTERS = 50  # shared in a row: 10 English words, 15 Korean ones
# By width of the seeds: of the grams of which an edited copy must be made; and the share of an
# item's seeds from which a place is looked at.
FINE_WIDTH = {8: 4, 12: 8}
SEED_SHARE = {8: 0.2, 12: 0.3}
SHARE = 0.85  # of an item's letters that must be in fine grams of its place in the text
MAX_SEEDS = 20  # as many are always enough: half of those in `LONG_LETTERS`
SLACK = 6  # letters by which diagonals of one copy differ


@dataclass(frozen=True, slots=True)
class Copy:
    """An item in a run of letters: `kind` is sentence, near or ngram; half-open `first`, `last`."""

    item: int
    kind: str
    first: int
    last: int


@dataclass(frozen=True)
class GramIndex:
    """Items of one kind, as `pipeline.decontaminate` wrote them."""

    width: int
    letters: Letters
    starts: Ints
    keys: Keys
    first: Ints
    places: NDArray[np.int32]
    items: NDArray[np.int32]
    num_grams: NDArray[np.int32]
    tasks: NDArray[np.int32]
    task_starts: Ints
    bitmap: NDArray[np.uint8]

    def find(self, letters: Letters, edges: Ints) -> list[Copy]:
        """The items in texts joined at `edges`, where 0 is the first and len(letters) the last."""
        if not len(self.keys) or len(letters) < self.width:
            return []
        text_places, item_places, items = self._seeds(gram_keys(letters, self.width))
        if not len(items):
            return []
        begins = text_places - (item_places - self.starts[items])
        texts = np.searchsorted(edges, text_places, side="right") - 1
        order = np.lexsort((begins, texts, items))
        begins, texts, items = begins[order], texts[order], items[order]
        is_new = np.ones(len(items), dtype=bool)
        is_new[1:] = (
            (items[1:] != items[:-1]) | (texts[1:] != texts[:-1]) | (np.diff(begins) > SLACK)
        )
        heads = np.flatnonzero(is_new)
        counts = np.diff(np.append(heads, len(items)))
        of_item = items[heads]
        needed = np.minimum(np.ceil(SEED_SHARE[self.width] * self.num_grams[of_item]), MAX_SEEDS)
        copies = []
        for group in np.flatnonzero(counts >= needed):
            head, end = heads[group], heads[group] + counts[group]
            item = int(of_item[group])
            low, high = edges[texts[head]], edges[texts[head] + 1]
            copy = self._compare(letters, item, begins[head:end], int(low), int(high))
            if copy is not None:
                copies.append(copy)
        return copies

    def num_letters(self, item: int) -> int:
        """How long an item is."""
        return int(self.starts[item + 1] - self.starts[item])

    def share(self, letters: Letters, copy: Copy) -> float:
        """The part of an item's letters that its place in the text has in fine grams."""
        if copy.kind == "sentence":
            return 1.0
        width = FINE_WIDTH[self.width]
        wanted = self.letters[self.starts[copy.item] : self.starts[copy.item + 1]]
        there = gram_keys(letters[copy.first : copy.last], width)
        return _covered(np.isin(gram_keys(wanted, width), there), width) / len(wanted)

    def _seeds(self, keys: Keys) -> tuple[Ints, Ints, Ints]:
        """(place in the text, place among the items' letters, item) of each gram both have."""
        text_places = in_bitmap(self.bitmap, keys)
        if not len(text_places):
            return text_places, text_places, text_places
        found = keys[text_places]
        rows = np.searchsorted(self.keys, found)
        rows[rows == len(self.keys)] = 0
        is_there = self.keys[rows] == found
        rows, text_places = rows[is_there], text_places[is_there]
        firsts = self.first[rows]
        counts = self.first[rows + 1] - firsts
        entries = np.repeat(firsts - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
        return (
            np.repeat(text_places, counts),
            self.places[entries].astype(np.int64),
            (self.items[entries].astype(np.int64)),
        )

    def _compare(
        self, letters: Letters, item: int, begins: Ints, low: int, high: int
    ) -> Copy | None:
        """The copy of an item that begins at about one of `begins`, if it is one.

        The text it is in has the letters from `low` to `high`.
        """
        wanted = self.letters[self.starts[item] : self.starts[item + 1]]
        runs = [_longest_run(letters, wanted, int(b), low, high) for b in np.unique(begins)]
        first, last = max(runs, key=lambda run: (run[1] - run[0], -run[0]))
        if last - first == len(wanted):
            return Copy(item, "sentence", first, last)
        near = self._near(letters, wanted, begins, low, high)
        if near is not None:
            return Copy(item, "near", *near)
        if last - first >= LONG_LETTERS:
            runs = [run for run in runs if run[1] - run[0] >= LONG_LETTERS]
            return Copy(item, "ngram", min(r[0] for r in runs), max(r[1] for r in runs))
        return None

    def _near(
        self, letters: Letters, wanted: Letters, begins: Ints, low: int, high: int
    ) -> tuple[int, int] | None:
        """Where `SHARE` of the item's fine grams stand, if so many do."""
        width = FINE_WIDTH[self.width]
        first = max(low, int(begins[0]) - SLACK)
        last = min(high, int(begins[-1]) + len(wanted) + SLACK)
        there = gram_keys(letters[first:last], width)
        grams = gram_keys(wanted, width)
        if _covered(np.isin(grams, there), width) < SHARE * len(wanted):
            return None
        found = np.flatnonzero(np.isin(there, grams))
        return first + int(found[0]), first + int(found[-1]) + width


def _covered(is_shared: NDArray[np.bool_], width: int) -> int:
    """How many letters lie in a shared gram."""
    letters = np.zeros(len(is_shared) + width - 1, dtype=bool)
    for place in range(width):
        letters[place : place + len(is_shared)] |= is_shared
    return int(letters.sum())


def _longest_run(
    letters: Letters, wanted: Letters, begin: int, low: int, high: int
) -> tuple[int, int]:
    """The longest stretch of text equal to the item laid at `begin`; the first of equal ones."""
    first, last = max(begin, low), min(begin + len(wanted), high)
    if last <= first:
        return first, first
    equal = letters[first:last] == wanted[first - begin : last - begin]
    stops = np.flatnonzero(~equal)
    edges: NDArray[Any] = np.concatenate([[-1], stops, [len(equal)]])
    lengths = np.diff(edges) - 1
    best = int(np.argmax(lengths))
    start = first + int(edges[best]) + 1
    return start, start + int(lengths[best])
