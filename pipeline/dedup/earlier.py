"""Documents of an earlier corpus (`clean.dedup_against`), which are compared and not written again.

All of them stay, whatever is equal or similar to them. Their ranks tell them from those of this
corpus.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.documents import RowGroup, document_paths, read_group
from pipeline.sources.input_file import EARLIER_BIT, InputFile, packed_bytes, place_of
from pipeline.sources.stored import reading


def is_earlier(rank: int) -> bool:
    return rank >> EARLIER_BIT > 0


def are_earlier(ranks: NDArray[np.uint64]) -> NDArray[np.bool_]:
    earlier: NDArray[np.bool_] = ranks >> np.uint64(EARLIER_BIT) > 0
    return earlier


def earlier_document(rank: int, folders: Sequence[str]) -> str:
    """Where a document of an earlier corpus stands: path:row; row 1 is the first."""
    folder, file, row = place_of(rank)
    return f"{folders[folder]}/documents-{file:05d}.parquet:{row}"


def earlier_files(folders: Sequence[str]) -> list[InputFile]:
    """The documents of finished corpora, a row group each."""
    here, files = str(Path.cwd()), []
    for folder_index, folder in enumerate(folders):
        for number, path in enumerate(document_paths(Path(folder))):
            metadata, first_row = pq.read_metadata(path), 0
            for index in range(metadata.num_row_groups):
                group = metadata.row_group(index)
                files.append(
                    InputFile(
                        str(path),
                        packed_bytes(group.total_byte_size),
                        folder_index,
                        number,
                        start=index,
                        first_row=first_row,
                        folder=here,
                        is_earlier=True,
                    )
                )
                first_row += group.num_rows
    return files


def earlier_texts(file: InputFile) -> Iterator[tuple[int, str]]:
    """(rank, text) of the documents of a row group."""
    group = RowGroup(file.address, file.start, file.num_bytes)
    with reading(file.address):
        for row, document in enumerate(read_group(group, ["text"]), start=file.first_row + 1):
            yield file.first_rank + row, document["text"]
