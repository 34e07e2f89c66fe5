"""Every text of a file of benchmark rows whose form nobody has said, for a corpus to be free of it.

A sentence may be a value of JSON or Parquet, a cell of a table, a line, a list of words, or a
column of words with their tags (CoNLL).
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.tasks.rows import parquet_rows
from electrify.storage.encodings import decode_file
from electrify.storage.files import parse_json
from electrify.storage.tables import read_table
from electrify.system.outcome import UserError

_JSON_ENDINGS = (".json", ".jsonl", ".ndjson")
_TAG = re.compile(r"[-+]?\d+|_|O|[BIESLUMPX][-_].+|.+[-_][BIESLUMPX]|[A-Z]{1,6}([-+$][A-Z]+)*")
_MAX_WORDS = 300  # of a sentence
_WORD_CHARACTERS = 11  # what is longer may be a sentence of a language without spaces


def file_texts(path: Path) -> Iterator[str]:
    """The texts of a file; `ValueError` names the file and what is wrong in it."""
    ending = path.suffix.lower()
    if ending == ".parquet":
        for row in parquet_rows(path):
            yield from _values(row)
        return
    try:
        text, _ = decode_file(path.read_bytes())
    except ValueError as error:
        raise UserError(f"{path}: {error}") from None
    if ending in _JSON_ENDINGS:
        value = _json_values(text, path)
        for row in value if isinstance(value, list) else [value]:
            yield from _values(row)
    elif ending != ".csv" and (blocks := _word_blocks(text)):
        for block in blocks:
            yield from _columns(block)
    elif ending in (".csv", ".tsv"):
        for cells in read_table(path):
            yield from cells
    else:
        yield from re.split("[\n\t]", text)


def _json_values(text: str, path: Path) -> Any:
    """The value of a file, or those of its lines."""
    try:
        return parse_json(text, path)
    except ValueError as error:
        lines = [line.strip("[], \t") for line in text.split("\n")]
        if sum(map(bool, lines)) < 2:
            raise
        try:
            return [
                parse_json(line, f"{path} line {number}")
                for number, line in enumerate(lines, start=1)
                if line
            ]
        except ValueError as of_line:
            raise of_line if text.lstrip().startswith("{") else error from None


def _values(value: Any) -> Iterator[str]:
    """Texts at any depth, keys left out; words of one list together."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for entry in value.values():
            yield from _values(entry)
    elif isinstance(value, list):
        columns = _columns_of_words(value)
        for words in columns:
            yield from _joined(words)
        for entry in () if columns else value:
            yield from _values(entry)


def _columns_of_words(values: Sequence[Any]) -> list[list[str]]:
    """The words in a list, or in objects that have nothing but words, their tags and numbers."""
    if not values or not all(isinstance(value, dict) for value in values):
        return [list(values)] if values and _are_words(values) else []
    inner = [entry for value in values for entry in value.values()]
    texts = [entry for entry in inner if isinstance(entry, str)]
    if not texts or not _are_words(texts) or any(isinstance(e, list | dict) for e in inner):
        return []
    return [[str(value.get(key, "")) for value in values] for key in values[0]]


def _are_words(values: Sequence[Any]) -> bool:
    return all(isinstance(value, str) and len(value.split()) < 2 for value in values)


def _joined(words: Sequence[str]) -> Iterator[str]:
    """The sentence of some words; nothing of tags."""
    if not all(_TAG.fullmatch(word.strip()) for word in words if word.strip()):
        yield " ".join(words)
        yield from (word for word in words if len(word) > _WORD_CHARACTERS)


def _word_blocks(text: str) -> list[list[list[str]]]:
    """The rows of each sentence of a file with a word and its tags a line; none of other files."""
    blocks = [
        [line.split("\t") if "\t" in line else line.split() or [""] for line in block.split("\n")]
        for block in re.split(r"\n(?:[ \t]*\n)+", text.strip("\n"))
    ]
    rows = [row for block in blocks for row in block if not row[0].startswith(("#", "-DOCSTART-"))]
    widths = {len(row) for row in rows}
    size = len(rows) / len(blocks)
    if not 2 <= size <= _MAX_WORDS or len(widths) != 1 or widths == {1}:
        return []
    columns = list(zip(*rows, strict=True))
    are_tags = [all(map(_TAG.fullmatch, map(str.strip, column))) for column in columns]
    first = are_tags.index(False) if False in are_tags else 0
    return blocks if any(are_tags[1:]) and _are_words(columns[first]) else []


def _columns(block: Sequence[Sequence[str]]) -> Iterator[str]:
    """The words of a sentence, by column, and the sentence where a comment has it."""
    rows = []
    for row in block:
        if row[0].startswith("#"):
            yield " ".join(row[1:]).removeprefix("text = ")
        else:
            rows.append(row)
    for column in zip(*rows, strict=False):
        if _are_words(column):
            yield from _joined(column)
