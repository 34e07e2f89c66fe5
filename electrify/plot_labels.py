"""Where the labels of points stand: beside them, over nothing else that is drawn."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from electrify.plot_svg import FONT, INK, num_columns, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SIZE = FONT - 1.5
_MAX_COLUMNS = 30
# in points from the middle of a mark; from the second on, a stroke leads to the label
_DISTANCES = (6.0, 16.0, 28.0)
_EM = 0.58  # width of a letter as a share of its size; capitals are wider
_MARK = 4.0  # half the side of a mark, in points

_STROKE = {"arrowstyle": "-", "color": INK, "linewidth": 0.6, "alpha": 0.5, "shrinkB": 3}


class Box(NamedTuple):
    """A rectangle in points."""

    left: float
    bottom: float
    right: float
    top: float

    def meets(self, other: "Box") -> bool:
        """Whether the two have more than an edge in common."""
        return (
            self.left < other.right and other.left < self.right
            and self.bottom < other.top and other.bottom < self.top
        )  # fmt: skip

    def within(self, other: "Box") -> bool:
        """Whether it lies in the other one whole."""
        return (
            self.left >= other.left and self.right <= other.right
            and self.bottom >= other.bottom and self.top <= other.top
        )  # fmt: skip


def label_points(axes: "Axes", marks: Sequence[tuple[float, float, str]]) -> None:
    """Write the label of each (x, y, label) of a plot whose scales are set.

    A label takes the first free place of those round its mark, the nearest ones first; one that
    finds none is left out. Costs O(points²).
    """
    axes.autoscale_view()
    frame = Box(*axes.bbox.extents)
    places = [tuple(map(float, axes.transData.transform((x, y)))) for x, y, _ in marks]
    taken = [Box(x - _MARK, y - _MARK, x + _MARK, y + _MARK) for x, y in places]
    for (x, y), mark in zip(places, marks, strict=True):
        label = shorten(mark[2], _MAX_COLUMNS)
        width, height = num_columns(label) * _EM * _SIZE, 1.15 * _SIZE
        for distance, box in _around(x, y, width, height):
            if box.within(frame) and not any(box.meets(other) for other in taken):
                taken.append(box)
                # the estimated width is the less wrong, the nearer the text's anchor is to the mark
                side = "left" if box.left > x else "right" if box.right < x else "center"
                at = {"left": box.left, "right": box.right, "center": x}[side] - x
                axes.annotate(
                    label, mark[:2], xytext=(at, box.bottom - y + 0.2 * _SIZE), ha=side,
                    textcoords="offset points", fontsize=_SIZE,
                    arrowprops=_STROKE if label and distance > _DISTANCES[0] else None,
                )  # fmt: skip
                break


def _around(x: float, y: float, width: float, height: float) -> Iterator[tuple[float, Box]]:
    """(distance, box) of the places of a label: right, left, above and below, then slanting."""
    for distance in _DISTANCES:
        slant = 0.7 * distance
        for left, bottom in (
            (x + distance, y - height / 2),
            (x - distance - width, y - height / 2),
            (x - width / 2, y + distance),
            (x - width / 2, y - distance - height),
            (x + slant, y + slant),
            (x + slant, y - slant - height),
            (x - slant - width, y + slant),
            (x - slant - width, y - slant - height),
        ):
            yield distance, Box(left, bottom, left + width, bottom + height)
