"""Line, bar and scatter plots as inline SVG; text stays text, so the reader's fonts draw it.

matplotlib lays a plot out; the SVG is then stripped of what a page must not hold twice or at all
(ids, metadata, style sheets) and of fixed colours, which become CSS variables of the page.
"""

import re
import unicodedata
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from io import StringIO
from math import isfinite
from numbers import Real
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

# Okabe and Ito's palette, told apart by readers of every colour vision; yellow left out, too pale
# on white. The page's CSS holds a lighter twin of each, --series-0 on, for a dark page.
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
LINE_STYLES = ("solid", "dashed", "dotted")  # the next one for each round of colours
MARKERS = "os^Dv"  # of a scatter's series, as matplotlib names them
MARKER_SIGNS = "●■▲◆▼"  # the same in a legend
INK = "#010203"  # stands for the page's own text colour
WIDTH = 403.2  # in points: 10 point text is still read when a phone shows 350 pixels of it
FONT = 10.0
_COLORED = "text.color axes.labelcolor axes.edgecolor axes.titlecolor xtick.color ytick.color"
_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",  # text, not outlines
    "svg.hashsalt": "electrify",  # the same plot has the same ids
    "text.parse_math": False,  # a $ in a document is a dollar
    "font.family": "DejaVu Sans",
    "font.size": FONT,
    "figure.dpi": 72,  # a pixel of matplotlib is a point
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.15,
    "lines.linewidth": 1.6,
    "path.simplify_threshold": 1.0,  # in points: 50,000 steps make 30 kB
    **dict.fromkeys(("grid.color", *_COLORED.split()), INK),
}
_MAX_LABEL_COLUMNS = 26
Points = Sequence[tuple[float, float]]
Point = TypeVar("Point", tuple[float, float], tuple[float, float, float], tuple[float, float, str])
Key = tuple[str, str, str, str]  # of a legend: colour, sign or "", style of the line, name

# What neither HTML nor UTF-8 can hold: control characters, lone surrogates, noncharacters. And
# the invisible characters that reorder what stands around them (embeddings, overrides, isolates):
# a text that a page quotes must not change how the page reads.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


def series_color(index: int) -> str:
    return f"var(--series-{index % len(PALETTE)})"


