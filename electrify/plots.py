"""Line and bar plots as inline SVG whose text stays text, so the reader's fonts draw it.

matplotlib lays the plot out; the SVG is then stripped of what a page must not hold twice or at all
(ids, metadata, style sheets) and of fixed colours, which become CSS variables of the page.
"""

import math
import re
import unicodedata
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette, told apart by readers of every colour vision; yellow left out, too pale
# on white. The page's CSS holds a lighter twin of each, --series-0 on, for a dark page.
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
LINE_STYLES = ("solid", "dashed", "dotted")  # the next one for each round of colours
_INK = "#010203"  # stands for the page's own text colour
_WIDTH = 403.2  # in points: 10 point text is still read when a phone shows 350 pixels of it
_FONT = 10.0
_SVG = "{http://www.w3.org/2000/svg}"
_HREF = "{http://www.w3.org/1999/xlink}href"
_MAX_LABEL_COLUMNS = 26
_MAX_BUCKETS = 400  # about one a point of width: more would be drawn over each other
_TICK_STEPS = (1, 2, 2.5, 5, 10)
_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",  # text, not outlines
    "svg.hashsalt": "electrify",  # the same plot has the same ids
    "text.parse_math": False,  # a $ in a document is a dollar
    "font.family": "DejaVu Sans",
    "font.size": _FONT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.15,
    "lines.linewidth": 1.6,
    **dict.fromkeys(
        ("text.color", "axes.labelcolor", "axes.edgecolor", "axes.titlecolor", "xtick.color",
         "ytick.color", "grid.color"),
        _INK,
    ),
}  # fmt: skip


def has_matplotlib() -> bool:
    """Whether plots can be drawn here."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return False
    return True


def series_color(index: int) -> str:
    """CSS colour of the series at `index`."""
    return f"var(--series-{index % len(PALETTE)})"


def line_style(index: int) -> str:
    """Line style of the series at `index`, as matplotlib and CSS both name it."""
    return LINE_STYLES[index // len(PALETTE) % len(LINE_STYLES)]


def line_svg(
    series: Mapping[str, Sequence[tuple[float, float]]],
    x_label: str,
    y_label: str,
    log_y: bool,
    prefix: str,
) -> str:
    """Lines over x, one a series; a point that is not finite leaves a gap. `prefix` of ids."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    with _figure(210.0, left=46, bottom=36, top=24) as (figure, axes):
        for index, all_points in enumerate(series.values()):
            points = _envelope(all_points)
            xs = [float(x) for x, _ in points]
            ys = [float(y) if math.isfinite(y) else math.nan for _, y in points]
            axes.plot(
                xs, ys,
                color=PALETTE[index % len(PALETTE)],
                linestyle=line_style(index),
                marker="o" if len(points) <= 15 else None,
                markersize=3.5,
            )  # fmt: skip
        if log_y:
            _log_scale(axes, [y for points in series.values() for _, y in points])
        else:
            axes.yaxis.set_major_locator(MaxNLocator(5, steps=_TICK_STEPS))
        axes.xaxis.set_major_locator(MaxNLocator(5, steps=_TICK_STEPS))
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(FuncFormatter(lambda value, _: tick_text(value)))
        axes.set_xlabel(x_label)
        axes.set_title(y_label, loc="left", fontsize=_FONT)
        return _svg_text(figure, prefix, f"{y_label} over {x_label}: {', '.join(series)}")


