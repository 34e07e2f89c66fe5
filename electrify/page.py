"""Self-contained HTML pages for every report: tables, plots, samples; no network, all escaped."""

import html
import math
import re
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path

from electrify.artifacts import write_text
from electrify.page_style import CSS
from electrify.plots import bar_svg, has_matplotlib, line_style, line_svg, series_color

MAX_TABLE_POINTS = 20  # of each series, where a plot cannot be drawn
_NO_MATPLOTLIB = "Plots need matplotlib: python -m pip install matplotlib. Its points instead:"
# what neither HTML nor UTF-8 can hold: control characters, lone surrogates, noncharacters
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_NUMBER_TEXT = re.compile(r"[-+−]?\d[\d,.]*( ?%)?( ± \d[\d,.]*( ?%)?)?")
_SHORT = 24  # characters of a cell that are kept on one line
_ANCHORED = 4  # headings from which a page gets a list of contents


class Page:
    """A page built from top to bottom; the same calls make the same bytes."""

    def __init__(self, title: str, subtitle: str = "") -> None:
        self.title, self.subtitle = title, subtitle
        self._parts: list[tuple[str, str]] = []  # (kind, HTML); neighbouring plots share a row
        self._headings: list[str] = []
        self._num_plots = 0

    def heading(self, text: str, level: int = 2) -> None:
        """Start a section; those of level 2 make the list of contents, level 3 lies within."""
        assert level in (2, 3)
        anchor = ""
        if level == 2:
            self._headings.append(text)
            anchor = f' id="section-{len(self._headings)}"'
        self._parts.append(("heading", f"<h{level}{anchor}>{escape(text)}</h{level}>"))

    def paragraph(self, text: str) -> None:
        """Plain text."""
        self._parts.append(("text", f"<p>{escape(text)}</p>"))

    def table(
        self, headers: Sequence[str], rows: Sequence[Sequence[object]], caption: str = ""
    ) -> None:
        """A table; numbers are formatted and stand to the right, None is a dash.

        `ValueError` for a row with more or fewer cells than there are headers.
        """
        for row in rows:
            if len(row) != len(headers):
                raise ValueError(f"a row of {len(row)} cells under {len(headers)} headers: {row!r}")
        columns = list(zip(*rows, strict=True)) or [()] * len(headers)
        right = [_is_numeric(column) for column in columns]
        head = "".join(_cell("th", h, r) for h, r in zip(headers, right, strict=True))
        body = "\n".join(
            "<tr>" + "".join(_cell("td", c, r) for c, r in zip(row, right, strict=True)) + "</tr>"
            for row in rows
        )
        title = f"<caption>{escape(caption)}</caption>" if caption else ""
        self._parts.append((
            "table",
            f'<div class="scroll" tabindex="0"><table>{title}<thead><tr>{head}</tr></thead>\n'
            f"<tbody>{body}</tbody></table></div>",
        ))  # fmt: skip

    def line_plot(
        self,
        title: str,
        series: Mapping[str, Sequence[tuple[float, float]]],
        x_label: str,
        y_label: str,
        log_y: bool = False,
    ) -> None:
        """Lines through (x, y) points, one a series; what is not finite is left out."""
        found = {name: points for name, points in series.items() if _num_finite(points)}
        if not found:
            self.paragraph(f"{title}: nothing to plot.")
        elif has_matplotlib():
            clean = {_printable(name): points for name, points in found.items()}
            labels = _printable(x_label), _printable(y_label)
            self._plot(title, line_svg(clean, *labels, log_y, self._prefix()), list(found))
        else:
            rows = [(n, x, y) for n, points in found.items() for x, y in _thinned(points)]
            self.paragraph(f"{title}. {_NO_MATPLOTLIB}")
            self.table(["series", x_label, y_label], rows)

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
            clean = {_printable(name): values for name, values in series.items()}
            spread = {_printable(name): values for name, values in (errors or {}).items()}
            shown = [_printable(label) for label in labels]
            svg = bar_svg(shown, clean, _printable(y_label), spread, self._prefix())
            self._plot(title, svg, list(series) if len(series) > 1 else [])
        else:
            self.paragraph(f"{title} ({y_label}). {_NO_MATPLOTLIB}")
            columns = list(zip(labels, *series.values(), strict=True))
            self.table(["", *series], columns)

    def text_samples(self, title: str, items: Sequence[tuple[str, str]]) -> None:
        """(label, text) pairs; line breaks and spaces as they are."""
        blocks = "\n".join(
            f"<dt>{escape(label)}</dt><dd dir=auto>{escape(text)}</dd>" for label, text in items
        )
        self._parts.append((
            "samples", f"<h4>{escape(title)}</h4>\n<dl class=samples>{blocks}</dl>"
        ))  # fmt: skip

    def tokens(self, title: str, items: Sequence[tuple[str, float, bool]]) -> None:
        """Tokens in line, each over its probability in 0..1 and coloured by it; replaced: framed.

        `ValueError` for a probability outside 0..1.
        """
        spans = []
        for token, probability, replaced in items:
            if not 0 <= probability <= 1:
                raise ValueError(f"{title}: probability {probability!r} of {token!r} not in 0..1")
            name, mark = ("token replaced", "replaced ") if replaced else ("token", "")
            spans.append(
                f'<span class="{name}" style="--p:{probability:.3f}"><b>{escape(token)}</b>'
                f'<small><i class=hidden>{mark}</i>{probability:.2f}</small></span>'
            )  # fmt: skip
        self._parts.append((
            "tokens", f"<h4>{escape(title)}</h4>\n<p class=tokens>{' '.join(spans)}</p>"
        ))  # fmt: skip

    def code(self, title: str, text: str, is_open: bool = False) -> None:
        """A block of fixed-width text that folds away."""
        state = " open" if is_open else ""
        self._parts.append((
            "code",
            f"<details{state}><summary>{escape(title)}</summary>"
            f"<pre tabindex=0>{escape(text)}</pre></details>",
        ))  # fmt: skip

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
        return "\n".join([
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
        ])  # fmt: skip

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

    def _plot(self, title: str, svg: str, legend: Sequence[str]) -> None:
        # the legend is HTML: it wraps on a phone, and its width is known for every script
        keys = "".join(
            f'<span><i style="border-top-color:{series_color(i)};'
            f'border-top-style:{line_style(i)}"></i>{escape(name)}</span>'
            for i, name in enumerate(legend)
        )
        legend_html = f'<div class="legend">{keys}</div>' if keys else ""
        self._parts.append((
            "plot",
            f"<figure><figcaption>{escape(title)}</figcaption>{legend_html}{svg}</figure>",
        ))  # fmt: skip


