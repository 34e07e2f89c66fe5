"""What a page is put together from: headings, text, tables, samples, and parts that fold away."""

import html
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from numbers import Integral, Real

# Values and text as a page shows them: short numbers, and no text that is read as markup.

# What neither HTML nor UTF-8 can hold: control characters, lone surrogates, noncharacters. And
# the invisible characters that reorder what stands around them (embeddings, overrides, isolates):
# a text that a page quotes must not change how the page reads.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
_NUMBER_TEXT = re.compile(r"[-+−]?\d[\d,.]*( ?%)?( ± \d[\d,.]*( ?%)?)?")


def escape(text: str) -> str:
    """Text for HTML, in content and in quoted attributes; what cannot be shown becomes U+FFFD."""
    return html.escape(printable(text), quote=True)


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
    """Whether all cells that hold something are numbers, or text such as '12 %' or '0.7 ± 0.1'."""
    held = [cell for cell in column if cell is not None and cell not in ("", "–")]
    return bool(held) and all(
        bool(_NUMBER_TEXT.fullmatch(cell))
        if isinstance(cell, str)
        else isinstance(cell, Real) and not isinstance(cell, bool)
        for cell in held
    )


_SHORT = 24  # characters of a cell that are kept on one line


class Parts:
    """Parts in order, as HTML; every text is escaped."""

    def __init__(self) -> None:
        self._parts: list[tuple[str, str]] = []  # (kind, HTML); neighbouring plots share a row
        self._headings: list[str] = []

    def heading(self, text: str, level: int = 2) -> None:
        """Start a section; those of level 2 make the list of contents, deeper ones lie within."""
        assert level in (2, 3, 4)
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
        right = [is_numeric(column) for column in columns]
        head = "".join(_cell("th", h, r) for h, r in zip(headers, right, strict=True))
        body = "\n".join(
            "<tr>" + "".join(_cell("td", c, r) for c, r in zip(row, right, strict=True)) + "</tr>"
            for row in rows
        )
        self._add_table(f"<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody>", caption)

    def matrix(
        self,
        rows: Sequence[str],
        columns: Sequence[str],
        counts: Sequence[Sequence[int]],
        corner: str,
        caption: str = "",
    ) -> None:
        """Counts of `rows` by `columns`, each shaded by its share of its row; 0 is left blank.

        `corner` says what rows and columns are. `ValueError` for counts of another shape.
        """
        if len(counts) != len(rows) or any(len(row) != len(columns) for row in counts):
            raise ValueError(f"counts are not {len(rows)} rows of {len(columns)} columns")
        head = "".join(f"<th scope=col>{escape(name)}</th>" for name in columns)
        lines = []
        for name, row in zip(rows, counts, strict=True):
            total = max(1, sum(row))
            cells = "".join(
                f'<td style="--p:{count / total:.3f}">{format_number(count) if count else ""}</td>'
                for count in row
            )
            lines.append(f"<tr><th scope=row>{escape(name)}</th>{cells}</tr>")
        body = "\n".join(lines)
        self._add_table(
            f"<thead><tr><th>{escape(corner)}</th>{head}</tr></thead>\n<tbody>{body}</tbody>",
            caption,
            "matrix",
        )

    def text_samples(
        self, title: str, items: Sequence[tuple[str, str]], compact: bool = False
    ) -> None:
        """(label, text) pairs; line breaks and spaces as they are. `compact`: labels beside."""
        blocks = "\n".join(
            f"<dt>{escape(label)}</dt><dd dir=auto>{escape(text)}</dd>" for label, text in items
        )
        self._parts.append(
            (
                "samples",
                f"<h4>{escape(title)}</h4>\n"
                f'<dl class="{"samples compact" if compact else "samples"}">{blocks}</dl>',
            )
        )

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
                f"<small><i class=hidden>{mark}</i>{probability:.2f}</small></span>"
            )
        self._parts.append(
            ("tokens", f"<h4>{escape(title)}</h4>\n<p class=tokens>{' '.join(spans)}</p>")
        )

    def code(self, title: str, text: str, is_open: bool = False) -> None:
        """A block of fixed-width text that folds away."""
        state = " open" if is_open else ""
        self._parts.append(
            (
                "code",
                f"<details{state}><summary>{escape(title)}</summary>"
                f"<pre tabindex=0>{escape(text)}</pre></details>",
            )
        )

    @contextmanager
    def fold(self, title: str) -> Iterator[None]:
        """What is added within folds away under the title; it is printed if it stands open."""
        self._parts.append(
            ("fold", f"<details class=fold><summary>{escape(title)}</summary><div class=folded>")
        )
        yield
        self._parts.append(("fold", "</div></details>"))

    def _add_table(self, inside: str, caption: str, kind: str = "") -> None:
        title = f"<caption>{escape(caption)}</caption>" if caption else ""
        name = f" class={kind}" if kind else ""
        self._parts.append(
            (
                "table",
                f'<div class="scroll" tabindex="0"><table{name}>{title}{inside}</table></div>',
            )
        )


def _cell(tag: str, value: object, right: bool) -> str:
    text = format_number(value)
    kind = "num" if right else "short" if len(text) <= _SHORT else "long"
    return f"<{tag} class={kind}>{escape(text)}</{tag}>"
