"""Looks for the texts of an index in the documents of one row group."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from electrify.leakage_report import Kind, Strength
from pipeline.benchmark_index import (
    SURE_LETTERS,
    CopiedText,
    find_copies,
    is_alone,
    load_grams,
    unit_cuts,
)
from pipeline.decontaminate import ALONE_LETTERS
from pipeline.documents import RowGroup
from pipeline.leakage_texts import owners_path, read_owners
from pipeline.letters import Ints, Letters
from pipeline.near_copies import Copy, GramIndex

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


def read_group(group: RowGroup, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The rows of a group, few in memory at a time."""
    with pq.ParquetFile(group.path) as file:
        for batch in file.iter_batches(
            MAX_BATCH_ROWS, row_groups=[group.number], columns=list(columns), use_threads=False
        ):
            yield from batch.to_pylist()


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
                    number, strength, kind,
                    round(of_kind.share(found.letters, copy), 4), of_kind.num_letters(copy.item),
                    row["id"], row["source"], _excerpt(row["text"], found, copy),
                )  # fmt: skip


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
