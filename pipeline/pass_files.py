"""The files that the passes of `clean` leave for each other in the work folder.

A file is made in a local folder and then published, so it stands under its name whole or not at
all. It is read from a local copy.

`cleaned-*` holds every row of a unit as the first pass left it, `changed-*` the rows that the
second pass changed or removed. A runner may repeat a pass, or run it twice at once: the second copy
has the same bytes.
"""

import json
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from electrify.storage.folder import Folder
from electrify.system.outcome import UserError
from pipeline.documents import (
    DOCUMENT_SCHEMA,
    REMOVED_SCHEMA,
    ParquetParts,
    list_row_groups,
    read_columns,
    read_rows,
)
from pipeline.report.counts import Tally
from pipeline.runner import share_name
from pipeline.sources.input_file import UNIT_BITS

# Rows kept and removed as they were read; `reason` is null where a row is kept so far. `altered` is
# what rules changed, and how often: "html_removed=1 email_masked=3".
CLEANED_SCHEMA = pa.schema(
    [
        pa.field("rank", pa.uint64(), nullable=False),
        *(DOCUMENT_SCHEMA.field(name) for name in DOCUMENT_SCHEMA.names if name != "id"),
        pa.field("reason", pa.string()),
        pa.field("detail", pa.string()),
        pa.field("altered", pa.string()),
    ]
)
# `text` is null where it has not changed
CHANGED_SCHEMA = pa.schema(
    [
        CLEANED_SCHEMA.field("rank"),
        pa.field("text", pa.string()),
        CLEANED_SCHEMA.field("reason"),
        CLEANED_SCHEMA.field("detail"),
        CLEANED_SCHEMA.field("altered"),
    ]
)
Pass = Literal["read", "compared", "written"]
BENCHMARK_INDEX = "benchmark-index"  # the index of benchmark texts, where there are any
_SHARE_SECONDS = 5.0  # between two files that say how far a pass is
# read once or twice and soon gone: small in memory
_BETWEEN_PASSES: dict[str, Any] = {"compression": "lz4", "row_group_characters": 1_000_000}
Kind = Literal["cleaned", "changed", "documents", "removed"]
_FILES: dict[Kind, tuple[pa.Schema, dict[str, Any]]] = {
    "cleaned": (CLEANED_SCHEMA, _BETWEEN_PASSES),
    "changed": (CHANGED_SCHEMA, _BETWEEN_PASSES),
    "documents": (DOCUMENT_SCHEMA, {}),
    "removed": (REMOVED_SCHEMA, {}),
}


def tally_name(of_pass: Pass, number: int) -> str:
    """The tally of one pass over a group ("read"), a unit ("compared") or the units of a file of
    documents ("written"); it is there once the pass is done."""
    return f"{of_pass}-{number:010d}.json"


def error_name(group: int) -> str:
    """Why a group of files could not be read."""
    return f"error-{group:06d}.txt"


def hashes_name(group: int) -> str:
    """What a group sends to the shards of "texts" and "lines", for each unit."""
    return f"hashes-{group:06d}"


def num_units(work: Folder, group: int) -> int:
    """Of a group that has been read."""
    return nums_of_units(work, [group])[0]