def line_style(index: int) -> str:
    """Line style of the series at `index`, as matplotlib and CSS both name it."""
    return LINE_STYLES[index // len(PALETTE) % len(LINE_STYLES)]


def tick_text(value: float) -> str:
    """A number as short as an axis needs it: 0.25, 400, 12k, 1.5M, 3B, 2T, 6e17."""
    if abs(value) >= 1e15:
        return f"{value:.3g}".replace("e+", "e")
    for unit, name in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= unit * (1 - 1e-9):
            return f"{value / unit:.4g}{name}"
    return f"{value:.4g}"


def printable(text: str) -> str:
    """Text with U+FFFD for what cannot be shown, or would reorder the text around it."""
    return _UNPRINTABLE.sub("\ufffd", text)


def num_columns(text: str) -> int:
    """Width in half-em columns: a Hangul syllable or a Han character takes two."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def shorten(text: str, max_columns: int) -> str:
    """`printable` text on one line, its end cut off with an ellipsis where it is wider."""
    text = " ".join(printable(text).split())
    while num_columns(text) > max_columns:
        text = text.removesuffix("…")[:-1] + "…"
    return text


@contextmanager
def _new_axes(
    height: float, x_label: str, title: str, labels: Sequence[str] = ()
) -> "Iterator[tuple[Axes, StringIO]]":
    """Empty axes, and the SVG that is drawn when the block ends.

    The margins are in points: Hangul has no width in the layout font.
    """
    from matplotlib import style
    from matplotlib.figure import Figure

    buffer, bottom, top = StringIO(), 36 if x_label else 22, 24 if title else 8
    left = 14 + max(map(num_columns, labels)) * 0.55 * FONT if labels else 46
    # whatever the user's matplotlibrc says
    with style.context(_SETTINGS, after_reset=True), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from", category=UserWarning)
        figure = Figure(figsize=(WIDTH / 72, height / 72))
        axes = figure.add_axes(
            (left / WIDTH, bottom / height, 1 - (left + 12) / WIDTH, 1 - (bottom + top) / height)
        )
        axes.set_xlabel(printable(x_label))
        axes.set_title(printable(title), loc="left", fontsize=FONT)
        yield axes, buffer
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})


def _svg_text(buffer: StringIO, prefix: str, label: str) -> str:
    """The figure as an SVG element for an HTML page, ids prefixed, nothing fetched by it."""
    svg = buffer.getvalue()[buffer.getvalue().index("<svg ") :].strip()
    svg = re.sub(r"<(metadata|style)\b.*?</\1>", "", svg, flags=re.DOTALL)
    svg = re.sub("<[^>]*>", lambda tag: _page_tag(tag[0], prefix), svg)
    text = escape(printable(label))
    opening = f'<svg role="img" aria-label="{text}" '
    return svg.replace("<svg ", opening, 1).replace(">", f"><title>{text}</title>", 1)


def _page_tag(tag: str, prefix: str) -> str:
    # what is referred to has a hash for an id, the others have a name and a number
    tag = re.sub(r' id="[^"]*_[^"]*"| xmlns(:xlink)?="[^"]*"|(?<= )xlink:', "", tag)
    tag = re.sub(r'( id="|href="#|url\(#)', rf"\g<1>{prefix}", tag)
    tag = re.sub(r"font-family:[^;\"]*;?", "", tag)  # the page's, not matplotlib's
    for index, color in enumerate(PALETTE):
        tag = tag.replace(color, series_color(index))
    return tag.replace(INK, "currentColor")


class Plots:
    """The parts of a page, and its plots. What is not finite is left out, and on a logarithmic axis
    what is not above 0; of a plot with nothing left there is a sentence."""

    def __init__(self) -> None:
        self._parts: list[SimpleNamespace] = []
        self._num_plots = 0

    def paragraph(self, text: str) -> None:
        self._add("paragraph", text=text)

    def _add(self, kind: str, **values: Any) -> None:
        self._parts.append(SimpleNamespace(kind=kind, **values))

    def _add_plot(self, title: str, svg: StringIO, label: str, keys: Sequence[Key]) -> None:
        self._num_plots += 1
        text = _svg_text(svg, f"plot{self._num_plots}-", label)
        self._add("plot", title=title, svg=text, keys=keys)

    def line_plot(
        self,
        title: str,
        series: Mapping[str, Points],
        x_label: str,
        y_label: str,
        log_y: bool = False,
        log_x: bool = False,
        bands: Mapping[str, Sequence[tuple[float, float, float]]] | None = None,
    ) -> None:
        """Lines through (x, y) points, one a series.

        `bands`, of some of the series, are (x, low, high): they are shaded behind the lines.
        """
        drawn, shaded = _drawn(series, log_x), _drawn(bands or {}, log_x)
        if not drawn:
            return self.paragraph(f"{title}: nothing to plot.")
        with _new_axes(210.0, x_label, y_label) as (axes, svg):
            for index, (name, points) in enumerate(drawn.items()):
                color, style = _color(index), line_style(index)
                marker = "o" if len(points) <= 15 else None
                xs, ys = zip(*points, strict=True)
                axes.plot(xs, ys, color=color, ls=style, marker=marker, markersize=3.5)
                if band := shaded.get(name):
                    xs, lows, highs = zip(*band, strict=True)
                    axes.fill_between(xs, lows, highs, color=color, alpha=0.2, linewidth=0)
            _scale_axes(axes, [p for points in drawn.values() for p in points], log_x, log_y)
        label = f"{y_label} over {x_label}: {', '.join(drawn)}"
        self._add_plot(title, svg, label, _legend(drawn))

    def scatter_plot(
        self,
        title: str,
        points: Mapping[str, Sequence[tuple[float, float, str]]],
        x_label: str,
        y_label: str,
        log_x: bool = False,
        lines: Mapping[str, Points] | None = None,
    ) -> None:
        """A mark at each (x, y, label) with its label above it, over `lines` such as a trend.

        A line that is named like a series of points has its colour.
        """
        drawn, curves = _drawn(points, log_x), _drawn(lines or {}, log_x)
        if not drawn:
            return self.paragraph(f"{title}: nothing to plot.")
        colors = {name: _color(index) for index, name in enumerate({**drawn, **curves})}
        above: dict[str, Any] = {"xytext": (0, 6), "textcoords": "offset points", "ha": "center"}
        every = [mark for marks in drawn.values() for mark in marks]
        with _new_axes(300.0, x_label, y_label) as (axes, svg):
            for name, line in curves.items():
                axes.plot(*zip(*line, strict=True), color=colors[name], linewidth=1.2, alpha=0.7)
            for index, (name, marks) in enumerate(drawn.items()):
                for x, y, text in marks:
                    axes.plot(x, y, color=colors[name], markersize=6, marker=_marker(index))
                    text = shorten(text, _MAX_LABEL_COLUMNS)
                    axes.annotate(text, (x, y), fontsize=FONT - 1.5, **above)
            axes.margins(0.12)
            places = [(x, y) for x, y, _ in every] + [p for line in curves.values() for p in line]
            _scale_axes(axes, places, log_x, False)
        texts = [f"{text} ({tick_text(x)}, {tick_text(y)})" for x, y, text in every]
        label = f"{y_label} against {x_label}: {', '.join(texts)}"
        keys = _legend(colors, drawn) if len(colors) > 1 else []
        self._add_plot(title, svg, label, keys)

    def bar_plot(
        self,
        title: str,
        labels: Sequence[str],
        series: Mapping[str, Sequence[float]],
        y_label: str,
        errors: Mapping[str, Sequence[float]] | None = None,
    ) -> None:
        """Lying bars of each series side by side at each label; `errors` are half-lengths, such as
        sd.

        A series with more or fewer values than there are labels is a `ValueError`.
        """
        if not labels or not any(isfinite(v) for values in series.values() for v in values):
            return self.paragraph(f"{title}: nothing to plot.")
        shown = [shorten(label, _MAX_LABEL_COLUMNS) for label in labels]
        size = 0.8 / max(1, len(series))
        height = max(90.0, 46.0 + len(shown) * (10.0 + 14.0 * len(series)))
        with _new_axes(height, "", y_label, shown) as (axes, svg):
            for index, (name, values) in enumerate(series.items()):
                below = (index - (len(series) - 1) / 2) * size
                lengths = errors.get(name) if errors else None
                bars = axes.barh(
                    [place + below for place, _ in enumerate(zip(shown, values, strict=True))],
                    _drawn_lengths(values),
                    height=size * 0.92,
                    xerr=None if lengths is None else _drawn_lengths(lengths),
                    color=_color(index),
                    error_kw={"ecolor": INK, "capsize": 3, "elinewidth": 1},
                )
                texts = [tick_text(float(f"{v:.3g}")) if isfinite(v) else "n/a" for v in values]
                axes.bar_label(bars, texts, padding=2, fontsize=FONT - 2)
            axes.set_xmargin(0.12)  # room for the values
            _name_places(axes, shown)
        keys = _legend(series if len(series) > 1 else ())
        self._add_plot(title, svg, f"{y_label}: {', '.join(labels)}", keys)

    def forest_plot(
        self, title: str, rows: Mapping[str, Mapping[str, tuple[float, float, float]]], x_label: str
    ) -> None:
        """A mark with its interval for each series of each row, about a line at 0.

        `rows` are by label; each has (value, low, high) by series.
        """
        series = list(dict.fromkeys(name for row in rows.values() for name in row))
        if not any(isfinite(mark[0]) for row in rows.values() for mark in row.values()):
            return self.paragraph(f"{title}: nothing to plot.")
        labels = [shorten(label, _MAX_LABEL_COLUMNS) for label in rows]
        height = 50.0 + len(labels) * (10.0 + 9.0 * len(series))
        texts = []
        with _new_axes(height, x_label, "", labels) as (axes, svg):
            axes.axvline(0, color=INK, linewidth=0.8)
            for place, (label, row) in enumerate(rows.items()):
                for name, (value, low, high) in row.items():
                    index = series.index(name)
                    at = place + (index - (len(series) - 1) / 2) * 0.8 / len(series)
                    if isfinite(value):
                        axes.plot(value, at, color=_color(index), marker=_marker(index))
                    if isfinite(value + low + high):
                        axes.plot([low, high], [at, at], color=_color(index))
                    texts.append(f"{label}, {name}: {tick_text(value)}")
            _name_places(axes, labels)
        self._add_plot(title, svg, f"{x_label}: {'; '.join(texts)}", _legend(series, series))


def _legend(names: Iterable[str], points: Collection[str] = ()) -> list[Key]:
    """The style of each line or bar; beside `points`, which have signs, lines are solid."""
    return [
        (
            series_color(index),
            MARKER_SIGNS[index % len(MARKER_SIGNS)] if name in points else "",
            "solid" if points else line_style(index),
            name,
        )
        for index, name in enumerate(names)
    ]


def _drawn(series: Mapping[str, Sequence[Point]], log_x: bool) -> dict[str, list[Point]]:
    """The points that a plot can show, of the series that have any."""
    drawn = {
        name: [p for p in points if _is_finite(p) and (p[0] > 0 or not log_x)]
        for name, points in series.items()
    }
    return {name: points for name, points in drawn.items() if points}


def _is_finite(point: tuple[object, ...]) -> bool:
    return all(isfinite(number) for number in point if isinstance(number, Real))


def _drawn_lengths(values: Sequence[float]) -> list[float]:
    """Of bars; where there is none, "n/a" says so."""
    return [value if isfinite(value) else 0.0 for value in values]


def _color(index: int) -> str:
    return PALETTE[index % len(PALETTE)]


def _marker(index: int) -> str:
    return MARKERS[index % len(MARKERS)]


def _name_places(axes: "Axes", labels: Sequence[str]) -> None:
    """Name the rows of lying marks or bars, the first on top."""
    axes.set_yticks(range(len(labels)), labels)
    axes.tick_params("y", length=0)
    axes.grid(False, axis="y")
    axes.set_ylim(len(labels) - 0.4, -0.6)
    _few_ticks(axes.xaxis)


def _few_ticks(axis: "Axis") -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator(5, steps=(1, 2, 2.5, 5, 10)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: tick_text(value)))


def _scale_axes(axes: "Axes", points: Points, log_x: bool, log_y: bool) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    values = [x for x, _ in points], [y for _, y in points]
    sides = ("x", axes.xaxis, log_x), ("y", axes.yaxis, log_y)
    for (name, axis, is_log), along in zip(sides, values, strict=True):
        positive = [value for value in along if value > 0] if is_log else []
        if positive:
            axes.set(**{f"{name}scale": "log"})
            axis.set_minor_formatter(NullFormatter())
        _few_ticks(axis)
        # in less than a power of ten a logarithmic locator might have no tick in sight
        if positive and max(positive) > 8 * min(positive):
            axis.set_major_locator(LogLocator(numticks=7))
