"""Self-contained pages for every report: a page collects its parts, one template (`page.md`) writes
them as Markdown, and HTML is made from that Markdown. Nothing is fetched."""

import hashlib
import math
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from html import escape
from numbers import Integral, Real
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt

from electrify.page.plots import Plots, printable
from electrify.stage.folder import write_text

_FOLDER = Path(__file__).parent
_NUMBER_TEXT = re.compile(r"[-+−]?\d[\d,.]*( ?%)?( ± \d[\d,.]*( ?%)?)?")
_SPECIAL = re.compile(r"([\\`*_\[\]<>|$~&#])")
_BLOCK_MARK = re.compile(r"^(\d*)([+=.)-])")  # at the start of a line
_LINE_END = "\x00"  # of a text that stays as it is, until the template is filled in


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


def markdown_text(text: str) -> str:
    """Text on one line with nothing left that Markdown would read as markup."""
    line = " ".join(printable(text).split())  # split() takes Unicode's line ends too
    return _BLOCK_MARK.sub(r"\1\\\2", _SPECIAL.sub(r"\\\1", line))


def markdown_table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Lines of a table in Markdown; columns of numbers stand to the right. A row with more or fewer
    cells than there are headers is a `ValueError`."""
    if not rows:
        return []
    columns = list(zip(headers, *rows, strict=True))
    rules = [" ---: " if is_numeric(cells) else " --- " for _, *cells in columns]
    head, *body = ["| " + " | ".join(map(_markdown_cell, row)) + " |" for row in [headers, *rows]]
    return [head, f"|{'|'.join(rules)}|", *body]


def _markdown_cell(cell: object) -> str:
    return _SPECIAL.sub(r"\\\1", " ".join(printable(format_number(cell)).split()))


def _fenced(text: str) -> str:
    """Text as it is, in a block that its own backticks do not end."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{printable(text)}\n{fence}".replace("\n", _LINE_END)


def _html_text(text: str) -> str:
    return escape(" ".join(printable(text).split()))


class Page(Plots):
    """A page built from top to bottom; the same calls make the same bytes."""

    def __init__(self, title: str, subtitle: str = "") -> None:
        super().__init__()
        self.title, self.subtitle = title, subtitle

    def heading(self, text: str, level: int = 2) -> None:
        self._add("heading", text=text, level=level)

    def verdict(self, text: str) -> None:
        """The result in a sentence, in larger letters."""
        self._add("verdict", text=text)

    def key_figures(self, items: Sequence[tuple[str, str]]) -> None:
        """(figure, what it is) pairs in a line."""
        self._add("figures", pairs=items)

    def records(self, rows: Sequence[Mapping[str, object]], caption: str = "") -> None:
        """A table of cells by their header, the same in every row; of no rows none."""
        if rows:
            self.table(list(rows[0]), [list(row.values()) for row in rows], caption)

    def table(
        self, headers: Sequence[str], rows: Sequence[Sequence[object]], caption: str = ""
    ) -> None:
        """A table, of no rows "None."; numbers are formatted, None is a dash.

        A row with more or fewer cells than there are headers is a `ValueError`.
        """
        if not rows:
            return self.paragraph(f"{caption}: none." if caption else "None.")
        self._add("table", lines=markdown_table(headers, rows), caption=caption)

    def text_samples(self, title: str, items: Sequence[tuple[str, str]]) -> None:
        """(label, text) pairs; line breaks and spaces as they are."""
        self._add("samples", title=title, pairs=items)

    def code(self, title: str, text: str) -> None:
        """A block of fixed-width text that folds away."""
        self._add("code", title=title, text=text)

    @contextmanager
    def fold(self, title: str, is_section: bool = False) -> Iterator[None]:
        """What is added within folds away under the title; that of a section is a heading."""
        self._add("fold", title=title, is_section=is_section)
        yield
        self._add("end of fold")

    def markdown(self, with_plots: bool = False) -> str:
        text = (
            _templates()
            .get_template("page.md")
            .render(title=self.title, subtitle=self.subtitle, parts=self._parts, figures=with_plots)
        )
        return re.sub(r"\n{3,}", "\n\n", text).strip().replace(_LINE_END, "\n") + "\n"

    def text(self) -> str:
        """HTML."""
        script = (_FOLDER / "sort.js").read_text(encoding="utf-8")
        return (
            _templates()
            .get_template("page.html")
            .render(
                title=_html_text(self.title),
                style=(_FOLDER / "style.css").read_text(encoding="utf-8"),
                script=script,
                digest=b64encode(hashlib.sha256(script.encode()).digest()).decode(),
                body=_parser().render(self.markdown(with_plots=True)),
            )
        )

    def write(self, path: Path) -> None:
        write_text(path, self.text())


@lru_cache
def _templates() -> Environment:
    templates = Environment(
        loader=FileSystemLoader(_FOLDER),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,  # the parser escapes what `text` lets through
    )
    templates.filters |= {"text": markdown_text, "fenced": _fenced, "html": _html_text}
    return templates


@lru_cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark").enable("table")
    parser.add_render_rule("table_open", lambda *_: '<div class="scroll" tabindex="0"><table>')
    parser.add_render_rule("table_close", lambda *_: "</table></div>")
    return parser
