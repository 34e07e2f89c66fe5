"""Rows of files: of the official ones, as their authors write them, and of the user's own.

Official rows are dicts named as the hub's: lists in .json, tables in .csv and (all other names)
tables of tabs without quoting; a row that does not fit stops the run with its location. Of the
user's files the encoding and what separates cells are recognised.
"""

import ast
import csv
import importlib
import io
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.metrics.tags import OUTSIDE
from benchmarks.tasks.rows import Row, folded, list_field, mark_and_type, text_field
from electrify.storage.encodings import is_utf8, text_lines
from electrify.storage.files import parse_json
from electrify.storage.tables import guess_dialect, has_cells, has_header, read_rows
from electrify.system.outcome import UserError, first_line
from electrify.system.progress import warn

_LINES = (".jsonl", ".ndjson")
JSON_SUFFIXES = (".json", *_LINES)
_TAGGED = (".conll", ".conllu", ".bio", ".iob", ".iob2", ".bioes")
_PACKED = (".gz", ".zip", ".zst", ".bz2", ".xz", ".tar", ".tgz", ".7z")
_UNIVERSAL_COLUMNS, _UNIVERSAL_ID = 10, re.compile(r"\d+(-\d+|\.\d+)?")  # of CoNLL-U
TABLES = (".csv", ".tsv", ".tab", ".txt")
SUFFIXES = (*TABLES, *_TAGGED, *JSON_SUFFIXES, ".parquet")
TOKENS, TAGS = "tokens", "ner_tags"  # of a row: words or characters, and the label of each
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_NUMPY_LIST = re.compile(rf"\[\s*(?:{_QUOTED.pattern})(?:\s+(?:{_QUOTED.pattern}))+\s*\]")
_LAST_COMMA = re.compile(r",\s*\]\s*\Z")  # behind the last of a list, which people write
_SEPARATOR = re.compile(r"\A\"?sep=.\"?\n", re.IGNORECASE)  # a line for spreadsheets
_HEAD_CHARACTERS, _HEAD_ROWS = 1 << 20, 10_000  # that a file is guessed from
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


def own_rows(path: Path) -> tuple[Iterator[tuple[int, Row]], list[str]]:
    """The numbered rows of a file of the user's, read when they are asked for, and what was
    recognised in words; `ValueError` names what of it cannot be read.

    The first million characters tell what separates cells, the first 10,000 rows which columns have
    names and which hold lists. JSON that is no lines and CoNLL are read at once.
    """
    kind = path.suffix.lower()
    if kind not in SUFFIXES:
        what = "unpack it" if kind in _PACKED else "save it as one"
        raise UserError(f"{path}: a task is read from {', '.join(SUFFIXES)}; {what}")
    if kind == ".parquet":
        return _parquet_rows(path), []
    lines, encoding = text_lines(path)
    notes = [] if is_utf8(encoding) else [f"read as {encoding}"]
    head, num_characters = list[str](), 0
    while num_characters < _HEAD_CHARACTERS and (line := next(lines, "")):
        head.append(line)
        num_characters += len(line)
    start, lines = "".join(head), chain(head, lines)
    if kind in _LINES and not start.lstrip().startswith("["):
        return with_lists(_row_objects(json_lines(lines, path), path), path), notes
    if kind in JSON_SUFFIXES:
        return with_lists(_json_rows("".join(lines), path), path), notes
    is_conll = kind in _TAGGED
    if is_conll or (kind != ".csv" and isinstance(tagged_sentences(start), TaggedSentences)):
        text = "".join(lines)
        if tagged := _tagged_rows(text, path, is_conll):
            rows, columns = tagged
            return iter(rows), [*notes, f"{len(rows):,} sentences, {columns}"]
        lines = io.StringIO(text)
    rows_of_table = _table_rows(lines, start, path, "," if kind == ".csv" else "\t")
    return with_lists(rows_of_table, path), notes


