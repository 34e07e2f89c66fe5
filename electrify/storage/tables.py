"""Tables as text: which character separates their cells, and whether their first row is a header.

Spreadsheets of one country write `,`, of another `;` or a tab, under whatever name of the file.
"""

import csv
import io
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from electrify.storage.encodings import decode_file

if TYPE_CHECKING:
    from _csv import Reader

HEAD_ROWS = 200  # that tell what a table is written in
_DELIMITERS = ",\t;|"
_NO_DELIMITER = "\x1f"
_EVEN_FRACTION = 0.8  # of the rows that have as many cells as the first
_NUMBER = re.compile(r"[-+]?[\d.,:/ -]*\d[\d.,:/ -]*%?")  # dates and times, too
_NAMES = {
    *("id", "text", "document", "sentence", "title", "comment", "review", "content", "label"),
    *("본문", "내용", "제목", "문장", "댓글", "리뷰", "라벨"),
}
_VALUE_FRACTION = 0.9  # of the cells of a column of numbers


@dataclass(frozen=True)
class Dialect:
    """How a table is written. A quoted cell may hold delimiters and line breaks."""

    delimiter: str
    quoted: bool = True

    def rows(self, lines: Iterable[str], strict: bool = False) -> "Reader":
        """The cells of each row of lines with their newlines; a blank line gives no cell."""
        return csv.reader(
            lines,
            delimiter=self.delimiter,
            quoting=csv.QUOTE_MINIMAL if self.quoted else csv.QUOTE_NONE,
            strict=strict,
        )


def guess_dialect(
    head: str, names: Collection[str] = (), default: str = ",", num_columns: int = 0
) -> Dialect:
    """The dialect in which most rows of a head have as many cells as the first row.

    With `names`, one in which the first row has these cells; with `num_columns`, one in which most
    rows have so many. `head` may end within a row.
    """
    best, chosen = (False, 0.0), None
    for delimiter in sorted(_DELIMITERS, key=lambda one: one != default):
        for quoted in (True, False) if '"' in head else (True,):
            dialect = Dialect(delimiter, quoted)
            if not (rows := _head_rows(dialect, head)):
                continue
            width = num_columns or len(rows[0])
            even = sum(len(row) == width for row in rows) / len(rows)
            has_names = bool(names) and {*names} <= {cell.strip() for cell in rows[0]}
            score = (has_names, even)
            is_even = even >= (0.5 if num_columns else _EVEN_FRACTION)
            if width > 1 and (has_names or is_even) and score > best:
                best, chosen = score, dialect
    return chosen or _one_column(head, default)


def _one_column(head: str, default: str) -> Dialect:
    """Of a table without delimiters, whose texts may hold any number of commas."""
    quoted = bool(_head_rows(Dialect(default), head))
    rows = _head_rows(Dialect(default, quoted), head)
    is_text = len({len(row) for row in rows[1:]}) > 1
    return Dialect(_NO_DELIMITER if is_text else default, quoted)


def _head_rows(dialect: Dialect, head: str) -> list[list[str]]:
    """The whole rows that are not blank; none where quotation marks are not those of a table."""
    lines = [f"{line}\n" for line in head.split("\n")]
    reader = dialect.rows(lines, strict=True)
    rows: list[list[str]] = []
    num_lines = 0  # of the whole rows
    try:
        for row in reader:
            rows.append(row)
            if len(rows) == HEAD_ROWS:
                break
            num_lines = reader.line_num
    except csv.Error:
        # the end may stand within a cell; a mark that is never closed hides most of the table
        if reader.line_num < len(lines) or 2 * num_lines < len(lines):
            return []
    if not head.endswith("\n") and len(rows) > 1 and reader.line_num >= len(lines):
        rows.pop()
    return [row for row in rows if has_cells(row)]


def has_cells(row: Sequence[str]) -> bool:
    """Whether a row is not blank: spreadsheets write rows of empty cells."""
    return any(map(str.strip, row))


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
    try:
        text, _ = decode_file(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    default = "," if path.suffix.lower() == ".csv" else "\t"
    dialect = guess_dialect(text[: 1 << 20], default=default)
    csv.field_size_limit(2**31 - 1)  # a cell may be a whole document
    try:
        return [row for row in dialect.rows(io.StringIO(text, newline="")) if has_cells(row)]
    except csv.Error as error:
        raise ValueError(f"{path} is no table: {error}") from None