def nums_of_units(work: Folder, groups: Sequence[int]) -> list[int]:
    """Of groups that have been read."""
    markers = work.read_all([*map(hashes_name, groups)])
    return [len(json.loads(marker)) // 2 for marker in markers]


def write_tally(work: Folder, of_pass: Pass, number: int, tally: Tally) -> None:
    """Say that the pass is done; its other files are there before."""
    work.write(tally_name(of_pass, number), tally.to_json().encode())


class ReadingProgress:
    """Says in the work folder how far a group is read, for a group may be one big file."""

    def __init__(self, work: Folder, group: int, total: float) -> None:
        self._work, self._marker, self._total = work, hashes_name(group), total
        self._done = 0.0
        self._next_seconds = time.monotonic() + _SHARE_SECONDS

    def add(self, amount: float) -> None:
        """Add finished work, in the unit of `total`."""
        self._done += amount
        if (now := time.monotonic()) < self._next_seconds:
            return
        self._next_seconds = now + _SHARE_SECONDS
        name = share_name(self._marker, min(1.0, self._done / max(self._total, 1.0)))
        with suppress(Exception):  # of any file system: a bar that stands is no reason to stop
            self._work.write(name, b"")


@contextmanager
def parts_of(work: Folder, kind: Kind, number: int) -> Iterator[ParquetParts]:
    """A writer of rows of a unit, or of documents and removed rows of several, which stay."""
    schema, options = _FILES[kind]
    prefix = f"{kind}-{number:010d}"
    with (
        work.scratch() as folder,
        ParquetParts(folder, prefix, schema, publish=work.publish, **options) as parts,
    ):
        yield parts


def cleaned_rows(work: Folder, unit: int, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Rows of a unit as the first pass left them, in order."""
    for path in _paths(work, "cleaned", unit):
        yield from read_rows([path], columns)


def current_batches(work: Folder, unit: int) -> Iterator[pa.RecordBatch]:
    """Rows of a unit as the second pass left them, in the same order."""
    changes = _Changes(work, unit)
    for path in _paths(work, "cleaned", unit):
        for row_group in list_row_groups([path]):
            yield from map(changes.apply_all, read_columns(row_group, None))


def chosen_texts(
    work: Folder, unit: int, numbers: Container[int]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """(number, row with rank, text and reason as the second pass left it) of the rows asked for."""
    changes = _Changes(work, unit)
    number = 0
    for path in _paths(work, "cleaned", unit):
        for row_group in list_row_groups([path]):
            for batch in read_columns(row_group, ["rank", "text", "reason"]):
                places = [i for i in range(len(batch)) if number + i in numbers]
                if places:
                    for place, row in zip(places, batch.take(places).to_pylist(), strict=True):
                        yield number + place, changes.apply(row)
                number += len(batch)


class _Changes:
    """The changes of a unit, read beside its rows; both are in the order of ranks."""

    def __init__(self, work: Folder, unit: int) -> None:
        self._changes = (row for path in _paths(work, "changed", unit) for row in read_rows([path]))
        self._next = next(self._changes, None)

    def apply(self, row: dict[str, Any]) -> dict[str, Any]:
        """The row with its change, if it has one."""
        if row["reason"] is not None:  # removed in the first pass, so never changed
            return row
        while self._next is not None and self._next["rank"] < row["rank"]:
            self._next = next(self._changes, None)
        if self._next is not None and self._next["rank"] == row["rank"]:
            row |= {name: value for name, value in self._next.items() if value is not None}
        return row

    def apply_all(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The next rows with their changes."""
        ranks = batch.column("rank").to_numpy()
        of_batch = []
        while self._next is not None and self._next["rank"] <= ranks[-1]:
            of_batch.append(self._next)
            self._next = next(self._changes, None)
        places = np.searchsorted(ranks, np.array([row["rank"] for row in of_batch], dtype="u8"))
        columns = {name: batch.column(name) for name in batch.schema.names}
        for name in ("text", "reason", "detail", "altered"):
            values = {
                p: r[name] for p, r in zip(places, of_batch, strict=True) if r[name] is not None
            }
            columns[name] = replace_at(columns[name], values)
        return pa.RecordBatch.from_arrays([*columns.values()], schema=batch.schema)


def replace_at(column: pa.Array, values: Mapping[int, str]) -> pa.Array:
    """The column with other values at these places, which ascend."""
    mask = np.zeros(len(column), dtype=bool)
    mask[[*values]] = True
    return pc.replace_with_mask(column, mask, pa.array(values.values(), pa.string()))


def _paths(work: Folder, prefix: Literal["cleaned", "changed"], unit: int) -> Iterator[Path]:
    """Local copies of the parts of a pass over a unit, one after the other.

    A pass may have made no part, but then it says that it is done.
    """
    done = hashes_name(unit >> UNIT_BITS) if prefix == "cleaned" else tally_name("compared", unit)
    if not work.exists(done):
        raise UserError(
            f"what was written to {work.address} is not there for every worker; set beam.work_dir "
            "to a folder that all workers see, such as gs://bucket/tmp"
        )
    for part in count():
        name = f"{prefix}-{unit:010d}-{part:05d}.parquet"
        if not work.exists(name):
            return
        with work.fetch(name) as path:
            yield path
