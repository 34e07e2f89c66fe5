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
from itertools import product
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
_MAX_BUCKETS = 400  # about one a point of width: more would be drawn over each other
_TICK_STEPS = (1, 2, 2.5, 5, 10)
_BAND_ALPHA = 0.2

# What neither HTML nor UTF-8 can hold: control characters, lone surrogates, noncharacters. And
# the invisible characters that reorder what stands around them (embeddings, overrides, isolates):
# a text that a page quotes must not change how the page reads.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)

# labels of points
_LABEL_SIZE = FONT - 1.5
_MAX_COLUMNS = 30
# in points from the middle of a mark; from the second on, a stroke leads to the label
_DISTANCES = (6.0, 16.0, 28.0)
# right, left, above and below, then slanting
_DIRECTIONS = (
    *((1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, -1.0)),
    *((0.7, 0.7), (0.7, -0.7), (-0.7, 0.7), (-0.7, -0.7)),
)
_EM = 0.58  # width of a letter as a share of its size; capitals are wider
_MARK = 4.0  # half the side of a mark, in points
_STROKE = {"arrowstyle": "-", "color": INK, "linewidth": 0.6, "alpha": 0.5, "shrinkB": 3}


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
def new_figure(
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


def svg_text(figure: "Figure", prefix: str, label: str) -> str:
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


def label_points(axes: "Axes", marks: Sequence[tuple[float, float, str]]) -> None:
    """Write the label of each (x, y, label) of a plot whose scales are set.

    A label takes the first free place of those round its mark, the nearest ones first; one that
    finds none is left out. Costs O(points²).
    """
    from matplotlib.transforms import Bbox

    axes.autoscale_view()
    frame = axes.bbox
    places = [tuple(map(float, axes.transData.transform((x, y)))) for x, y, _ in marks]
    taken = [Bbox.from_extents(x - _MARK, y - _MARK, x + _MARK, y + _MARK) for x, y in places]
    for (x, y), mark in zip(places, marks, strict=True):
        label = shorten(mark[2], _MAX_COLUMNS)
        width, height = num_columns(label) * _EM * _LABEL_SIZE, 1.15 * _LABEL_SIZE
        for distance, (right, up) in product(_DISTANCES, _DIRECTIONS):
            left = x + right * distance - width * (1 - round(right)) / 2
            bottom = y + up * distance - height * (1 - round(up)) / 2
            box = Bbox.from_bounds(left, bottom, width, height)
            is_within = frame.containsx(left) and frame.containsx(left + width)
            is_within &= frame.containsy(bottom) and frame.containsy(bottom + height)
            if is_within and not box.count_overlaps(taken):
                taken.append(box)
                # the estimated width is the less wrong, the nearer the text's anchor is to the mark
                side = {1: "left", -1: "right", 0: "center"}[round(right)]
                axes.annotate(
                    label,
                    mark[:2],
                    xytext=(right * distance, bottom - y + 0.2 * _LABEL_SIZE),
                    ha=side,
                    textcoords="offset points",
                    fontsize=_LABEL_SIZE,
                    arrowprops=_STROKE if label and distance > _DISTANCES[0] else None,
                )
                break


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
    with new_figure(210.0, left=46, bottom=36, top=24) as (figure, axes):
        for index, (name, all_points) in enumerate(series.items()):
            points = _envelope([p for p in all_points if p[0] > 0 or not log_x])
            xs, ys = _coordinates(points)
            axes.plot(
                xs,
                ys,
                color=PALETTE[index % len(PALETTE)],
                linestyle=line_style(index),
                marker="o" if len(points) <= 15 else None,
                markersize=3.5,
            )
            band = [
                b
                for b in bands.get(name, ())
                if all(map(math.isfinite, b)) and (b[0] > 0 or not log_x)
            ]
            if band:
                at, low, high = ([float(b[i]) for b in band] for i in range(3))
                color = PALETTE[index % len(PALETTE)]
                axes.fill_between(at, low, high, color=color, alpha=_BAND_ALPHA, linewidth=0)
        _scale_axes(axes, list(series.values()), log_x, log_y)
        axes.set_xlabel(printable(x_label))
        axes.set_title(printable(y_label), loc="left", fontsize=FONT)
        return svg_text(figure, prefix, f"{y_label} over {x_label}: {', '.join(series)}")


def scatter_svg(
    points: Mapping[str, Sequence[tuple[float, float, str]]],
    lines: Mapping[str, Points],
    x_label: str,
    y_label: str,
    log_x: bool,
    prefix: str,
) -> str:
    """Marks (x, y, label) of each series over `lines`, all of them finite. `prefix` of ids.

    A line has the colour of the points of its name. A label that has no room is left out; the
    image's description has all of them.
    """
    names = list(dict.fromkeys([*points, *lines]))
    with new_figure(300.0, left=46, bottom=36, top=24) as (figure, axes):
        for name, line in lines.items():
            color = PALETTE[names.index(name) % len(PALETTE)]
            axes.plot(*_coordinates(line), color=color, linewidth=1.2, alpha=0.7)
        for name, marks in points.items():
            index = names.index(name)
            xs, ys = _coordinates([(x, y) for x, y, _ in marks])
            axes.plot(
                xs,
                ys,
                color=PALETTE[index % len(PALETTE)],
                linestyle="none",
                markersize=6,
                marker=MARKERS[index % len(MARKERS)],
            )
        axes.margins(0.12)
        plain = [[(x, y) for x, y, _ in marks] for marks in points.values()]
        _scale_axes(axes, [*plain, *lines.values()], log_x, log_y=False)
        axes.set_xlabel(printable(x_label))
        axes.set_title(printable(y_label), loc="left", fontsize=FONT)
        label_points(axes, [mark for marks in points.values() for mark in marks])
        points_text = [
            f"{label} ({tick_text(x)}, {tick_text(y)})"
            for marks in points.values()
            for x, y, label in marks
        ]
        return svg_text(figure, prefix, f"{y_label} against {x_label}: {', '.join(points_text)}")


def forest_svg(
    rows: Mapping[str, Mapping[str, tuple[float, float, float]]],
    series: Sequence[str],
    x_label: str,
    prefix: str,
) -> str:
    """Marks at (value, low, high) of each row's series, about a line at 0. `prefix` of ids."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    labels = [shorten(label, _MAX_LABEL_COLUMNS) for label in rows]
    left = 14 + max(map(num_columns, labels)) * 0.55 * FONT
    height = 50.0 + len(labels) * (10.0 + 9.0 * len(series))
    with new_figure(height, left=left, bottom=36, top=8) as (figure, axes):
        axes.axvline(0, color=INK, linewidth=0.8)
        for index, name in enumerate(series):
            for place, row in enumerate(rows.values()):
                if name not in row or not math.isfinite(row[name][0]):
                    continue
                value, low, high = row[name]
                at = place + (index - (len(series) - 1) / 2) * 0.8 / len(series)
                color = PALETTE[index % len(PALETTE)]
                if math.isfinite(low) and math.isfinite(high):
                    axes.plot([low, high], [at, at], color=color)
                axes.plot([value], [at], color=color, marker=MARKERS[index % len(MARKERS)])
        axes.set_ylim(len(labels) - 0.4, -0.6)
        axes.yaxis.set_ticks(range(len(labels)), labels)
        axes.yaxis.set_tick_params(length=0)
        axes.yaxis.grid(False)
        axes.xaxis.set_major_locator(MaxNLocator(5, steps=_TICK_STEPS))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: tick_text(value)))
        axes.set_xlabel(printable(x_label))
        marks = [
            f"{label}, {name}: {tick_text(row[name][0])}"
            for label, row in rows.items()
            for name in row
        ]
        return svg_text(figure, prefix, f"{x_label}: {'; '.join(marks)}")


def bar_svg(
    labels: Sequence[str],
    series: Mapping[str, Sequence[float]],
    y_label: str,
    errors: Mapping[str, Sequence[float]],
    prefix: str,
) -> str:
    """Groups of bars, one group a label; lying where labels are many or long. `prefix` of ids."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    shown = [shorten(label, _MAX_LABEL_COLUMNS) for label in labels]
    widest = max((num_columns(label) for label in shown), default=0)
    lying = len(shown) * max(widest * 0.55 * FONT + 8, 34.0 * len(series)) > WIDTH - 60
    thickness = 0.8 / max(1, len(series))
    height = max(90.0, 46.0 + len(shown) * (10.0 + 14.0 * len(series))) if lying else 210.0
    left = 14 + widest * 0.55 * FONT if lying else 46
    with new_figure(height, left=left, bottom=22, top=24) as (figure, axes):
        for index, (name, values) in enumerate(series.items()):
            places = [i + (index - (len(series) - 1) / 2) * thickness for i in range(len(shown))]
            _draw_bars(axes, index, places, values, errors.get(name), thickness, lying)
        (axes.set_xmargin if lying else axes.set_ymargin)(0.12)  # room for the values
        along, across = (axes.yaxis, axes.xaxis) if lying else (axes.xaxis, axes.yaxis)
        along.set_ticks(range(len(shown)), shown)
        along.set_tick_params(length=0)
        along.grid(False)
        across.set_major_locator(MaxNLocator(5, steps=_TICK_STEPS))
        across.set_major_formatter(FuncFormatter(lambda value, _: tick_text(value)))
        if lying:
            axes.invert_yaxis()
        elif len(shown) < 3:  # one bar is not to fill the plot
            axes.set_xlim(-1.2, len(shown) + 0.2)
        axes.set_title(printable(y_label), loc="left", fontsize=FONT)
        return svg_text(figure, prefix, f"{y_label}: {', '.join(labels)}")


def _coordinates(points: Points) -> tuple[list[float], list[float]]:
    """x and y; nan where y is not finite."""
    ys = [float(y) if math.isfinite(y) else math.nan for _, y in points]
    return [float(x) for x, _ in points], ys


def _envelope(points: Points) -> list[tuple[float, float]]:
    """At most 2 x `_MAX_BUCKETS` points: the lowest and the highest of each run of neighbours."""
    if len(points) <= 2 * _MAX_BUCKETS:
        return list(points)
    size = math.ceil(len(points) / _MAX_BUCKETS)
    kept: list[tuple[float, float]] = []
    for start in range(0, len(points), size):
        bucket = [(y, i) for i, (_, y) in enumerate(points[start : start + size], start)]
        finite = [pair for pair in bucket if math.isfinite(pair[0])] or bucket[:1]
        kept += [points[i] for i in sorted({min(finite)[1], max(finite)[1]})]
    return kept


def _draw_bars(
    axes: "Axes",
    index: int,
    places: Sequence[float],
    values: Sequence[float],
    errors: Sequence[float] | None,
    thickness: float,
    lying: bool,
) -> None:
    heights = [float(v) if math.isfinite(v) else 0.0 for v in values]  # no bar, and "n/a"
    spread = None
    if errors is not None:
        spread = [float(e) if math.isfinite(e) else 0.0 for e in errors]
    style: dict[str, Any] = {"color": PALETTE[index % len(PALETTE)]}
    style["error_kw"] = {"ecolor": INK, "capsize": 3, "elinewidth": 1}
    if lying:
        bars = axes.barh(places, heights, height=thickness * 0.92, xerr=spread, **style)
    else:
        bars = axes.bar(places, heights, width=thickness * 0.92, yerr=spread, **style)
    texts = [tick_text(float(f"{v:.3g}")) if math.isfinite(v) else "n/a" for v in values]
    axes.bar_label(bars, texts, padding=2, fontsize=FONT - 2)


def _scale_axes(axes: "Axes", series: Sequence[Points], log_x: bool, log_y: bool) -> None:
    """Scales, and about five short ticks on each axis."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    points = [point for line in series for point in line]
    for axis, is_log, values in (
        (axes.xaxis, log_x, [x for x, _ in points]),
        (axes.yaxis, log_y, [y for _, y in points]),
    ):
        positive = [value for value in values if math.isfinite(value) and value > 0]
        if is_log and positive:
            _log_scale(axes, axis, positive)
        else:
            axis.set_major_locator(MaxNLocator(5, steps=_TICK_STEPS))
        axis.set_major_formatter(FuncFormatter(lambda value, _: tick_text(value)))


def _log_scale(axes: "Axes", axis: "Axis", positive: Sequence[float]) -> None:
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

    (axes.set_xscale if axis is axes.xaxis else axes.set_yscale)("log")
    ratio = max(positive) / min(positive)
    # in less than a power of ten none might be in sight; over many, 2 and 5 have no room
    subs = (1.0, 2.0, 5.0) if ratio < 200 or axis is axes.yaxis else (1.0,)
    wide = LogLocator(subs=subs, numticks=None if axis is axes.yaxis else 7)
    axis.set_major_locator(wide if ratio > 8 else MaxNLocator(5, steps=_TICK_STEPS))
    axis.set_minor_formatter(NullFormatter())
