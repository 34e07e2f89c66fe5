"""The main text of web pages, in files, archives and WARC records."""

import gzip
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("trafilatura")

from pipeline.init.survey import survey
from pipeline.sources.input_file import Fault, Raw
from tests.pipeline.sources.reading import read_path, read_source, source_of

TEXT = (
    "국회는 오늘 본회의를 열어 새해 예산안을 처리했다. 의원들은 밤늦게까지 토론을 이어 갔다.",
    "내년 예산은 올해보다 세 퍼센트 늘어난다. 교육과 복지에 가장 많은 돈이 쓰인다고 한다.",
)
PAGE = f"""<!doctype html><html><head><title>소식</title></head><body>
<nav><a href="/">홈</a> | <a href="/about">회사 소개</a> | <a href="/help">고객 센터</a></nav>
<article><p>{TEXT[0]}</p><p>{TEXT[1]}</p></article>
<footer>저작권 2026 모든 권리 보유</footer></body></html>"""


def texts(items: list[Raw | Fault]) -> list[str]:
    assert not [item for item in items if isinstance(item, Fault)]
    return [item.text for item in items if isinstance(item, Raw)]


@pytest.mark.parametrize("encoding", ["utf-8", "cp949"])
def test_a_page_is_its_main_text_in_any_encoding(tmp_path, encoding):
    path = tmp_path / "a.html"
    path.write_bytes(PAGE.encode(encoding))
    assert texts(read_path(path, "html")) == ["\n".join(TEXT)]


def test_pages_without_text_are_empty_documents_and_long_ones_faults(tmp_path):
    path = tmp_path / "a.html"
    for page in ("", "\0\1", "<html><body></body></html>"):
        path.write_text(page, encoding="utf-8")
        assert texts(read_path(path, "html")) == [""]
    path.write_text(PAGE, encoding="utf-8")
    (fault,) = read_path(path, "html", max_line_bytes=100)
    assert isinstance(fault, Fault)
    assert fault.reason == "line_too_long"


def test_a_mirror_in_an_archive_is_found_by_init(tmp_path):
    with zipfile.ZipFile(tmp_path / "mirror.zip", "w") as made:
        for number in range(3):
            made.writestr(f"site/{number}/index.html", PAGE)
        made.writestr("site/logo.png", b"\x89PNG")
    ((found,), unread) = survey(tmp_path)
    assert (found.source.kind, found.source.language, found.num_documents) == ("html", "ko", 3)
    assert len(unread) == 1
    assert texts(read_source(found.source)) == ["\n".join(TEXT)] * 3


def record(kind: str, data: bytes, url: str = "https://a.example/1") -> bytes:
    head = f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {url}\r\n"
    return f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data + b"\r\n\r\n"


def response(body: bytes, status: str = "200 OK", kind: str = "text/html", more: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n{more}\r\n".encode() + body


def chunked(body: bytes) -> bytes:
    return b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)


def test_warc_records_are_the_pages_that_a_server_sent(tmp_path: Path):
    page = PAGE.encode()
    sent = [
        record("warcinfo", b"software: x"),
        record("request", b"GET / HTTP/1.1\r\n\r\n"),
        record("response", response(page, kind="text/html; charset=utf-8")),
        record("response", response(b"not found", "404 Not Found")),
        record("response", response(b"\x89PNG", kind="image/png")),
        record("response", response(chunked(page), more="Transfer-Encoding: chunked\r\n")),
        # as Common Crawl has it: unpacked, below headers that say otherwise
        record("response", response(page, more="Transfer-Encoding: chunked\r\n")),
        record("response", response(gzip.compress(page), more="Content-Encoding: gzip\r\n")),
        record("response", response(gzip.compress(page)[:99])),
        record("response", b"no HTTP at all"),
    ]
    path = tmp_path / "CC-MAIN.warc.gz"
    path.write_bytes(b"".join(gzip.compress(one) for one in sent))
    items = read_path(path, "warc")
    found = [(item.row, item.text) for item in items if isinstance(item, Raw) and item.text]
    assert found == [(row, "\n".join(TEXT)) for row in (3, 6, 7, 8)]
    assert {item.url for item in items if isinstance(item, Raw)} == {"https://a.example/1"}
    assert source_of("warc", path).kind == "warc"