def escape(text: str) -> str:
    """Text for HTML, in content and in quoted attributes; what cannot be shown becomes U+FFFD."""
    return html.escape(_printable(text), quote=True)


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


def _printable(text: str) -> str:
    return _UNPRINTABLE.sub("\ufffd", text)


def _cell(tag: str, value: object, right: bool) -> str:
    text = format_number(value)
    kind = "num" if right else "short" if len(text) <= _SHORT else "long"
    return f"<{tag} class={kind}>{escape(text)}</{tag}>"


def _is_numeric(column: Sequence[object]) -> bool:
    """Whether all cells that hold something are numbers, or text such as '12 %' or '0.7 ± 0.1'."""
    held = [cell for cell in column if cell is not None and cell not in ("", "–")]
    return bool(held) and all(
        bool(_NUMBER_TEXT.fullmatch(cell))
        if isinstance(cell, str)
        else isinstance(cell, Real) and not isinstance(cell, bool)
        for cell in held
    )


def _num_finite(points: Sequence[tuple[float, float]]) -> int:
    return sum(math.isfinite(y) for _, y in points)


def _thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most `MAX_TABLE_POINTS` of the points, evenly, first and last among them."""
    if len(points) <= MAX_TABLE_POINTS:
        return list(points)
    step = (len(points) - 1) / (MAX_TABLE_POINTS - 1)
    return [points[round(i * step)] for i in range(MAX_TABLE_POINTS)]
