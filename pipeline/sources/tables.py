"""Tables: parquet files and CSV."""

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice

import pyarrow as pa
import pyarrow.parquet as pq

from electrify.config.clean import DEFAULT_ID_FIELD, Source
from electrify.storage.tables import HEAD_ROWS, guess_dialect, has_cells, read_rows
from pipeline.sources.input_file import (
    KNOWN_FIELDS,
    Fault,
    InputFile,
    Raw,
    TooLong,
    bad_row,
    text_of,
    too_long,
)
from pipeline.sources.json_file import id_of, take_fields
from pipeline.sources.lines import CHUNK_BYTES, read_text_lines
from pipeline.sources.stored import open_source

# of the columns read, in memory at a time: twice, as Arrow has them and as Python does
_BATCH_BYTES = 4_000_000
_MAX_BATCH_ROWS = 1024
_SMALL_BYTES = 16_000_000  # of a file or its part, packed
_TOO_LONG = "\ud800"  # stands for a line that was read past: no text has it
_MARK = re.compile(f"{_TOO_LONG}([0-9]+)")


def read_parquet(file: InputFile, source: Source, max_line_bytes: int) -> Iterator[Raw | Fault]:
    """One document a row, in column `source.text_field`; of a part, its row groups alone."""
    # buffered, not read ahead: else Arrow holds a column chunk whole, maybe most of the file. But
    # for a buffer it takes what a damaged page says that it has, up to 2 GB
    is_small = 0 < file.num_bytes <= _SMALL_BYTES
    with (
        open_source(file) as opened,
        pq.ParquetFile(
            opened, buffer_size=0 if is_small else CHUNK_BYTES, pre_buffer=False
        ) as table,
    ):
        columns = _columns(table.schema_arrow, source)
        groups = range(file.start, file.stop or table.metadata.num_row_groups)
        row = file.first_row
        for batch in table.iter_batches(
            batch_size=_batch_rows(table.metadata), columns=columns, row_groups=list(groups)
        ):
            values = [_bytes_of(batch.column(batch.schema.get_field_index(c))) for c in columns]
            for cells in zip(*values, strict=True):
                row += 1
                record = dict(zip(columns, cells, strict=True))
                yield _row(row, record, source, max_line_bytes)


def read_csv(file: InputFile, source: Source, max_line_bytes: int) -> Iterator[Raw | Fault]:
    """One document a row below the names of the columns, numbered by the line where it begins.

    By Python's `csv`: Arrow's reader ends at a row longer than its block and at a bad row that is
    not UTF-8, and reads hundreds of megabytes ahead.
    """
    lines = (line for _, line in read_text_lines(file, source.encoding, max_line_bytes))
    head = list(_first_lines(lines))
    too_long_lines: list[TooLong] = []
    row_bytes = 0

    def read() -> Iterator[str]:
        nonlocal row_bytes
        for line in chain(head, lines):
            if isinstance(line, TooLong):
                too_long_lines.append(line)
                yield f"{_TOO_LONG}{len(too_long_lines)}\n"
                continue
            row_bytes += len(line)
            if row_bytes > 5 * max_line_bytes:  # one cell of so many bytes is a fault before
                raise pa.ArrowInvalid(f"a row of more than {row_bytes:,} bytes, in many cells")
            yield line.decode("utf-8", "surrogateescape") + "\n"

    csv.field_size_limit(max_line_bytes)  # of a cell; Python's is 131,072
    delimiter, escape = _dialect(head, source)
    rows = read_rows(read(), delimiter, source.quoted, len(source.columns), escape)
    names = list(source.columns)
    columns = _columns(_schema(names), source) if names else []
    for row, cells in rows:
        row_bytes = 0
        if isinstance(cells, csv.Error):
            yield Fault(row, "malformed_row", f"{cells}; is a quotation mark not closed?")
        elif too_long_lines and (mark := _MARK.search("\0".join(cells))):
            yield too_long(row, too_long_lines[int(mark[1]) - 1], max_line_bytes)
        elif not has_cells(cells):
            continue
        elif not names:
            names = [cell.strip() for cell in cells]
            columns = _columns(_schema(names), source)
        elif len(cells) < len(names) or has_cells(cells[len(names) :]):
            data = ",".join(cells).encode("utf-8", "surrogateescape")
            named = "there are" if source.columns else "the first row names"
            detail = f"{len(cells)} cells; {named} {len(names)} columns"
            yield bad_row(row, "malformed_row", detail, data)
        else:
            # as the file has them; an empty cell is none; there may be blank ones behind
            values = (cell.encode("utf-8", "surrogateescape") or None for cell in cells)
            record = dict(zip(names, values, strict=False))
            record[source.text_field] = record[source.text_field] or b""
            yield _row(row, {name: record[name] for name in columns}, source, max_line_bytes)


