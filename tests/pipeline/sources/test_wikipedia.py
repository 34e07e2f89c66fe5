"""Wikipedia's XML dumps."""

import bz2
import gzip

import pytest

from pipeline.sources.input_file import Raw
from tests.pipeline.cases import read_cases
from tests.pipeline.sources.reading import read_data

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
    Raw(row, text, url=URL + place, licence="CC-BY-SA-4.0", source_id=page_id)
    for row, text, place, page_id in (
        (1, "가람 (강)\n가람은 강이다. & 끝", "%EA%B0%80%EB%9E%8C_(%EA%B0%95)", "1"),
        (5, "들판\n들판은 넓다.", "%EB%93%A4%ED%8C%90", "55"),
    )
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
    options = {"kind": "wikipedia", "name": f"kowiki-pages-articles.xml{ending}"}
    data = pack(_dump(PAGES))
    assert read_data(tmp_path, data, **options) == ARTICLES
    (first,) = read_data(tmp_path, data, licence="CC0-1.0", max_documents=1, **options)
    assert first.licence == "CC0-1.0"


@pytest.mark.parametrize(
    ("name", "data", "num", "said"),
    [
        ("a", _dump(PAGES).replace("이야기".encode(), b"a < b"), 1, "ParseError: not well-formed"),
        ("a", _dump(PAGES)[:-8], 2, "ParseError"),
        ("a.bz2", _multistream(_dump(PAGES * 2))[:-40], 2, ""),
    ],
    ids=["broken", "cut off", "packed and cut off"],
)
def test_what_was_read_before_broken_xml_stands(tmp_path, name, data, num, said):
    *articles, fault = read_data(tmp_path, data, "wikipedia", name=name)
    assert articles[:2] == ARTICLES[:num]
    assert fault.reason == "unreadable_file"
    assert said in fault.detail


def test_of_the_history_of_a_page_its_last_revision_is_read(tmp_path):
    earlier = "<revision><text>옛 글</text></revision>"
    page = _page("가람", "새 글").replace("<revision>", f"{earlier}<revision>", 1)
    items = read_data(tmp_path, _dump([page]), "wikipedia")
    assert [item.text for item in items] == ["가람\n새 글"]
