"""Rows of official files as dicts, named as the hub's: lists in .json, tables in .csv and (all
other names) tables of tabs without quoting; and fields of rows.

Nothing is normalised: a row that does not fit stops the run with its place.
"""

import csv
import importlib
import io
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from electrify.storage.files import parse_json
from electrify.system.outcome import UserError
from electrify.system.progress import warn

Row = Mapping[str, Any]


def read_text(path: Path) -> str:
    """A file's text without its byte order mark (MRPC's files begin with one)."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8: {error}; convert it to UTF-8") from None


def rows_of_file(
    path: Path,
    columns: Sequence[str],
    aliases: Mapping[str, str],
    needed: Collection[str],
    skip_malformed: bool,
) -> Iterator[tuple[int, Row]]:
    """(number from 1, row) of a JSON list or a table; a header does not count.

    `columns` are those of a table without a header. Raises `ValueError` for a file of another form.
    """
    if path.suffix == ".json":
        rows = json_value(path)
        if not isinstance(rows, list):
            raise UserError(f"{path} holds one {type(rows).__name__}, not a list of rows")
        yield from enumerate(rows, start=1)
        return
    cells = table_cells(path)
    if not columns:
        columns = tuple(aliases.get(name, name) for name in cells[0]) if cells else ()
        cells = cells[1:]
        if missing := [name for name in needed if name not in columns]:
            raise UserError(
                f"{path}: header is {list(columns)}, {missing[0]!r} is needed; a file without "
                "labels (a test set) cannot be scored"
            )
    num_skipped = 0
    for number, values in enumerate(cells, start=1):
        if len(values) == len(columns):
            yield number, dict(zip(columns, values, strict=True))
        elif skip_malformed:
            num_skipped += 1
        else:
            raise UserError(
                f"{path} row {number}: {len(values)} columns, not {len(columns)} "
                f"({', '.join(columns)})"
            )
    if num_skipped:
        warn(f"{path}: {num_skipped} rows do not have {len(columns)} columns and are left out")


def json_value(path: Path) -> Any:
    """The value of a JSON file, as `json_of`."""
    return json_of(read_text(path), path)


def json_of(text: str, path: Path) -> Any:
    """The value of a JSON text, or the list of its lines' values: JSON lines are often named so."""
    first, _, more = text.strip().partition("\n")
    if more and first.startswith("{") and first.rstrip().endswith("}"):
        return [value for _, value in lines_of(text, path)]
    return parse_json(text, path, names_are_checked=True)


def json_lines(path: Path) -> Iterator[tuple[int, Any]]:
    """(number from 1, value) of each line that is not blank."""
    return lines_of(read_text(path), path)


def lines_of(text: str, path: Path) -> Iterator[tuple[int, Any]]:
    """The same of a text."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield number, parse_json(line, f"{path} line {number}", names_are_checked=True)


def parquet_rows(path: Path) -> list[Row]:
    """The rows of a table; `ValueError` for a file that is none."""
    rows: list[Row] = parquet_table(path).to_pylist()
    return rows


def parquet_table(path: Path) -> Any:
    """As `pyarrow` reads it; `ValueError` for a file that is none."""
    parquet: Any = importlib.import_module("pyarrow.parquet")  # slow to import, and seldom wanted
    try:
        return parquet.ParquetFile(path).read()
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read as Parquet: {error}") from None


def questions_of(data: Any, path: Path) -> Iterator[tuple[int, Row]]:
    """(number, row) of each question of what a file in SQuAD's JSON holds."""
    number = 0
    for article in list_field(data, "data", str(path)):
        for paragraph in list_field(article, "paragraphs", f"{path} behind question {number}"):
            place = f"{path} behind question {number}"
            context = text_field(paragraph, "context", place)
            for qa in list_field(paragraph, "qas", place):
                number += 1
                if not isinstance(qa, dict):
                    raise UserError(f"{path} question {number}: {qa!r:.80} is not an object")
                yield number, {**qa, "context": context}


def sentence_blocks(path: Path) -> Iterator[tuple[int, str, list[tuple[int, str]]]]:
    """(first line, id, numbered lines) of each sentence of a file of tokens.

    A "## id<tab>sentence" line stands before each and a blank line behind it; other "##" lines
    before tell of the file. Raises `ValueError` for a sentence without an id.
    """
    identity, block = "", list[tuple[int, str]]()
    for number, line in enumerate([*read_text(path).split("\n"), ""], start=1):
        if line.startswith("##"):
            identity = line[2:].strip().split("\t")[0].strip()
        elif line.strip():
            block.append((number, line.rstrip("\r")))
        elif block:
            start = block[0][0]
            if not identity:
                raise UserError(f"{path} line {start}: no '## id' line before the sentence")
            yield start, identity, block
            identity, block = "", []


def text_field(row: Row, name: str, place: str) -> str:
    """A field that has to be text; `ValueError` names `place`."""
    value = nested(row, name)
    if not isinstance(value, str):
        shown = "missing" if value is None else f"{value!r:.80}"
        raise UserError(f"{place}: field {name!r} is {shown}, not text")
    return value


def flag_field(row: Row, name: str, place: str) -> bool | None:
    """A field that says yes or no; None where it is missing, null or empty. `ValueError` names
    `place` for any other value."""
    value = row.get(name)
    if value is None or value != value or value == "":
        return None
    said = value.strip().lower() if isinstance(value, str) else value
    for answer, words in (
        (True, (1, "1", "true", "yes", "y")),
        (False, (0, "0", "false", "no", "n")),
    ):
        if said in words:
            return answer
    raise UserError(f"{place}: {name} is {value!r:.80}; write true or false")


def list_field(row: Any, name: str, place: str) -> list[Any]:
    """A field that has to be a list; `ValueError` names `place`."""
    value = row.get(name) if isinstance(row, Mapping) else None
    if not isinstance(value, list):
        shown = "missing" if value is None else f"{value!r:.80}"
        raise UserError(f"{place}: field {name!r} is {shown}, not a list")
    return value


def nested(row: Any, name: str) -> Any:
    """A field, or one of a field ("labels.label"); None where it is not there."""
    if isinstance(row, Mapping) and name in row:
        return row[name]
    for part in name.split("."):
        row = row.get(part) if isinstance(row, Mapping) else None
    return row


def label_ids(names: Sequence[Any], labels: Sequence[str], place: str) -> tuple[int, ...]:
    """Labels as their positions in the task's; `ValueError` names `place` and the unknown one."""
    ids = {label: number for number, label in enumerate(labels)}
    for name in names:
        if not isinstance(name, str) or name not in ids:
            raise UserError(f"{place}: unknown label {name!r} (allowed: {', '.join(labels)})")
    return tuple(ids[name] for name in names)


def table_cells(path: Path) -> list[list[str]]:
    """The cells of each row.

    In TSV a quotation mark is a character like any other, and lines end at \\n only: a form feed or
    U+2028 inside a sentence does not end it.
    """
    text = read_text(path)
    if path.suffix == ".csv":
        csv.field_size_limit(2**31 - 1)  # a cell may be a whole document
        try:
            return [row for row in csv.reader(io.StringIO(text, newline="")) if row]
        except csv.Error as error:
            raise UserError(f"{path} is not valid CSV: {error}") from None
    lines = text.rstrip("\r\n").split("\n") if text.strip("\r\n") else []
    return [line.removesuffix("\r").split("\t") for line in lines]
