"""Rows of official files with one text or two and a label: lists in .json, tables in .csv and (all
other names) tables of tabs without quoting.

Nothing is normalised: a row that does not fit stops the run with its place.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.tasks.task import Task
from electrify.storage.files import read_json
from electrify.system.progress import warn

Row = Mapping[str, str]


def read_text(path: Path) -> str:
    """A file's text without its byte order mark (MRPC's files begin with one)."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8: {error}") from None


def read_rows(task: Task, split: str, path: Path) -> Iterator[tuple[int, Row]]:
    """(row number from 1, the row's texts, label and id) in file order.

    Unlabelled splits have no label field. Raises `ValueError` with file and row for a row that
    lacks a field, and for two rows of one id.
    """
    is_labelled = split not in task.unlabelled
    needed = [*task.text_fields, *([task.label_field] if is_labelled else [])]
    needed += [task.id_field] if task.id_field else []
    if path.suffix == ".json":
        rows = _json_rows(task, path, needed)
    else:
        rows = _table_rows(task, path, needed, is_labelled)
    return _kept(task, is_labelled, rows, str(path))


def _kept(
    task: Task, is_labelled: bool, rows: Iterable[tuple[int, Row]], where: str
) -> Iterator[tuple[int, Row]]:
    """Without the rows that the authors leave out; `ValueError` for two rows of one id."""
    seen: dict[str, int] = {}
    num_empty = 0
    for number, row in rows:
        if task.skip_empty and is_labelled and not all(row[name] for name in task.text_fields):
            num_empty += 1
            continue
        if task.id_field:
            identity = row[task.id_field]
            if identity in seen:
                raise ValueError(
                    f"{where} row {number}: {task.id_field} {identity!r} is that of row "
                    f"{seen[identity]}"
                )
            seen[identity] = number
        yield number, row
    if num_empty:
        warn(f"{where}: {num_empty} rows with an empty text are left out, as their authors do")


def hub_rows(
    task: Task, split: str, rows: Iterable[Mapping[str, Any]]
) -> Iterator[tuple[int, Row]]:
    """As `read_rows`, from rows of the hub: fields by our names, labels as ours, all as text."""
    is_labelled = split not in task.unlabelled
    found = _hub_rows(task, split, rows, is_labelled)
    return _kept(task, is_labelled, found, f"{task.name} {split} of the hub")


def _hub_rows(
    task: Task, split: str, rows: Iterable[Mapping[str, Any]], is_labelled: bool
) -> Iterator[tuple[int, Row]]:
    assert task.hub is not None
    needed = [*task.text_fields, *([task.id_field] if task.id_field else [])]
    if is_labelled:
        needed.append(task.label_field)
    for number, row in enumerate(rows, start=1):
        found = {}
        for field in needed:
            value = _nested(row, task.hub.fields.get(field, field))
            if value is None:
                raise ValueError(
                    f"{task.name} {split} row {number} of {task.hub.path} has no field "
                    f"{task.hub.fields.get(field, field)!r} (fields: {', '.join(row)})"
                )
            found[field] = str(value)
        yield number, found


def row_id(task: Task, split: str, number: int, row: Row) -> str:
    """The id of a row: its own, else the split's name and the row's number."""
    return row[task.id_field] if task.id_field else f"{split}-{number}"


def _json_rows(task: Task, path: Path, needed: list[str]) -> Iterator[tuple[int, Row]]:
    rows = read_json(path)
    if not isinstance(rows, list):
        raise ValueError(f"{path} holds one {type(rows).__name__}; {task.name} is a list of rows")
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, dict):
            raise ValueError(f"{path} row {number}: {row!r} is not an object")
        found: dict[str, str] = {}
        for field in needed:
            value = _nested(row, field)
            if field == task.label_field and isinstance(value, int | float):
                value = str(value)
            if not isinstance(value, str):
                raise ValueError(
                    f"{path} row {number}: field {field!r} is "
                    f"{'missing' if value is None else repr(value)}, not text"
                )
            found[field] = value
        yield number, found


def _nested(row: Any, field: str) -> Any:
    for name in field.split("."):
        row = row.get(name) if isinstance(row, dict) else None
    return row


def _table_rows(
    task: Task, path: Path, needed: list[str], is_labelled: bool
) -> Iterator[tuple[int, Row]]:
    """Rows by column name; numbers count from 1 and leave the header out."""
    cells = _cells(path)
    columns = task.columns if is_labelled else ()
    if not columns:
        columns = tuple(task.aliases.get(name, name) for name in cells[0]) if cells else ()
        cells = cells[1:]
        if missing := [name for name in needed if name not in columns]:
            raise ValueError(
                f"{path}: header is {list(columns)}, {task.name} needs {missing[0]!r}; a file "
                "without labels (a test set) cannot be scored"
            )
    num_skipped = 0
    for number, values in enumerate(cells, start=1):
        if len(values) == len(columns):
            yield number, dict(zip(columns, values, strict=True))
        elif task.skip_malformed and is_labelled:
            num_skipped += 1
        else:
            raise ValueError(
                f"{path} row {number}: {len(values)} columns, not {len(columns)} "
                f"({', '.join(columns)})"
            )
    if num_skipped:
        warn(f"{path}: {num_skipped} rows do not have {len(columns)} columns and are left out")


def _cells(path: Path) -> list[list[str]]:
    """Lines end at \\n only: a form feed or U+2028 inside a sentence does not end it. In TSV a
    quotation mark is a character like any other."""
    text = read_text(path)
    if path.suffix == ".csv":
        try:
            return [row for row in csv.reader(io.StringIO(text, newline="")) if row]
        except csv.Error as error:
            raise ValueError(f"{path} is not valid CSV: {error}") from None
    lines = text.removesuffix("\n").split("\n") if text else []
    return [line.removesuffix("\r").split("\t") for line in lines]