def _json_rows(text: str, path: Path, are_lines: bool = False) -> Numbered:
    rows = json_values(text, path, are_lines)
    if isinstance(rows, list):
        return list(_row_objects(rows, path))
    if isinstance(rows, dict) and any("paragraphs" in a for a in _objects(rows.get("data"))):
        return list(questions_of(rows, path))
    if isinstance(rows, dict) and (found := _table_of(rows, path)):
        return list(enumerate(found, start=1))
    raise UserError(
        f"{path} holds one {type(rows).__name__}, not a list of rows; write a list of objects, or "
        "an object a line"
    )


def _row_objects(rows: Iterable[tuple[int, Any]], path: Path) -> Iterator[tuple[int, Row]]:
    for number, row in rows:
        if not isinstance(row, dict):
            raise UserError(f"{path} row {number}: {row!r:.80} is not an object")
        if {"data", "annotations"} <= {*row}:
            raise UserError(f"{path} is Label Studio's full JSON: export it as JSON-MIN or CSV")
        yield number, row


def _objects(value: Any) -> list[dict[str, Any]]:
    """The entries of a list of objects; none of anything else."""
    are_objects = isinstance(value, list) and all(isinstance(entry, dict) for entry in value)
    return value if are_objects else []


def _table_of(value: Mapping[str, Any], path: Path) -> list[dict[str, Any]]:
    """The rows of one object: a list of them in `data`, or a table as pandas writes it ("split",
    "index" and "columns"); none of another object."""
    data, names = value.get("data"), value.get("columns")
    if isinstance(names, list) and data and all(isinstance(cells, list) for cells in data):
        return [dict(zip(names, cells, strict=False)) for cells in data]
    lists = [*filter(_objects, value.values())]
    if rows := lists[0] if len(lists) == 1 else []:
        if any({"context", "qas"} <= {*row} for row in rows):
            raise UserError(
                f"{path} is not of SQuAD's form: no paragraphs (KorQuAD 2.0 has context and qas in "
                "data); write paragraphs = [{context, qas: [{id, question, answers: [{text, "
                "answer_start}]}]}] in each article"
            )
        return rows
    if not value or not all(isinstance(inner, dict) for inner in value.values()):
        return []
    keys = [set(inner) for inner in value.values()]
    if all(key.isdigit() for key in set().union(*keys)):  # by column, then by row
        first = next(iter(value.values()))
        return [{name: cells.get(key) for name, cells in value.items()} for key in first]
    return list(value.values()) if all(key.isdigit() for key in value) else []


def json_values(text: str, path: Path, are_lines: bool = False) -> Any:
    """The numbered values of a list or of lines (often named .json, too); else the one value."""
    first, _, more = text.strip().partition("\n")
    is_object = False
    if first.startswith("{"):
        with suppress(ValueError, RecursionError):
            is_object = isinstance(json.loads(first.rstrip(" ,\t\r")), dict)
    if (are_lines and not first.startswith("[")) or (more and is_object):
        return list(json_lines(text.split("\n"), path))
    value = parse_json(_LAST_COMMA.sub("]", text), path, names_are_checked=True)
    return list(enumerate(value, start=1)) if isinstance(value, list) else value


def json_lines(lines: Iterable[str], path: Path) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(lines, start=1):
        if inner := line.strip("\ufeff \t\r\n").removesuffix(","):  # files that were joined
            yield number, parse_json(inner, f"{path} line {number}", names_are_checked=True)


def parquet_rows(path: Path) -> tuple[Any, Iterator[Row]]:
    """The Arrow schema of a Parquet file, and its rows, read when they are asked for."""
    parquet: Any = importlib.import_module("pyarrow.parquet")  # slow to import, and seldom wanted

    def rows() -> Iterator[Row]:
        try:
            for batch in file.iter_batches(_HEAD_ROWS):
                yield from batch.to_pylist()
        except (OSError, ValueError) as error:
            raise UserError(f"{path} cannot be read as Parquet: {error}") from None

    try:
        file = parquet.ParquetFile(path)
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read as Parquet: {error}") from None
    return file.schema_arrow, rows()