def bar_svg(
    labels: Sequence[str],
    series: Mapping[str, Sequence[float]],
    y_label: str,
    errors: Mapping[str, Sequence[float]] | None,
    prefix: str,
) -> str:
    """Groups of bars, one group a label; lying where labels are many or long. `prefix` of ids."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    shown = [_shorten(label) for label in labels]
    widest = max((_columns(label) for label in shown), default=0)
    lying = len(shown) * max(widest * 0.55 * _FONT + 8, 34.0 * len(series)) > _WIDTH - 60
    thickness = 0.8 / max(1, len(series))
    height = max(90.0, 46.0 + len(shown) * (10.0 + 14.0 * len(series))) if lying else 210.0
    left = 14 + widest * 0.55 * _FONT if lying else 46
    with _figure(height, left=left, bottom=22, top=24) as (figure, axes):
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
        axes.set_title(y_label, loc="left", fontsize=_FONT)
        return _svg_text(figure, prefix, f"{y_label}: {', '.join(labels)}")


def tick_text(value: float) -> str:
    """A number as short as an axis needs it: 0.25, 400, 12k, 1.5M, 3B."""
    for unit, name in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= unit * (1 - 1e-9):
            return f"{value / unit:.4g}{name}"
    return f"{value:.4g}"


def _envelope(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
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
    style["error_kw"] = {"ecolor": _INK, "capsize": 3, "elinewidth": 1}
    if lying:
        bars = axes.barh(places, heights, height=thickness * 0.92, xerr=spread, **style)
    else:
        bars = axes.bar(places, heights, width=thickness * 0.92, yerr=spread, **style)
    texts = [tick_text(float(f"{v:.3g}")) if math.isfinite(v) else "n/a" for v in values]
    axes.bar_label(bars, texts, padding=2, fontsize=_FONT - 2)


def _log_scale(axes: "Axes", values: Sequence[float]) -> None:
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

    positive = [y for y in values if math.isfinite(y) and y > 0]
    if not positive:
        return
    axes.set_yscale("log")
    wide = max(positive) / min(positive) > 8  # else no power of ten might be in sight
    axes.yaxis.set_major_locator(
        LogLocator(subs=(1.0, 2.0, 5.0)) if wide else MaxNLocator(5, steps=_TICK_STEPS)
    )
    axes.yaxis.set_minor_formatter(NullFormatter())


@contextmanager
def _figure(
    height: float, left: float, bottom: float, top: float
) -> "Iterator[tuple[Figure, Axes]]":
    """An empty figure with margins in points: Hangul has no width in the layout font."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()  # whatever the user's matplotlibrc says
        matplotlib.rcParams.update(_SETTINGS)
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from", category=UserWarning)
        figure = Figure(figsize=(_WIDTH / 72, height / 72))
        figure.patch.set_visible(False)
        axes = figure.add_axes(
            (left / _WIDTH, bottom / height, 1 - (left + 12) / _WIDTH, 1 - (bottom + top) / height)
        )
        axes.patch.set_visible(False)
        yield figure, axes


def _svg_text(figure: "Figure", prefix: str, label: str) -> str:
    """The figure as an SVG element for an HTML page, ids prefixed, nothing fetched by it."""
    buffer = BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    root = ElementTree.fromstring(buffer.getvalue())
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag.rsplit("}", 1)[-1] in ("metadata", "style"):
                parent.remove(child)
    used = {m for e in root.iter() for v in e.attrib.values() for m in re.findall(r"#(\w+)", v)}
    colors = {color: series_color(i) for i, color in enumerate(PALETTE)} | {_INK: "currentColor"}
    for element in root.iter():
        element.tag = element.tag.removeprefix(_SVG)
        attributes = dict(element.attrib)
        element.attrib.clear()
        for name, value in attributes.items():
            if name == "id" and value not in used:
                continue
            element.set(*_page_attribute(name, value, prefix, colors))
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.set("role", "img")
    root.set("aria-label", label)
    title = ElementTree.Element("title")
    title.text = label
    root.insert(0, title)
    return ElementTree.tostring(root, encoding="unicode")


def _page_attribute(
    name: str, value: str, prefix: str, colors: Mapping[str, str]
) -> tuple[str, str]:
    if name == "id":
        return "id", prefix + value
    if name == _HREF:
        return "href", "#" + prefix + value.removeprefix("#")
    if name == "style":
        # the page's family, not matplotlib's
        value = re.sub(r"font-family:[^;]*;", "", value)
        value = re.sub(r"font: ([\d.]+px)[^;]*", r"font-size: \1", value)
        for color, variable in colors.items():
            value = value.replace(color, variable)
    return name, value.replace("url(#", f"url(#{prefix}")


def _columns(text: str) -> int:
    """Width in half-em columns: a Hangul syllable or a Han character takes two."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _shorten(text: str) -> str:
    text = " ".join(text.split())
    while _columns(text) > _MAX_LABEL_COLUMNS:
        text = text.removesuffix("…")[:-1] + "…"
    return text
