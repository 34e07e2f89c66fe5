"""Self-contained HTML pages for every report: tables, plots, samples; nothing is fetched.

A page collects its parts; `page.html` is their markup, and escapes every text.
"""

import hashlib
import math
import re
from base64 import b64encode
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from numbers import Integral, Real
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from electrify.page.plots import Plots, printable
from electrify.stage.folder import write_text

_SHORT_CHARACTERS = 24  # of a cell that is kept on one line
_NUMBER_TEXT = re.compile(r"[-+−]?\d[\d,.]*( ?%)?( ± \d[\d,.]*( ?%)?)?")


def format_number(value: object) -> str:
    """A value for a reader: 1,234,567, 0.7312, 12.5, 3.1e-08; None is a dash, a bool yes or no."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Integral):
        return f"{int(value):,}"
    if not isinstance(value, Real):
        return str(value)
    number = float(value)
    if not math.isfinite(number):
        return str(number)
    if abs(number) >= 1e12 or 0 < abs(number) < 1e-4:
        return f"{number:.3g}"
    if abs(number) >= 1000:
        return f"{number:,.0f}"
    return f"{number:.4g}"


def is_numeric(column: Sequence[object]) -> bool:
    """Whether all cells with a value are numbers, or text such as '12 %' or '0.7 ± 0.1'."""
    cells = [cell for cell in column if cell is not None and cell not in ("", "–")]
    return bool(cells) and all(
        bool(_NUMBER_TEXT.fullmatch(cell))
        if isinstance(cell, str)
        else isinstance(cell, Real) and not isinstance(cell, bool)
        for cell in cells
    )


@dataclass(frozen=True)
class Cell:
    """A cell of `Page.rich_table`: a text, and smaller behind it another one."""

    text: str
    small: str = ""
    is_bold: bool = False


@dataclass(frozen=True)
class Choices:
    """What a reader can choose of a `Page.rich_table`, and what a click on a row opens.

    `rows` and `columns` are (what they are grouped by, group of each): of rows by their name, of
    columns in order after the first; "" is always shown. `records` are sections that fold, by the
    row's name.
    """

    rows: tuple[str, Mapping[str, str]]
    columns: tuple[str, Sequence[str]]
    records: Mapping[str, str]


class Page(Plots):
    """A page built from top to bottom; the same calls make the same bytes."""

    def __init__(self, title: str, subtitle: str = "") -> None:
        super().__init__()
        self.title, self.subtitle = title, subtitle
        self._headings: list[str] = []
        self._has_script = False

    def heading(self, text: str, level: int = 2) -> None:
        """Start a section; those of level 2 make the list of contents, deeper ones lie within."""
        assert level in (2, 3, 4)
        if level == 2:
            self._headings.append(text)
        self._add("heading", text=text, level=level, anchor=level == 2 and len(self._headings))

    def verdict(self, text: str) -> None:
        """The result in a sentence, in larger letters."""
        self._add("verdict", text=text)

    def key_figures(self, items: Sequence[tuple[str, str]]) -> None:
        """(figure, what it is) pairs, side by side in large letters."""
        self._add("figures", pairs=items)

    def rich_table(
        self,
        headers: Sequence[tuple[str, str]],
        rows: Sequence[tuple[str, Sequence[Cell]]],
        grey: Collection[str] = (),
        caption: str = "",
        choices: Choices | None = None,
    ) -> None:
        """Cells with a small second text, some of them bold; the first column has names.

        `headers` are (title, small text), the first one of the names; the rows that `grey` names
        are soft.
        """
        row_groups = choices.rows[1] if choices else {}
        column_groups = ["", *choices.columns[1]] if choices else [""] * len(headers)
        records = choices.records if choices else {}
        links = {name: _anchor(title) for name, title in records.items()}
        columns = list(zip(headers, column_groups, strict=True))
        lines = [
            (name, row_groups.get(name, ""), zip(cells, column_groups[1:], strict=True))
            for name, cells in rows
        ]
        lists: list[tuple[str, str, dict[str, None]]] = []  # to choose from: label, groups in order
        if choices:
            of_rows, of_columns = choices.rows[1].values(), choices.columns[1]
            lists = [
                ("row", choices.rows[0], dict.fromkeys(filter(None, of_rows))),
                ("column", choices.columns[0], dict.fromkeys(filter(None, of_columns))),
            ]
        self._has_script |= choices is not None
        self._add(
            "rich", head=columns, rows=lines, grey=grey, caption=caption, lists=lists, links=links
        )

    def records(self, rows: Sequence[Mapping[str, object]], caption: str = "") -> None:
        """A table of cells by their header, the same in every row; of no rows none."""
        if rows:
            self.table(list(rows[0]), [list(row.values()) for row in rows], caption)

    def table(
        self, headers: Sequence[str], rows: Sequence[Sequence[object]], caption: str = ""
    ) -> None:
        """A table, of no rows "None."; numbers are formatted, to the right, None is a dash.

        A row with more or fewer cells than there are headers is a `ValueError`.
        """
        if not rows:
            return self.paragraph(f"{caption}: none." if caption else "None.")
        right = [is_numeric(column) for column in zip(*rows, strict=True)]
        head, *body = [
            [_cell(value, is_right) for value, is_right in zip(row, right, strict=True)]
            for row in [headers, *rows]
        ]
        self._add("table", head=head, rows=body, caption=caption)

    def matrix(
        self,
        rows: Sequence[str],
        columns: Sequence[str],
        counts: Sequence[Sequence[int]],
        corner: str,
        caption: str = "",
    ) -> None:
        """Counts of `rows` by `columns`, each shaded by its fraction of its row; 0 is left blank.

        `corner` says what rows and columns are.
        """
        lines = []
        for name, row in zip(rows, counts, strict=True):
            total = max(1, sum(row))
            cells = [(f"{n / total:.3f}", format_number(n) if n else "") for n in row]
            lines.append((name, cells))
        self._add("matrix", columns=columns, rows=lines, corner=corner, caption=caption)

    def search(self, what: str) -> None:
        """A field, labelled `what`, that leaves of the samples of this fold those with its text."""
        self._add("search", what=what)
        self._has_script = True

    def text_samples(
        self, title: str, items: Sequence[tuple[str, str]], compact: bool = False
    ) -> None:
        """(label, text) pairs; line breaks and spaces as they are. `compact`: labels beside."""
        self._add("samples", title=title, pairs=items, compact=compact)

    def code(self, title: str, text: str) -> None:
        """A block of fixed-width text that folds away."""
        self._add("code", title=title, text=text)

    @contextmanager
    def fold(self, title: str, is_section: bool = False) -> Iterator[None]:
        """What is added within folds away under the title; it is printed if it stands open.

        The title of a section is as large as a heading.
        """
        anchor = _anchor(title) if is_section else ""
        self._add("fold", title=title, is_section=is_section, anchor=anchor)
        yield
        self._add("end of fold")

    def text(self) -> str:
        return _template().render(
            title=self.title,
            subtitle=self.subtitle,
            headings=self._headings,
            parts=self._parts,
            script=Markup(_script() if self._has_script else ""),
            digest=b64encode(hashlib.sha256(_script().encode()).digest()).decode(),
        )

    def write(self, path: Path) -> None:
        write_text(path, self.text())


def _anchor(title: str) -> str:
    return "fold-" + hashlib.sha256(title.encode()).hexdigest()[:12]


@lru_cache
def _script() -> str:
    return Path(__file__).with_name("choices.js").read_text(encoding="utf-8")


def _finalize(value: object) -> object:
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@lru_cache
def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    return environment.get_template("page.html")


def _cell(value: object, is_right: bool) -> tuple[str, str]:
    text = format_number(value)
    return "num" if is_right else "short" if len(text) <= _SHORT_CHARACTERS else "long", text
