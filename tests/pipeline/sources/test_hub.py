"""Data sets of the hub, for which a folder of files stands in, and what goes wrong."""

import shutil

import pytest

from pipeline.sources.files import expand_sources, fingerprints
from tests.pipeline.sources.reading import read_files, write_rows

datasets = pytest.importorskip("datasets")

LINE_BYTES = 1_000


def _read(source):
    files = expand_sources([source])
    return files, read_files(files, source, LINE_BYTES)


ROWS = [{"text": f"글 {i}", "url": f"u{i}", "post": i // 3} for i in range(10)]
TEXTS = [row["text"] for row in ROWS]


def test_a_data_set_by_its_shards(tmp_path):
    source = write_rows(tmp_path / "korean", "huggingface", ROWS)
    files, items = _read(source)
    parts = [(file.part, file.num_parts, file.file_index) for file in files]
    assert parts == [(0, 2, 0), (1, 2, 1)]
    assert [item.text for item in items] == TEXTS
    assert items[1].url == "u1"
    assert files[1].where(3) == f"{tmp_path}/korean: row 3 of part 2 of 2"
    assert {file.stem for file in files} == {"korean"}
    _, items = _read(source.model_copy(update={"max_documents": 7}))
    assert [item.text for item in items] == TEXTS[:7]
    (mark,) = fingerprints(files).values()
    shutil.rmtree(tmp_path / "korean")
    write_rows(tmp_path / "korean", "huggingface", ROWS[:9])
    assert list(fingerprints(expand_sources([source])).values()) != [mark]
    shutil.rmtree(tmp_path / "korean")
    with pytest.raises(ValueError, match=r"korean \(shard 1 of 2\) cannot be read"):
        read_files(files, source)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"text_field": "body"}, r"has no field 'body' \(there are: text, url, post\)"),
        ({"split": "dev"}, "Bad split: dev"),
        ({"name": "ko"}, "BuilderConfig 'ko' not found"),
    ],
)
def test_what_a_data_set_does_not_have_is_an_error(tmp_path, options, message):
    source = write_rows(tmp_path / "a", "huggingface", ROWS)
    with pytest.raises(ValueError, match=message):
        expand_sources([source.model_copy(update=options)])
    (tmp_path / "a" / "state.json").touch()  # as `save_to_disk` writes
    with pytest.raises(ValueError, match="to_parquet"):
        expand_sources([source])
