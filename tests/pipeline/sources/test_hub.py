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


def test_a_data_set_by_its_shards(tmp_path):
    source = write_rows(tmp_path / "korean", "huggingface", ROWS)
    files, items = _read(source)
    assert {file.stem for file in files} == {"korean"}
    place = f"{tmp_path}/korean"
    assert [file.where(3) for file in files] == [f"{place}:3", f"{place}: row 3 of part 2 of 2"]
    assert [(item.text, item.url) for item in items] == [(row["text"], row["url"]) for row in ROWS]
    _, items = _read(source.model_copy(update={"max_documents": 7}))
    assert len(items) == 7
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
