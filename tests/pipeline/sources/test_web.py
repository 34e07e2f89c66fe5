"""The main text of pages in WARC records, and Common Crawl's WET files."""

import gzip
from importlib.util import find_spec

import pytest

from pipeline.sources.input_file import Fault, Raw
from tests.pipeline.sources.reading import PACKERS, read_data, reasons_of, record

TEXT = (
    "국회는 오늘 본회의를 열어 새해 예산안을 처리했다. 의원들은 밤늦게까지 토론을 이어 갔다.",
    "내년 예산은 올해보다 세 퍼센트 늘어난다. 교육과 복지에 가장 많은 돈이 쓰인다고 한다.",
)
PAGE = f"""<!doctype html><html><head><title>소식</title></head><body>
<nav><a href="/">홈</a> | <a href="/about">회사 소개</a> | <a href="/help">고객 센터</a></nav>
<article><p>{TEXT[0]}</p><p>{TEXT[1]}</p></article>
<footer>저작권 2026 모든 권리 보유</footer></body></html>"""
needs_trafilatura = pytest.mark.skipif(find_spec("trafilatura") is None, reason="not installed")


@pytest.fixture
def read(tmp_path):
    """Reads records, each packed as a member of its own, as Common Crawl does."""

    def read_records(*records, kind="wet", max_line_bytes=1_000_000):
        data = b"".join(gzip.compress(record) for record in records)
        return read_data(tmp_path, data, kind, max_line_bytes, name=f"CC-MAIN.{kind}.gz")

    return read_records


def response(body: bytes, status: str = "200 OK", kind: str = "text/html", more: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n{more}\r\n".encode() + body


@needs_trafilatura
def test_warc_records_are_the_pages_that_a_server_sent(read):
    page = PAGE.encode()
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(page), page)
    sent = [
        response(page, kind="text/html; charset=utf-8"),
        response(b"not found", "404 Not Found"),
        response(b"\x89PNG", kind="image/png"),
        response(chunked, more="Transfer-Encoding: chunked\r\n"),
        # as Common Crawl has it: unpacked, below headers that say otherwise
        response(page, more="Transfer-Encoding: chunked\r\n"),
        response(gzip.compress(page), more="Content-Encoding: gzip\r\n"),
        # unpacked by the crawler, with the length of the packed one
        response(page, more="Content-Encoding: gzip\r\nContent-Length: 50\r\n"),
        response(page).replace(b"HTTP/1.1", b"HTTP/2"),
        response(page, "404 Not Found").replace(b"HTTP/1.1", b"HTTP/2"),
        response(gzip.compress(page)[:99]),
        b"no HTTP at all",
    ]
    others = [record("software: x", kind="warcinfo"), record("GET / HTTP/1.1", kind="request")]
    items = read(*others, *(record(one, kind="response") for one in sent), kind="warc")
    found = [(item.row, item.text) for item in items if isinstance(item, Raw) and item.text]
    assert found == [(row, "\n".join(TEXT)) for row in (3, 6, 7, 8, 9, 10)]
    assert {item.url for item in items if isinstance(item, Raw)} == {"https://a.example/1"}


INFO = record("Software-Info: x\r\n", kind="warcinfo")


def test_conversion_records_with_text(read):
    items = read(
        INFO,
        record("첫 쪽\n둘째 줄\n"),
        record(" \n\n", "https://a.example/empty"),
        record("WARC/1.0\r\nWARC-Type: conversion\r\n\r\n", "https://a.example/2"),
        record("요청", kind="request"),
        record("끝", "https://a.example/3"),
    )
    assert items == [
        Raw(2, "첫 쪽\n둘째 줄\n", url="https://a.example/1"),
        # the length tells where a record ends, not what its text looks like
        Raw(4, "WARC/1.0\r\nWARC-Type: conversion\r\n\r\n", url="https://a.example/2"),
        Raw(6, "끝", url="https://a.example/3"),
    ]


@pytest.mark.parametrize("broken", [record("글", length="many"), b"junk \xff\x00\n\njunk\n"])
def test_what_comes_before_a_broken_record_stands(read, broken):
    item, fault = read(record("첫"), broken, record("끝"))
    assert (item.text, fault.row, fault.reason) == ("첫", 2, "unreadable_file")


def test_the_record_id_is_kept_also_of_a_record_that_cannot_be_read(read):
    kind = "conversion\r\nWARC-Record-ID: <urn:uuid:1-2>"
    records = [record(text, kind=kind) for text in ("글", b"\xff", "a" * 50)]
    items = read(*records, max_line_bytes=40)
    assert [type(item) for item in items] == [Raw, Fault, Fault]
    assert {item.source_id for item in items} == {"<urn:uuid:1-2>"}


@pytest.mark.parametrize("ending", ["", ".gz", ".ZST"])
def test_a_file_that_ends_within_a_record(tmp_path, ending):
    """Wherever in it: no record of which a part is there is lost silently."""
    last = record("글")
    for length in [*range(1, last.index(b"\r\n\r\n") + 4), len(last) - 5]:
        data = PACKERS[ending](record("첫") + last[:length])
        items = read_data(tmp_path, data, "wet", name=f"a.wet{ending}")
        assert reasons_of(items) == ["첫", "unreadable_file"], last[:length]


def test_line_ends_of_another_system_are_one_short_fault(tmp_path):
    lines = record("글 " * 5000).replace(b"\r\n", b"\n")
    (fault,) = read_data(tmp_path, lines * 9, "wet")
    assert fault.reason == "unreadable_file"
    assert "CR LF" in fault.detail
    assert len(fault.detail) < 300


def test_a_warc_in_place_of_a_wet_is_named(read):
    """Pages as the server sent them, requests and their headers: no text."""
    records = [record("<html>", kind=kind) for kind in ("response", "request", "metadata") * 99]
    (fault,) = read(INFO, *records)
    assert fault.reason == "unreadable_file"
    assert 'kind = "warc" the pages' in fault.detail
    assert fault.row <= 102  # the file is not read to its end
