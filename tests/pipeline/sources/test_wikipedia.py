"""Wikipedia's XML dumps."""

import bz2
import gzip

import pytest

from pipeline.sources.input_file import Raw
from tests.pipeline.cases import read_cases
from tests.pipeline.sources.reading import read_path

CASES = read_cases(__file__)

HEAD = CASES["head"]


def _page(title, text, namespace=0, redirect="", page_id=1):
    return f"""  <page>
    <title>{title}</title>
    <ns>{namespace}</ns>
    <id>{page_id}</id>{redirect}
    <revision>
      <id>2</id>
      <contributor><username>사람</username><id>3</id></contributor>
      <text bytes="1" xml:space="preserve">{text}</text>
    </revision>
  </page>
"""


PAGES = [
    _page(
        "가람 (강)",
        "'''가람'''은 [[강]]이다. &lt;ref&gt;글&lt;/ref&gt;&amp;amp; 끝[[그림첩:a.jpg]][[갈래:강]]",
    ),
    _page("옛 이름", "#넘겨주기 [[가람]]", redirect='\n    <redirect title="가람" />'),
    _page("토론:가람", "이야기", namespace=1),
    _page("Old", "#REDIRECT [[가람]]"),
    _page("들판", "들판은 넓다.\n== 각주 ==\n{{각주}}", page_id=55),
]
URL = "https://ko.wiki.example/wiki/"
ARTICLES = [
    Raw(
        1,
        "가람 (강)\n가람은 강이다. & 끝",
        url=URL + "%EA%B0%80%EB%9E%8C_(%EA%B0%95)",
        licence="CC-BY-SA-4.0",
        source_id="1",
    ),
    Raw(
        5,
        "들판\n들판은 넓다.",
        url=URL + "%EB%93%A4%ED%8C%90",
        licence="CC-BY-SA-4.0",
        source_id="55",
    ),
]


def _dump(pages):
    return (HEAD + "".join(pages) + "</mediawiki>\n").encode()


def _multistream(data):
    """As Wikipedia packs its dumps: streams one after the other."""
    return b"".join(bz2.compress(data[i : i + 300]) for i in range(0, len(data), 300))


@pytest.mark.parametrize(
    ("ending", "pack"), [("", bytes), (".gz", gzip.compress), (".bz2", _multistream)]
)
def test_articles_alone_are_read(tmp_path, ending, pack):
    path = tmp_path / f"kowiki-pages-articles.xml{ending}"
    path.write_bytes(pack(_dump(PAGES)))
    assert read_path(path, "wikipedia") == ARTICLES
    assert [
        r.licence for r in read_path(path, "wikipedia", licence="CC0-1.0", max_documents=1)
    ] == ["CC0-1.0"]


def test_what_was_read_before_broken_xml_stands(tmp_path):
    path = tmp_path / "a.xml"
    path.write_bytes(_dump(PAGES).replace("이야기".encode(), b"a < b & c"))
    first, fault = read_path(path, "wikipedia")
    assert first == ARTICLES[0]
    assert (fault.row, fault.reason) == (2, "unreadable_file")
    assert "ParseError: not well-formed" in fault.detail

    path.write_bytes(_dump(PAGES)[:-8])  # cut off
    *articles, fault = read_path(path, "wikipedia")
    assert articles == ARTICLES
    assert "ParseError" in fault.detail

    packed = tmp_path / "a.xml.bz2"
    packed.write_bytes(_multistream(_dump(PAGES * 2))[:-40])
    *articles, fault = read_path(packed, "wikipedia")
    assert [article.text for article in articles[:2]] == [a.text for a in ARTICLES]
    assert fault.reason == "unreadable_file"


def test_of_the_history_of_a_page_its_last_revision_is_read(tmp_path):
    earlier = "<revision><text>옛 글</text></revision>"
    page = _page("가람", "새 글").replace("<revision>", f"{earlier}<revision>", 1)
    path = tmp_path / "a.xml"
    path.write_bytes(_dump([page]))
    assert [item.text for item in read_path(path, "wikipedia")] == ["가람\n새 글"]
