"""Bombs and traps in raw files: a counted fault in bounded memory and time, nothing fetched."""

import bz2
import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from pipeline.sources.input_file import Fault, Raw
from pipeline.sources.lines import CHUNK_BYTES
from tests.pipeline.sources.reading import LINE_BYTES, read_data, read_path, reasons_of, with_peak

BOMB_BYTES = 32_000_000  # unpacked; a thousandth of it packed


_PAGE = b"<page><title>b</title><ns>0</ns><revision><text>%s</text></revision></page>"


_LONG = _PAGE % (b"a" * 2 * LINE_BYTES) + _PAGE % b"c"  # not too long to read the next
# by the ending: how it is packed, the kind, the text with a bomb in it, what is read, of a fault
BOMBS = {
    "jsonl.gz": (
        *(gzip.compress, "jsonl", b'{"text": "%s"}\n{"text": "c"}'),
        *(["line_too_long", "c"], "32,000,0"),
    ),
    "txt.bz2": (bz2.compress, "text", b"%s\n\nc", ["line_too_long", "c"], "32,000,0"),
    "csv.zst": (zstandard.compress, "csv", b'text\n"%s"', ["line_too_long"], "32,000,0"),
    **{
        f"{name}.xml.gz": (
            *(gzip.compress, "wikipedia", b"<mediawiki>" + _LONG + opening + b"%s"),
            *(["line_too_long", "b\nc", "unreadable_file"], "a page has more than"),
        )
        for name, opening in (("tag", b"<!-- "), ("page", b"<page><text>"))
    },
}


@pytest.mark.parametrize("ending", BOMBS)
def test_what_unpacks_to_a_row_without_end_is_read_in_bounded_memory(tmp_path, ending):
    pack, kind, document, read, words = BOMBS[ending]
    path = tmp_path / f"a.{ending}"
    path.write_bytes(pack(document % (b"a" * BOMB_BYTES)))
    items, peak = with_peak(lambda: read_path(path, kind))
    assert reasons_of(items) == read
    assert any(words in item.detail for item in items if isinstance(item, Fault))
    assert peak < 25 * LINE_BYTES


def test_a_row_of_a_table_that_never_ends_is_not_held_whole(tmp_path):
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b'text,n\n"' + b'a\n","' * 130_000))
    (fault,), peak = with_peak(lambda: read_path(path, "csv", 100_000, quoted=True))
    assert fault.reason == "unreadable_file"
    assert "a row of more than 500,00" in fault.detail
    assert peak < 25 * LINE_BYTES


@pytest.mark.parametrize(
    "declared",
    [
        '<!DOCTYPE mediawiki [<!ENTITY a SYSTEM "file:///etc/hostname">]>',
        f"<!--{'a' * (CHUNK_BYTES - 33)}--><!DOCTYPE mediawiki>",
    ],
    ids=["file", "in two chunks"],
)
def test_a_dump_that_may_declare_entities_is_refused(tmp_path, declared):
    """And so none that grow, by ten times each."""
    data = b"<?xml version='1.0'?>%s<mediawiki>" % declared.encode() + _PAGE % b"&a;"
    (fault,) = read_data(tmp_path, data + b"</mediawiki>", "wikipedia")
    assert fault.reason == "unreadable_file"
    assert "it declares a document type" in fault.detail


def test_a_parquet_file_with_damaged_statistics_does_not_end_the_process(tmp_path):
    """Arrow aborts where it is asked for the size of such a column."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["a", "b"], "other": [["x"], None]}), path)
    data = path.read_bytes()
    for place in range(len(data) - 610, len(data) - 530):  # statistics of columns
        path.write_bytes(data[:place] + bytes([data[place] ^ 0x04]) + data[place + 1 :])
        assert all(isinstance(item, Raw | Fault) for item in read_path(path, "parquet"))
