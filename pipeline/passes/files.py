"""The files that the passes of `clean` leave for each other in the work folder.

A file is made in a local folder and then published, so it stands under its name whole or not at
all. It is read from a local copy.

`cleaned-*` holds every row of a batch as the rules left it, with its statistics: what no limit
decides. `changed-*` has the rows that limits removed, and those that the second pass changed or
removed. A runner may repeat a pass, or run it twice at once: the second copy has the same bytes.
"""

import json
import time
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.documents import (
    DOCUMENT_SCHEMA,
    REMOVED_SCHEMA,
    RowWriter,
    list_row_groups,
    read_columns,
    row_writer,
)
from pipeline.report.counts import Tally
from pipeline.rules.order import STATISTICS_SCHEMA
from pipeline.runner import progress_name
from pipeline.sources.input_file import batch_number
from pipeline.work_folder import WorkFolder

# `reason` is null where no rule but perhaps a limit removes a row. `raw` is the text as it was
# read, where it differs. `altered` is what rules changed, and how often:
# "html_removed=1 email_masked=3". Of the text are: its hash, those of its lines and units, and
# its key in each MinHash band, only in the first where one will do (`is_small`).
CLEANED_SCHEMA = pa.schema(
    [
        pa.field("rank", pa.uint64(), nullable=False),
        *(DOCUMENT_SCHEMA.field(name) for name in DOCUMENT_SCHEMA.names if name != "id"),
        *(pa.field(name, pa.string()) for name in ("reason", "detail", "altered", "raw")),
        pa.field("text_hash", pa.binary(16)),
        *(
            pa.field(name, pa.list_(pa.uint64()))
            for name in ("line_hashes", "unit_hashes", "band_keys")
        ),
        *STATISTICS_SCHEMA,
    ]
)
CHANGED_SCHEMA = pa.schema(
    [CLEANED_SCHEMA.field(name) for name in ("rank", "text", "reason", "detail", "altered")]
)
Pass = Literal["read", "compared", "written"]
Kind = Literal["cleaned", "changed", "documents", "removed"]
BENCHMARK_INDEX = "benchmark-index"  # the index of benchmark texts, where there are any
BLOCKED_HOSTS = "blocked-hosts"  # hashes of names, where hosts are blocked
_PROGRESS_SECONDS = 5.0  # between two files that say how far a batch of files is read
# small in memory
_BETWEEN_PASSES: dict[str, Any] = {"compression": "lz4", "row_group_characters": 1_000_000}
_FILES: dict[Kind, tuple[pa.Schema, dict[str, Any]]] = {
    "cleaned": (CLEANED_SCHEMA, _BETWEEN_PASSES | {"compression": "zstd"}),  # it may stay
    "changed": (CHANGED_SCHEMA, _BETWEEN_PASSES),
    "documents": (DOCUMENT_SCHEMA, {}),
    "removed": (REMOVED_SCHEMA, {}),
}


def tally_name(of_pass: Pass, number: int) -> str:
    """The tally of one pass over a batch of files ("read"), a batch ("compared") or an output
    ("written"); it is there once the pass is done."""
    return f"{of_pass}-{number:010d}.json"


def hashes_name(file_batch: int) -> str:
    """What a batch of files sends to the shards of texts, for each of its batches."""
    return f"hashes-{file_batch:06d}"


def nums_of_batches(work: WorkFolder, file_batches: Sequence[int]) -> list[int]:
    """The number of batches of each of these batches of files, which have been read."""
    markers = work.read_all([*map(hashes_name, file_batches)])
    return [len(json.loads(marker)) for marker in markers]


def write_tally(work: WorkFolder, of_pass: Pass, number: int, tally: Tally) -> None:
    """Say that the pass is done; its other files are there before."""
    work.write(tally_name(of_pass, number), tally.to_json().encode())


def reading_progress(work: WorkFolder, file_batch: int, num_bytes: int) -> Callable[[int], None]:
    """A function to call with bytes that are read; it says in the work folder how far a batch of
    files is, which may be one big file."""
    done, next_seconds = 0, time.monotonic() + _PROGRESS_SECONDS

    def add(num_read: int) -> None:
        nonlocal done, next_seconds
        done += num_read
        if (now := time.monotonic()) >= next_seconds:
            next_seconds = now + _PROGRESS_SECONDS
            fraction = min(1.0, done / max(num_bytes, 1))
            with suppress(Exception):  # of any file system: a bar that stands is no reason to stop
                work.write(progress_name(hashes_name(file_batch), fraction), b"")

    return add


@contextmanager
def new_rows(work: WorkFolder, kind: Kind, number: int) -> Iterator[RowWriter]:
    """A writer of rows of a batch or, without a file where there are none, of an output."""
    schema, options = _FILES[kind]
    name = _name(kind, number)
    with work.new_file(name) as path, row_writer(path, schema, **options) as rows:
        yield rows
    if not rows.num_rows and kind in ("documents", "removed"):
        work.remove(name)


def num_cleaned(work: WorkFolder, file_batch: int) -> int:
    """How many batches the rows of a batch of files have made."""
    batches = (batch_number(file_batch, index) for index in count())
    return next(n for n, batch in enumerate(batches) if not work.exists(_name("cleaned", batch)))


def read_cleaned(work: WorkFolder, batch: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Rows of a batch as the rules left them, in order."""
    return _read(work, "cleaned", batch, columns)


def read_changed_texts(work: WorkFolder, batch: int) -> dict[int, str]:
    """The texts, by rank, that the second pass changed and did not remove."""
    return {
        row["rank"]: row["text"]
        for rows in _read(work, "changed", batch, ["rank", "text", "reason"])
        for row in rows.filter(pc.is_null(rows.column("reason"))).to_pylist()
    }


def read_current(work: WorkFolder, batch: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Rows of a batch as the second pass left them, in order. The columns have the rank."""
    schema = pa.schema([field for field in CHANGED_SCHEMA if field.name in columns])
    changed = pa.Table.from_batches(_read(work, "changed", batch, schema.names), schema)
    for rows in read_cleaned(work, batch, columns):
        is_changed = pc.is_in(rows.column("rank"), changed["rank"])
        of_rows = changed.filter(pc.is_in(changed["rank"], rows.column("rank")))
        for name in schema.names:
            values = of_rows[name].combine_chunks()
            column = pc.replace_with_mask(rows.column(name), is_changed, values)
            rows = with_column(rows, name, column)
        yield rows


def chosen_rows(
    batches: Iterable[pa.RecordBatch], numbers: Container[int]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """(number, row) of the rows asked for, counted through all batches."""
    first = 0
    for rows in batches:
        places = [place for place in range(len(rows)) if first + place in numbers]
        if places:
            chosen = rows.take(places).to_pylist()
            yield from zip((first + place for place in places), chosen, strict=True)
        first += len(rows)


def with_column(rows: pa.RecordBatch, name: str, values: pa.Array) -> pa.RecordBatch:
    """The rows with other values in a column."""
    place = rows.schema.get_field_index(name)
    return rows.set_column(place, rows.schema.field(place), values)


def _name(kind: Kind, number: int) -> str:
    return f"{kind}-{number:010d}.parquet"


def _read(
    work: WorkFolder, kind: Kind, batch: int, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    with work.fetch(_name(kind, batch)) as path:
        for row_group in list_row_groups([path]):
            yield from read_columns(row_group, columns)
