"""Tables and text in Markdown, and the figures that stand in them."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.results.results import percent
from electrify.page.page import format_number
from electrify.page.plots import printable

Record = Mapping[str, object]
_SPECIAL = re.compile(r"([\\`*_\[\]<>|$~])")


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


def with_interval(row: Mapping[str, Any]) -> str | None:
    """'81.2 (80.1 to 82.3)' of value, low and high, in percent; None of no value."""
    if row["value"] is None:
        return None
    value, low, high = (percent(row[name], 1) for name in ("value", "low", "high"))
    return value if row["low"] is None else f"{value} ({low} to {high})"


def markdown_text(text: str) -> str:
    """Text on one line with nothing left that Markdown would read as markup."""
    line = " ".join(printable(text).split())  # split() takes Unicode's line ends too
    return _SPECIAL.sub(r"\\\1", line)


def _row(cells: Sequence[object]) -> str:
    return "| " + " | ".join(markdown_text(format_number(cell)) for cell in cells) + " |"