def _parquet_rows(path: Path) -> Iterator[tuple[int, Row]]:
    """Rows in which the numbers of a hub's `ClassLabel` are its names, and -1 is null."""
    schema, rows = parquet_rows(path)
    _check_names(schema.names, path)
    features: Any = None
    if b"huggingface" in (schema.metadata or {}):
        datasets: Any = importlib.import_module("datasets")
        try:
            features = datasets.Features.from_arrow_schema(schema)
        except (ValueError, TypeError, KeyError) as error:  # written by another version, or damaged
            warn(
                f"{path}: the `datasets` here cannot read what the file says of its columns "
                f"({first_line(error)}): class labels are read as their numbers"
            )
    for number, row in enumerate(rows, start=1):
        try:
            yield number, row if features is None else named_value(features, row, {})
        except ValueError as error:
            raise UserError(
                f"{path} row {number}: {error}: the file names fewer labels than it has; write the "
                "labels as text"
            ) from None


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


def _table_rows(
    lines: Iterator[str], start: str, path: Path, default: str
) -> Iterator[tuple[int, Row]]:
    """A row a record, numbered behind the first one, which names the columns. Rows and unnamed
    columns without a value are left out. `start` is that of the lines."""
    csv.field_size_limit(2**31 - 1)  # a cell may be a whole document
    if mark := _SEPARATOR.match(start):
        start = start[mark.end() :]
        next(lines)
    delimiter, escape = guess_dialect(start, default=default)

    def filled_rows() -> Iterator[tuple[int, list[str]]]:
        for number, (_, row) in enumerate(read_rows(lines, delimiter, escape=escape)):
            if isinstance(row, csv.Error):
                raise UserError(f"{path} is no table: {row}; is a quotation mark not closed?")
            if has_cells(row):
                yield number, row

    cells = filled_rows()
    if not (head := [*islice(cells, _HEAD_ROWS)]):
        return
    (first, header), *rest = head
    if has_header([row for _, row in head]) is False:
        raise UserError(
            f"{path}: the first row is data ({', '.join(header):.80}); put a row with the names of "
            "the columns above it"
        )
    names = [folded(name) for name in header]
    filled = {n for _, row in rest for n, cell in enumerate(row) if cell.strip()}
    used = [n for n, name in enumerate(names) if name or n in filled]
    if sum(not names[n] for n in used) > 1:
        raise UserError(
            f"{path}: the first row ({', '.join(filter(None, names)):.80}) names not all of "
            f"{len(used)} columns; remove lines above the names of the columns, or name them all"
        )
    width = max((n for n, name in enumerate(names, start=1) if name), default=0)
    _check_names([names[n] for n in used], path)
    for number, row in chain(rest, cells):
        if len(row) < width or has_cells(row[len(names) :]):
            shown = ", ".join(names[:_NAMES_SHOWN])
            raise UserError(
                f"{path} row {number - first}: {len(row)} cells parted by {delimiter!r}; "
                f"the first row names {len(names)} columns ({shown})"
            )
        padded = [*row, *[""] * len(names)]
        yield number - first, {names[n]: padded[n] for n in used}


