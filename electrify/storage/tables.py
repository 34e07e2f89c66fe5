"""Tables as text: which character separates their cells, and whether their first row is a header.

Spreadsheets of one country write `,`, of another `;` or a tab, under whatever name of the file.
"""

import csv
import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from electrify.storage.encodings import decode_file

HEAD_ROWS = 200  # that tell which character separates cells
_DELIMITERS = ",\t;|"
_NO_DELIMITER = "\x1f"
_EVEN_FRACTION = 0.8  # of the rows that have as many cells as the first
_NUMBER = re.compile(r"[-+]?[\d.,:/ -]*\d[\d.,:/ -]*%?")  # dates and times, too
_NAMES = {
    *("id", "text", "document", "sentence", "title", "comment", "review", "content", "label"),
    *("본문", "내용", "제목", "문장", "댓글", "리뷰", "라벨"),
}
_VALUE_FRACTION = 0.9  # of the cells of a column of numbers


class _Lines:
    """Lines that can be put back. `taken`: those of the row that is being read, if `keeps` them."""

    def __init__(self, lines: Iterable[str], keeps: bool) -> None:
        self._lines, self._waiting, self._keeps = iter(lines), deque[str](), keeps
        self.taken: list[str] = []
        self.num_taken = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._waiting.popleft() if self._waiting else next(self._lines)
        self.num_taken += 1
        if self._keeps:
            self.taken.append(line)
        return line

    def put_back(self, lines: Sequence[str]) -> None:
        self._waiting.extendleft(reversed(lines))
        self.num_taken -= len(lines)


def read_rows(
    lines: Iterable[str],
    delimiter: str,
    quoted: bool | None = None,
    num_columns: int = 0,
    escape: str | None = None,
) -> Iterator[tuple[int, list[str] | csv.Error]]:
    """The number of its first line and the cells of each row, of lines with their newlines.

    A quoted cell may hold delimiters and line breaks. With `quoted` None, quotation marks are text
    in a row where they are not those of a table: none closes, or each line is a row without them
    and they take cells from the row or hold a tab.
    `num_columns` is by default that of the first row. `csv.field_size_limit` bounds a cell.
    `escape` stands before a mark within a cell, see `guess_escape`.
    """
    if escape:
        # a backslash that stands before neither a mark nor itself is a character
        pair, special = re.compile(r"\\(.?)", re.DOTALL), ('"', "\\", delimiter, "\n")
        null = re.compile(
            rf"(?:(?<={re.escape(delimiter)})|^)\\N(?=[{re.escape(delimiter)}\r\n]|$)"
        )
        lines = (
            pair.sub(lambda m: m[0] if m[1] in special else f"\\{m[0]}", null.sub("", line))
            for line in lines
        )
    source_lines = _Lines(lines, keeps=quoted is None)
    reader = csv.reader(
        source_lines,
        delimiter=delimiter,
        escapechar=escape,
        quoting=csv.QUOTE_NONE if quoted is False else csv.QUOTE_MINIMAL,
        strict=quoted is None,
    )
    while True:
        number = source_lines.num_taken + 1
        source_lines.taken.clear()
        cells: list[str] | csv.Error
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            cells = error
        is_odd = isinstance(cells, csv.Error) or len(cells) < num_columns
        is_odd |= (
            delimiter == "\t" and len(source_lines.taken) > 1
        )  # texts hold commas, but hardly tabs
        if quoted is None and is_odd:
            unquoted = [line.rstrip("\r\n").split(delimiter) for line in source_lines.taken]
            are_rows = num_columns > 1 and all(len(row) == num_columns for row in unquoted)
            if are_rows or isinstance(cells, csv.Error):
                cells = unquoted[0]
                source_lines.put_back(source_lines.taken[1:])
        yield number, cells
        if isinstance(cells, list) and has_cells(cells):
            num_columns = num_columns or len(cells)


def guess_escape(head: str, delimiter: str, num_columns: int = 0) -> str | None:
    r"""A backslash where marks within cells are written as \", by which more rows of a head have as
    many cells as the first row, or as many and fewer rows have others; MySQL, ClickHouse and PHP
    write so. `head` may end within a row."""
    if '\\"' not in head:
        return None
    lines = [f"{line}\n" for line in head.split("\n")]

    def numbers(escape: str | None) -> tuple[int, int]:
        rows = csv.reader(lines, delimiter=delimiter, escapechar=escape, strict=True)
        widths = list[int]()
        while True:
            try:
                widths.append(len(next(rows)))
            except csv.Error:
                widths.append(-1)
            except StopIteration:
                break
        width = num_columns or next(iter(widths), 0)
        num_even = sum(found == width for found in widths)
        return num_even, num_even - len(widths)

    return "\\" if numbers("\\") > numbers(None) else None


