"""Line, bar and scatter plots as inline SVG; text stays text, so the reader's fonts draw it.

matplotlib lays a plot out; the SVG is then stripped of what a page must not hold twice or at all
(ids, metadata, style sheets) and of fixed colours, which become CSS variables of the page.
"""

import math
import re
import unicodedata
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from io import StringIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

# Okabe and Ito's palette, told apart by readers of every colour vision; yellow left out, too pale
# on white. The page's CSS holds a lighter twin of each, --series-0 on, for a dark page.
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
LINE_STYLES = ("solid", "dashed", "dotted")  # the next one for each round of colours
INK = "#010203"  # stands for the page's own text colour
WIDTH = 403.2  # in points: 10 point text is still read when a phone shows 350 pixels of it
FONT = 10.0
_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",  # text, not outlines
    "svg.hashsalt": "electrify",  # the same plot has the same ids
    "text.parse_math": False,  # a $ in a document is a dollar
    "font.family": "DejaVu Sans",
    "font.size": FONT,
    "figure.dpi": 72,  # a pixel of matplotlib is a point
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.15,
    "lines.linewidth": 1.6,
    "path.simplify_threshold": 1.0,  # in points: 50,000 steps make 30 kB
    **dict.fromkeys(
        (
            "text.color",
            "axes.labelcolor",
            "axes.edgecolor",
            "axes.titlecolor",
            "xtick.color",
            "ytick.color",
            "grid.color",
        ),
        INK,
    ),
}

Points = Sequence[tuple[float, float]]
MARKERS = "os^Dv"  # of a scatter's series, as matplotlib names them
MARKER_SIGNS = "●■▲◆▼"  # the same in a legend
_MAX_LABEL_COLUMNS = 26

# What neither HTML nor UTF-8 can hold: control characters, lone surrogates, noncharacters. And
# the invisible characters that reorder what stands around them (embeddings, overrides, isolates):
# a text that a page quotes must not change how the page reads.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)

_LABEL_SIZE = FONT - 1.5  # of points


def series_color(index: int) -> str:
    """CSS colour of the series at `index`."""
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
    height: float, left: float, bottom: float, top: float
) -> "Iterator[tuple[Figure, Axes]]":
    """An empty figure with margins in points: Hangul has no width in the layout font."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()  # whatever the user's matplotlibrc says
        matplotlib.rcParams.update(_SETTINGS)
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from", category=UserWarning)
        figure = Figure(figsize=(WIDTH / 72, height / 72))
        figure.patch.set_visible(False)
        axes = figure.add_axes(
            (left / WIDTH, bottom / height, 1 - (left + 12) / WIDTH, 1 - (bottom + top) / height)
        )
        axes.patch.set_visible(False)
        yield figure, axes


def _svg_text(figure: "Figure", prefix: str, label: str) -> str:
    """The figure as an SVG element for an HTML page, ids prefixed, nothing fetched by it."""
    buffer = StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
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


def line_svg(
    series: Mapping[str, Points],
    x_label: str,
    y_label: str,
    log_x: bool,
    log_y: bool,
    bands: Mapping[str, Sequence[tuple[float, float, float]]],
    prefix: str,
) -> str:
    """Lines over x, one a series; a point that is not finite leaves a gap. `prefix` of ids.

    `bands` of some series are (x, low, high); what is not finite is left out.
    """
    with _new_axes(210.0, left=46, bottom=36, top=24) as (figure, axes):
        for index, (name, all_points) in enumerate(series.items()):
            points = [p for p in all_points if p[0] > 0 or not log_x]
            axes.plot(
                *_coordinates(points),
                color=_color(index),
                linestyle=line_style(index),
                marker="o" if len(points) <= 15 else None,
                markersize=3.5,
            )
            band = [b for b in bands.get(name, ()) if all(map(math.isfinite, b))]
            if band := [b for b in band if b[0] > 0 or not log_x]:
                at, low, high = zip(*band, strict=True)
                axes.fill_between(at, low, high, color=_color(index), alpha=0.2, linewidth=0)
        _scale_axes(axes, list(series.values()), log_x, log_y)
        _name_axes(axes, x_label, y_label)
        return _svg_text(figure, prefix, f"{y_label} over {x_label}: {', '.join(series)}")


def scatter_svg(
    points: Mapping[str, Sequence[tuple[float, float, str]]],
    lines: Mapping[str, Points],
    x_label: str,
    y_label: str,
    log_x: bool,
    prefix: str,
) -> str:
    """Marks (x, y, label) of each series over `lines`, all of them finite. `prefix` of ids.

    A line has the colour of the points of its name. Labels stand above their marks.
    """
    names = list(dict.fromkeys([*points, *lines]))
    texts = []
    with _new_axes(300.0, left=46, bottom=36, top=24) as (figure, axes):
        for name, line in lines.items():
            color = _color(names.index(name))
            axes.plot(*_coordinates(line), color=color, linewidth=1.2, alpha=0.7)
        for name, marks in points.items():
            index = names.index(name)
            for x, y, label in marks:
                axes.plot([x], [y], color=_color(index), markersize=6, marker=_marker(index))
                axes.annotate(
                    shorten(label, _MAX_LABEL_COLUMNS),
                    (x, y),
                    xytext=(0, 6),
                    textcoords="offset points",
                    ha="center",
                    fontsize=_LABEL_SIZE,
                )
                texts.append(f"{label} ({tick_text(x)}, {tick_text(y)})")
        axes.margins(0.12)
        plain = [[(x, y) for x, y, _ in marks] for marks in points.values()]
        _scale_axes(axes, [*plain, *lines.values()], log_x, log_y=False)
        _name_axes(axes, x_label, y_label)
        return _svg_text(figure, prefix, f"{y_label} against {x_label}: {', '.join(texts)}")


def forest_svg(
    rows: Mapping[str, Mapping[str, tuple[float, float, float]]],
    series: Sequence[str],
    x_label: str,
    prefix: str,
) -> str:
    """Marks at (value, low, high) of each row's series, about a line at 0. `prefix` of ids."""
    labels = [shorten(label, _MAX_LABEL_COLUMNS) for label in rows]
    left = 14 + max(map(num_columns, labels)) * 0.55 * FONT
    height = 50.0 + len(labels) * (10.0 + 9.0 * len(series))
    texts = []
    with _new_axes(height, left=left, bottom=36, top=8) as (figure, axes):
        axes.axvline(0, color=INK, linewidth=0.8)
        for place, (label, row) in enumerate(rows.items()):
            for name, (value, low, high) in row.items():
                index = series.index(name)
                at = place + (index - (len(series) - 1) / 2) * 0.8 / len(series)
                if math.isfinite(value):
                    axes.plot([value], [at], color=_color(index), marker=_marker(index))
                if all(map(math.isfinite, (value, low, high))):
                    axes.plot([low, high], [at, at], color=_color(index))
                texts.append(f"{label}, {name}: {tick_text(value)}")
        axes.set_ylim(len(labels) - 0.4, -0.6)
        _name_places(axes.yaxis, labels)
        _few_ticks(axes.xaxis)
        _name_axes(axes, x_label, "")
        return _svg_text(figure, prefix, f"{x_label}: {'; '.join(texts)}")