def _schema(names: Sequence[str]) -> pa.Schema:
    return pa.schema([(name, pa.string()) for name in names])


def _first_lines(lines: Iterator[bytes | TooLong]) -> Iterator[bytes | TooLong]:
    """Lines that tell how a table is written."""
    num_bytes = 0
    for line in islice(lines, 2 * HEAD_ROWS):
        yield line
        num_bytes += len(line.head if isinstance(line, TooLong) else line)
        if num_bytes > CHUNK_BYTES:
            return


def _dialect(lines: Iterable[bytes | TooLong], source: Source) -> tuple[str, str | None]:
    """What separates cells, and what stands before a mark within one."""
    default = "," if source.kind == "csv" else "\t"
    whole = [b"" if isinstance(line, TooLong) else line for line in lines]
    head = b"".join(line + b"\n" for line in whole).decode("utf-8", "replace")
    names, num_columns = () if source.columns else source.fields, len(source.columns)
    delimiter, escape = guess_dialect(head, names, default, num_columns)
    return delimiter, escape if source.quoted is None else None


def _batch_rows(metadata: pq.FileMetaData) -> int:
    """Rows that hold about `_BATCH_BYTES` in all columns, by the row group with the longest rows.

    Not in the columns read alone: Arrow aborts the process when it is asked for the size of a
    column whose statistics are damaged (`RowGroupMetaData.column`, pyarrow 25).
    """
    groups = (metadata.row_group(index) for index in range(metadata.num_row_groups))
    fewest = (
        _BATCH_BYTES * group.num_rows // max(1, group.total_byte_size)
        for group in groups
        if group.num_rows
    )
    return max(1, min(_MAX_BATCH_ROWS, min(fewest, default=_MAX_BATCH_ROWS)))


def _columns(schema: pa.Schema, source: Source) -> list[str]:
    """The columns that are read; `pa.ArrowInvalid` where no row of the table can be."""
    counts = Counter(schema.names)
    kinds = {name: schema.field(name).type for name, count in counts.items() if count == 1}
    for name in source.fields:
        if name not in counts:
            there = ", ".join(schema.names[:20])
            hint = "; name the columns if the first row does not: columns = [...]"
            raise pa.ArrowInvalid(
                f"no column {name!r} (there are: {there}); name one of them"
                f"{hint if source.kind in ('csv', 'tsv') else ''}"
            )
        if name not in kinds:
            raise pa.ArrowInvalid(f"{counts[name]} columns {name!r}; rename all but one")
    for name in filter(None, (source.text_field, source.language_field)):
        if not (is_string(kinds[name]) or pa.types.is_null(kinds[name])):  # null: no row has one
            raise pa.ArrowInvalid(f"column {name!r} is {kinds[name]}, not a string")
    name = source.id_field or DEFAULT_ID_FIELD
    is_id = name in kinds and (
        is_string(kinds[name]) or pa.types.is_integer(kinds[name]) or pa.types.is_null(kinds[name])
    )
    if source.id_field and not is_id:
        raise pa.ArrowInvalid(f"column {name!r} is {kinds[name]}, not a string or an integer")
    wanted = [*source.fields, *(n for n in KNOWN_FIELDS if n in kinds and is_string(kinds[n]))]
    return list(dict.fromkeys([*wanted, *[name] * is_id]))


def is_string(kind: pa.DataType) -> bool:
    """Whether the values are text."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def _bytes_of(column: pa.Array) -> list[bytes | None]:
    """As bytes: Arrow does not check UTF-8 and would raise for the whole batch."""
    if not is_string(column.type):
        column = column.cast(pa.string())
    values: list[bytes | None] = column.cast(pa.large_binary()).to_pylist()
    return values


def _row(row: int, record: dict[str, bytes | None], source: Source, max_bytes: int) -> Raw | Fault:
    fields: dict[str, str | None] = {
        column: None if value is None else value.decode("utf-8", "replace")
        for column, value in record.items()
        if column != source.text_field
    }
    data = record[source.text_field]
    text = None if data is None else text_of(row, data, source, max_bytes)
    if isinstance(text, Fault):
        return replace(text, source_id=id_of(fields, source))
    return take_fields(row, fields | {source.text_field: text}, source)
