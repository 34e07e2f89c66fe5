"""The texts of a row group of documents, few in memory at a time."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.documents import RowGroup

BATCH_BYTES = 4_000_000  # of text, about: few long documents or many short ones
_DOCUMENT_BYTES = 250  # at least, as documents are counted
_READ_BYTES = 262_144  # of the file, read at once; not a whole column


def read_texts(
    group: RowGroup, batch_bytes: int = BATCH_BYTES
) -> Iterator[tuple[list[str], list[str], list[str]]]:
    """Batches of the row group: texts, their languages and their sources."""
    columns = ("text", "language", "source")
    for batch in read_columns(group, batch_bytes, columns):
        text, language, source = (batch.column(name).to_pylist() for name in columns)
        yield text, language, source


def read_columns(
    group: RowGroup, batch_bytes: int, columns: Sequence[str] = ("text", "language")
) -> Iterator[pa.RecordBatch]:
    """Batches of the row group, with these columns; `text` is one of them."""
    with pq.ParquetFile(group.path, buffer_size=_READ_BYTES) as file:
        about = file.metadata.row_group(group.number)
        documents = about.num_rows * batch_bytes // max(1, about.total_byte_size)
        for batch in file.iter_batches(
            min(max(1, documents), max(1, batch_bytes // _DOCUMENT_BYTES)),
            row_groups=[group.number],
            columns=list(columns),
            use_threads=False,
        ):
            yield from _even_parts(batch, batch_bytes)


def _even_parts(batch: pa.RecordBatch, num_bytes: int) -> Iterator[pa.RecordBatch]:
    """Parts of some bytes of text: a row group may begin with short documents, end with long."""
    lengths = np.array(pc.binary_length(batch.column("text")).to_pylist(), np.int64)
    of = np.cumsum(lengths) // num_bytes
    borders = [0, *(np.flatnonzero(np.diff(of)) + 1).tolist(), len(batch)]
    for start, stop in pairwise(borders):
        yield batch.slice(start, stop - start)
