"""Rows of files: of the official ones, as their authors write them, and of the user's own.

Official rows are dicts named as the hub's: lists in .json, tables in .csv and (all other names)
tables of tabs without quoting; a row that does not fit stops the run with its location. Of the
user's files the encoding and what separates cells are recognised.
"""

import csv
import importlib
import io
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from benchmarks.metrics.tags import OUTSIDE
from benchmarks.tasks.rows import Row, folded, list_field, mark_and_type, text_field
from electrify.storage.encodings import decode_file, is_utf8
from electrify.storage.files import parse_json
from electrify.storage.tables import guess_delimiter, has_cells, has_header, read_rows
from electrify.system.outcome import UserError
from electrify.system.progress import warn

_LINES = (".jsonl", ".ndjson")
JSON_SUFFIXES = (".json", *_LINES)
_TAGGED = (".conll", ".bio", ".iob", ".iob2", ".bioes")
SUFFIXES = (".csv", ".tsv", ".tab", ".txt", *_TAGGED, *JSON_SUFFIXES, ".parquet")
TOKENS, TAGS = "tokens", "ner_tags"  # of a row: words or characters, and the label of each
_SEPARATOR = re.compile(r"\A\"?sep=.\"?\n", re.IGNORECASE)  # a line for spreadsheets
_HEAD_CHARACTERS = 1 << 20
_NAMES_SHOWN = 20

Numbered = list[tuple[int, Any]]


# Official files.


def read_text(path: Path) -> str:
    """A file's text without its byte order mark (MRPC's files begin with one)."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8: {error}; convert it to UTF-8") from None


def official_rows(
    path: Path,
    columns: Sequence[str],
    aliases: Mapping[str, str],
    needed: Collection[str],
    skip_malformed: bool,
) -> Iterator[tuple[int, Row]]:
    """(number from 1, row) of a JSON list or a table; a header does not count. `columns` are those
    of a table without a header. Raises `ValueError` for a file of another form."""
    if path.suffix in (".json", ".jsonl"):
        yield from _json_rows(read_text(path), path, are_lines=path.suffix == ".jsonl")
        return
    cells = _table_cells(path)
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


def _table_cells(path: Path) -> list[list[str]]:
    """The cells of each row. In TSV a quotation mark is a character like any other, and lines end
    at \\n only: a form feed or U+2028 inside a sentence does not end it."""
    text = read_text(path)
    if path.suffix == ".csv":
        csv.field_size_limit(2**31 - 1)  # a cell may be a whole document
        try:
            return [row for row in csv.reader(io.StringIO(text, newline="")) if row]
        except csv.Error as error:
            raise UserError(f"{path} is not valid CSV: {error}") from None
    lines = text.rstrip("\r\n").split("\n") if text.strip("\r\n") else []
    return [line.removesuffix("\r").split("\t") for line in lines]


def questions_of(data: Any, path: Path) -> Iterator[tuple[int, Row]]:
    """(number, row) of each question of SQuAD's JSON: articles of paragraphs, a paragraph with one
    context and its questions ("qas")."""
    number = 0
    for article in list_field(data, "data", str(path)):
        for paragraph in list_field(article, "paragraphs", f"{path} behind question {number}"):
            location = f"{path} behind question {number}"
            context = text_field(paragraph, "context", location)
            for qa in list_field(paragraph, "qas", location):
                number += 1
                if not isinstance(qa, dict):
                    raise UserError(f"{path} question {number}: {qa!r:.80} is not an object")
                yield number, {**qa, "context": context}


def sentence_blocks(path: Path) -> Iterator[tuple[int, str, list[tuple[int, str]]]]:
    """(first line, id, numbered lines) of each sentence of KLUE's files of tokens.

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


# Files of the user's own.


def read_own(path: Path) -> tuple[Numbered, list[str]]:
    """The numbered rows of a file of the user's, and what was recognised in words; `ValueError`
    names what of it cannot be read."""
    kind = path.suffix.lower()
    if kind not in SUFFIXES:
        raise UserError(f"{path}: a task is read from {', '.join(SUFFIXES)}; save it as one")
    if kind == ".parquet":
        return _parquet_rows(path), []
    text, encoding = decode_file(path.read_bytes(), path)
    notes = [] if is_utf8(encoding) else [f"read as {encoding}"]
    if kind in JSON_SUFFIXES:
        return _json_rows(text, path, are_lines=kind in _LINES), notes
    if tagged := None if kind == ".csv" else _tagged_rows(text, path, kind in _TAGGED):
        rows, columns = tagged
        return rows, [*notes, f"{len(rows):,} sentences, {columns}"]
    if kind in _TAGGED:
        raise UserError(
            f"{path}: not every line is a word and a tag, the same number of columns in each, "
            "sentences parted by an empty line"
        )
    return _table_rows(text, path, "," if kind == ".csv" else "\t"), notes


def _json_rows(text: str, path: Path, are_lines: bool = False) -> Numbered:
    rows = json_values(text, path, are_lines)
    if isinstance(rows, list):
        for number, row in rows:
            if not isinstance(row, dict):
                raise UserError(f"{path} row {number}: {row!r:.80} is not an object")
        return rows
    if isinstance(rows, dict) and "data" in rows:
        return list(questions_of(rows, path))
    raise UserError(f"{path} holds one {type(rows).__name__}, not a list of rows")


