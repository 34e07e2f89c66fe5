"""Rows of raw files: every kind and packing, every fault, bounded memory."""

import json
import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.sources import lines
from pipeline.sources.input_file import Fault, Raw
from tests.pipeline.sources.reading import (
    LINE_BYTES,
    PACKERS,
    read_data,
    read_path,
    read_source,
    reasons_of,
    table_of,
    write_rows,
)

_ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-32", "utf-32-be", "utf-7", "cp949", "gb18030")


def _json_lines(rows: Sequence[dict[str, str]]) -> str:
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)


def _table(rows: Sequence[dict[str, str]], delimiter: str) -> str:
    cells = ((n, row["text"]) for n, row in enumerate(rows))
    return table_of([("n", "text"), *cells], delimiter)


_FORMS: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "lines of JSON": ("jsonl", _json_lines, {}),
    "lines": (
        "text",
        lambda rows: "".join(f"{row['text']}\n" for row in rows),
        {"document": "line"},
    ),
    "blocks": ("text", lambda rows: "\n\n".join(row["text"] for row in rows), {}),
    "commas": ("csv", lambda rows: _table(rows, ","), {"quoted": True}),
    "tabs": ("tsv", lambda rows: _table(rows, "\t"), {"quoted": True}),
}
_LETTERS = "가나힣한글a b1,;|\t\"'{}[]\\.&<"


@pytest.mark.parametrize("form", _FORMS)
@given(
    st.lists(st.text(_LETTERS, min_size=1, max_size=30).filter(str.strip), min_size=1, max_size=9),
    st.sampled_from([*PACKERS]),
    st.sampled_from(_ENCODINGS),
    st.booleans(),
    st.sampled_from([lines.CHUNK_BYTES, 61]),  # which end within lines and characters
)
@settings(max_examples=25)
def test_what_is_written_in_any_form_packing_and_encoding_comes_back(
    tmp_path_factory, form, texts, packing, encoding, has_parts, chunk_bytes
):
    kind, write, options = _FORMS[form]
    texts = ["첫째 글", *texts]  # the head shows the encoding and what the file is
    data, pack = write([{"text": text} for text in texts]).encode(encoding), PACKERS[packing]
    half = len(data) // 2 if packing and has_parts else 0
    # two packed parts one after the other are one file, as `cat a.gz b.gz` makes
    data = pack(data[:half]) + pack(data[half:]) if half else pack(data)
    folder = tmp_path_factory.mktemp("form")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "CHUNK_BYTES", chunk_bytes)
        items = read_data(folder, data, kind, name=f"a{packing}", encoding=encoding, **options)
    assert [item.text for item in items] == texts
    rows = [item.row for item in items]
    assert rows == sorted({*rows})


@pytest.mark.parametrize("ending", [ending for ending in PACKERS if ending])
def test_truncated_file_keeps_what_came_before(tmp_path, ending):
    # numbers, so that it does not pack into one block
    number = random.Random(0)
    rows = [json.dumps({"text": str(number.getrandbits(200))}) for _ in range(30_000)]
    packed = PACKERS[ending]("\n".join(rows).encode())
    *documents, fault = read_data(tmp_path, packed[: len(packed) // 2], name=f"a.jsonl{ending}")
    texts = [json.loads(row)["text"] for row in rows[: len(documents)]]
    assert [document.text for document in documents] == texts
    assert len(documents) > 5_000
    assert (fault.reason, fault.row) == ("unreadable_file", len(documents) + 1)


def test_fields_of_a_row(tmp_path):
    data = (
        '{"body": "가", "source": "s", "url": "u", "licence": "l", "id": "x"}\r\n'
        "\n"
        '{"body": "나\\ud83d", "source": 3, "url": null, "license": "m", "score": NaN}\n'
        "broken\n"
        '{"body": "다"}\n{"body": "라"}\n'
    )
    first, second, fault, third = read_data(tmp_path, data, text_field="body", max_documents=3)
    assert first == Raw(1, "가", "s", "u", "l", source_id="x")
    assert second == Raw(3, "나\ud83d", None, None, "m")
    assert (fault.row, third) == (4, Raw(5, "다"))


@pytest.mark.parametrize(
    ("line", "reason", "detail"),
    [
        (b'{"text": "a"', "malformed_json", "line 1 column"),
        (b"[1, 2]", "malformed_json", "a list, not an object"),
        (b"[" * 100_000, "malformed_json", ""),
        (b'{"body": "a", "n": 1}', "missing_field", "no field 'text' (there are: body, n)"),
        (b'{"text": null}', "wrong_type", "NoneType"),
        (b'{"text": "\xff\xfe"}', "invalid_utf8", "can't decode byte 0xff"),
        (b'{"text": "' + b"a" * LINE_BYTES + b'"}', "line_too_long", "1,000,012 bytes"),
    ],
)
def test_a_bad_line_is_a_fault_and_the_rest_is_read(tmp_path, line, reason, detail):
    data = b'{"text": "first"}\n' + line + b'\n{"text": "last"}\n'
    first, fault, last = read_data(tmp_path, data)
    assert (first, last) == (Raw(1, "first"), Raw(3, "last"))
    assert (fault.row, fault.reason) == (2, reason)
    assert detail in fault.detail
    assert fault.text.startswith(line[:5].decode())


TEXT = "하나\n둘\n\n  \r\n셋\r\n넷\n\n\n다섯"


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ("line", [(1, "하나"), (2, "둘"), (5, "셋\r"), (6, "넷"), (9, "다섯")]),
        ("block", [(1, "하나\n둘"), (5, "셋\r\n넷"), (9, "다섯")]),
        ("file", [(1, TEXT)]),
    ],
)
def test_text_documents(tmp_path, document, expected):
    assert read_data(tmp_path, TEXT, "text", document=document) == [Raw(*e) for e in expected]


