import hashlib
import math
import re
from base64 import b64encode
from collections import Counter
from html.parser import HTMLParser

import pytest

from electrify.page.page import Cell, Choices, Page, format_number
from electrify.page.plots import (
    PALETTE,
)

HOSTILE = "<script>alert('가')</script><img src=x onerror=\"alert(1)\"> $x$ url(#p) & \x00\u202e"


class Reader(HTMLParser):
    """Collects the tags, attributes and text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.texts: list[tuple[str, str]] = []  # (tag around it, text)
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data):
        self.texts.append((self.tags[-1] if self.tags else "", data))


def full_page(text: str = "말뭉치") -> Page:
    """Everything a page can hold, made with the same text everywhere."""
    page = Page(text, text)
    for number in range(5):
        page.heading(f"{text} {number}")
    page.paragraph(text)
    page.table([text, "n"], [[text, 3]], text)
    points = [(step, 10.0 / (step + 1)) for step in range(40)]
    page.line_plot(text, {text: points, "valid": points[::9]}, text, text, log_y=True)
    page.line_plot(
        text, {text: points}, text, text, log_x=True, bands={text: [(1, 0, 2), (9, 1, 3)]}
    )
    page.scatter_plot(text, {text: [(1, 2, text), (3, 4, "나")]}, text, text, True, {text: points})
    page.matrix([text, "b"], [text, "b"], [[1, 2], [0, 4]], text, text)
    with page.fold(text):
        page.paragraph(text)
    page.bar_plot(text, [text, "영어"], {text: [1.0, 2.0]}, text, {text: [0.1, 0.2]})
    page.text_samples(text, [(text, text)])
    page.code(text, text)
    return page


def test_hostile_text_stays_text():
    read, plain = Reader(full_page(HOSTILE).text()), Reader(full_page("x").text())
    # nothing in the text becomes a tag or an attribute; a long label may turn the bars only
    assert set(read.tags) == set(plain.tags)
    assert not {"script", "img"} & set(read.tags)
    assert {name for name, _ in read.attributes} == {name for name, _ in plain.attributes}
    shown = "".join(text for _, text in read.texts)
    assert "<script>alert('가')</script>" in shown
    assert "\x00" not in shown
    assert "$x$ url(#p) & \ufffd" in shown
    # nor does it turn round the text behind it
    assert not re.search("[\u202a-\u202e\u2066-\u2069]", full_page(HOSTILE).text())


def test_nothing_is_fetched():
    text = full_page("see https://example.org/ and //example.org").text()
    read = Reader(text)
    assert not {"script", "link", "img", "iframe", "object", "embed", "base", "image"} & set(
        read.tags
    )
    for name, value in read.attributes:
        if name in ("aria-label", "content"):  # text, and the policy that forbids fetching
            continue
        assert "//" not in value, (name, value)
        if name in ("src", "href", "xlink:href"):
            assert value.startswith("#")
    style = text[text.index("<style>") : text.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style
    assert "default-src 'none'" in dict(read.attributes)["content"] + text


def test_ids_are_unique_and_every_reference_has_its_target():
    read = Reader(full_page().text())
    ids = Counter(value for name, value in read.attributes if name == "id")
    assert max(ids.values()) == 1
    references = {v[1:] for n, v in read.attributes if n == "href"}
    references |= {m for _, v in read.attributes for m in re.findall(r"url\(#([^)]+)\)", v)}
    assert references <= set(ids)
    assert any(reference.startswith("plot3-") for reference in references)


def test_same_calls_same_bytes(tmp_path):
    full_page().write(tmp_path / "a.html")
    assert (tmp_path / "a.html").read_text(encoding="utf-8") == full_page().text()
    assert [path.name for path in tmp_path.iterdir()] == ["a.html"]


def test_text_in_plots_is_text_in_the_pages_font_and_colour():
    page = Page("p")
    page.bar_plot("제거", ["짧은 문서", "중복"], {"문서": [3, 5]}, "문서 수")
    text = page.text()
    svg = text[text.index("<svg") : text.index("</svg>")]
    drawn = [inside for tag, inside in Reader(svg).texts if tag == "text"]
    assert {"짧은 문서", "중복", "문서 수"} <= {t.strip() for t in drawn}
    assert "font-family" not in svg
    assert "font:" not in svg
    assert "fill: currentColor" in svg
    assert "fill: var(--series-0)" in svg
    assert not re.search(r"#(?:[0-9a-f]{6})\b", svg.replace("#ffffff", ""))
    assert svg.index("<title>문서 수: 짧은 문서, 중복</title>")
    assert 'role="img"' in svg


def test_undefined_values_are_never_drawn_as_zero():
    page = Page("p")
    page.bar_plot("b", ["a", "b"], {"s": [math.nan, 1.0]}, "y", {"s": [math.nan, math.nan]})
    assert [t for tag, t in Reader(page.text()).texts if t == "n/a"] == ["n/a"]
    page = Page("p")
    page.line_plot("l", {"s": [(0, math.nan), (1, math.inf)], "empty": []}, "x", "y")
    page.bar_plot("b", [], {"s": []}, "y")
    assert "<svg" not in page.text()
    assert page.text().count("nothing to plot") == 2


@pytest.mark.parametrize("log_y", [False, True])
def test_odd_curves_and_points_are_drawn(log_y):
    page = Page("p")
    for points in ([(1, 5.0)], [(1, 0.0), (2, -1.0)], [(1, 1e-9), (2, 1e9)], [(1, 3.0), (2, 3.0)]):
        page.line_plot("l", {"s": points}, "x", "y", log_y=log_y)
    page.line_plot("many", {f"s{i}": [(0, i), (1, i)] for i in range(9)}, "x", "y", log_y=log_y)
    assert page.text().count("<svg") == 5
    for marks in ([(1, 5, "a")], [(0, 1, "a"), (2, 2, "")], [(1e15, 3, "a"), (1e22, 3, "b")]):
        page.scatter_plot("s", {"s": marks}, "x", "y", log_x=log_y)
    page.scatter_plot("s", {"s": [(0, 1, "a"), (math.nan, 1, "b")]}, "x", "y", log_x=True)
    assert page.text().count("<svg") == 8
    assert page.text().count("nothing to plot") == 1
    # the seventh curve has the first one's colour and another style, in the plot and its legend
    assert page.text().count("border-top-style:dashed") == 9 - len(PALETTE)


def test_a_line_has_the_colour_of_the_points_of_its_name():
    page = Page("p")
    marks = {"ours": [(1, 1, "a")], "paper": [(2, 2, "b")]}
    page.scatter_plot("s", marks, "x", "y", lines={"paper": [(1, 1), (2, 2)], "trend": [(1, 2)]})
    legend = page.text().split('<div class="legend">')[1].split("</div>")[0]
    assert re.findall(r"series-(\d)", legend) == ["0", "1", "2"]
    assert [t for tag, t in Reader(legend).texts if tag == "b"] == ["●", "ours", "■", "paper"]


def test_a_table_without_rows_says_so():
    page = Page("p")
    page.table(["reason", "documents"], [])
    assert "<table" not in page.text()
    assert "None." in page.text()


def test_a_long_text_in_a_table_runs_in_its_own_direction():
    page = Page("p")
    page.table(["phrases", "count"], [["أدخل قيمة أو حددها ثم انتقل إلى", 17], ["short", 2]])
    cells = re.findall(r"<td([^>]*)>([^<]*)</td>", page.text())
    assert ["dir=auto" in attributes for attributes, _ in cells] == [True, False, False, False]


def test_counts_are_shaded_by_their_share_of_the_row():
    page = Page("p")
    page.matrix(["a", "b"], ["a", "b"], [[30, 10], [0, 0]], "gold, predicted")
    cells = re.findall(r'<td style="--p:([\d.]+)">([^<]*)</td>', page.text())
    assert cells == [("0.750", "30"), ("0.250", "10"), ("0.000", ""), ("0.000", "")]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (True, "yes"),
        (1234567, "1,234,567"),
        (0.0, "0"),
        (12345.678, "12,346"),
        (0.73125, "0.7312"),
        (99.999, "100"),
        (3.1e-8, "3.1e-08"),
        (2.5e17, "2.5e+17"),
        (-1234.5, "-1,234"),
        (math.nan, "nan"),
        (math.inf, "inf"),
        ("x", "x"),
    ],
)
def test_numbers_as_a_reader_wants_them(value, text):
    assert format_number(value) == text


def test_a_page_with_choices_runs_its_own_script_alone():
    page = Page("x")
    choices = Choices(
        ("size", {HOSTILE: HOSTILE, "b": "s"}), ("language", ["ko", "en"]), {"b": "b"}
    )
    rows = [(name, [Cell("1"), Cell("2")]) for name in (HOSTILE, "b")]
    page.rich_table([("", ""), ("a", ""), ("b", "")], rows, choices=choices)
    with page.fold("b", is_section=True):
        page.search(HOSTILE)
        page.paragraph(HOSTILE)
    read = Reader(page.text())
    (script,) = [text for tag, text in read.texts if tag == "script"]
    digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    (policy,) = [value for name, value in read.attributes if value.startswith("default-src")]
    assert policy.endswith(f"script-src 'sha256-{digest}'")
    (link,) = [value for name, value in read.attributes if name == "href"]
    assert ("id", link.removeprefix("#")) in read.attributes
    assert not [name for name, _ in read.attributes if name.startswith("on")]
    assert read.tags.count("option") == 6
