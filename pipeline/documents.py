"""What the corpus stage writes: documents, and what it removed and why, in Parquet."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
# first characters; masked or empty as `clean.keep_removed` says
REMOVED_SCHEMA = _schema(
    ["id", "source", "language", "reason", "detail", "text"],
    ["source_id"],
)
ROW_GROUP_CHARACTERS = 8_000_000  # of text; bounds what writer and reader hold
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
    """Rows into a Parquet file.

    Where a row group ends depends on the rows alone, so equal rows make equal bytes.
    """

    def __init__(self, writer: pq.ParquetWriter, row_group_characters: int) -> None:
        self.num_rows = 0
        self._writer, self._row_group_characters = writer, row_group_characters
        self._batches: list[pa.RecordBatch] = []
        self._rows_in_group = self._characters_in_group = 0

    def write(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write some rows: as Python objects a short one takes 1 kB, in columns its characters."""
        self.write_batch(pa.RecordBatch.from_pylist([*rows], schema=self._writer.schema))

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Write rows that are columns already, in any order, perhaps among others.

        A row group ends behind the row that fills it.
        """
        schema = self._writer.schema
        columns = [batch.column(name) for name in schema.names]
        batch = pa.RecordBatch.from_arrays(columns, schema=schema)
        self.num_rows += len(batch)
        lengths = pc.utf8_length(batch.column("text")).to_numpy(False)
        while len(batch):
            characters = np.cumsum(lengths, dtype=np.int64)
            full = np.searchsorted(
                characters, self._row_group_characters - self._characters_in_group
            )
            num_rows = min(int(full) + 1, ROW_GROUP_ROWS - self._rows_in_group, len(batch))
            self._batches.append(batch.slice(0, num_rows))
            self._rows_in_group += num_rows
            self._characters_in_group += int(characters[num_rows - 1])
            is_full = self._characters_in_group >= self._row_group_characters
            if is_full or self._rows_in_group >= ROW_GROUP_ROWS:
                self._write_row_group()
            batch, lengths = batch.slice(num_rows), lengths[num_rows:]

    def finish(self) -> None:
        """Write what waits, and the end of the file."""
        self._write_row_group()
        self._writer.close()

    def _write_row_group(self) -> None:
        if self._batches:
            # in one piece: pages would end where the batches do
            table = pa.Table.from_batches(self._batches, self._writer.schema).combine_chunks()
            self._writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
            self._batches, self._rows_in_group, self._characters_in_group = [], 0, 0


@contextmanager
def row_writer(
    path: Path,
    schema: pa.Schema,
    compression: str = "zstd",
    row_group_characters: int = ROW_GROUP_CHARACTERS,
) -> Iterator[RowWriter]:
    """A writer of rows into a file, which is whole if the block ends without an error."""
    repeated = [name for name in _REPEATED if name in schema.names]
    with path.open("wb") as file:
        writer = pq.ParquetWriter(file, schema, compression=compression, use_dictionary=repeated)
        try:
            rows = RowWriter(writer, row_group_characters)
            yield rows
            rows.finish()
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
