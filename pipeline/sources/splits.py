"""Big files in parts, so that several workers read one: the parts are the same on every run."""

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq

from electrify.config.clean import Source
from pipeline.sources.input_file import PACKED_ENDINGS, InputFile
from pipeline.sources.lines import is_utf8
from pipeline.sources.source_bytes import open_source

# Of text: large beside the cost of opening a file, small beside a worker's memory.
PART_BYTES = 32_000_000


def split_file(file: InputFile, source: Source, part_bytes: int = PART_BYTES) -> list[InputFile]:
    """The file in parts of about `part_bytes`, or whole where it cannot be divided.

    Packed files are read from their start. `max_documents` and threads need the rows before, so
    they keep a file whole.
    """
    if source.max_documents or source.thread_field or file.text_bytes <= part_bytes:
        return [file]
    if source.kind == "parquet":
        return _parquet_parts(file, source.text_field, part_bytes)
    of_lines = source.kind == "jsonl" or (source.kind == "text" and source.document == "line")
    if of_lines and is_utf8(source.encoding) and not file.path.endswith(PACKED_ENDINGS):
        return line_parts(file, part_bytes)
    return [file]


def line_parts(file: InputFile, part_bytes: int) -> list[InputFile]:
    """Equal ranges of bytes; the reader moves each edge to the next line."""
    num_parts = -(-file.num_bytes // part_bytes)
    edges = [file.num_bytes * part // num_parts for part in range(num_parts)]
    ranges = zip(edges, [*edges[1:], 0], strict=True)  # the last reads on to the file's end
    return [
        replace(
            file,
            num_bytes=(stop or file.num_bytes) - start,
            part=part,
            num_parts=num_parts,
            start=start,
            stop=stop,
        )
        for part, (start, stop) in enumerate(ranges)
    ]


def _parquet_parts(file: InputFile, column: str, part_bytes: int) -> list[InputFile]:
    try:
        with open_source(file) as opened, pq.ParquetFile(opened) as table:
            if column not in table.schema_arrow.names:
                return [file]
            groups = list(_row_groups(table.metadata, file.num_bytes))
    except (OSError, pa.ArrowException, UnicodeDecodeError):
        return [file]  # the reader names the fault
    parts: list[InputFile] = []
    text_bytes = first_row = 0
    for index, (num_rows, num_bytes, packed_bytes) in enumerate(groups):
        if not parts or (text_bytes and text_bytes + num_bytes > part_bytes):
            parts.append(replace(file, num_bytes=0, start=index, first_row=first_row))
            text_bytes = 0
        last = parts[-1]
        parts[-1] = replace(last, num_bytes=last.num_bytes + packed_bytes, stop=index + 1)
        text_bytes += num_bytes
        first_row += num_rows
    if len(parts) < 2:
        return [file]
    return [replace(p, part=part, num_parts=len(parts)) for part, p in enumerate(parts)]


def _row_groups(metadata: pq.FileMetaData, file_bytes: int) -> Iterator[tuple[int, int, int]]:
    """(rows, unpacked bytes, about the bytes in the file) of each row group.

    Of all columns: Arrow aborts the process when it is asked for the size of a column whose
    statistics are damaged (`RowGroupMetaData.column`, pyarrow 25).
    """
    groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
    sizes = [max(0, group.total_byte_size) for group in groups]
    for group, size in zip(groups, sizes, strict=True):
        yield group.num_rows, size, file_bytes * size // max(1, sum(sizes))
