"""What the corpus stage writes: documents, and what it removed and why, in Parquet."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, NamedTuple, Self, TypeVar
from uuid import uuid4

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
FILE_CHARACTERS = 256_000_000
BATCH_BYTES = 4_000_000  # of text, read at once
_DOCUMENT_BYTES = 250  # at least, as documents are counted
_READ_BYTES = 262_144  # of the file, read at once; not a whole column
_REPEATED = ("language", "source", "licence", "reason")  # a dictionary of texts would be in vain
# As Python objects a short row takes 1 kB, in Arrow's columns what its characters take.
_WAITING_ROWS = 2048
_WAITING_CHARACTERS = 1_000_000
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


class ParquetParts:
    """Rows into `<prefix>-00000.parquet`, `<prefix>-00001.parquet`...

    Where a file or row group ends depends on the rows alone, so equal rows make equal bytes. A file
    gets its name only when it is whole; `publish` is called with each. No rows, no file.
    """

    def __init__(
        self,
        folder: Path,
        prefix: str,
        schema: pa.Schema,
        file_characters: int = FILE_CHARACTERS,
        compression: str = "zstd",
        row_group_characters: int | None = None,
        publish: Callable[[Path], None] | None = None,
    ) -> None:
        self.folder, self.prefix, self.schema = folder, prefix, schema
        self.file_characters, self.compression = file_characters, compression
        self.row_group_characters = row_group_characters or ROW_GROUP_CHARACTERS
        self.publish = publish
        self.paths: list[Path] = []
        self._rows: list[Mapping[str, Any]] = []
        self._batches: list[pa.RecordBatch] = []
        self._num_rows = self._num_characters = 0  # of the row group, without the waiting rows
        self._waiting_characters = self._characters_in_file = 0
        self._writer: pq.ParquetWriter | None = None
        self._file: IO[bytes] | None = None
        # its own, for a runner may run the same work twice at once
        self._temporary = folder / f"{prefix}-{uuid4().hex}.tmp"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error_type: type[BaseException] | None, *_: object) -> None:
        """Close; after an error drop the file that is not whole."""
        try:
            if error_type is None:
                self._pack()
                self._write_row_group()
                self._finish_file()
        finally:
            if self._file is not None:
                if self._writer is not None:
                    self._writer.is_open = False  # else it would end a file that is closed
                self._file.close()
                self._temporary.unlink()
            return_freed_memory()  # it would hold 60 MB until the next file

    def write(self, row: Mapping[str, Any]) -> None:
        self._rows.append(row)
        self._waiting_characters += len(row["text"] or "")
        if len(self._rows) >= _WAITING_ROWS or self._waiting_characters >= _WAITING_CHARACTERS:
            self._pack()

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Write rows that are columns already, in any order, perhaps among others."""
        self._pack()
        columns = [batch.column(name) for name in self.schema.names]
        self._add(pa.RecordBatch.from_arrays(columns, schema=self.schema))

    def _pack(self) -> None:
        """Waiting rows into columns."""
        if self._rows:
            rows, self._rows, self._waiting_characters = self._rows, [], 0
            self._add(pa.RecordBatch.from_pylist(rows, schema=self.schema))

    def _add(self, batch: pa.RecordBatch) -> None:
        """A row group ends behind the row that fills it."""
        lengths = pc.fill_null(pc.utf8_length(batch.column("text")), 0).to_numpy(False)
        while len(batch):
            characters = np.cumsum(lengths, dtype=np.int64)
            full = np.searchsorted(characters, self.row_group_characters - self._num_characters)
            num_rows = min(int(full) + 1, ROW_GROUP_ROWS - self._num_rows, len(batch))
            self._batches.append(batch.slice(0, num_rows))
            self._num_rows += num_rows
            self._num_characters += int(characters[num_rows - 1])
            is_full = self._num_characters >= self.row_group_characters
            if is_full or self._num_rows >= ROW_GROUP_ROWS:
                self._write_row_group()
            batch, lengths = batch.slice(num_rows), lengths[num_rows:]

    def _write_row_group(self) -> None:
        if not self._batches:
            return
        if self._writer is None:
            self._file = self._temporary.open("wb")
            repeated = [name for name in _REPEATED if name in self.schema.names]
            self._writer = pq.ParquetWriter(
                self._file, self.schema, compression=self.compression, use_dictionary=repeated
            )
        # in one piece: pages would end where the batches do
        table = pa.Table.from_batches(self._batches, self.schema).combine_chunks()
        self._writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
        self._characters_in_file += self._num_characters
        self._batches, self._num_rows, self._num_characters = [], 0, 0
        if self._characters_in_file >= self.file_characters:
            self._finish_file()

    def _finish_file(self) -> None:
        if self._writer is None or self._file is None:
            return
        self._writer.close()
        self._file.close()
        path = self.folder / f"{self.prefix}-{len(self.paths):05d}.parquet"
        self._temporary.replace(path)
        self.paths.append(path)
        self._writer, self._file, self._characters_in_file = None, None, 0
        if self.publish is not None:
            self.publish(path)


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
    group: RowGroup, columns: Sequence[str] | None, batch_bytes: int = BATCH_BYTES
) -> Iterator[pa.RecordBatch]:
    """A row group in batches of about `batch_bytes`: few long documents or many short ones.

    `columns` None stands for all.
    """
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
            lengths = pc.fill_null(pc.binary_length(batch.column("text")), 0).to_numpy(False)
            part_of = np.cumsum(lengths, dtype=np.int64) // batch_bytes
            edges = [0, *(np.flatnonzero(np.diff(part_of)) + 1).tolist(), len(batch)]
            for start, stop in pairwise(edges):
                yield batch.slice(start, stop - start)


def _opened(group: RowGroup, columns: Sequence[str] | None) -> Any:
    """A local path, or of a file at an address what a reader of the row group asks for."""
    if "://" not in group.path:
        return group.path
    from fsspec.parquet import open_parquet_file

    def ask() -> Any:
        wanted = None if columns is None else [*columns]
        return open_parquet_file(
            group.path, columns=wanted, row_groups=[group.number], engine="pyarrow"
        )

    return patiently(ask, f"reading {group.path}")


def read_group(group: RowGroup, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
    """The rows of a row group, few in memory at a time."""
    for batch in read_columns(group, columns):
        yield from batch.to_pylist()


def read_rows(
    paths: Sequence[Path], columns: Sequence[str] | None = None
) -> Iterator[dict[str, Any]]:
    """Rows of Parquet files in order, few in memory at a time."""
    for group in list_row_groups(paths):
        yield from read_group(group, columns)
