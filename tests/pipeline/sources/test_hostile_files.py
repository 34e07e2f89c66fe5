"""Bombs and traps in raw files: a counted fault in bounded memory and time, nothing fetched."""

import bz2
import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from pipeline.sources.input_file import Fault, Raw
from pipeline.sources.lines import CHUNK_BYTES
from tests.pipeline.sources.reading import LINE_BYTES, read_path, reasons_of, with_peak

BOMB_BYTES = 32_000_000  # unpacked; a thousandth of it packed


_PAGE = b"<page><title>b</title><ns>0</ns><revision><text>%s</text></revision></page>"


@pytest.mark.parametrize(
    ("ending", "pack", "kind", "document", "behind"),
    [
        ("gz", gzip.compress, "jsonl", b'{"text": "%s"}\n{"text": "c"}', ["c"]),
        ("bz2", bz2.compress, "text", b"%s\n\nc", ["c"]),
        ("zst", zstandard.compress, "csv", b'text\n"%s"', []),
    ],
)
def test_a_packed_bomb_is_one_long_row_read_in_bounded_memory(
    tmp_path, ending, pack, kind, document, behind
):
    path = tmp_path / f"a.{ending}"
    path.write_bytes(pack(document % (b"a" * BOMB_BYTES)))
    assert path.stat().st_size < BOMB_BYTES / 500
    (fault, *rest), peak = with_peak(lambda: read_path(path, kind))
    assert fault.reason == "line_too_long"
    assert fault.detail.startswith("32,000,0")
    assert reasons_of(rest) == behind
    assert peak < 25 * LINE_BYTES


def _laughs(depth):
    entities = "".join(
        f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' if n else '<!ENTITY a0 "ha">' for n in range(depth)
    )
    return f"<!DOCTYPE mediawiki [{entities}]>", f"&a{depth - 1};"


@pytest.mark.parametrize(
    ("declared", "used"),
    [
        _laughs(12),
        ('<!DOCTYPE mediawiki [<!ENTITY a SYSTEM "file:///etc/hostname">]>', "&a;"),
        ('<!DOCTYPE mediawiki [<!ENTITY % a SYSTEM "file:///etc/hostname">%a;]>', ""),
        (f"<!--{'a' * (CHUNK_BYTES - 33)}--><!DOCTYPE mediawiki>", ""),
    ],
    ids=["billion laughs", "file", "parameter", "in two chunks"],
)
def test_a_dump_that_may_declare_entities_is_refused(tmp_path, declared, used):
    path = tmp_path / "a.xml"
    page = f"<page><title>{used}</title><ns>0</ns><revision><text>{used}</text></revision></page>"
    path.write_text(f"<?xml version='1.0'?>{declared}<mediawiki>{page}</mediawiki>")
    (fault,), peak = with_peak(lambda: read_path(path, "wikipedia"))
    assert fault.reason == "unreadable_file"
    assert "it declares a document type" in fault.detail
    assert peak < 25 * LINE_BYTES


def test_a_row_of_a_table_that_never_ends_is_not_held_whole(tmp_path):
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b'text,n\n"' + b'a\n","' * 200_000))
    (fault,), peak = with_peak(lambda: read_path(path, "csv", 100_000, quoted=True))
    assert fault.reason == "unreadable_file"
    assert "a row of more than 500,00" in fault.detail
    assert peak < 25 * LINE_BYTES


@pytest.mark.parametrize("opening", ["<!-- ", "<page><text>"])
def test_a_page_or_tag_without_end_is_not_held_whole(tmp_path, opening):
    path = tmp_path / "a.xml.gz"
    long = _PAGE % (b"a" * 2 * LINE_BYTES) + _PAGE % b"c"  # not too long to read the next
    data = b"<mediawiki>" + long + opening.encode() + b"a" * BOMB_BYTES
    path.write_bytes(gzip.compress(data))
    items, peak = with_peak(lambda: read_path(path, "wikipedia"))
    assert reasons_of(items) == ["line_too_long", "b\nc", "unreadable_file"]
    assert "a page has more than" in items[-1].detail
    assert peak < 25 * LINE_BYTES


def test_a_parquet_file_with_damaged_statistics_does_not_end_the_process(tmp_path):
    """Arrow aborts where it is asked for the size of such a column."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["a", "b"], "other": [["x"], None]}), path)
    data = path.read_bytes()
    for place in range(len(data) - 610, len(data) - 530):  # statistics of columns
        path.write_bytes(data[:place] + bytes([data[place] ^ 0x04]) + data[place + 1 :])
        assert all(isinstance(item, Raw | Fault) for item in read_path(path, "parquet"))