def with_lists(rows: Iterable[tuple[int, Row]], path: Path) -> Iterator[tuple[int, Row]]:
    """The rows with columns of lists that were written as text as lists.

    Those are lists of JSON, Python or NumPy, and tags between blanks, "B-PER O"; then the words of
    the text beside them are a list, too. `ValueError` for a row with another number of words.
    """
    rows = iter(rows)
    head = [*islice(rows, _HEAD_ROWS)]
    names = dict.fromkeys(name for _, row in head for name in row)
    columns = {name: [row.get(name) for _, row in head] for name in names}
    lists = [name for name in names if _are_lists(columns[name])]
    tags = [name for name in names if name not in lists and _are_tags(columns[name])]
    words = {name: _words_beside(name, columns) for name in tags}
    for number, row in chain(head, rows):
        read = {**row, **{name: _list_in(row[name]) for name in lists if name in row}}
        if odd := [n for n in lists if read.get(n) is None and row.get(n) not in ("", None)]:
            raise UserError(
                f"{path} row {number}: {row[odd[0]]!r:.80} in column {odd[0]!r} is no list, as the "
                "rows before have"
            )
        for name, beside in words.items():
            read |= {column: str(row.get(column)).split() for column in (name, beside) if column}
            if beside and len(read[name]) != len(read[beside]):
                raise UserError(
                    f"{path} row {number}: {len(read[name])} tags in column {name!r}, "
                    f"{len(read[beside])} words in {beside!r}; write lists of equal length (JSON)"
                )
        yield number, read


def _are_lists(values: Sequence[Any]) -> bool:
    are_lists = [_list_in(value) is not None for value in values]
    known = (is_one or value in ("", None) for is_one, value in zip(are_lists, values, strict=True))
    return any(are_lists) and all(known)


def _list_in(value: Any) -> list[Any] | None:
    """The list that a text is: of JSON, as Python prints it, or as NumPy does, without commas."""
    if not (isinstance(value, str) and value.strip().startswith("[") and value.endswith("]")):
        return None
    if _NUMPY_LIST.fullmatch(value):
        return [one[1:-1] for one in _QUOTED.findall(value)]
    for read in (json.loads, ast.literal_eval):
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            parsed = read(value)
            return parsed if isinstance(parsed, list) else None
    return None


def _are_tags(values: Sequence[Any]) -> bool:
    texts = [value for value in values if isinstance(value, str)]
    if len(texts) < len(values) or not any(" " in text.strip() for text in texts):
        return False
    return has_entities([tag for text in texts for tag in text.split()])


def _words_beside(name: str, columns: Mapping[str, Sequence[Any]]) -> str:
    """The column with most rows of as many words as tags, of equals that with the longest text;
    none where one has lists."""
    others = {other: values for other, values in columns.items() if other != name}
    if any(isinstance(value, list) for values in others.values() for value in values):
        return ""
    counts = {other: [len(str(v).split()) for v in values] for other, values in columns.items()}

    def rank(other: str) -> tuple[int, int]:
        pairs = zip(counts[other], counts[name], strict=True)
        return sum(one != two for one, two in pairs), -sum(counts[other])

    return min(others, key=rank, default="")


def _check_names(names: Sequence[str], path: Path) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise UserError(f"{path}: {count} columns {name!r}; rename all but one")


def _tagged_rows(text: str, path: Path, is_conll: bool) -> tuple[Numbered, str] | None:
    """A row a sentence of CoNLL, numbered by its first line, and which columns were read; None for
    a text of another form. A file that is none by its name has several sentences at least.

    A row has every column by its number, `column 1`, beside the words and tags that were guessed.
    """
    table = tagged_sentences(text)
    if isinstance(table, int) and is_conll:
        table = tagged_sentences(text, any_tag=True)
    if isinstance(table, int) and is_conll:
        raise UserError(
            f"{path} line {table}: not every line is a word and a tag, the same number of columns "
            "in each, sentences parted by an empty line; this one is another"
        )
    if isinstance(table, int) or not (is_conll or len(table.sentences) > 1):
        return None
    lines = [*chain.from_iterable(table.sentences)]
    width = len(lines[0][1])
    if table.tag is None:
        what = f"which of {width} columns are words and tags is not known"
    else:
        if not is_conll and all(is_outside(cells[table.tag]) for _, cells in lines):
            return None
        if number := next((n for n, cells in lines if not cells[table.word].strip()), 0):
            raise UserError(
                f"{path} line {number}: a tag without a word; where every character has a tag, "
                "write JSON lines with the text and its spans (kind = entities)"
            )
        what = f"words of column {table.word + 1} and tags of column {table.tag + 1} of {width}"
    rows: Numbered = []
    for sentence in table.sentences:
        columns = [list(cells) for cells in zip(*(cells for _, cells in sentence), strict=True)]
        named = {f"column {n}": cells for n, cells in enumerate(columns, start=1)}
        if table.tag is not None:
            named = {TOKENS: columns[table.word], TAGS: columns[table.tag], **named}
        rows.append((sentence[0][0], named))
    return rows, f"{what} (others: word_column = 2, tag_column = 4)"