@pytest.mark.parametrize("document", ["line", "block", "file"])
@pytest.mark.parametrize(
    ("bad", "reason"), [("나".encode("cp949"), "invalid_utf8"), (b"a" * 60, "line_too_long")]
)
def test_text_documents_that_cannot_be_read(tmp_path, document, bad, reason):
    items = read_data(tmp_path, b"first\n\n" + bad + b"\n\nlast\n", "text", 50, document=document)
    assert reasons_of(items) == ([reason] if document == "file" else ["first", reason, "last"])
    assert [i.row for i in items if isinstance(i, Fault)] == [1 if document == "file" else 3]


def test_a_text_that_is_one_block_too_long_is_refused_with_what_to_write(tmp_path):
    fault, refusal = read_data(tmp_path, "한 줄이다\n" * 9, "text", 50)
    assert (fault.reason, refusal.reason) == ("line_too_long", "unreadable_file")
    assert "9 lines: document = 'line'" in refusal.detail


def test_parquet_faults(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"body": ["가"], "n": [1]}), path)
    for field, detail in (
        ("text", "no column 'text' (there are: body, n)"),
        ("n", "column 'n' is int64, not a string"),
    ):
        (fault,) = read_path(path, "parquet", text_field=field)
        assert fault.reason == "unreadable_file"
        assert detail in fault.detail
    pq.write_table(pa.table({"text": pa.nulls(2)}), path)
    assert reasons_of(read_path(path, "parquet")) == ["wrong_type"] * 2
    bad = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xff")]
    )
    column = pa.chunked_array([pa.array(["가", None]), bad, pa.array(["나" * 30])])
    pq.write_table(pa.table({"text": column}), path)
    items = read_path(path, "parquet", max_line_bytes=50)
    assert [item.row for item in items] == [1, 2, 3, 4]
    assert reasons_of(items) == ["가", "wrong_type", "invalid_utf8", "line_too_long"]


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "huggingface"])
def test_the_id_of_a_row(tmp_path, kind):
    """`id` where the rows have it, or the field that `id_field` names, which must be there. So must
    the language that `language_field` names."""
    rows = [{"text": "가", "id": 3, "key": "a"}, {"text": None, "id": None, "key": "b"}]
    source = write_rows(tmp_path / f"a.{kind}", kind, rows)

    def read(name):
        return read_source(source.model_copy(update={"id_field": name}))

    assert [item.source_id for item in read_source(source)] == ["3", None]
    assert [item.source_id for item in read("key")] == ["a", "b"]
    assert read_source(source.model_copy(update={"language_field": "key"}))[0].language == "a"
    if kind == "huggingface":
        with pytest.raises(ValueError, match="has no field 'none'"):
            read("none")
    else:
        what = "field" if kind == "jsonl" else "column"
        assert all(f"no {what} 'none'" in fault.detail for fault in read("none"))


# Files of another kind than their source says.


