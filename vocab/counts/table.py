"""The table of words that counting leaves for training; reading it needs no Beam."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from vocab.counts.words import BATCH_WORDS, WordBatch

COUNT_SCHEMA = pa.schema(
    [
        ("language", pa.string()),
        ("word", pa.string()),
        ("cut", pa.string()),  # the word with its parts marked; null where it is one part
        ("count", pa.int64()),
    ]
)


def read_batches(path: Path) -> Iterator[WordBatch]:
    """Words of a file of `write_word_counts`, BATCH_WORDS at a time."""
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(BATCH_WORDS, use_threads=False):
            yield WordBatch(
                pc.coalesce(batch.column("cut"), batch.column("word")).to_pylist(),
                _counts(batch.column("count")),
                batch.column("language").to_pylist(),
            )


def _counts(column: pa.Array) -> NDArray[np.int64]:
    """As Arrow's to_numpy(), which would import pandas: 45 MB."""
    counts = np.frombuffer(column.buffers()[1], np.int64)
    return counts[column.offset : column.offset + len(column)]
