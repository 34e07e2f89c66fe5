"""What the corpus stage writes: documents, and what it removed and why, in Parquet."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from electrify.storage.folder import patiently
from electrify.system.machine import return_freed_memory
from electrify.system.outcome import UserError


def _schema(required: Sequence[str], optional: Sequence[str]) -> pa.Schema:
    fields = [pa.field(name, pa.string(), nullable=False) for name in required]
    return pa.schema([*fields, *(pa.field(name, pa.string()) for name in optional)])


# `source_id` is the id that the source itself gives, if any
DOCUMENT_SCHEMA = _schema(
    ["id", "text", "language", "source"],
    ["url", "licence", "source_id"],
)
# `text` as it was read (of a duplicate: as it was cleaned), of a row that could not be read its
# first characters; all without personal data
REMOVED_SCHEMA = _schema(
    ["id", "source", "language", "reason", "detail", "text"],
    ["source_id"],
)
# A document as it goes through the stage. `rank` orders documents as sources, files and rows are
# ordered. `reason` is null where the document stays. `altered` is what rules changed, and how many
# characters they took: "html_removed=12 email_masked=3".
Row = dict[str, Any]
ROW_SCHEMA = pa.schema(
    [
        pa.field("rank", pa.uint64(), nullable=False),
        *(DOCUMENT_SCHEMA.field(name) for name in DOCUMENT_SCHEMA.names if name != "id"),
        *(pa.field(name, pa.string()) for name in ("reason", "detail", "altered")),
    ]
)


def note_change(row: Row, rule: str, num_lost: int) -> None:
    """Note what changed a row and the characters that it took; it is counted when the row is
    kept."""
    row["altered"] = " ".join(filter(None, (row["altered"], f"{rule}={num_lost}")))


ROW_GROUP_BYTES = 16_000_000  # of text; bounds what writer and reader hold
ROW_GROUP_ROWS = 65_536
BATCH_BYTES = 4_000_000  # of text, read at once
_DOCUMENT_BYTES = 250  # at least, as documents are counted
_READ_BYTES = 262_144  # of the file, read at once; not a whole column
_REPEATED = ("language", "source", "licence", "reason")  # a dictionary of texts would be in vain
T = TypeVar("T")


def in_chunks(
    rows: Iterable[T], num_characters: Callable[[T], int], most: int
) -> Iterator[list[T]]:
    """Rows in lists of about `most` characters together, at least one."""
    batch, total = [], 0
    for row in rows:
        batch.append(row)
        total += num_characters(row)
        if total >= most:
            yield batch
            batch, total = [], 0
    if batch:
        yield batch


class RowWriter:
    """Rows into a Parquet file, in row groups of `row_group_bytes` of text or a little more."""

    def __init__(self, writer: pq.ParquetWriter, row_group_bytes: int) -> None:
        self.num_rows = 0
        self._writer, self._row_group_bytes = writer, row_group_bytes
        self._waiting, self._num_bytes = list[pa.RecordBatch](), 0

    def write_batch(self, rows: pa.RecordBatch) -> None:
        """Write rows that are columns already, in any order, perhaps among others."""
        schema = self._writer.schema
        columns = [rows.column(name) for name in schema.names]
        rows = pa.RecordBatch.from_arrays(columns, schema=schema)
        self.num_rows += len(rows)
        self._waiting.append(rows)
        self._num_bytes += rows.column("text").nbytes
        if self._num_bytes >= self._row_group_bytes:
            self.write_row_group()

    def write_row_group(self) -> None:
        """Write the rows that wait."""
        table = pa.Table.from_batches(self._waiting, self._writer.schema).combine_chunks()
        if len(table):
            self._writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
        self._waiting, self._num_bytes = [], 0


@contextmanager
def row_writer(
    path: Path, schema: pa.Schema, row_group_bytes: int = ROW_GROUP_BYTES
) -> Iterator[RowWriter]:
    """A writer of rows into a file, which is whole if the block ends without an error."""
    repeated = [name for name in _REPEATED if name in schema.names]
    with path.open("wb") as file:
        writer = pq.ParquetWriter(file, schema, compression="zstd", use_dictionary=repeated)
        try:
            rows = RowWriter(writer, row_group_bytes)
            yield rows
            rows.write_row_group()
            writer.close()
        finally:
            writer.is_open = False  # after an error it would end a file that is closed
            return_freed_memory()  # it would hold 60 MB until the next file


def document_paths(folder: Path) -> list[Path]:
    """The document files of a `clean` folder in order; `ValueError` if there are none."""
    paths = sorted(folder.glob("documents-*.parquet"))
    if not paths:
        raise UserError(f"no documents-*.parquet in {folder}; run first: electrify clean CONFIG")
    return paths


class RowGroup(NamedTuple):
    """One row group of a documents file: a piece of work, some 16 MB of text."""

    path: str  # or address
    number: int  # in its file
    num_bytes: int  # before compression


def list_row_groups(documents: Sequence[Path]) -> list[RowGroup]:
    return [
        RowGroup(str(path), number, metadata.row_group(number).total_byte_size)
        for path in documents
        for metadata in [pq.read_metadata(path)]
        for number in range(metadata.num_row_groups)
    ]


def read_columns(
    group: RowGroup, columns: Sequence[str], batch_bytes: int = BATCH_BYTES
) -> Iterator[pa.RecordBatch]:
    """A row group in batches of about `batch_bytes`: few long documents or many short ones."""
    with pq.ParquetFile(_opened(group, columns), buffer_size=_READ_BYTES) as file:
        about = file.metadata.row_group(group.number)
        documents = about.num_rows * batch_bytes // max(1, about.total_byte_size)
        for batch in file.iter_batches(
            min(max(1, documents), max(1, batch_bytes // _DOCUMENT_BYTES)),
            row_groups=[group.number],
            columns=columns,
            use_threads=False,
        ):
            if "text" not in batch.schema.names:
                yield batch
                continue
            # a row group may begin with short documents and end with long ones
            lengths = pc.binary_length(batch.column("text")).to_numpy(False)
            part_of = np.cumsum(lengths, dtype=np.int64) // batch_bytes
            edges = [0, *(np.flatnonzero(np.diff(part_of)) + 1).tolist(), len(batch)]
            for start, stop in pairwise(edges):
                yield batch.slice(start, stop - start)


def _opened(group: RowGroup, columns: Sequence[str]) -> Any:
    """A local path, or of a file at an address what a reader of the row group asks for."""
    if "://" not in group.path:
        return group.path
    from fsspec.parquet import open_parquet_file

    def ask() -> Any:
        return open_parquet_file(
            group.path, columns=[*columns], row_groups=[group.number], engine="pyarrow"
        )

    return patiently(ask, f"reading {group.path}")


def read_group(group: RowGroup, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The rows of a row group, few in memory at a time."""
    for batch in read_columns(group, columns):
        yield from batch.to_pylist()
