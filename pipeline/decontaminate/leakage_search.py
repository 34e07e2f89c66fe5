"""Looks for texts in the documents of one row group: those of examples, sentences of the corpus.

Texts are compared as their letters (`pipeline.decontaminate.index`), so each is looked for once
however many examples hold it. One of few letters stands in any large corpus by chance and is only
counted.
"""

import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from electrify.stage.leakage_report import MISSING, Chance, Kind, Strength
from pipeline.decontaminate.index import (
    ALONE_LETTERS,
    WIDTHS,
    Ints,
    Items,
    Letters,
    is_monotonous,
    kind_of,
    read_letters,
    write_items,
)
from pipeline.decontaminate.match import (
    SURE_LETTERS,
    CopiedText,
    Copy,
    GramIndex,
    find_copies,
    is_alone,
    load_grams,
    unit_cuts,
)
from pipeline.documents import RowGroup, read_group

# By script, the shortest text that is looked for: a gram. Shorter ones ("노잼", "Sue left.") are in
# every corpus of some size.
MIN_LETTERS = WIDTHS
Script = Literal["wide", "narrow"]


# By script, the least letters of each class of length; the classes of which chance is measured.
LENGTH_CLASSES: Mapping[Script, tuple[int, ...]] = {
    "wide": (8, 12, 16, 24, 40),
    "narrow": (12, 24, 36, 48, 72),
}


class LengthClass(NamedTuple):
    """Texts of one script and about one length."""

    script: Script  # as `pipeline.decontaminate.index.kind_of`
    min_letters: int

    @property
    def is_sure(self) -> bool:
        """Whether such a text that stands alone is removed by decontamination."""
        return self.min_letters >= ALONE_LETTERS[self.script]


class Use(NamedTuple):
    """Where a text stands: the text of an example."""

    task: str
    split: str
    id: str
    text: int  # which of the example's texts, from 0


@dataclass(frozen=True, slots=True)
class ControlText:
    """A sentence of the corpus: how often such a text stands elsewhere is what chance does."""

    text: str
    document: str  # in which it stands as a sentence of its own
    source: str
    length: LengthClass


@dataclass
class TextTable:
    """Distinct texts by number, with the examples that hold each, ready for an index."""

    uses: list[list[Use]] = field(default_factory=list)  # by number; of a control text, none
    lengths: list[LengthClass] = field(default_factory=list)  # by number
    controls: dict[int, list[ControlText]] = field(default_factory=dict)  # by number, equal ones
    _numbers: dict[bytes, int] = field(default_factory=dict)
    _items: Mapping[str, Items] = field(default_factory=lambda: {kind: Items() for kind in WIDTHS})

    def add(self, text: str, use: Use) -> LengthClass | None:
        """Note a text of an example; None if it has too few letters to be looked for."""
        letters, _ = read_letters(text)
        length = length_class(letters)
        if length is not None:
            key = letters.tobytes()
            if key not in self._numbers:
                self._numbers[key] = self._add(letters, length)
            self.uses[self._numbers[key]].append(use)
        return length

    def add_control(self, control: ControlText) -> None:
        """Note a sentence of the corpus, apart from an example's text of the same letters."""
        letters, _ = read_letters(control.text)
        key = b"control" + letters.tobytes()
        if key not in self._numbers:
            self._numbers[key] = self._add(letters, control.length)
        self.controls.setdefault(self._numbers[key], []).append(control)

    def write(self, folder: Path) -> None:
        write_items(self._items, folder)
        owners = {n: [one.document for one in equal] for n, equal in self.controls.items()}
        owners_path(folder).write_text(json.dumps(owners), encoding="utf-8")

    def _add(self, letters: Letters, length: LengthClass) -> int:
        number = len(self.uses)
        items = self._items[length.script]
        items.letters.append(letters)
        items.tasks.append([number])
        self.uses.append([])
        self.lengths.append(length)
        return number


def owners_path(folder: Path) -> Path:
    """What `read_owners` reads; the last file of an index."""
    return folder / "owners.json"


def read_owners(folder: Path) -> dict[int, frozenset[str]]:
    """By number of a control text, the documents that it was drawn from."""
    found: dict[str, list[str]] = json.loads(owners_path(folder).read_text(encoding="utf-8"))
    return {int(number): frozenset(documents) for number, documents in found.items()}


def length_class(letters: Letters) -> LengthClass | None:
    """The class of a text by its letters; None if they are too few, or too few different ones."""
    script = kind_of(letters)
    if len(letters) < MIN_LETTERS[script] or is_monotonous(letters):
        return None
    least = LENGTH_CLASSES[script]
    return LengthClass(script, least[bisect_right(least, len(letters)) - 1])