@pytest.mark.parametrize(
    ("kind", "data", "message"),
    [
        ("jsonl", f"id,text\n{'1,글' * 3}\n".encode(), "a table with ',' between its cells"),
        ("jsonl", "그냥 글이다\n둘째 줄\n".encode(), 'text: write kind = "text"'),
        ("jsonl", b"PK\x03\x04" + bytes(100), "a ZIP archive"),
        ("jsonl", b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        ("jsonl", '["하나", "둘"]'.encode(), "a list of texts: write an object for each"),
        ("jsonl", '{"a": [{"b": "글"}]}'.encode(), "text_field = 'a[].b'"),
        ("csv", '{"text": "글"}\n'.encode(), 'JSON: write kind = "jsonl"'),
        ("text", "한국어 글이다. ".encode("cp949") * 9, "text in cp949: write encoding = 'cp949'"),
        ("wet", b"{}", "JSON without text"),
    ],
)
def test_a_file_of_another_kind_is_refused_and_named(tmp_path, kind, data, message):
    items = read_data(tmp_path, data, kind)
    (fault,) = [item for item in items if item.reason == "unreadable_file"]
    assert message in fault.detail


@pytest.mark.parametrize("num_rows", [9, 150, 1000])
def test_a_file_is_refused_where_most_rows_are_bad_and_only_there(tmp_path, num_rows):
    good, bad = '{"text": "글"}\n', "bad\n"
    for num_bad in (num_rows // 2, num_rows // 2 + 1, num_rows - 1):
        rows = [
            bad if (i + 1) * num_bad // num_rows > i * num_bad // num_rows else good
            for i in range(num_rows)
        ]
        items = read_data(tmp_path, "".join(rows))
        assert reasons_of(items).count("unreadable_file") == (2 * num_bad > num_rows)
        assert sum(isinstance(item, Raw) for item in items) == num_rows - num_bad


def test_rows_without_a_text_are_no_other_kind(tmp_path):
    """Fields that are null, or that few rows have, are usual."""
    items = read_data(tmp_path, '{"text": "글"}\n' + '{"text": null}\n{"title": "제목"}\n' * 50)
    assert {*reasons_of(items)} == {"글", "wrong_type", "missing_field"}
    assert {*reasons_of(read_data(tmp_path, '{"text": null}\n' * 150))} == {"wrong_type"}


@pytest.mark.parametrize(("num_bad", "is_refused"), [(4, False), (5, True), (20, True)])
def test_a_file_of_two_encodings_is_refused_and_both_are_read_where_one_is_named(
    tmp_path, num_bad, is_refused
):
    texts = [f"{i}번째 줄이다" for i in range(40)]
    lines = [text.encode("cp949" if i < num_bad else "utf-8") for i, text in enumerate(texts)]
    items = read_data(tmp_path, b"\n".join(lines), "text", document="line")
    refused = [item for item in items if getattr(item, "reason", "") == "unreadable_file"]
    assert ["write encoding = 'cp949'" in fault.detail for fault in refused] == [True] * is_refused
    items = read_path(tmp_path / "a", "text", document="line", encoding="cp949")
    assert [item.text for item in items] == texts


# Tables of text: cells by Python's own writer, any packing and encoding, every fault.


def test_rows_of_a_table_are_numbered_by_line_and_its_faults_are_counted(tmp_path):
    lines = ["id,text,url", '1,"가\n나",u', "", "2,bad", "3,?,u", f"4,{'x' * 60},u", '5," ""라""",']
    data = "\r\n".join(lines).encode("utf-8-sig").replace(b"?", b"\xff")
    first, *faults, last = read_data(tmp_path, data, "csv", 50)
    assert first == Raw(2, "가\n나", url="u", source_id="1")
    assert last == Raw(8, ' "라"', source_id="5")
    assert [(fault.row, fault.reason, fault.source_id) for fault in faults] == [
        (5, "malformed_row", None),
        (6, "invalid_utf8", "3"),
        (7, "line_too_long", None),
    ]
    assert faults[0].detail == "2 cells; the first row names 3 columns"
    assert faults[0].text == "2,bad"


def test_a_quotation_mark_that_is_not_closed_hides_no_more_than_the_longest_row(tmp_path):
    data = 'text\tlabel\n"열기만\t1\n' + "둘\t0\n" * 20 + "셋\t0\n"
    fault, *rest = read_data(tmp_path, data, "tsv", 40, quoted=True)
    assert (fault.row, fault.reason) == (2, "malformed_row")
    assert "quotation mark" in fault.detail
    assert rest[-1] == Raw(23, "셋")
    for quoted in (False, None):  # None: by the head of the file
        items = read_data(tmp_path, data, "tsv", 40, quoted=quoted)
        assert [item.text for item in items] == ['"열기만', *["둘"] * 20, "셋"]


def test_blank_rows_and_cells_of_spreadsheets_are_no_rows(tmp_path):
    data = ",,\n id , text ,\n1,하나,\n,,\n2,둘,,,\n3,셋,,넷\n,,\n"
    *items, fault = read_data(tmp_path, data, "csv")
    assert items == [Raw(3, "하나", source_id="1"), Raw(5, "둘", source_id="2")]
    assert (fault.row, fault.detail) == (6, "4 cells; the first row names 3 columns")


def test_a_table_whose_first_row_is_data(tmp_path):
    data = "1\t하나\n2\t둘\n3\n"
    *items, fault = read_data(tmp_path, data, "tsv", columns=("id", "text"))
    assert items == [Raw(1, "하나", source_id="1"), Raw(2, "둘", source_id="2")]
    assert fault.detail == "1 cells; there are 2 columns"
    (fault,) = read_data(tmp_path, data, "tsv")
    assert "name the columns if the first row does not" in fault.detail


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-8-sig"])
def test_a_byte_order_mark_counts_more_than_the_config(tmp_path, encoding):
    mark, line = "\ufeff" if encoding == "utf-16-be" else "", "한국어 문장입니다."
    data = f"{mark}{line}\n{line}".encode(encoding)
    for named in ("utf-8", "cp949"):
        items = read_data(tmp_path, data, "text", encoding=named, document="line")
        assert [item.text for item in items] == [line] * 2
