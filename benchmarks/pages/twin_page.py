"""One report as an HTML page and as Markdown, from the same calls."""

import html
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from electrify.page.page import Page, format_number, printable
from electrify.stage.folder import remove_torn, write_json, write_text
from electrify.stage.lock import stage_lock

Record = Mapping[str, object]
_SPECIAL = re.compile(r"([\\`*_\[\]<>|$~])")


class TwinPage:
    """Appends to both forms in order; plots and token colours stand on the page alone."""

    def __init__(self, title: str, subtitle: str = "") -> None:
        self.page = page = Page(title, subtitle)
        self.line_plot, self.scatter_plot = page.line_plot, page.scatter_plot
        self.bar_plot = page.bar_plot
        self._blocks = [f"# {markdown_text(title)}", markdown_text(subtitle)]
        self._sections: list[str] = []
        self.tables: list[dict[str, Any]] = []  # for programs, with the headings above each

    def heading(self, text: str, level: int = 2) -> None:
        """Start a section, or with level 3 a part of one."""
        self.page.heading(text, level)
        self._sections = [*self._sections[: level - 2], text]
        self._blocks.append(f"{'#' * level} {markdown_text(text)}")

    def paragraph(self, text: str) -> None:
        """Plain text."""
        self.page.paragraph(text)
        self._blocks.append(markdown_text(text))

    def table(
        self, headers: Sequence[str], rows: Sequence[Sequence[object]], caption: str = ""
    ) -> None:
        """A table, its numbers formatted alike in both."""
        self.page.table(headers, rows, caption)
        self.tables.append(
            {"sections": self._sections, "caption": caption, "headers": headers, "rows": rows}
        )
        if caption:
            self._blocks.append(f"*{markdown_text(caption)}*")
        self._blocks.append("\n".join(table_lines(headers, rows)))

    def records(self, rows: Sequence[Record], caption: str = "") -> None:
        """A table of cells by their header, the same in every row; of no rows none."""
        if rows:
            self.table(list(rows[0]), [list(row.values()) for row in rows], caption)

    def matrix(
        self,
        rows: Sequence[str],
        columns: Sequence[str],
        counts: Sequence[Sequence[int]],
        corner: str,
        caption: str = "",
    ) -> None:
        """Counts, on the page shaded by their share of the row."""
        self.page.matrix(rows, columns, counts, corner, caption)
        if caption:
            self._blocks.append(f"*{markdown_text(caption)}*")
        body = [_row([name, *row]) for name, row in zip(rows, counts, strict=True)]
        head = [_row([corner, *columns]), "|" + " --- |" * (len(columns) + 1)]
        self._blocks.append("\n".join([*head, *body]))

    @contextmanager
    def fold(self, title: str) -> Iterator[None]:
        """What is added within folds away, in both."""
        # a block of HTML: Markdown's own escapes are not read in it
        name = html.escape(" ".join(printable(title).split()))
        self._blocks.append(f"<details><summary>{name}</summary>")
        with self.page.fold(title):
            yield
        self._blocks.append("</details>")

    def text_samples(self, title: str, items: Sequence[tuple[str, str]]) -> None:
        """(label, text) pairs."""
        self.page.text_samples(title, items, compact=True)
        lines = [f"- {markdown_text(label)}: {markdown_text(text)}" for label, text in items]
        self._blocks += [markdown_text(title), "\n".join(lines)]

    def tokens(self, title: str, items: Sequence[tuple[str, float, bool]]) -> None:
        """Coloured tokens; in Markdown one line, replaced ones bold."""
        self.page.tokens(title, items)
        words = (
            f"**{markdown_text(token)}** ({probability:.2f}, replaced)"
            if replaced
            else f"{markdown_text(token)} ({probability:.2f})"
            for token, probability, replaced in items
        )
        self._blocks += [markdown_text(title), " · ".join(words)]

    def code(self, title: str, text: str) -> None:
        """Fixed-width text that folds away on the page."""
        self.page.code(title, text)
        longest = max((len(run) for run in re.findall("`+", text)), default=0)
        fence = "`" * max(3, longest + 1)
        self._blocks += [markdown_text(title), f"{fence}\n{text.rstrip()}\n{fence}"]

    def markdown(self) -> str:
        """All of it as GitHub's Markdown."""
        return "\n\n".join(block for block in self._blocks if block) + "\n"

    def write(self, folder: Path, record: object) -> None:
        """report.json with the record, report.md and report.html, into a folder made if need be."""
        folder.mkdir(parents=True, exist_ok=True)
        with stage_lock(folder / "report"):
            remove_torn(folder.glob("report.*"))
            write_json(folder / "report.json", _json_value(record))
            write_text(folder / "report.md", self.markdown())
            self.page.write(folder / "report.html")


def table_lines(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """A table in Markdown, line by line."""
    return [_row(headers), "|" + " --- |" * len(headers), *(_row(row) for row in rows)]


def record_lines(rows: Sequence[Record]) -> list[str]:
    """The same of cells by their header; of no rows nothing."""
    return table_lines(list(rows[0]), [list(row.values()) for row in rows]) if rows else []


def defined(value: float) -> float | None:
    """None, which is a dash in tables, for nan."""
    return None if math.isnan(value) else value


def short(value: float | None) -> str | None:
    """Three digits, '1.23e+15'; None of what is unknown."""
    return f"{value:.3g}" if value is not None and math.isfinite(value) else None


def _json_value(value: Any) -> Any:
    """JSON has no nan: null stands for what is undefined."""
    if isinstance(value, Mapping):
        return {key: _json_value(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def markdown_text(text: str) -> str:
    """Text on one line with nothing left that Markdown would read as markup."""
    line = " ".join(printable(text).split())  # split() takes Unicode's line ends too
    return _SPECIAL.sub(r"\\\1", line)


def _row(cells: Sequence[object]) -> str:
    return "| " + " | ".join(markdown_text(format_number(cell)) for cell in cells) + " |"
