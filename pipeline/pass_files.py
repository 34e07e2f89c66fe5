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
from itertools import chain, count
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
from pipeline.runner import progress_name
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
_PROGRESS_SECONDS = 5.0  # between two files that say how far a group is read
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


def nums_of_units(work: Folder, groups: Sequence[int]) -> list[int]:
    """The number of units of each of these groups, which have been read."""
    markers = work.read_all([*map(hashes_name, groups)])
    return [len(json.loads(marker)) // 2 for marker in markers]


def write_tally(work: Folder, of_pass: Pass, number: int, tally: Tally) -> None:
    """Say that the pass is done; its other files are there before."""
    work.write(tally_name(of_pass, number), tally.to_json().encode())


class ReadingProgress:
    """Says in the work folder how far a group is read, for a group may be one big file."""

    def __init__(self, work: Folder, group: int, num_bytes: int) -> None:
        self._work, self._marker, self._num_bytes = work, hashes_name(group), num_bytes
        self._done = 0
        self._next_seconds = time.monotonic() + _PROGRESS_SECONDS

    def add(self, num_bytes: int) -> None:
        """Add bytes that are read."""
        self._done += num_bytes
        if (now := time.monotonic()) < self._next_seconds:
            return
        self._next_seconds = now + _PROGRESS_SECONDS
        name = progress_name(self._marker, min(1.0, self._done / max(self._num_bytes, 1)))
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


def cleaned_batches(
    work: Folder, unit: int, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Rows of a unit as the first pass left them, in order; `columns` None stands for all."""
    for path in _paths(work, "cleaned", unit):
        for row_group in list_row_groups([path]):
            yield from read_columns(row_group, columns)


def current_batches(
    work: Folder, unit: int, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Rows of a unit as the second pass left them, in order. The columns have the rank."""
    changes = chain.from_iterable(read_rows([path]) for path in _paths(work, "changed", unit))
    change = next(changes, None)
    for batch in cleaned_batches(work, unit, columns):
        ranks = batch.column("rank").to_numpy()
        changed = []
        while change is not None and change["rank"] <= ranks[-1]:
            changed.append(change)
            change = next(changes, None)
        places = np.searchsorted(ranks, np.array([row["rank"] for row in changed], dtype="u8"))
        for name in {*CHANGED_SCHEMA.names} & {*batch.schema.names} - {"rank"}:
            values = {
                place: row[name]
                for place, row in zip(places, changed, strict=True)
                if row[name] is not None
            }
            batch = replace_values(batch, name, values)
        yield batch


def chosen_texts(
    work: Folder, unit: int, numbers: Container[int]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """(number, row with rank and text as the second pass left it) of the rows asked for."""
    number = 0
    for batch in current_batches(work, unit, ["rank", "text"]):
        places = [place for place in range(len(batch)) if number + place in numbers]
        if places:
            rows = batch.take(places).to_pylist()
            yield from zip((number + place for place in places), rows, strict=True)
        number += len(batch)


def replace_values(batch: pa.RecordBatch, name: str, values: Mapping[int, str]) -> pa.RecordBatch:
    """The batch with other values in a column, by ascending place."""
    if not values:
        return batch
    mask = np.zeros(len(batch), dtype=bool)
    mask[[*values]] = True
    strings = pa.array(values.values(), pa.string())
    column = pc.replace_with_mask(batch.column(name), mask, strings)
    place = batch.schema.get_field_index(name)
    return batch.set_column(place, batch.schema.field(place), column)


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
