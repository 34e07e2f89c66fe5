"""Documents files as pieces of work: one row group, some 16 MB of text, is read at a time."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq

BATCH_BYTES = 1_000_000  # of text, about: few long documents or many short ones
_MAX_DOCUMENTS = 4096


class RowGroup(NamedTuple):
    """One row group of a documents file."""

    path: str
    number: int  # in its file


def list_row_groups(documents: Sequence[Path]) -> tuple[list[RowGroup], int]:
    """All row groups in the order of the files, and their bytes before compression."""
    groups, num_bytes = [], 0
    for path in documents:
        metadata = pq.read_metadata(path)
        for number in range(metadata.num_row_groups):
            groups.append(RowGroup(str(path), number))
            num_bytes += metadata.row_group(number).total_byte_size
    return groups, num_bytes


def read_texts(
    group: RowGroup, batch_bytes: int = BATCH_BYTES
) -> Iterator[tuple[list[str], list[str]]]:
    """Batches of the row group: texts and their languages."""
    with pq.ParquetFile(group.path) as file:
        about = file.metadata.row_group(group.number)
        documents = about.num_rows * batch_bytes // max(1, about.total_byte_size)
        batches = file.iter_batches(
            min(max(1, documents), _MAX_DOCUMENTS),
            row_groups=[group.number],
            columns=["text", "language"],
            use_threads=False,
        )
        for batch in batches:
            yield batch.column("text").to_pylist(), batch.column("language").to_pylist()
