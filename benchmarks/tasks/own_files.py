"""Rows of a file of the user's: JSON, JSON lines, Parquet, tables of spreadsheets, CoNLL.

The encoding and what separates the cells of a table are recognised; `OwnFile.notes` says how.
"""

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.metrics.tagging import OUTSIDE
from benchmarks.tasks.labels import folded, mark_and_type
from benchmarks.tasks.rows import Row, json_of, lines_of, parquet_table, questions_of
from electrify.storage.encodings import decode_file, is_utf8
from electrify.storage.tables import guess_delimiter, has_cells, has_header, read_rows
from electrify.system.outcome import UserError

_TABLES = (".csv", ".tsv", ".tab", ".txt")
_TAGGED = (".conll", ".bio", ".iob", ".iob2", ".bioes")
_LINES = (".jsonl", ".ndjson")
SUFFIXES = (*_TABLES, *_TAGGED, ".json", *_LINES, ".parquet")
TOKENS, TAGS = "tokens", "ner_tags"  # of a row: words or characters, and the label of each
_SEPARATOR = re.compile(r"\A\"?sep=.\"?\n", re.IGNORECASE)  # a line for spreadsheets
_HEAD_CHARACTERS = 1 << 20
_NAMES_SHOWN = 20

Numbered = list[tuple[int, Any]]


@dataclass(frozen=True)
class OwnFile:
    """Numbered rows, and what was recognised."""

    rows: Numbered
    notes: tuple[str, ...] = ()


def read_own(path: Path) -> OwnFile:
    """The rows of a file; `ValueError` names what of it cannot be read."""
    kind = path.suffix.lower()
    if kind not in SUFFIXES:
        raise UserError(f"{path}: a task is read from {', '.join(SUFFIXES)}; save it as one")
    if kind == ".parquet":
        return OwnFile(list(enumerate(_parquet_rows(path), start=1)))
    try:
        text, encoding = decode_file(path.read_bytes())
    except ValueError as error:
        raise UserError(f"{path}: {error}; save it as UTF-8") from None
    notes = () if is_utf8(encoding) else (f"read as {encoding}",)
    if kind in _LINES and not text.lstrip().startswith("["):
        return OwnFile(list(lines_of(text, path)), notes)
    if kind in (".json", *_LINES):
        return OwnFile(_json_rows(json_of(text, path), path), notes)
    if tagged := None if kind == ".csv" else _sentences(text, path):
        return OwnFile(tagged.rows, (*notes, *tagged.notes))
    if kind in _TAGGED:
        raise UserError(
            f"{path}: not every line is words and a tag such as B-PER, the same number of columns "
            "in each, sentences parted by an empty line"
        )
    return OwnFile(_table_rows(text, path, "," if kind == ".csv" else "\t"), notes)


def own_rows(path: Path) -> Iterator[tuple[int, Row]]:
    """The numbered rows alone."""
    yield from read_own(path).rows


def _json_rows(value: Any, path: Path) -> Numbered:
    if isinstance(value, dict) and "data" in value:
        return list(questions_of(value, path))
    if not isinstance(value, list):
        raise UserError(f"{path} holds one {type(value).__name__}, not a list of rows")
    return list(enumerate(value, start=1))


# Tables.


def _table_rows(text: str, path: Path, default: str) -> Numbered:
    """A row a record, numbered behind the first one, which names the columns. Rows and unnamed
    columns without a value are left out."""
    csv.field_size_limit(2**31 - 1)  # a cell may be a whole document
    text = _SEPARATOR.sub("", text)
    delimiter = guess_delimiter(text[:_HEAD_CHARACTERS], default=default)
    cells: list[tuple[int, list[str]]] = []
    found = read_rows(io.StringIO(text, newline=""), delimiter)
    for number, (_, row) in enumerate(found):
        if isinstance(row, csv.Error):
            raise UserError(f"{path} is no table: {row}; is a quotation mark not closed?")
        if has_cells(row):
            cells.append((number, row))
    if not cells:
        return []
    (first, header), *rest = cells
    if has_header([row for _, row in cells]) is False:
        raise UserError(
            f"{path}: the first row is data ({', '.join(header):.80}); put a row with the names of "
            "the columns above it"
        )
    if len(header) == 1:
        raise UserError(
            f"{path}: one column, {header[0]!r:.80}; a task has two or more, text and gold value, "
            "with one of , ; | or a tab between them, and texts that hold it in quotation marks"
        )
    names = [folded(name) for name in header]
    width = max((n for n, name in enumerate(names, start=1) if name), default=0)
    used = [n for n, name in enumerate(names) if name or _has_values(rest, n)]
    _check_names([names[n] for n in used], path)
    rows = []
    for number, row in rest:
        if len(row) < width or has_cells(row[len(names) :]):
            shown = ", ".join(names[:_NAMES_SHOWN])
            raise UserError(
                f"{path} row {number - first}: {len(row)} cells parted by {delimiter!r}; "
                f"the first row names {len(names)} columns ({shown})"
            )
        padded = [*row, *[""] * len(names)]
        rows.append((number - first, {names[n]: padded[n] for n in used}))
    return rows


