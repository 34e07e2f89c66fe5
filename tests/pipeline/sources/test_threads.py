"""Rows of one thread as one document."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from electrify.config.clean import Source
from pipeline.sources.input_file import InputFile
from pipeline.sources.raw import Fault, Raw
from pipeline.sources.readers import read_file
from pipeline.sources.text import join_threads


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=60), st.integers(1, 20))
def test_nothing_is_lost_nor_too_long_and_rows_stay_in_order(lengths, max_bytes):
    rows = [
        Raw(i + 1, "x" * n, thread="t") if good else Fault(i + 1, "bad", "")
        for i, (n, good) in enumerate(lengths)
    ]
    items = list(join_threads(rows, max_bytes))
    assert [item.row for item in items] == sorted(item.row for item in items)
    faults = [item for item in items if isinstance(item, Fault)]
    assert faults == [row for row in rows if isinstance(row, Fault)]
    documents = [item.text for item in items if isinstance(item, Raw)]
    texts = [row.text for row in rows if isinstance(row, Raw)]
    assert [line for text in documents for line in text.split("\n")] == texts
    assert all(len(d) <= max_bytes for d in documents if "\n" in d)


def test_faults_that_wait_for_the_end_of_a_thread_are_bounded():
    rows = [Raw(1, "a", thread="t"), *(Fault(i, "bad", "") for i in range(2, 5000))]
    taken = 0

    def counted():
        nonlocal taken
        for row in rows:
            taken += 1
            yield row

    assert next(join_threads(counted(), 100)) == rows[0]
    assert taken <= 1001


COMMENTS = [
    {"body": "첫 댓글", "post": 7, "url": "u"},
    {"body": "둘째", "post": 7, "url": "v"},
    {"body": "셋째", "post": 8},
    {"body": "홀로", "post": None},
    {"body": "홀로", "post": None},
    {"body": "다시", "post": 7},
]
DOCUMENTS = [
    (1, "첫 댓글\n둘째", "u"),
    (3, "셋째", None),
    (4, "홀로", None),
    (5, "홀로", None),
    (6, "다시", None),
]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_comments_of_a_post(tmp_path, kind):
    path = tmp_path / f"a.{kind}"
    if kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in COMMENTS), encoding="utf-8")
    else:
        pq.write_table(pa.Table.from_pylist(COMMENTS), path)
    options = {"kind": kind, "language": "ko", "path": "*", "text_field": "body"}
    file = InputFile(str(path), 0, 0, 0)
    found = list(read_file(file, Source(**options, thread_field="post"), 1000))
    assert [(d.row, d.text, d.url) for d in found] == DOCUMENTS
    found = list(read_file(file, Source(**options, thread_field="post", max_documents=2), 1000))
    assert [(d.row, d.text, d.url) for d in found] == DOCUMENTS[:2]
    faults = list(read_file(file, Source(**options, thread_field="thread"), 1000))
    # of a table no row has it
    assert {fault.reason for fault in faults} == {
        "missing_field" if kind == "jsonl" else "unreadable_file"
    }
