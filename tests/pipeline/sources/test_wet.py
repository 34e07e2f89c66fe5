"""Common Crawl's WET files."""

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.sources.input_file import Fault, Raw
from tests.pipeline.sources.reading import read_path


def _record(text, url="https://a.example/1", kind="conversion", length=None):
    body = text.encode() if isinstance(text, str) else text
    length = len(body) if length is None else length
    head = (
        f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {url}\r\n"
        f"Content-Type: text/plain\r\nContent-Length: {length}\r\n\r\n"
    )
    return head.encode() + body + b"\r\n\r\n"


INFO = _record("Software-Info: x\r\n", kind="warcinfo")


@pytest.fixture
def read(tmp_path):
    """Reads records, each packed as a member of its own, as Common Crawl does."""

    def read_records(*records, max_line_bytes=1_000_000):
        path = tmp_path / "CC-MAIN.warc.wet.gz"
        path.write_bytes(b"".join(gzip.compress(record) for record in records))
        return read_path(path, "wet", max_line_bytes)

    return read_records


def test_conversion_records_with_text(read):
    items = read(
        INFO,
        _record("첫 쪽\n둘째 줄\n"),
        _record(" \n\n", "https://a.example/empty"),
        _record("WARC/1.0\r\nWARC-Type: conversion\r\n\r\n", "https://a.example/2"),
        _record("요청", kind="request"),
        _record("끝", "https://a.example/3"),
    )
    assert items == [
        Raw(2, "첫 쪽\n둘째 줄\n", url="https://a.example/1"),
        # the length tells where a record ends, not what its text looks like
        Raw(4, "WARC/1.0\r\nWARC-Type: conversion\r\n\r\n", url="https://a.example/2"),
        Raw(6, "끝", url="https://a.example/3"),
    ]


@given(st.lists(st.text(alphabet="a\n\r W글/"), max_size=8))
def test_texts_come_back_whatever_is_in_them(tmp_path_factory, texts):
    path = tmp_path_factory.mktemp("wet") / "a.warc.wet"
    path.write_bytes(b"".join(_record(text) for text in texts))
    expected = [Raw(i + 1, t, url="https://a.example/1") for i, t in enumerate(texts) if t.strip()]
    assert read_path(path, "wet") == expected


def test_a_broken_record_is_a_fault_and_the_next_is_found(read):
    last = _record("끝", "https://a.example/9")
    expected = Raw(2, "끝", url="https://a.example/9")
    for broken in (
        b"WARC/1.0\r\nWARC-Type: conversion\r\n\r\ntext\r\n\r\n",
        _record("글", length="many"),
        b"junk \xff\x00\n\njunk\n",
    ):
        fault, item = read(broken, last)
        assert (fault.row, fault.reason) == (1, "malformed_warc")
        assert item == expected
    short, fault, item = read(_record("짧은 글\nrest", length=11), last)
    assert short.text == "짧은 글\n"
    assert (fault.row, fault.reason) == (2, "malformed_warc")
    assert item == Raw(3, "끝", url="https://a.example/9")


def test_the_record_id_is_kept_also_of_a_record_that_cannot_be_read(read):
    named = b"WARC-Type: conversion", b"WARC-Type: conversion\r\nWARC-Record-ID: <urn:uuid:1-2>"
    records = [_record(text).replace(*named) for text in ("글", b"\xff", "a" * 50)]
    items = read(*records, max_line_bytes=40)
    assert [type(item) for item in items] == [Raw, Fault, Fault]
    assert {item.source_id for item in items} == {"<urn:uuid:1-2>"}


def test_a_file_that_ends_within_a_record(tmp_path):
    data = b"".join(gzip.compress(r) for r in (_record("첫"), _record("글" * 1000)))
    path = tmp_path / "a.warc.wet.gz"
    path.write_bytes(data[:-20])
    first, *faults = read_path(path, "wet")
    assert first.text == "첫"
    assert [fault.reason for fault in faults] == ["unreadable_file"]

    path = tmp_path / "a.warc.wet"
    path.write_bytes(_record("첫") + _record("글" * 1000)[:-500])
    first, fault = read_path(path, "wet")
    assert (first.text, fault.reason) == ("첫", "unreadable_file")


def test_a_warc_in_place_of_a_wet_is_named(read):
    """Pages as the server sent them, requests and their headers: no text."""
    kinds = (b"response", b"request", b"metadata")
    records = [_record("<html>").replace(b"conversion", kind) for kind in kinds * 99]
    (fault,) = read(_record("about").replace(b"conversion", b"warcinfo"), *records)
    assert fault.reason == "unreadable_file"
    assert 'kind = "warc" the pages' in fault.detail
    assert fault.row <= 102  # the file is not read to its end