def _has_values(rows: Sequence[tuple[int, Sequence[str]]], column: int) -> bool:
    return any(row[column].strip() for _, row in rows if len(row) > column)


def _check_names(names: Sequence[str], path: Path) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise UserError(f"{path}: {count} columns {name!r}; rename all but one")


def _parquet_rows(path: Path) -> list[Row]:
    """Rows in which the numbers of a hub's `ClassLabel` are its names, and -1 is null."""
    table = parquet_table(path)
    _check_names(table.schema.names, path)
    said = (table.schema.metadata or {}).get(b"huggingface")
    features = json.loads(said)["info"]["features"] if said else {}
    names = {column: found for column, of in features.items() if (found := _class_names(of))}
    rows: list[Row] = table.to_pylist()
    return [{c: _named(v, names[c]) if c in names else v for c, v in r.items()} for r in rows]


def _class_names(feature: Any) -> Sequence[str] | None:
    """Of a column of class labels, or of lists of them."""
    inner = feature[0] if isinstance(feature, list) else feature
    inner = inner.get("feature", inner) if isinstance(inner, Mapping) else {}
    return inner["names"] if inner.get("_type") == "ClassLabel" else None


def _named(value: Any, names: Sequence[str]) -> Any:
    if isinstance(value, list):
        return [_named(entry, names) for entry in value]
    if not isinstance(value, int):
        return value
    return names[value] if 0 <= value < len(names) else None


# Words with a tag each, as CoNLL's shared tasks have them.


def _sentences(text: str, path: Path) -> OwnFile | None:
    """A row a sentence, numbered by its first line; None for a text of another form.

    Lines of columns between tabs or blanks, the last one a tag, sentences parted by an empty line.
    The word stands first; or behind its number, and then the tag right behind it. A header, lines
    of "-DOCSTART-" and comments are left out.
    """
    lines = [(number, line.rstrip()) for number, line in enumerate(text.split("\n"), start=1)]
    separator = "\t" if any("\t" in line for _, line in lines) else None
    blocks: list[list[tuple[int, list[str]]]] = [[]]
    for number, line in lines:
        cells = line.split(separator)
        if not line.strip() or cells[0] == "-DOCSTART-":
            blocks.append([])
        elif mark_and_type(cells[-1]) and len(cells) > 1:
            blocks[-1].append((number, cells))
        elif number > 1 and not line.startswith("#"):
            return None
    blocks = [block for block in blocks if block]
    widths = {len(cells) for block in blocks for _, cells in block}
    if len(widths) != 1:
        return None
    (width,) = widths
    is_numbered = width > 2 and all(
        cells[0] == str(n) for block in blocks for n, (_, cells) in enumerate(block, start=1)
    )
    word, tag = (1, 2) if is_numbered else (0, width - 1)
    rows = []
    for block in blocks:
        for number, cells in block:
            if not cells[word].strip():
                raise UserError(
                    f"{path} line {number}: a tag without a word; where every character has a tag, "
                    "write JSON lines with the text and its spans (kind = entities)"
                )
        words, tags = ([cells[n] for _, cells in block] for n in (word, tag))
        rows.append((block[0][0], {TOKENS: words, TAGS: tags}))
    if all(mark_and_type(tag) == (OUTSIDE, "") for _, row in rows for tag in row[TAGS]):
        return None
    columns = f"words of column {word + 1} and tags of column {tag + 1} of {width}"
    return OwnFile(rows, (f"{len(rows):,} sentences, {columns}",))
