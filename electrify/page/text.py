"""Values and text as a page shows them: short numbers, and nothing that reorders its neighbours."""

import math
import re
from collections.abc import Sequence
from numbers import Integral, Real

# What neither HTML nor UTF-8 can hold: control characters, lone surrogates, noncharacters. And
# the invisible characters that reorder what stands around them (embeddings, overrides, isolates):
# a text that a page quotes must not change how the page reads.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
_NUMBER_TEXT = re.compile(r"[-+−]?\d[\d,.]*( ?%)?( ± \d[\d,.]*( ?%)?)?")


def printable(text: str) -> str:
    """Text with U+FFFD for what cannot be shown, or would reorder the text around it."""
    return _UNPRINTABLE.sub("\ufffd", text)


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


def is_numeric(column: Sequence[object]) -> bool:
    """Whether all cells with a value are numbers, or text such as '12 %' or '0.7 ± 0.1'."""
    cells = [cell for cell in column if cell is not None and cell not in ("", "–")]
    return bool(cells) and all(
        bool(_NUMBER_TEXT.fullmatch(cell))
        if isinstance(cell, str)
        else isinstance(cell, Real) and not isinstance(cell, bool)
        for cell in cells
    )