@dataclass(frozen=True)
class TaskItems:
    """The examples of one task, as `benchmarks.leakage.examples` wrote them."""

    path: Path
    header: Mapping[str, Any]  # task, task_version, data_sha256, text_names

    @property
    def task(self) -> str:
        return str(self.header["task"])

    def examples(self) -> Iterator[tuple[str, str, list[str]]]:
        """(split, id, texts) in the order of the files."""
        with self.path.open(encoding="utf-8") as file:
            next(file)
            for line in file:
                row = json.loads(line)
                yield row["split"], row["id"], row["texts"]


def read_tasks(folder: Path) -> list[TaskItems]:
    """The tasks in a folder of items, by name; `ValueError` if there are none."""
    found = []
    for path in sorted(folder.glob("*.jsonl")):
        with path.open(encoding="utf-8") as file:
            found.append(TaskItems(path, json.loads(next(file))["header"]))
    if not found:
        raise ValueError(f"no *.jsonl of benchmark examples in {folder}")
    return found


def read_missing(folder: Path) -> list[str]:
    names: list[str] = json.loads((folder / MISSING).read_text(encoding="utf-8"))
    return names


BATCH_CHARACTERS = 500_000  # of documents looked through at once; 40 bytes each
MAX_BATCH_ROWS = 1024
EXCERPT_CHARACTERS = 200
_CONTEXT_CHARACTERS = 30  # of an excerpt, before and behind what was found


@dataclass(frozen=True, slots=True)
class Match:
    """A text of the index in a document."""

    number: int  # of the text
    strength: Strength
    kind: Kind
    share: float  # of the text's letters
    letters: int  # of the text
    document: str
    source: str
    excerpt: str


def search_group(group: RowGroup, index: Path) -> Iterator[Match]:
    """What the index has of the documents of a row group, in their order."""
    for rows in _batches(read_group(group, ["id", "text", "source"])):
        yield from search_rows(rows, index)


def search_rows(rows: Sequence[dict[str, Any]], index: Path) -> Iterator[Match]:
    """What the index has of documents with `id`, `text` and `source`.

    A control text is not looked for in the documents that it is from.
    """
    # by the time of its last file, for another index may stand there by now
    grams, owners = _load(index, owners_path(index).stat().st_mtime_ns)
    for found in find_copies(grams, [row["text"] for row in rows]):
        row = rows[found.number]
        cuts = unit_cuts(row["text"], found.places)
        for of_kind, copy in found.copies:
            number = int(of_kind.tasks[of_kind.task_starts[copy.item]])
            if row["id"] in owners.get(number, ()):
                continue
            judged = _judge(of_kind, copy, found.letters, cuts)
            if judged is not None:
                strength, kind = judged
                yield Match(
                    number,
                    strength,
                    kind,
                    round(of_kind.share(found.letters, copy), 4),
                    of_kind.num_letters(copy.item),
                    row["id"],
                    row["source"],
                    _excerpt(row["text"], found, copy),
                )


def _judge(
    index: GramIndex, copy: Copy, letters: Letters, cuts: Ints
) -> tuple[Strength, Kind] | None:
    """What a copy says; None if nothing.

    What is "touched" would be removed by `clean.decontaminate_against`. Only "possible" are shorter
    copies, and edited ones with other numbers: a template, such as a census has.
    """
    alone = is_alone(cuts, copy.first, copy.last)
    num_letters = index.num_letters(copy.item)
    shortest = ALONE_LETTERS["wide" if index.width == 8 else "narrow"]
    is_sure = num_letters >= SURE_LETTERS[index.width] or (alone and num_letters >= shortest)
    if copy.kind == "sentence":
        return "touched" if is_sure else "possible", "whole" if alone else "contained"
    if not is_sure:  # a short text but for some letters is another text
        return None
    if copy.kind == "ngram":
        return "touched", "ngram"
    wanted = index.letters[index.starts[copy.item] : index.starts[copy.item + 1]]
    has_its_numbers = _digits(wanted) == _digits(letters[copy.first : copy.last])
    return "touched" if has_its_numbers else "possible", "near"


def _digits(letters: Letters) -> list[int]:
    """In order, so that a copy may have its numbers in other places."""
    digits: list[int] = np.sort(letters[(letters >= ord("0")) & (letters <= ord("9"))]).tolist()
    return digits


def _excerpt(text: str, found: CopiedText, copy: Copy) -> str:
    """The place in the document, its beginning if it is long."""
    first, last = int(found.places[copy.first]), int(found.places[copy.last - 1]) + 1
    begin = max(0, first - _CONTEXT_CHARACTERS)
    end = min(last + _CONTEXT_CHARACTERS, begin + EXCERPT_CHARACTERS)
    return " ".join(text[begin:end].split())


