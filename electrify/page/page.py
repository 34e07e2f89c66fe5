"""Self-contained HTML pages for every report: tables, plots, samples; no network, all escaped."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from electrify.page.parts import Parts, escape, printable
from electrify.page.plots import (
    MARKER_SIGNS,
    bar_svg,
    has_matplotlib,
    line_style,
    line_svg,
    scatter_svg,
    series_color,
)
from electrify.page.style import CSS
from electrify.stage.folder import write_text

MAX_TABLE_POINTS = 20  # of each series, where a plot cannot be drawn
_NO_MATPLOTLIB = "Plots need matplotlib: python -m pip install matplotlib. Its points instead:"
Point = TypeVar("Point", tuple[float, float], tuple[float, float, str])
_ANCHORED = 4  # headings from which a page gets a list of contents


class Page(Parts):
    """A page built from top to bottom; the same calls make the same bytes."""

    def __init__(self, title: str, subtitle: str = "") -> None:
        super().__init__()
        self.title, self.subtitle = title, subtitle
        self._num_plots = 0

    def line_plot(
        self,
        title: str,
        series: Mapping[str, Sequence[tuple[float, float]]],
        x_label: str,
        y_label: str,
        log_y: bool = False,
        log_x: bool = False,
        bands: Mapping[str, Sequence[tuple[float, float, float]]] | None = None,
    ) -> None:
        """Lines through (x, y) points, one a series; what is not finite is left out, and on a
        logarithmic axis what is not above 0.

        `bands`, of some of the series, are (x, low, high): they are shaded behind the lines.
        """
        found = {name: points for name, points in series.items() if _num_drawn(points, log_x)}
        if not found:
            self.paragraph(f"{title}: nothing to plot.")
        elif has_matplotlib():
            clean = {printable(name): points for name, points in found.items()}
            shades = {
                printable(name): [b for b in band if all(map(math.isfinite, b))]
                for name, band in (bands or {}).items()
            }
            labels = printable(x_label), printable(y_label)
            svg = line_svg(clean, *labels, log_y, self._prefix(), log_x=log_x, bands=shades)
            self._plot(title, svg, _line_keys(found))
        else:
            rows = [(n, x, y) for n, points in found.items() for x, y in _thinned(points)]
            self.paragraph(f"{title}. {_NO_MATPLOTLIB}")
            self.table(["series", x_label, y_label], rows)

    def scatter_plot(
        self,
        title: str,
        points: Mapping[str, Sequence[tuple[float, float, str]]],
        x_label: str,
        y_label: str,
        log_x: bool = False,
        lines: Mapping[str, Sequence[tuple[float, float]]] | None = None,
    ) -> None:
        """A mark at each (x, y, label) with its label beside it, over `lines` such as a trend.

        A line that is named like a series of points has its colour. What is not finite is left
        out, and on a logarithmic axis what is not above 0; so is a label that finds no room.
        """
        found = {name: _drawn(marks, log_x) for name, marks in points.items()}
        found = {name: marks for name, marks in found.items() if marks}
        curves = {name: _drawn(line, log_x) for name, line in (lines or {}).items()}
        curves = {name: line for name, line in curves.items() if line}
        if not found:
            self.paragraph(f"{title}: nothing to plot.")
        elif has_matplotlib():
            marks = {
                printable(name): [(x, y, printable(label)) for x, y, label in series]
                for name, series in found.items()
            }
            behind = {printable(name): line for name, line in curves.items()}
            labels = printable(x_label), printable(y_label)
            self._plot(
                title,
                scatter_svg(marks, behind, *labels, log_x, self._prefix()),
                _point_keys(list(found), list(curves)),
            )
        else:
            rows = [(n, label, x, y) for n, marks in found.items() for x, y, label in marks]
            self.paragraph(f"{title}. {_NO_MATPLOTLIB}")
            self.table(["series", "", x_label, y_label], rows)

    def bar_plot(
        self,
        title: str,
        labels: Sequence[str],
        series: Mapping[str, Sequence[float]],
        y_label: str,
        errors: Mapping[str, Sequence[float]] | None = None,
    ) -> None:
        """Bars of each series side by side at each label; `errors` are half-lengths, such as sd.

        `ValueError` for a series with more or fewer values than there are labels.
        """
        for name, values in [*series.items(), *(errors or {}).items()]:
            if len(values) != len(labels):
                raise ValueError(f"{title}: {len(values)} values of {name!r}, {len(labels)} labels")
        if not labels or not any(math.isfinite(v) for values in series.values() for v in values):
            self.paragraph(f"{title}: nothing to plot.")
        elif has_matplotlib():
            clean = {printable(name): values for name, values in series.items()}
            spread = {printable(name): values for name, values in (errors or {}).items()}
            shown = [printable(label) for label in labels]
            svg = bar_svg(shown, clean, printable(y_label), spread, self._prefix())
            self._plot(title, svg, _line_keys(series if len(series) > 1 else ()))
        else:
            self.paragraph(f"{title} ({y_label}). {_NO_MATPLOTLIB}")
            columns = list(zip(labels, *series.values(), strict=True))
            self.table(["", *series], columns)

    def text(self) -> str:
        """The page as HTML."""
        body: list[str] = []
        for index, (kind, part) in enumerate(self._parts):
            before = self._parts[index - 1][0] if index else ""
            after = self._parts[index + 1][0] if index + 1 < len(self._parts) else ""
            opening = '<div class="plots">' if kind == "plot" != before else ""
            closing = "</div>" if kind == "plot" != after else ""
            body.append(opening + part + closing)
        subtitle = f'<p class="subtitle">{escape(self.subtitle)}</p>' if self.subtitle else ""
        # the policy keeps even a page that someone edits from fetching anything
        return "\n".join(
            [
                "<!DOCTYPE html>",
                '<html lang="en"><head><meta charset="utf-8">',
                '<meta name="viewport" content="width=device-width, initial-scale=1">',
                '<meta http-equiv="Content-Security-Policy" '
                "content=\"default-src 'none'; style-src 'unsafe-inline'\">",
                f"<title>{escape(self.title)}</title>",
                f"<style>{CSS}</style></head><body><main>",
                f"<h1>{escape(self.title)}</h1>{subtitle}{self._contents()}",
                *body,
                "</main></body></html>",
                "",
            ]
        )

    def write(self, path: Path) -> None:
        """Write the page whole or not at all."""
        write_text(path, self.text())

    def _contents(self) -> str:
        if len(self._headings) < _ANCHORED:
            return ""
        links = (
            f'<a href="#section-{number}">{escape(text)}</a>'
            for number, text in enumerate(self._headings, start=1)
        )
        return f"<nav>{' '.join(links)}</nav>"

    def _prefix(self) -> str:
        self._num_plots += 1
        return f"plot{self._num_plots}-"

    def _plot(self, title: str, svg: str, keys: str) -> None:
        # the legend is HTML: it wraps on a phone, and its width is known for every script
        legend = f'<div class="legend">{keys}</div>' if keys else ""
        self._parts.append(
            (
                "plot",
                f"<figure><figcaption>{escape(title)}</figcaption>{legend}{svg}</figure>",
            )
        )


def _line_keys(names: Iterable[str]) -> str:
    return "".join(_line_key(index, name, line_style(index)) for index, name in enumerate(names))


def _line_key(index: int, name: str, style: str) -> str:
    return (
        f'<span><i style="border-top-color:{series_color(index)};'
        f'border-top-style:{style}"></i>{escape(name)}</span>'
    )


def _point_keys(points: Sequence[str], lines: Sequence[str]) -> str:
    """The sign of each series of points, and a stroke for lines that have no points."""
    names = list(dict.fromkeys([*points, *lines]))
    if len(names) < 2:
        return ""
    return "".join(
        f'<span><b style="color:{series_color(index)}">{MARKER_SIGNS[index % len(MARKER_SIGNS)]}'
        f"</b>{escape(name)}</span>"
        if name in points
        else _line_key(index, name, "solid")
        for index, name in enumerate(names)
    )


def _drawn(points: Sequence[Point], log_x: bool) -> list[Point]:
    """The points that a plot can show."""
    return [p for p in points if all(map(math.isfinite, p[:2])) and (p[0] > 0 or not log_x)]


def _num_drawn(points: Sequence[tuple[float, float]], log_x: bool) -> int:
    return sum(math.isfinite(y) and (x > 0 or not log_x) for x, y in points)


def _thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most `MAX_TABLE_POINTS` of the points, evenly, first and last among them."""
    if len(points) <= MAX_TABLE_POINTS:
        return list(points)
    step = (len(points) - 1) / (MAX_TABLE_POINTS - 1)
    return [points[round(i * step)] for i in range(MAX_TABLE_POINTS)]
