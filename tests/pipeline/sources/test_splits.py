"""Parts of big files: together they are the file, whatever the size of a part."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from electrify.config.clean import Source
from pipeline.sources.files import expand_sources, fingerprints, line_parts, split_file
from pipeline.sources.input_file import InputFile, document_id
from pipeline.sources.lines import CHUNK_BYTES, read_text_lines
from pipeline.sources.raw import Fault, TooLong
from pipeline.sources.readers import read_file


def _source(kind="jsonl", **options):
    return Source(kind=kind, language="ko", path="*", **options)


def _file(path):
    return InputFile(str(path), path.stat().st_size, 0, 0)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.integers(0, 30), max_size=20), st.booleans(), st.integers(1, 60))
def test_parts_give_the_lines_of_the_whole_file_once_and_in_order(
    tmp_path, lengths, ends_with_newline, part_bytes
):
    lines = [bytes([97 + i]) * length for i, length in enumerate(lengths)]
    data = b"\n".join(lines) + b"\n" * ends_with_newline
    path = tmp_path / "a.txt"
    path.write_bytes(data)
    if not data:
        return
    whole = list(read_text_lines(_file(path), "utf-8", 20))
    parts = line_parts(_file(path), part_bytes)
    assert sum(part.num_bytes for part in parts) == len(data)
    assert [x for part in parts for x in read_text_lines(part, "utf-8", 20)] == whole
    for offset, line in whole:
        head = line.head if isinstance(line, TooLong) else line
        assert data[offset : offset + len(head)] == head


def test_a_line_over_many_parts_is_read_by_the_first_alone(tmp_path):
    path = tmp_path / "a.jsonl"
    row = json.dumps({"text": "a" * (3 * CHUNK_BYTES)}).encode()
    path.write_bytes(row + b"\n" + b'{"text": "last"}\n')
    parts = split_file(_file(path), _source(), part_bytes=100_000)
    found = [[item.text for item in read_file(p, _source(), 10_000_000)] for p in parts]
    assert len(parts) == 32
    assert [len(texts) for texts in found] == [1] + [0] * 30 + [1]
    assert found[-1] == ["last"]


def test_a_fault_of_a_later_part_is_named_by_its_byte(tmp_path):
    path = tmp_path / "a.jsonl"
    good = b'{"text": "a"}\n'
    path.write_bytes(good * 100 + b"broken\n" + good)
    parts = split_file(_file(path), _source(), part_bytes=500)
    places = [
        part.where(item.row, item.offset)
        for part in parts
        for item in read_file(part, _source(), 1000)
        if isinstance(item, Fault)
    ]
    assert places == [f"{path}: byte {len(good) * 100:,}"]
    assert parts[0].where(3, 28) == f"{path}:3"
    assert parts[1].where(3) == f"{path}: row 3 of part 2 of {len(parts)}"


def test_parquet_in_parts_of_row_groups(tmp_path):
    path = tmp_path / "a.parquet"
    texts = [f"글 {i}" + "가" * 100 for i in range(1000)]
    table = pa.table({"text": texts, "other": [b"x" * 1000] * 1000})
    pq.write_table(table, path, row_group_size=100, use_dictionary=False, compression="none")
    source = _source("parquet")
    whole = list(read_file(_file(path), source, 10_000))
    parts = split_file(_file(path), source, part_bytes=450_000)  # of all columns
    assert [(part.start, part.stop, part.first_row) for part in parts] == [
        (0, 3, 0),
        (3, 6, 300),
        (6, 9, 600),
        (9, 10, 900),
    ]
    assert [item for part in parts for item in read_file(part, source, 10_000)] == whole
    assert [item.row for item in whole] == list(range(1, 1001))
    assert parts[2].where(650) == f"{path}:650"


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("a.jsonl.gz", _source()),
        ("a.jsonl", _source(max_documents=3)),
        ("a.jsonl", _source(thread_field="thread")),
        ("a.jsonl", _source(encoding="utf-16")),
        ("a.txt", _source("text")),
        ("a.txt", _source("text", document="file")),
        ("a.xml", _source("wikipedia")),
        ("a.wet", _source("wet")),
    ],
)
def test_what_cannot_be_divided_stays_whole(name, source):
    file = InputFile(name, 1000, 0, 0)
    assert split_file(file, source, part_bytes=10) == [file]


def test_parts_are_files_of_their_own_in_ids_and_one_in_fingerprints(tmp_path, monkeypatch):
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_bytes(b'{"text": "abc"}\n' * 10)
    monkeypatch.setattr("pipeline.sources.files.split_file", lambda f, s: split_file(f, s, 50))
    source = Source(kind="jsonl", language="ko", path=str(tmp_path / "*.jsonl"))
    files = expand_sources([source])
    assert [file.part for file in files] == [0, 1, 2, 3] * 2
    assert [file.file_index for file in files] == list(range(8))
    ranks = [f.first_rank + item.row for f in files for item in read_file(f, source, 1000)]
    assert len(ranks) == 20
    assert ranks == sorted(set(ranks))
    assert [document_id(rank) for rank in ranks] == sorted(document_id(rank) for rank in ranks)
    assert list(fingerprints(files)) == [str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl")]