def _batches(rows: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Rows of about `BATCH_CHARACTERS` together, at least one."""
    batch, num_characters = [], 0
    for row in rows:
        batch.append(row)
        num_characters += len(row["text"])
        if num_characters >= BATCH_CHARACTERS or len(batch) >= MAX_BATCH_ROWS:
            yield batch
            batch, num_characters = [], 0
    if batch:
        yield batch


@lru_cache(maxsize=1)
def _load(index: Path, written_ns: int) -> tuple[tuple[GramIndex, ...], dict[int, frozenset[str]]]:
    return load_grams(index), read_owners(index)


# What was found of each text, added up over row groups; plain values, as they go into JSON.

NUM_SHOWN = 3  # documents that are named for a text, those with the largest share of it
_ORDER: tuple[Strength, ...] = ("touched", "possible")


@dataclass
class Hits:
    """The documents that hold one text in one strength, and the best places."""

    documents: int = 0
    sources: Counter[str] = field(default_factory=Counter)
    best: list[dict[str, Any]] = field(default_factory=list)

    def add(self, other: "Hits") -> None:
        """Take in what was found elsewhere; of equal shares the earlier ones stay."""
        self.documents += other.documents
        self.sources.update(other.sources)
        self.best = sorted([*self.best, *other.best], key=lambda match: -match["share"])[:NUM_SHOWN]


class Found:
    """By number of a text and strength, what was found. A document counts once, as its best."""

    def __init__(self) -> None:
        self.hits: dict[int, dict[Strength, Hits]] = {}

    def add_matches(self, matches: Iterable[Match]) -> None:
        """Take in matches that come document by document."""
        for _, of_document in groupby(matches, key=lambda match: match.document):
            best: dict[int, Match] = {}
            for match in of_document:
                known = best.get(match.number)
                if known is None or _rank(match) < _rank(known):
                    best[match.number] = match
            for number, match in best.items():
                hits = Hits(1, Counter([match.source]), [_shown(match)])
                self._of(number, match.strength).add(hits)

    def add(self, other: "Found") -> None:
        for number, by_strength in other.hits.items():
            for strength, hits in by_strength.items():
                self._of(number, strength).add(hits)

    def to_json(self) -> dict[str, Any]:
        return {
            str(number): {strength: vars(hits) for strength, hits in by_strength.items()}
            for number, by_strength in self.hits.items()
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Found":
        found = cls()
        for number, by_strength in value.items():
            for strength, hits in by_strength.items():
                found._of(int(number), strength).add(
                    Hits(hits["documents"], Counter(hits["sources"]), hits["best"])
                )
        return found

    def _of(self, number: int, strength: Strength) -> Hits:
        return self.hits.setdefault(number, {}).setdefault(strength, Hits())


def _rank(match: Match) -> tuple[int, float]:
    return _ORDER.index(match.strength), -match.share


def _shown(match: Match) -> dict[str, Any]:
    names = ("kind", "share", "document", "source", "excerpt")
    return {name: getattr(match, name) for name in names}


def chances(
    controls: Mapping[int, list[ControlText]], found: Found, num_sources: int
) -> list[Chance]:
    """What chance does, by script and length, in the order of `LengthClass`."""
    counts: dict[LengthClass, Counter[str]] = {}
    for number, equal in controls.items():
        for control in equal:
            of_class = counts.setdefault(control.length, Counter())
            of_class["sentences"] += 1
            for name, sources in _elsewhere(control, equal, found.hits.get(number, {})).items():
                of_class[name] += bool(sources)
                of_class[f"other_{name}"] += bool(sources - {control.source})
    return [
        Chance(
            script=length.script,
            min_letters=length.min_letters,
            sentences=count["sentences"],
            touched=count["touched"],
            found=count["found"],
            other_touched=count["other_touched"] if num_sources > 1 else None,
            other_found=count["other_found"] if num_sources > 1 else None,
        )
        for length, count in sorted(counts.items())
    ]


def _elsewhere(
    control: ControlText, equal: list[ControlText], hits: Mapping[Strength, Hits]
) -> dict[str, set[str]]:
    """The sources of other documents that hold the sentence, "touched" and "found" at all.

    Equal sentences were drawn from other documents, where they stand alone.
    """
    owners = {other.source for other in equal if other.document != control.document}
    touched = set(hits["touched"].sources) if "touched" in hits else set()
    possible = set(hits["possible"].sources) if "possible" in hits else set()
    if control.length.is_sure:
        touched |= owners
    return {"touched": touched, "found": touched | possible | owners}
