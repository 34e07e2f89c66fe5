"""Files that are not what they should be: a clear error or counted faults, in bounded memory."""

import random
import tracemalloc

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from electrify.config.clean import Source
from pipeline.sources.files import expand_sources
from pipeline.sources.input_file import InputFile
from pipeline.sources.raw import Fault, Raw
from pipeline.sources.readers import read_file

LINE_BYTES = 1_000_000
LONG_LINE = 200_000_000


def _source(kind, path="*", **options):
    return Source(kind=kind, language="ko", path=str(path), **options)


def _read(source):
    return [
        item for file in expand_sources([source]) for item in read_file(file, source, LINE_BYTES)
    ]


@pytest.mark.parametrize(
    ("source", "row"),
    [
        (_source("jsonl"), b'{"text": "%s"}'),
        (_source("text", document="line"), b"%s"),
        (_source("jsonl", thread_field="text"), b'{"text": "%s"}'),  # read as one part
        (_source("text", document="line", encoding="cp949"), b"%s"),
    ],
    ids=["jsonl in parts", "text in parts", "jsonl", "cp949"],
)
def test_a_line_of_200_megabytes(tmp_path, source, row):
    path = tmp_path / "a.jsonl"
    with path.open("wb") as file:
        file.write(row % b"first" + b"\n")
        file.truncate(LONG_LINE)  # zeros that take no space on the disk
        file.seek(LONG_LINE)
        file.write(b"\n" + row % b"last" + b"\n")
    source = source.model_copy(update={"path": str(path)})
    tracemalloc.start()
    first, fault, last = _read(source)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (first.text, last.text) == ("first", "last")
    assert isinstance(fault, Fault)
    assert fault.reason == "line_too_long"
    assert f"{LONG_LINE - len(row % b'first') - 1:,} bytes" in fault.detail
    assert peak < 12_000_000


_JUNK = random.Random(0).randbytes(200_000)


@pytest.mark.parametrize(
    "name",
    [
        "a.jsonl",
        "a.txt",
        "a.parquet",
        "a.xml",
        "a.warc.wet",
        "a.jsonl.gz",
        "a.txt.bz2",
        "a.xml.zst",
    ],
)
def test_binary_junk_is_counted(tmp_path, name):
    kind = {"jsonl": "jsonl", "txt": "text", "parquet": "parquet", "xml": "wikipedia"}.get(
        name.split(".")[1], "wet"
    )
    path = tmp_path / name
    path.write_bytes(_JUNK)
    items = _read(_source(kind, path))
    assert items
    # an odd line of a few bytes may be text by chance
    assert sum(isinstance(item, Fault) for item in items) > 0.9 * len(items)


@pytest.mark.parametrize("document", ["file", "block", "line"])
def test_junk_with_every_codec_never_stops_the_reading(tmp_path, document):
    path = tmp_path / "a.txt"
    path.write_bytes(_JUNK)
    for encoding in (
        "cp949",
        "euc-kr",
        "shift_jis",
        "gb18030",
        "utf-16",
        "utf-32",
        "utf-7",
        "big5",
    ):
        items = _read(_source("text", path, document=document, encoding=encoding))
        assert any(isinstance(item, Fault) for item in items)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_the_mark_that_a_codec_needs_is_named(tmp_path, encoding):
    path = tmp_path / "a.txt"
    path.write_bytes("글".encode(f"{encoding}-le") * 10)
    (fault,) = _read(_source("text", path, encoding=encoding))
    assert (fault.row, fault.reason) == (1, "unreadable_file")
    assert f"is it {encoding}-le or {encoding}-be?" in fault.detail


def test_a_folder_in_place_of_files_is_an_error_with_the_next_step(tmp_path):
    with pytest.raises(ValueError, match=r"it is a folder: write .*/\*"):
        expand_sources([_source("jsonl", tmp_path)])


def test_a_parquet_file_of_long_rows_is_read_in_small_pieces(tmp_path):
    path = tmp_path / "a.parquet"
    numbers = random.Random(0)
    texts = [numbers.randbytes(250_000).hex() for _ in range(60)]
    # one value a page: a page is the least that can be read
    pq.write_table(pa.table({"text": texts}), path, use_dictionary=False, write_batch_size=1)
    tracemalloc.start()
    before = pa.total_allocated_bytes()
    most = 0
    source = _source("parquet", path)
    for index, item in enumerate(read_file(InputFile(str(path), 0, 0, 0), source, LINE_BYTES)):
        assert isinstance(item, Raw)
        assert item.text == texts[index]
        most = max(most, pa.total_allocated_bytes() - before)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8_000_000
    assert most < 16_000_000
