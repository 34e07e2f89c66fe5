"""What every plot shares: an empty figure, its colours, short numbers, and the finished SVG.

matplotlib lays a plot out; the SVG is then stripped of what a page must not hold twice or at all
(ids, metadata, style sheets) and of fixed colours, which become CSS variables of the page.
"""

import re
import unicodedata
import warnings
from collections.abc import Iterator, Mapping
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
INK = "#010203"  # stands for the page's own text colour
WIDTH = 403.2  # in points: 10 point text is still read when a phone shows 350 pixels of it
FONT = 10.0
_SVG = "{http://www.w3.org/2000/svg}"
_HREF = "{http://www.w3.org/1999/xlink}href"
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
        ("text.color", "axes.labelcolor", "axes.edgecolor", "axes.titlecolor", "xtick.color",
         "ytick.color", "grid.color"),
        INK,
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


def tick_text(value: float) -> str:
    """A number as short as an axis needs it: 0.25, 400, 12k, 1.5M, 3B, 2T, 6e17."""
    if abs(value) >= 1e15:
        return f"{value:.3g}".replace("e+", "e")
    for unit, name in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= unit * (1 - 1e-9):
            return f"{value / unit:.4g}{name}"
    return f"{value:.4g}"


def num_columns(text: str) -> int:
    """Width in half-em columns: a Hangul syllable or a Han character takes two."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def shorten(text: str, max_columns: int) -> str:
    """Text on one line, its end cut off with an ellipsis where it is wider."""
    text = " ".join(text.split())
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
    buffer = BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    root = ElementTree.fromstring(buffer.getvalue())
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag.rsplit("}", 1)[-1] in ("metadata", "style"):
                parent.remove(child)
    used = {m for e in root.iter() for v in e.attrib.values() for m in re.findall(r"#(\w+)", v)}
    colors = {color: series_color(i) for i, color in enumerate(PALETTE)} | {INK: "currentColor"}
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
