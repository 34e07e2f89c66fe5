"""Line, bar and scatter plots as inline SVG; text stays text, so the reader's fonts draw it."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from electrify.plot_labels import label_points
from electrify.plot_svg import (
    FONT,
    INK,
    PALETTE,
    WIDTH,
    line_style,
    new_figure,
    num_columns,
    shorten,
    svg_text,
    tick_text,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

Points = Sequence[tuple[float, float]]
MARKERS = "os^Dv"  # of a scatter's series, as matplotlib names them
MARKER_SIGNS = "●■▲◆▼"  # the same in a legend
_MAX_LABEL_COLUMNS = 26
_MAX_BUCKETS = 400  # about one a point of width: more would be drawn over each other
_TICK_STEPS = (1, 2, 2.5, 5, 10)
_BAND_ALPHA = 0.2


def line_svg(
    series: Mapping[str, Points],
    x_label: str,
    y_label: str,
    log_y: bool,
    prefix: str,
    *,
    log_x: bool = False,
    bands: Mapping[str, Sequence[tuple[float, float, float]]] | None = None,
) -> str:
    """Lines over x, one a series; a point that is not finite leaves a gap. `prefix` of ids.

    `bands` of a series are (x, low, high).
    """
    with new_figure(210.0, left=46, bottom=36, top=24) as (figure, axes):
        for index, (name, all_points) in enumerate(series.items()):
            points = _envelope([p for p in all_points if p[0] > 0 or not log_x])
            xs, ys = _coordinates(points)
            axes.plot(
                xs, ys,
                color=PALETTE[index % len(PALETTE)],
                linestyle=line_style(index),
                marker="o" if len(points) <= 15 else None,
                markersize=3.5,
            )  # fmt: skip
            band = [b for b in (bands or {}).get(name, ()) if b[0] > 0 or not log_x]
            if band:
                at, low, high = ([float(b[i]) for b in band] for i in range(3))
                color = PALETTE[index % len(PALETTE)]
                axes.fill_between(at, low, high, color=color, alpha=_BAND_ALPHA, linewidth=0)
        _scale_axes(axes, list(series.values()), log_x, log_y)
        axes.set_xlabel(x_label)
        axes.set_title(y_label, loc="left", fontsize=FONT)
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
                xs, ys, color=PALETTE[index % len(PALETTE)], linestyle="none", markersize=6,
                marker=MARKERS[index % len(MARKERS)],
            )  # fmt: skip
        axes.margins(0.12)
        plain = [[(x, y) for x, y, _ in marks] for marks in points.values()]
        _scale_axes(axes, [*plain, *lines.values()], log_x, log_y=False)
        axes.set_xlabel(x_label)
        axes.set_title(y_label, loc="left", fontsize=FONT)
        label_points(axes, [mark for marks in points.values() for mark in marks])
        told = [f"{label} ({tick_text(x)}, {tick_text(y)})"
                for marks in points.values() for x, y, label in marks]  # fmt: skip
        return svg_text(figure, prefix, f"{y_label} against {x_label}: {', '.join(told)}")


def bar_svg(
    labels: Sequence[str],
    series: Mapping[str, Sequence[float]],
    y_label: str,
    errors: Mapping[str, Sequence[float]] | None,
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
            _draw_bars(axes, index, places, values, (errors or {}).get(name), thickness, lying)
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
        axes.set_title(y_label, loc="left", fontsize=FONT)
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
        (axes.xaxis, log_x, [x for x, _ in points]), (axes.yaxis, log_y, [y for _, y in points]),
    ):  # fmt: skip
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