def bar_svg(
    labels: Sequence[str],
    series: Mapping[str, Sequence[float]],
    y_label: str,
    errors: Mapping[str, Sequence[float]],
    prefix: str,
) -> str:
    """Groups of lying bars, one group a label. `prefix` of ids."""
    shown = [shorten(label, _MAX_LABEL_COLUMNS) for label in labels]
    size = 0.8 / max(1, len(series))
    height = max(90.0, 46.0 + len(shown) * (10.0 + 14.0 * len(series)))
    left = 14 + max(map(num_columns, shown), default=0) * 0.55 * FONT
    with _new_axes(height, left=left, bottom=22, top=24) as (figure, axes):
        for index, (name, values) in enumerate(series.items()):
            places = [i + (index - (len(series) - 1) / 2) * size for i in range(len(shown))]
            lengths = [_finite(value) for value in values]  # no bar, and "n/a"
            spread = [_finite(e) for e in errors[name]] if name in errors else None
            error_style = {"ecolor": INK, "capsize": 3, "elinewidth": 1}
            bars = axes.barh(
                places,
                lengths,
                height=size * 0.92,
                xerr=spread,
                color=_color(index),
                error_kw=error_style,
            )
            texts = [tick_text(float(f"{v:.3g}")) if math.isfinite(v) else "n/a" for v in values]
            axes.bar_label(bars, texts, padding=2, fontsize=FONT - 2)
        axes.set_xmargin(0.12)  # room for the values
        axes.invert_yaxis()
        _name_places(axes.yaxis, shown)
        _few_ticks(axes.xaxis)
        _name_axes(axes, "", y_label)
        return _svg_text(figure, prefix, f"{y_label}: {', '.join(labels)}")


def _color(index: int) -> str:
    return PALETTE[index % len(PALETTE)]


def _marker(index: int) -> str:
    return MARKERS[index % len(MARKERS)]


def _finite(value: float) -> float:
    return float(value) if math.isfinite(value) else 0.0


def _coordinates(points: Points) -> tuple[list[float], list[float]]:
    """x and y; nan where y is not finite."""
    ys = [float(y) if math.isfinite(y) else math.nan for _, y in points]
    return [float(x) for x, _ in points], ys


def _name_axes(axes: "Axes", x_label: str, y_label: str) -> None:
    axes.set_xlabel(printable(x_label))
    axes.set_title(printable(y_label), loc="left", fontsize=FONT)


def _name_places(axis: "Axis", labels: Sequence[str]) -> None:
    axis.set_ticks(range(len(labels)), labels)
    axis.set_tick_params(length=0)
    axis.grid(False)


def _few_ticks(axis: "Axis") -> None:
    """About five short ticks."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator(5, steps=(1, 2, 2.5, 5, 10)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: tick_text(value)))


def _scale_axes(axes: "Axes", series: Sequence[Points], log_x: bool, log_y: bool) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    points = [point for line in series for point in line]
    for axis, is_log, values in (
        (axes.xaxis, log_x, [x for x, _ in points]),
        (axes.yaxis, log_y, [y for _, y in points]),
    ):
        positive = [value for value in values if math.isfinite(value) and value > 0]
        if is_log and positive:
            (axes.set_xscale if axis is axes.xaxis else axes.set_yscale)("log")
            axis.set_minor_formatter(NullFormatter())
        _few_ticks(axis)
        # in less than a power of ten a logarithmic locator might have no tick in sight
        if is_log and positive and max(positive) > 8 * min(positive):
            axis.set_major_locator(LogLocator(numticks=7))