def guess_dialect(
    head: str, names: Collection[str] = (), default: str = ",", num_columns: int = 0
) -> tuple[str, str | None]:
    """`guess_delimiter`, and `guess_escape` with it."""
    delimiter = guess_delimiter(head, names, default, num_columns)
    return delimiter, guess_escape(head, delimiter, num_columns)


def guess_delimiter(
    head: str, names: Collection[str] = (), default: str = ",", num_columns: int = 0
) -> str:
    """The character with which most rows of a head have as many cells as the first row.

    With `names`, one with which the first row has these cells; with `num_columns`, one with which
    most rows have so many. `head` may end within a row.
    """
    if head.startswith("sep=") and head[5:6] in ("\r", "\n"):
        return head[4]
    lines = [f"{line}\n" for line in head.removesuffix("\n").split("\n")]
    best, chosen = (False, 0.0), ""
    for delimiter in sorted(_DELIMITERS, key=lambda delimiter: delimiter != default):
        if not (rows := _head_rows(lines, delimiter, num_columns)):
            continue
        width = num_columns or len(rows[0])
        even = sum(len(row) == width for row in rows) / len(rows)
        has_names = bool(names) and {*names} <= {cell.strip() for cell in rows[0]}
        is_even = even >= (0.5 if num_columns else _EVEN_FRACTION)
        if width > 1 and (has_names or is_even) and (has_names, even) > best:
            best, chosen = (has_names, even), delimiter
    if chosen:
        return chosen
    # texts in one column may hold any number of commas, with a space behind
    rows = _head_rows(lines, default)[1:]
    num_spaces = sum(len(row) > 1 and row[-1].startswith(" ") for row in rows)
    is_text = len({*map(len, rows)}) > 1 or 2 * num_spaces > len(rows)
    return _NO_DELIMITER if is_text else default


def _head_rows(lines: Sequence[str], delimiter: str, num_columns: int = 0) -> list[list[str]]:
    escape = guess_escape("".join(lines), delimiter, num_columns)
    rows = (row for _, row in read_rows(lines, delimiter, None, num_columns, escape))
    return [row for row in islice(rows, HEAD_ROWS) if isinstance(row, list) and has_cells(row)]


def has_cells(row: Sequence[str]) -> bool:
    """Whether a row is not blank: spreadsheets write rows of empty cells, and a first "sep=;"."""
    return "".join(row).strip() not in ("", "sep=")


def has_header(rows: Sequence[Sequence[str]]) -> bool | None:
    """Whether the first row names the columns; None where that cannot be known."""
    first, rest = [cell.strip() for cell in rows[0]], rows[1:]
    columns = [[row[n].strip() for row in rest if len(row) > n] for n in range(len(first))]
    below = list(zip(first, columns, strict=True))
    named = [cell for cell in first if cell]
    if not rest or named == [str(number) for number in range(len(named))]:  # as pandas writes
        return True
    if any(_is_value(cell) and _are_values(column) for cell, column in below):
        return False
    recurring = [cell for cell, column in below if cell and column.count(cell) > 1]
    if 0 < len(recurring) < len(named):  # all of them: files with headers, joined
        return False
    if len({*named}) < len(named) or any(not cell and any(column) for cell, column in below[1:]):
        return None
    if any(cell.lower() in _NAMES or (cell and _are_values(column)) for cell, column in below):
        return True
    # a name is shorter than what stands below it
    cell, column = max(below, key=lambda pair: sum(map(len, pair[1])))
    lengths = sorted(map(len, column))
    return True if 2 * len(cell) < lengths[len(lengths) // 4] else None


def _is_value(cell: str) -> bool:
    """Whether a cell is a number, a date or an address, which no name is."""
    return "://" in cell or _NUMBER.fullmatch(cell) is not None


def _are_values(column: Sequence[str]) -> bool:
    cells = [cell for cell in column if cell]
    return bool(cells) and sum(map(_is_value, cells)) >= _VALUE_FRACTION * len(cells)


def read_table(path: Path) -> list[list[str]]:
    """The rows of a table in any encoding and dialect, the first row first, without blank rows.

    Raises `ValueError` with the file and what is wrong in it.
    """
    text, _ = decode_file(path.read_bytes(), path)
    default = "," if path.suffix.lower() == ".csv" else "\t"
    delimiter, escape = guess_dialect(text[: 1 << 20], default=default)
    csv.field_size_limit(2**31 - 1)  # a cell may be a whole document
    lines = (f"{line}\n" for line in text.split("\n"))
    rows = (row for _, row in read_rows(lines, delimiter, escape=escape))
    return [row for row in rows if isinstance(row, list) and has_cells(row)]
