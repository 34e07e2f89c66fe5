"""Parquet files of documents: whole, in order, the same bytes each time."""

import gc
import sys

import pyarrow as pa
import pytest

from pipeline import documents
from pipeline.documents import DOCUMENT_SCHEMA, ParquetParts, document_paths, read_rows


def _rows(count):
    return [
        dict(
            zip(
                DOCUMENT_SCHEMA.names,
                (f"{i:05d}", f"글 {i} " * 5, "ko", "s", None if i % 2 else "u", None, None),
                strict=True,
            )
        )
        for i in range(count)
    ]


def _write(folder, rows, **options):
    folder.mkdir()
    with ParquetParts(folder, "documents", DOCUMENT_SCHEMA, **options) as parts:
        for row in rows:
            parts.write(row)
    return parts.paths


def test_rows_come_back_in_order_from_several_files(tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "ROW_GROUP_CHARACTERS", 300)
    monkeypatch.setattr(documents, "_WAITING_ROWS", 7)
    rows = _rows(100)
    paths = _write(tmp_path / "a", rows, file_characters=1000)
    assert len(paths) > 2
    assert [path.name for path in paths] == [
        f"documents-{i:05d}.parquet" for i in range(len(paths))
    ]
    assert list(read_rows(paths)) == rows
    assert document_paths(tmp_path / "a") == paths
    assert list(read_rows(paths, ["id"])) == [{"id": row["id"]} for row in rows]


def test_no_file_without_rows_or_of_a_row_that_lacks_a_column(tmp_path):
    row = _rows(1)[0] | {"source": None}
    with pytest.raises((pa.ArrowInvalid, ValueError), match="source"):
        _write(tmp_path / "a", [row])
    assert _write(tmp_path / "b", []) == []
    assert [*(tmp_path / "a").iterdir(), *(tmp_path / "b").iterdir()] == []


def test_an_interrupted_file_goes_without_a_word(tmp_path, monkeypatch):
    said = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)

    def interrupted():
        yield from _rows(100)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _write(tmp_path / "a", interrupted(), row_group_characters=100)
    gc.collect()
    assert said == []
    assert list((tmp_path / "a").iterdir()) == []


def test_what_forbids_a_file_to_be_sent_is_what_is_told(tmp_path):
    def refuse(path):
        raise PermissionError("forbidden")

    with (
        pytest.raises(PermissionError, match="forbidden"),
        ParquetParts(tmp_path, "documents", DOCUMENT_SCHEMA, publish=refuse) as parts,
    ):
        parts.write(_rows(1)[0])


def test_a_folder_without_documents_names_the_verb_that_makes_them(tmp_path):
    with pytest.raises(ValueError, match="run first: electrify clean"):
        document_paths(tmp_path)
