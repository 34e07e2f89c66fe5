"""A table of cells and its forms: a page, Markdown (also of a card), CSV, lines of a terminal."""

import csv
import io
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypeVar

from pydantic import BaseModel

from electrify.page.page import Cell, Choices, Page, format_number, is_numeric
from electrify.page.plots import num_columns, printable
from electrify.stage.folder import remove_torn, stage_lock, write_text

Record = Mapping[str, object]
_Line = TypeVar("_Line", bound=BaseModel)
_SPECIAL = re.compile(r"([\\`*_\[\]<>|$~])")


@dataclass(frozen=True)
class Table:
    """Headers and rows of cells: texts, numbers, None (a dash), a `Cell` with a small second text.
    Rows whose first cell is in `grey` are soft on a page."""

    headers: Sequence[str | Cell]
    rows: Sequence[Sequence[object]]
    caption: str = ""
    grey: Collection[str] = ()
    choices: Choices | None = None  # on a page

    @classmethod
    def of(cls, records: Sequence[Record], caption: str = "") -> Self:
        """Of cells by their header, the same in every record."""
        return cls(
            list(records[0]) if records else [], [list(r.values()) for r in records], caption
        )

    def add_to(self, page: Page) -> None:
        """Append it to a page; nothing of no rows."""
        if any(isinstance(header, Cell) for header in self.headers):
            headers = [_pair(header) for header in self.headers]
            rows = [(str(name), [_cell(cell) for cell in cells]) for name, *cells in self.rows]
            page.rich_table(headers, rows, self.grey, self.caption, self.choices)
        elif self.rows:
            page.table([str(header) for header in self.headers], self.rows, self.caption)

    def markdown(self) -> list[str]:
        """Line by line; nothing of no rows."""
        if not self.rows:
            return []
        headers = [_pair(header)[0] for header in self.headers]
        return [_line(headers), "|" + " --- |" * len(headers), *map(_line, self.rows)]

    def csv(self) -> str:
        file = io.StringIO()
        table = csv.writer(file, lineterminator="\n")
        table.writerows([self.headers, *self.rows])
        return file.getvalue()

    def terminal(self) -> list[str]:
        """Lines of aligned columns, those of numbers to the right."""
        texts = [[_text(cell) for cell in row] for row in [self.headers, *self.rows]]
        columns = list(zip(*texts, strict=True))
        right = [is_numeric(column[1:]) for column in columns]
        widths = [max(map(num_columns, column)) for column in columns]

        def padded(cell: str, width: int, is_right: bool) -> str:
            space = " " * (width - num_columns(cell))
            return space + cell if is_right else cell + space

        return [" ".join(map(padded, row, widths, right)).rstrip() for row in texts]


def write_csv(path: Path, lines: Sequence[BaseModel]) -> None:
    """One line a record, under the names of its fields, figures with six decimals."""
    if lines:
        rows = [
            [round(v, 6) if isinstance(v, float) else v for v in line.model_dump().values()]
            for line in lines
        ]
        write_text(path, Table(list(type(lines[0]).model_fields), rows).csv())


def read_csv(path: Path, kind: type[_Line]) -> list[_Line]:
    """The records of a file, none where there is none; `ValueError` for a damaged one."""
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return [kind.model_validate(row) for row in csv.DictReader(file)]


Part = str | Table | Callable[[Page], None]  # a paragraph, a table, or what only a page has


def add_parts(page: Page, parts: Iterable[Part]) -> None:
    """Append paragraphs, tables and plots to a page."""
    for part in parts:
        if isinstance(part, str):
            page.paragraph(part)
        elif isinstance(part, Table):
            part.add_to(page)
        else:
            part(page)


def markdown_parts(parts: Iterable[Part]) -> list[str]:
    """Blocks of Markdown; what only a page has is left out."""
    blocks = []
    for part in parts:
        if isinstance(part, str):
            blocks.append(markdown_text(part))
        elif isinstance(part, Table) and part.rows:
            blocks += [f"**{markdown_text(part.caption)}**"] * bool(part.caption)
            blocks.append("\n".join(part.markdown()))
    return blocks


def add_sections(page: Page, sections: Mapping[str, Sequence[Part]]) -> list[str]:
    """Append parts below their headings to a page; the same as blocks of Markdown."""
    blocks = []
    for heading, parts in sections.items():
        page.heading(heading)
        add_parts(page, parts)
        blocks += [f"## {markdown_text(heading)}", *markdown_parts(parts)]
    return blocks


def write_page(folder: Path, name: str, page: Page, blocks: Iterable[str]) -> Path:
    """Write a page, whose path is returned, and beside it blocks of Markdown."""
    folder.mkdir(parents=True, exist_ok=True)
    with stage_lock(folder / name):
        remove_torn(folder.glob(f"{name}.*"))
        write_text(folder / f"{name}.md", "\n\n".join(blocks) + "\n")
        page.write(folder / f"{name}.html")
    return folder / f"{name}.html"


def markdown_text(text: str) -> str:
    """Text on one line with nothing left that Markdown would read as markup."""
    line = " ".join(printable(text).split())  # split() takes Unicode's line ends too
    return _SPECIAL.sub(r"\\\1", line)


def short(value: float | None) -> str | None:
    """Three digits, '1.23e+15'; None of what is unknown."""
    return f"{value:.3g}" if value is not None and math.isfinite(value) else None


def _line(cells: Sequence[object]) -> str:
    return "| " + " | ".join(markdown_text(_text(cell)) for cell in cells) + " |"


def _text(cell: object) -> str:
    return f"{cell.text} {cell.small}".strip() if isinstance(cell, Cell) else format_number(cell)


def _cell(cell: object) -> Cell:
    return cell if isinstance(cell, Cell) else Cell(format_number(cell))


def _pair(header: str | Cell) -> tuple[str, str]:
    return (header.text, header.small) if isinstance(header, Cell) else (header, "")
