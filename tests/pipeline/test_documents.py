"""Parquet files of documents: whole, and in order."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.documents import (
    DOCUMENT_SCHEMA,
    document_paths,
    list_row_groups,
    read_columns,
    read_group,
)
from tests.pipeline.builders import documents, write_documents


def _rows(count):
    plain = dict.fromkeys(DOCUMENT_SCHEMA.names, "s")
    return [
        plain | {"id": f"{i:05d}", "text": f"글 {i} " * 5, "url": None if i % 2 else "u"}
        for i in range(count)
    ]


def test_rows_come_back_in_order_from_several_row_groups(tmp_path):
    rows = _rows(100)
    (path,) = write_documents(tmp_path / "a", rows, row_group_bytes=900)
    assert pq.read_metadata(path).num_row_groups > 2
    assert documents(tmp_path / "a") == rows
    groups = list_row_groups(document_paths(tmp_path / "a"))
    ids = [row for group in groups for row in read_group(group, ["id"])]
    assert ids == [{"id": row["id"]} for row in rows]


def test_a_row_that_lacks_a_column_is_an_error(tmp_path):
    row = _rows(1)[0] | {"source": None}
    with pytest.raises((pa.ArrowInvalid, ValueError), match="source"):
        write_documents(tmp_path / "a", [row])


def test_batches_are_even_in_bytes_however_documents_lie(tmp_path):
    texts = ["가" * 10] * 500 + ["가" * 20_000] * 20  # short ones, then long ones
    path = tmp_path / "documents-00000.parquet"
    pq.write_table(pa.table({"text": texts}), path, row_group_size=len(texts))
    (group,) = list_row_groups([path])
    assert group.num_bytes > 0
    assert pq.read_metadata(path).num_row_groups == 1
    batches = list(read_columns(group, ["text"], 100_000))
    sizes = [sum(map(len, batch.column("text").to_pylist())) * 3 for batch in batches]
    assert len(batches) > 10
    assert max(sizes) < 100_000 + 60_000  # and the document that goes over
    assert [text for batch in batches for text in batch.column("text").to_pylist()] == texts
