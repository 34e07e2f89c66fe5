"""Texts that are looked for in documents: those of examples, and sentences of the corpus itself.

Texts are compared as their letters (`pipeline.letters`), so each is looked for once however many
examples hold it. One of few letters stands in any large corpus by chance and is only counted.
"""

import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from electrify.leakage_report import MISSING
from pipeline.decontaminate import (
    ALONE_LETTERS,
    WIDTHS,
    Items,
    is_monotonous,
    kind_of,
    write_items,
)
from pipeline.letters import Letters, read_letters

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

    script: Script  # as `pipeline.decontaminate.kind_of`
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
        """Write the index of all texts, which `leakage_search` maps."""
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
    """The examples of one task, as `benchmarks.leakage` wrote them."""

    path: Path
    header: Mapping[str, Any]  # task, task_version, data_sha256, text_names

    @property
    def task(self) -> str:
        """Its name."""
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
    """The tasks in use of which no data were found."""
    names: list[str] = json.loads((folder / MISSING).read_text(encoding="utf-8"))
    return names
