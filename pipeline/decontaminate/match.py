"""Benchmark texts found in documents, and what is done about them.

A short document, or one that is half benchmark text, goes as a whole; from a longer one go the
sentences (lines, where there is no mark) that hold the text. `kind` of a match: "sentence" is a
whole item letter by letter, "near" one with small edits, "ngram" 50 letters of a long one.

A gram that text and item share gives a diagonal: where in the text the item would begin. Such seeds
of one item on neighbouring diagonals are a candidate, as in BLAST. Only candidates, few in a text,
are compared letter by letter.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pipeline.decontaminate.index import (
    BREAK,
    WIDTHS,
    Ints,
    Keys,
    Letters,
    gram_keys,
    in_bitmap,
    read_letters,
    read_statistics,
)
from pipeline.dedup.records import run_starts
from pipeline.rules.characters import SENTENCE_BREAK
from pipeline.rules.quality import Drop

LONG_LETTERS = 50  # shared in a row: 10 English words, 15 Korean ones
# By width of the seeds: of the grams of which an edited copy must be made; and the share of an
# item's seeds from which a stretch of text is looked at.
FINE_WIDTH = {8: 4, 12: 8}
SEED_SHARE = {8: 0.2, 12: 0.3}
SHARE = 0.85  # of an item's letters that must be in fine grams of its stretch of text
MAX_SEEDS = 20  # as many are always enough: half of those in `LONG_LETTERS`
SLACK = 6  # letters by which diagonals of one copy differ


@dataclass(frozen=True, slots=True)
class Copy:
    """An item, or a part of it, in the letters from `first` to `last`, which is not included."""

    item: int
    kind: Literal["sentence", "near", "ngram"]
    first: int
    last: int


@dataclass(frozen=True)
class GramIndex:
    """Items of one kind, as `pipeline.decontaminate.index` wrote them."""

    width: int
    letters: Letters
    starts: Ints
    keys: Keys
    first: Ints
    offsets: NDArray[np.int32]
    items: NDArray[np.int32]
    num_grams: NDArray[np.int32]
    tasks: NDArray[np.int32]
    task_starts: Ints
    bitmap: NDArray[np.uint8]

    def find(self, letters: Letters, edges: Ints) -> list[Copy]:
        """The items in texts joined at `edges`, where 0 is the first and len(letters) the last."""
        if not len(self.keys) or len(letters) < self.width:
            return []
        text_offsets, item_offsets, items = self._seeds(gram_keys(letters, self.width))
        begins = text_offsets - (item_offsets - self.starts[items])
        texts = np.searchsorted(edges, text_offsets, side="right") - 1
        order = np.lexsort((begins, texts, items))
        begins, texts, items = begins[order], texts[order], items[order]
        is_new = run_starts(items, texts)
        is_new[1:] |= np.diff(begins) > SLACK
        heads = np.flatnonzero(is_new)
        counts = np.diff(np.append(heads, len(items)))
        candidate_items = items[heads]
        needed = np.minimum(
            np.ceil(SEED_SHARE[self.width] * self.num_grams[candidate_items]), MAX_SEEDS
        )
        copies = list[Copy]()
        for candidate in np.flatnonzero(counts >= needed):
            head, end = heads[candidate], heads[candidate] + counts[candidate]
            item = int(candidate_items[candidate])
            low, high = edges[texts[head]], edges[texts[head] + 1]
            copies += self._compare(letters, item, begins[head:end], int(low), int(high))
        return copies

    def _seeds(self, keys: Keys) -> tuple[Ints, Ints, Ints]:
        """(offset in the text, offset among the items' letters, item) of each gram both have."""
        text_offsets = in_bitmap(self.bitmap, keys)
        seeds = keys[text_offsets]
        rows = np.searchsorted(self.keys, seeds)
        rows[rows == len(self.keys)] = 0
        is_there = self.keys[rows] == seeds
        rows, text_offsets = rows[is_there], text_offsets[is_there]
        firsts = self.first[rows]
        counts = self.first[rows + 1] - firsts
        entries = np.repeat(firsts - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
        return (
            np.repeat(text_offsets, counts),
            self.offsets[entries].astype(np.int64),
            (self.items[entries].astype(np.int64)),
        )

    def _compare(
        self, letters: Letters, item: int, begins: Ints, low: int, high: int
    ) -> list[Copy]:
        """The copy of an item that begins at about one of `begins`: whole, edited, or long parts.

        The text it is in has the letters from `low` to `high`.
        """
        wanted = self.letters[self.starts[item] : self.starts[item + 1]]
        runs = [r for b in np.unique(begins) for r in _runs(letters, wanted, int(b), low, high)]
        whole = [run for run in runs if run[1] - run[0] == len(wanted)]
        if whole:
            return [Copy(item, "sentence", *min(whole))]
        near = self._near(letters, wanted, begins, low, high)
        if near is not None:
            return [Copy(item, "near", *near)]
        return [Copy(item, "ngram", *run) for run in runs]

    def _near(
        self, letters: Letters, wanted: Letters, begins: Ints, low: int, high: int
    ) -> tuple[int, int] | None:
        """Where `SHARE` of the item's fine grams stand, if so many do."""
        width = FINE_WIDTH[self.width]
        first = max(low, int(begins[0]) - SLACK)
        last = min(high, int(begins[-1]) + len(wanted) + SLACK)
        there = gram_keys(letters[first:last], width)
        grams = gram_keys(wanted, width)
        in_shared = np.convolve(np.isin(grams, there), np.ones(width)) > 0.5  # letters of the item
        if np.count_nonzero(in_shared) < SHARE * len(wanted):
            return None
        shared = np.flatnonzero(np.isin(there, grams))
        return first + int(shared[0]), first + int(shared[-1]) + width


def _runs(
    letters: Letters, wanted: Letters, begin: int, low: int, high: int
) -> list[tuple[int, int]]:
    """The stretches of text equal to the item laid at `begin`, of `LONG_LETTERS` or the item."""
    first, last = max(begin, low), min(begin + len(wanted), high)
    if last <= first:
        return []
    stops = np.flatnonzero(letters[first:last] != wanted[first - begin : last - begin])
    edges: NDArray[Any] = np.concatenate([[first - 1], first + stops, [last]])
    is_long = np.diff(edges) > min(LONG_LETTERS, len(wanted))
    return [*zip((edges[:-1] + 1)[is_long].tolist(), edges[1:][is_long].tolist(), strict=True)]


SHORT_DOCUMENT = 400  # letters; a shorter one with a benchmark text goes as a whole
DROPPED_SHARE = 0.5  # of a document's letters in benchmark texts
UNIT_SHARE = 0.5  # of a sentence's letters in benchmark texts, from which it goes
UNIT_LETTERS = 12  # as many are always enough
# An item of fewer letters, by width of its grams, has to be a sentence of its own: otherwise it may
# be an idiom within one ("i don't know what you're talking about").
SURE_LETTERS = {8: 16, 12: 48}
ALONE_SHARE = 0.8  # of the letters of the sentences it touches
DETAIL_CHARACTERS = 60
_ASCII_END = 0x80
_ARRAYS = [field.name for field in fields(GramIndex)][1:]


@dataclass(frozen=True, slots=True)
class Match:
    """A benchmark text in a document: its task, how it was found, and its beginning."""

    task: str
    kind: str
    detail: str


@dataclass(frozen=True, slots=True)
class Decontaminated:
    """What is left of a text; if `drop`, it is not to be kept at all."""

    text: str
    drop: Drop | None
    matches: tuple[Match, ...]
    num_lines_removed: int = 0


@dataclass(frozen=True, slots=True)
class CopiedText:
    """One of several texts, with the items found in it, in the order in which they stand.

    `letters` are the text's, `offsets` where each stands among its characters; those that a `Copy`
    counts.
    """

    number: int
    letters: Letters
    offsets: Ints
    copies: list[tuple[GramIndex, Copy]]

    def sure_copies(self, text: str) -> Iterator[tuple[GramIndex, Copy]]:
        """Copies of many letters, and those that are nearly all of the sentences they touch."""
        begins = np.append(np.searchsorted(self.offsets, _unit_ends(text)), 0)
        cuts: Ints = np.unique(begins)  # the first letters of sentences, and len(offsets)
        for index, copy in self.copies:
            num_letters = index.starts[copy.item + 1] - index.starts[copy.item]
            is_long = num_letters >= SURE_LETTERS[index.width]
            if is_long or self._is_alone(cuts, index, copy):
                yield index, copy

    def _is_alone(self, cuts: Ints, index: GramIndex, copy: Copy) -> bool:
        """Whether a copy is nearly all of the sentences it touches.

        What other cells of a table's row hold is put aside: numbers, ASCII words beside an East
        Asian text, and other items.
        """
        begin = int(cuts[np.searchsorted(cuts, copy.first, side="right") - 1])
        end = int(cuts[np.searchsorted(cuts, copy.last, side="left")])
        letters = self.letters[begin:end]
        is_cell = letters < _ASCII_END
        if index.width != WIDTHS["wide"]:
            is_cell &= letters <= ord("9")
        for _, other in self.copies:
            if other.kind == "sentence":
                is_cell[max(0, other.first - begin) : max(0, other.last - begin)] = True
        is_cell[copy.first - begin : copy.last - begin] = False
        return copy.last - copy.first >= ALONE_SHARE * (len(letters) - int(is_cell.sum()))


@dataclass(frozen=True)
class BenchmarkIndex:
    """Finds benchmark texts; made by `pipeline.decontaminate.index.write_index`."""

    tasks: tuple[str, ...]
    grams: tuple[GramIndex, ...]

    @classmethod
    def load(cls, path: Path) -> "BenchmarkIndex":
        """Map the arrays of the folder `path`."""
        # read as it is used; a plain view, whose indexing costs less than memmap's
        grams = [
            GramIndex(
                width,
                *(np.asarray(np.load(path / f"{kind}-{n}.npy", mmap_mode="r")) for n in _ARRAYS),
            )
            for kind, width in WIDTHS.items()
        ]
        return cls(tuple(task for task, _, _ in read_statistics(path)), tuple(grams))

    def decontaminate(self, texts: Sequence[str]) -> list[Decontaminated]:
        """What is left of each text; many at once cost less where they are short.

        All are in memory at 40 bytes a character.
        """
        copied = {one.number: one for one in find_copies(self.grams, texts)}
        return [
            self._act(text, copied[number]) if number in copied else Decontaminated(text, None, ())
            for number, text in enumerate(texts)
        ]

    def _act(self, text: str, copied: CopiedText) -> Decontaminated:
        offsets = copied.offsets
        is_copied = np.zeros(len(offsets), dtype=bool)
        matches: dict[Match, None] = {}
        for index, copy in copied.sure_copies(text):
            is_copied[copy.first : copy.last] = True
            shown = " ".join(text[offsets[copy.first] : offsets[copy.last - 1] + 1].split())
            tasks = index.tasks[index.task_starts[copy.item] : index.task_starts[copy.item + 1]]
            for task in tasks:
                matches[Match(self.tasks[task], copy.kind, shown[:DETAIL_CHARACTERS])] = None
        if not matches:
            return Decontaminated(text, None, ())
        all_matches = tuple(matches)
        if len(offsets) < SHORT_DOCUMENT or is_copied.mean() >= DROPPED_SHARE:
            detail = f"{all_matches[0].task}: {all_matches[0].kind}: {all_matches[0].detail}"
            return Decontaminated(text, Drop("contaminated", detail), all_matches)
        left, num_removed = _remove_units(text, offsets, is_copied)
        return Decontaminated(left, None, all_matches, num_removed)


def find_copies(grams: Sequence[GramIndex], texts: Sequence[str]) -> Iterator[CopiedText]:
    """Those of the texts that hold an item, in order; in memory at 40 bytes a character."""
    lengths = np.array([len(text) + 1 for text in texts], dtype=np.int64)
    letters, offsets = read_letters(BREAK.join(texts))
    begins = np.cumsum(lengths) - lengths  # of each text among the characters
    edges = np.append(np.searchsorted(offsets, begins), len(letters))
    by_text: dict[int, list[tuple[GramIndex, Copy]]] = {}
    for index in grams:
        for copy in index.find(letters, edges):
            number = int(np.searchsorted(edges, copy.first, side="right")) - 1
            first = int(edges[number])
            copy = replace(copy, first=copy.first - first, last=copy.last - first)
            by_text.setdefault(number, []).append((index, copy))
    for number, copies in sorted(by_text.items()):
        first, last = edges[number], edges[number + 1]
        if offsets[last - 1] == begins[number] + lengths[number] - 1:  # the break behind the text
            last -= 1
        copies.sort(key=lambda pair: (pair[1].first, pair[1].last))
        yield CopiedText(number, letters[first:last], offsets[first:last] - begins[number], copies)


def _unit_ends(text: str) -> list[int]:
    """Where each sentence or line ends, the mark and the space behind it included."""
    return [*(match.end() for match in SENTENCE_BREAK.finditer(text)), len(text)]


def _remove_units(text: str, offsets: Ints, is_copied: "np.ndarray[Any, Any]") -> tuple[str, int]:
    """The text without its sentences that are benchmark texts, and how many those are."""
    cuts = np.unique([0, *_unit_ends(text)])
    copied_before = np.concatenate([[0], np.cumsum(is_copied)])
    edges = np.searchsorted(offsets, cuts)
    copied, total = np.diff(copied_before[edges]), np.diff(edges)
    goes = (copied >= UNIT_LETTERS) | (copied > UNIT_SHARE * total)
    kept = [text[a:b] for a, b, go in zip(cuts[:-1], cuts[1:], goes, strict=True) if not go]
    return "".join(kept).strip(" \n"), int(goes.sum())
