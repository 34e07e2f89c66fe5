import hashlib
import math
import re
from base64 import b64decode, b64encode
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from electrify.page.page import Page, format_number

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
    page.table([text, "n"], [[text, 3], [text, 4]], text)
    page.verdict(text)
    page.key_figures([(text, text)])
    points = [(step, 10.0 / (step + 1)) for step in range(40)]
    page.line_plot(text, {text: points, "valid": points[::9]}, text, text, log_y=True)
    bands = {text: [(1, 0, 2), (9, 1, 3)]}
    page.line_plot(text, {text: points}, text, text, log_x=True, bands=bands)
    with page.fold(text):
        page.paragraph(text)
    page.text_samples(text, [(text, text)])
    page.code(text, text)
    return page


def svgs(page: Page) -> list[str]:
    return [b64decode(x).decode() for x in re.findall(r'svg\+xml;base64,([^"]+)"', page.text())]


def test_hostile_text_stays_text():
    read, plain = Reader(full_page(HOSTILE).text()), Reader(full_page("x").text())
    # nothing in the text becomes a tag or an attribute
    assert read.tags == plain.tags
    assert [name for name, _ in read.attributes] == [name for name, _ in plain.attributes]
    shown = "".join(text for _, text in read.texts)
    assert "<script>alert('가')</script>" in shown
    assert "\x00" not in shown
    assert "$x$ url(#p) & \ufffd" in shown
    # nor does it turn round the text behind it
    assert not re.search("[\u202a-\u202e\u2066-\u2069]", full_page(HOSTILE).text())
    for svg in svgs(full_page(HOSTILE)):
        tags = {e.tag.split("}")[1] for e in ElementTree.fromstring(svg).iter()}
        assert not {"script", "img"} & tags


@pytest.mark.parametrize(
    "text", ["1. a", "# a", "C #", "a\n\n# b", "&lt;", "a_b_c *d*", "a\n\n\n\n  b ```` <i>\n# c"]
)
def test_a_paragraph_a_heading_and_a_sample_say_what_they_were_given(text):
    """The sample keeps its lines, too."""
    page = Page("p")
    page.paragraph(text)
    page.heading(text)
    page.text_samples("t", [("", text)])
    read = Reader(page.text())
    for tag in ("p", "h2"):
        assert " ".join(text.split()) in [inside for around, inside in read.texts if around == tag]
    assert text in "".join(inside for tag, inside in read.texts if tag == "code")


def test_nothing_is_fetched_and_only_the_pages_own_script_runs():
    text = full_page("see https://example.org/ and //example.org").text()
    read = Reader(text)
    assert not {"link", "iframe", "object", "embed", "base", "a"} & set(read.tags)
    sources = [value for name, value in read.attributes if name in ("src", "href")]
    assert sources
    assert all(source.startswith("data:image/svg+xml;base64,") for source in sources)
    style = text[text.index("<style>") : text.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style
    (script,) = [text for tag, text in read.texts if tag == "script"]
    digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    (policy,) = [value for name, value in read.attributes if value.startswith("default-src")]
    assert policy.endswith(f"script-src 'sha256-{digest}'")
    assert policy.startswith("default-src 'none'; img-src data:;")


def test_same_calls_same_bytes(tmp_path):
    full_page().write(tmp_path / "a.html")
    assert (tmp_path / "a.html").read_text(encoding="utf-8") == full_page().text()
    assert [path.name for path in tmp_path.iterdir()] == ["a.html"]


def test_text_in_plots_is_text():
    page = Page("p")
    series = {"짧은 문서": [(1, 2), (2, 3)], "중복": [(1, 4), (2, 5)]}
    page.line_plot("제거", series, "문서 수", "y")
    (svg,) = svgs(page)
    texts = {e.text for e in ElementTree.fromstring(svg).iter() if e.tag.endswith("}text")}
    assert {"짧은 문서", "중복", "문서 수"} <= texts


@pytest.mark.parametrize("log_y", [False, True])
def test_odd_curves_are_drawn_and_undefined_values_never_as_zero(log_y):
    page = Page("p")
    for points in ([(1, 5.0)], [(1, 1.0), (2, -1.0)], [(1, 1e-9), (2, 1e9)], [(1, 3.0), (2, 3.0)]):
        page.line_plot("l", {"s": points}, "x", "y", log_y=log_y)
    page.line_plot("many", {f"s{i}": [(0, i), (1, i)] for i in range(9)}, "x", "y", log_y=log_y)
    assert len(svgs(page)) == 5
    page.line_plot("none", {"s": [(0, 1), (math.nan, 1)]}, "x", "y", log_x=True)
    page.line_plot("none", {"s": [(0, math.nan), (1, math.inf)], "empty": []}, "x", "y")
    assert page.text().count("nothing to plot") == 2
    page.table(["reason", "documents"], [])
    assert "<table" not in page.text()
    assert "None." in page.text()
    assert not any("mathdefault" in svg for svg in svgs(page))  # ticks are plain numbers


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (True, "yes"),
        (1234567, "1,234,567"),
        (12345.678, "12,346"),
        (0.73125, "0.7312"),
        (99.999, "100"),
        (2.5e17, "2.5e+17"),
        (math.nan, "nan"),
        ("x", "x"),
    ],
)
def test_numbers_as_a_reader_wants_them(value, text):
    assert format_number(value) == text
