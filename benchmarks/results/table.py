"""A table of cells and its forms: a page, Markdown (also of a card), CSV, lines of a terminal."""

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypeVar

from pydantic import BaseModel

from electrify.page.page import Page, format_number, is_numeric, markdown_table
from electrify.page.plots import num_columns
from electrify.stage.folder import remove_torn, stage_lock, write_text

Record = Mapping[str, object]
_Line = TypeVar("_Line", bound=BaseModel)


@dataclass(frozen=True)
class Table:
    """Headers and rows of cells: texts, numbers, None (a dash)."""

    headers: Sequence[str]
    rows: Sequence[Sequence[object]]
    caption: str = ""

    @classmethod
    def of(cls, records: Sequence[Record], caption: str = "") -> Self:
        """Of cells by their header, the same in every record."""
        return cls(
            list(records[0]) if records else [], [list(r.values()) for r in records], caption
        )

    def add_to(self, page: Page) -> None:
        if self.rows:
            page.table(self.headers, self.rows, self.caption)

    def markdown(self) -> list[str]:
        return markdown_table(self.headers, self.rows)

    def csv(self) -> str:
        file = io.StringIO()
        table = csv.writer(file, lineterminator="\n")
        table.writerows([self.headers, *self.rows])
        return file.getvalue()

    def terminal(self) -> list[str]:
        """Lines of aligned columns, those of numbers to the right."""
        texts = [[format_number(cell) for cell in row] for row in [self.headers, *self.rows]]
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


Part = str | Table  # a paragraph or a table


def add_parts(page: Page, parts: Iterable[Part]) -> None:
    for part in parts:
        if isinstance(part, str):
            page.paragraph(part)
        else:
            part.add_to(page)


def write_page(folder: Path, name: str, page: Page) -> Path:
    """Write a page, whose path is returned, and the same as Markdown, without plots."""
    folder.mkdir(parents=True, exist_ok=True)
    with stage_lock(folder / name):
        remove_torn(folder.glob(f"{name}.*"))
        write_text(folder / f"{name}.md", page.markdown())
        page.write(folder / f"{name}.html")
    return folder / f"{name}.html"


def short(value: float | None) -> str | None:
    """Three digits, '1.23e+15'; None of what is unknown."""
    return f"{value:.3g}" if value is not None and math.isfinite(value) else None