class TaggedSentences(NamedTuple):
    """Sentences of lines, each with its number from 1 and its cells, all of one width; the columns
    of words and of tags from 0, where they are known."""

    sentences: list[list[tuple[int, list[str]]]]
    word: int
    tag: int | None


def tagged_sentences(text: str, any_tag: bool = False) -> TaggedSentences | int:
    """The sentences of CoNLL, parted by an empty line; of a text of another form the number of the
    first line that is none.

    Columns stand between tabs, or blanks where few lines have a tab. Ten columns behind a number
    are CoNLL-U (universaldependencies.org/format.html): FORM and UPOS, without ranges and empty
    nodes. Else the last column of IOB tags or their kin is that of the tags, or with `any_tag` the
    only one beside the words, which stand first, or behind their number. A header, lines of
    "-DOCSTART-" and comments are left out.
    """
    lines = [line.rstrip(" \t\r") for line in text.split("\n")]
    num_tabs, num_filled = sum("\t" in line for line in lines), sum(map(bool, lines))
    separator = re.compile("\t" if 2 * num_tabs > num_filled else "[ \t]+")
    blocks: list[list[tuple[int, list[str]]]] = [[]]
    for number, line in enumerate(lines, start=1):
        cells = separator.split(line)
        is_universal = len(cells) == _UNIVERSAL_COLUMNS and _UNIVERSAL_ID.fullmatch(cells[0])
        if not line.strip() or cells[0] == "-DOCSTART-":
            blocks.append([])
        elif is_universal or (len(cells) > 1 and (any_tag or mark_and_type(cells[-1]))):
            blocks[-1].append((number, cells))
        elif number > 1 and not line.startswith("#"):
            return number
    blocks = [block for block in blocks if block]
    rows = [*chain.from_iterable(blocks)]
    widths = Counter(len(cells) for _, cells in rows)
    if len(widths) != 1:
        usual = max(widths, key=widths.__getitem__, default=0)
        return next((number for number, cells in rows if len(cells) != usual), 1)
    (width,) = widths
    begins = all(re.fullmatch("1(-.*)?|0\\..*", block[0][1][0]) for block in blocks)
    if (
        width == _UNIVERSAL_COLUMNS
        and begins
        and all(_UNIVERSAL_ID.fullmatch(c[0]) for _, c in rows)
    ):
        words = [[row for row in block if row[1][0].isdigit()] for block in blocks]
        is_iob = has_entities([cells[-1] for _, cells in rows])
        tag = width - 1 if is_iob else 3  # entities are written into MISC
        sentences = [*filter(None, words)]
        return TaggedSentences(sentences, word=1, tag=tag) if sentences else rows[0][0]
    is_numbered = width > 2 and all(
        cells[0] == str(n) for block in blocks for n, (_, cells) in enumerate(block, start=1)
    )
    word = int(is_numbered)
    columns = range(width - 1, word, -1)
    entities = (column for column in columns if has_entities([cells[column] for _, cells in rows]))
    return TaggedSentences(blocks, word, next(entities, columns[0] if len(columns) == 1 else None))


def has_entities(tags: Sequence[str]) -> bool:
    """Whether all are tags of IOB or its kin, and not all are outside."""
    return all(map(mark_and_type, tags)) and not all(map(is_outside, tags))


def is_outside(tag: str) -> bool:
    return mark_and_type(tag) == (OUTSIDE, "")