def json_values(text: str, path: Path, are_lines: bool = False) -> Any:
    """The numbered values of a list or of lines (often named .json, too); else the one value."""
    first, _, more = text.strip().partition("\n")
    is_object = first.startswith("{") and first.rstrip().endswith("}")
    if (are_lines and not first.startswith("[")) or (more and is_object):
        return [
            (number, parse_json(line, f"{path} line {number}", names_are_checked=True))
            for number, line in enumerate(text.split("\n"), start=1)
            if line.strip()
        ]
    value = parse_json(text, path, names_are_checked=True)
    return list(enumerate(value, start=1)) if isinstance(value, list) else value


def parquet_table(path: Path) -> Any:
    parquet: Any = importlib.import_module("pyarrow.parquet")  # slow to import, and seldom wanted
    try:
        return parquet.ParquetFile(path).read()
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read as Parquet: {error}") from None


def _parquet_rows(path: Path) -> Numbered:
    """Rows in which the numbers of a hub's `ClassLabel` are its names, and -1 is null."""
    table = parquet_table(path)
    _check_names(table.schema.names, path)
    rows = table.to_pylist()
    if b"huggingface" in (table.schema.metadata or {}):
        datasets: Any = importlib.import_module("datasets")
        features = datasets.Features.from_arrow_schema(table.schema)
        rows = [named_value(features, row, {}) for row in rows]
    return list(enumerate(rows, start=1))


def named_value(feature: Any, value: Any, labels: Mapping[str, str]) -> Any:
    """A value of a `datasets` feature with class ids as their names, -1 as None; `labels` are our
    names for the feature's, where they differ."""
    if value is None:
        return None
    if isinstance(feature, Mapping):
        return {name: named_value(feature[name], entry, labels) for name, entry in value.items()}
    if isinstance(value, list):
        inner = feature[0] if isinstance(feature, list) else feature.feature
        return [named_value(inner, entry, labels) for entry in value]
    if not hasattr(feature, "int2str"):
        return value
    if value < 0:
        return None
    name = feature.int2str(value)
    return labels.get(name, name)


def _table_rows(text: str, path: Path, default: str) -> Numbered:
    """A row a record, numbered behind the first one, which names the columns. Rows and unnamed
    columns without a value are left out."""
    csv.field_size_limit(2**31 - 1)  # a cell may be a whole document
    text = _SEPARATOR.sub("", text)
    delimiter = guess_delimiter(text[:_HEAD_CHARACTERS], default=default)
    cells: list[tuple[int, list[str]]] = []
    for number, (_, row) in enumerate(read_rows(io.StringIO(text, newline=""), delimiter)):
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
    filled = {n for _, row in rest for n, cell in enumerate(row) if cell.strip()}
    used = [n for n, name in enumerate(names) if name or n in filled]
    width = max((n for n, name in enumerate(names, start=1) if name), default=0)
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


def _check_names(names: Sequence[str], path: Path) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise UserError(f"{path}: {count} columns {name!r}; rename all but one")


def _tagged_rows(text: str, path: Path, is_conll: bool) -> tuple[Numbered, str] | None:
    """A row a sentence of CoNLL, numbered by its first line, and which columns were read; None for
    a text of another form. A file that is none by its name has several sentences at least."""
    table = tagged_sentences(text)
    if is_conll:
        table = table or tagged_sentences(text, any_tag=True)
    if table is None or not (is_conll or len(table[0]) > 1):
        return None
    sentences, columns = table
    for number, word, _ in chain.from_iterable(sentences):
        if not word.strip():
            raise UserError(
                f"{path} line {number}: a tag without a word; where every character has a tag, "
                "write JSON lines with the text and its spans (kind = entities)"
            )
    if all(mark_and_type(tag) == (OUTSIDE, "") for *_, tag in chain.from_iterable(sentences)):
        return None
    rows = []
    for sentence in sentences:
        numbers, words, tags = zip(*sentence, strict=True)
        rows.append((numbers[0], {TOKENS: list(words), TAGS: list(tags)}))
    return rows, columns


def tagged_sentences(
    text: str, any_tag: bool = False
) -> tuple[list[list[tuple[int, str, str]]], str] | None:
    """Line number, word and tag of each word by sentence, and which columns these are; None for a
    text of another form.

    Lines of columns between tabs or blanks, the last one a tag of IOB or its kin, or any (of parts
    of speech), sentences parted by an empty line.
    The word stands first; or behind its number, and then the tag right behind it. A header, lines
    of "-DOCSTART-" and comments are left out.
    """
    separator = "\t" if "\t" in text else None
    blocks: list[list[tuple[int, list[str]]]] = [[]]
    for number, line in enumerate(text.split("\n"), start=1):
        cells = line.rstrip().split(separator)
        if not line.strip() or cells[0] == "-DOCSTART-":
            blocks.append([])
        elif len(cells) > 1 and (any_tag or mark_and_type(cells[-1])):
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
    sentences = [[(number, c[word], c[tag]) for number, c in block] for block in blocks]
    return sentences, f"words of column {word + 1} and tags of column {tag + 1} of {width}"
