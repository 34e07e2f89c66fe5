"""Line plots as matplotlib draws them, in SVG; text stays text, so that
the reader's fonts draw Hangul."""

import re
import unicodedata
import warnings
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import StringIO
from math import isfinite
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's palette, told apart by readers of every colour vision, without its yellow
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
LINE_STYLES = ("-", "--", ":")  # the next one for each round of colours
FONT = 10.0
_WIDTH, _HEIGHT = 420.0, 210.0  # points
_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",  # text, not outlines
    "svg.hashsalt": "electrify",  # the same plot is the same bytes
    "text.parse_math": False,  # a $ in a document is a dollar
    "font.size": FONT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.3,
    "legend.fontsize": FONT - 1.5,
    "path.simplify_threshold": 1.0,  # in points: 50,000 steps make 30 kB
}
_MAX_LABEL_COLUMNS = 26
_MAX_LEGEND = 4  # series; a legend of more stands beside the axes
Points = Sequence[tuple[float, float]]
Point = TypeVar("Point", tuple[float, float], tuple[float, float, float])

# What neither HTML nor UTF-8 can hold: control characters, lone surrogates, noncharacters. And
# the invisible characters that reorder what stands around them (embeddings, overrides, isolates):
# a text that a page quotes must not change how the page reads.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


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


class Plots:
    """The parts of a page, and its plots. What is not finite is left out, and on a logarithmic axis
    what is not above 0; of a plot with nothing left there is a sentence."""

    def __init__(self) -> None:
        self._parts: list[SimpleNamespace] = []

    def paragraph(self, text: str) -> None:
        self._add("paragraph", text=text)

    def _add(self, kind: str, **values: Any) -> None:
        self._parts.append(SimpleNamespace(kind=kind, **values))

    @contextmanager
    def _plot(
        self, title: str, x_label: str, y_label: str, legend: Iterable[str]
    ) -> "Iterator[Axes]":
        """Empty axes, of a plot that is added to the page when the block ends.

        The margins are in points, for matplotlib may have no font with Hangul to measure it by.
        """
        from matplotlib import style
        from matplotlib.figure import Figure

        buffer, names = StringIO(), [shorten(name, _MAX_LABEL_COLUMNS) for name in legend]
        names = names if len(names) > 1 else []
        is_beside = len(names) > _MAX_LEGEND
        right = 40 + max(map(num_columns, names)) * 0.5 * FONT if is_beside else 12
        top = 8 if is_beside else 8 + 14 * len(names)
        left, width, height = 60, _WIDTH - 12 + right, _HEIGHT + top
        # whatever the user's matplotlibrc says
        with style.context(_SETTINGS, after_reset=True), warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", message=r"Glyph .* missing from", category=UserWarning
            )
            figure = Figure(figsize=(width / 72, height / 72))
            axes = figure.add_axes(
                (left / width, 36 / height, 1 - (left + right) / width, 1 - (36 + top) / height)
            )
            axes.set_xlabel(printable(x_label))
            axes.set_ylabel(printable(y_label))
            yield axes
            if names:
                handles, _ = axes.get_legend_handles_labels()
                where: Any = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0)}
                if is_beside:
                    where = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
                axes.legend(handles, names, frameon=False, **where)
            figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
        svg = b64encode(buffer.getvalue().encode()).decode()
        self._add("plot", title=title, svg=svg, label=f"{title}: {y_label} {x_label}")

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
        shown, shaded = _finite(series, log_x, log_y), _finite(bands or {}, log_x)
        if not shown:
            return self.paragraph(f"{title}: nothing to plot.")
        with self._plot(title, x_label, y_label, legend=shown) as axes:
            for index, (name, points) in enumerate(shown.items()):
                xs, ys = zip(*points, strict=True)
                marker = "o" if len(points) <= 15 else None
                style = LINE_STYLES[index // len(PALETTE) % len(LINE_STYLES)]
                color, label = _color(index), f"{index}"
                axes.plot(xs, ys, style, color=color, marker=marker, markersize=3.5, label=label)
                if name in shaded:
                    xs, lows, highs = zip(*shaded[name], strict=True)
                    axes.fill_between(xs, lows, highs, color=_color(index), alpha=0.2, linewidth=0)
            _scale(axes, log_x, log_y)


def _finite(
    series: Mapping[str, Sequence[Point]], log_x: bool, log_y: bool = False
) -> dict[str, list[Point]]:
    """The points that a plot can show, of the series that have any."""
    shown = {
        name: [
            point
            for point in points
            if all(map(isfinite, point))
            and (point[0] > 0 or not log_x)
            and (point[1] > 0 or not log_y)
        ]
        for name, points in series.items()
    }
    return {name: points for name, points in shown.items() if points}


def _color(index: int) -> str:
    return PALETTE[index % len(PALETTE)]


def _scale(axes: "Axes", log_x: bool, log_y: bool) -> None:
    from matplotlib.ticker import MaxNLocator, NullFormatter

    for name, axis, is_log in (("x", axes.xaxis, log_x), ("y", axes.yaxis, log_y)):
        if is_log:
            axes.set(**{f"{name}scale": "log"})
            axis.set_minor_formatter(NullFormatter())
            low, high = axis.get_data_interval()
            if high < 8 * low:  # less than a power of ten may have no tick in sight
                axis.set_major_locator(MaxNLocator(5))
        axis.set_major_formatter(lambda value, _: tick_text(value))
