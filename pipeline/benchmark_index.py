"""Benchmark texts found in documents, and what is done about them.

A short document, or one that is half benchmark text, goes as a whole; from a longer one go the
sentences (lines, where there is no mark) that hold the text. `kind` of a match: "sentence" is a
whole item letter by letter, "near" one with small edits, "ngram" 50 letters of a long one.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.decontaminate import WIDTHS, read_statistics
from pipeline.filters import Drop
from pipeline.letters import BREAK, Ints, Letters, read_letters
from pipeline.near_copies import Copy, GramIndex

SHORT_DOCUMENT = 400  # letters; a shorter one with a benchmark text goes as a whole
DROPPED_SHARE = 0.5  # of a document's letters in benchmark texts
UNIT_SHARE = 0.5  # of a sentence's letters in benchmark texts, from which it goes
UNIT_LETTERS = 12  # as many are always enough
# An item of fewer letters, by width of its grams, has to be a sentence of its own: otherwise it may
# be an idiom within one ("i don't know what you're talking about").
SURE_LETTERS = {8: 16, 12: 48}
ALONE_SHARE = 0.8  # of the letters of the sentences it touches
DETAIL_CHARACTERS = 60
_ARRAYS = (
    "letters", "starts", "keys", "first", "places", "items", "num_grams", "tasks", "task_starts",
    "bitmap",
)  # fmt: skip
_UNIT_END = re.compile("\n+|(?<=[.!?。！？…]) +|(?<=[。！？])")


@dataclass(frozen=True, slots=True)
class Match:
    """A benchmark text in a document: its task, how it was found, and the place in the document."""

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
    """One of several texts, with the items found in it, in the order of their places.

    `letters` are the text's, `places` where each stands among its characters; those that a `Copy`
    counts.
    """

    number: int
    letters: Letters
    places: Ints
    copies: list[tuple[GramIndex, Copy]]


@dataclass(frozen=True)
class BenchmarkIndex:
    """Finds benchmark texts; made by `pipeline.decontaminate.write_index`."""

    tasks: tuple[str, ...]
    grams: tuple[GramIndex, ...]

    @classmethod
    def load(cls, path: Path) -> "BenchmarkIndex":
        """Map the arrays of the folder `path`."""
        tasks = tuple(task for task, _, _ in read_statistics(path))
        return cls(tasks, load_grams(path))

    def decontaminate(self, text: str) -> Decontaminated:
        """Remove the benchmark texts from one text."""
        return self.decontaminate_all([text])[0]

    def decontaminate_all(self, texts: Sequence[str]) -> list[Decontaminated]:
        """The same for many texts at once, which costs less where they are short.

        All are in memory at 40 bytes a character.
        """
        found = {one.number: one for one in find_copies(self.grams, texts)}
        return [
            self._act(text, found[number]) if number in found else Decontaminated(text, None, ())
            for number, text in enumerate(texts)
        ]

    def _act(self, text: str, copied: CopiedText) -> Decontaminated:
        """Remove what was found in one text."""
        places = copied.places
        cuts = unit_cuts(text, places)
        is_copied = np.zeros(len(places), dtype=bool)
        matches: dict[Match, None] = {}
        for index, copy in copied.copies:
            first, last = copy.first, copy.last
            if index.num_letters(copy.item) < SURE_LETTERS[index.width] and not is_alone(
                cuts, first, last
            ):
                continue
            is_copied[first:last] = True
            shown = " ".join(text[places[first] : places[last - 1] + 1].split())
            tasks = index.tasks[index.task_starts[copy.item] : index.task_starts[copy.item + 1]]
            for task in tasks:
                matches[Match(self.tasks[task], copy.kind, shown[:DETAIL_CHARACTERS])] = None
        if not matches:
            return Decontaminated(text, None, ())
        found = tuple(matches)
        if len(places) < SHORT_DOCUMENT or is_copied.mean() >= DROPPED_SHARE:
            detail = f"{found[0].task}: {found[0].kind}: {found[0].detail}"
            return Decontaminated(text, Drop("contaminated", detail), found)
        left, num_removed = remove_units(text, places, is_copied)
        return Decontaminated(left, None, found, num_removed)


def load_grams(path: Path) -> tuple[GramIndex, ...]:
    """Map the arrays that `pipeline.decontaminate.write_items` wrote."""
    return tuple(
        GramIndex(width, *(_mapped(path / f"{kind}-{name}.npy") for name in _ARRAYS))
        for kind, width in WIDTHS.items()
    )


def find_copies(grams: Sequence[GramIndex], texts: Sequence[str]) -> Iterator[CopiedText]:
    """Those of the texts that hold an item, in order; in memory at 40 bytes a character."""
    lengths = np.array([len(text) + 1 for text in texts], dtype=np.int64)
    letters, places = read_letters(BREAK.join(texts))
    begins = np.cumsum(lengths) - lengths  # of each text among the characters
    edges = np.append(np.searchsorted(places, begins), len(letters))
    of_text: dict[int, list[tuple[GramIndex, Copy]]] = {}
    for index in grams:
        for copy in index.find(letters, edges):
            number = int(np.searchsorted(edges, copy.first, side="right")) - 1
            first = int(edges[number])
            copy = replace(copy, first=copy.first - first, last=copy.last - first)
            of_text.setdefault(number, []).append((index, copy))
    for number, copies in sorted(of_text.items()):
        first, last = edges[number], edges[number + 1]
        if places[last - 1] == begins[number] + lengths[number] - 1:  # the break behind the text
            last -= 1
        copies.sort(key=lambda found: (found[1].first, found[1].last))
        yield CopiedText(number, letters[first:last], places[first:last] - begins[number], copies)


def _mapped(path: Path) -> "np.ndarray[Any, Any]":
    """A file's array, read as it is used; a plain view, whose indexing costs less than memmap's."""
    array: np.ndarray[Any, Any] = np.asarray(np.load(path, mmap_mode="r"))
    return array


def unit_ends(text: str) -> list[int]:
    """Where each sentence or line ends, the mark and the space behind it included."""
    return [*(found.end() for found in _UNIT_END.finditer(text)), len(text)]


def unit_cuts(text: str, places: Ints) -> Ints:
    """The numbers of the letters at which sentences begin, 0 and len(places) among them."""
    cuts: Ints = np.unique(np.append(np.searchsorted(places, unit_ends(text)), 0))
    return cuts


def remove_units(text: str, places: Ints, is_copied: "np.ndarray[Any, Any]") -> tuple[str, int]:
    """The text without its sentences that are benchmark texts, and how many those are."""
    cuts = np.unique([0, *unit_ends(text)])
    copied_before = np.concatenate([[0], np.cumsum(is_copied)])
    edges = np.searchsorted(places, cuts)
    copied, total = np.diff(copied_before[edges]), np.diff(edges)
    goes = (copied >= UNIT_LETTERS) | (copied > UNIT_SHARE * total)
    kept = [text[a:b] for a, b, go in zip(cuts[:-1], cuts[1:], goes, strict=True) if not go]
    return "".join(kept).strip(" \n"), int(goes.sum())


def is_alone(cuts: Ints, first: int, last: int) -> bool:
    """Whether letters from `first` to `last` are nearly all of the sentences they touch."""
    begin = cuts[np.searchsorted(cuts, first, side="right") - 1]
    end = cuts[np.searchsorted(cuts, last, side="left")]
    return bool(last - first >= ALONE_SHARE * (end - begin))
