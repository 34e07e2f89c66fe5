"""Data sets of the hub's kinds: saved folders, folders of files, and what goes wrong."""

import shutil

import pytest

from pipeline.sources.files import expand_sources, fingerprints
from tests.pipeline.sources.reading import read_files, source_of, write_rows

datasets = pytest.importorskip("datasets")

LINE_BYTES = 1_000


def _read(source):
    files = expand_sources([source])
    return files, read_files(files, source, LINE_BYTES)


ROWS = [{"text": f"글 {i}", "url": f"u{i}", "post": i // 3} for i in range(10)]
TEXTS = [row["text"] for row in ROWS]


@pytest.mark.parametrize("kind", ["saved", "files"])
def test_a_data_set_by_its_shards(tmp_path, kind):
    source = write_rows(tmp_path / "korean", kind, ROWS)
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
    write_rows(tmp_path / "korean", kind, ROWS[:9])
    assert list(fingerprints(expand_sources([source])).values()) != [mark]
    shutil.rmtree(tmp_path / "korean")
    if kind == "files":  # files of a saved one are open
        with pytest.raises(ValueError, match=r"korean \(shard 1 of 2\) cannot be read"):
            read_files(files, source)


def test_the_split_of_a_saved_dictionary(tmp_path):
    rows = datasets.Dataset.from_list(ROWS)
    both = datasets.DatasetDict(train=rows.select(range(3)), test=rows.select(range(2)))
    both.save_to_disk(tmp_path / "both")
    assert len(_read(source_of("huggingface", tmp_path / "both"))[1]) == 3
    assert len(_read(source_of("huggingface", tmp_path / "both", split="test"))[1]) == 2
    with pytest.raises(ValueError, match=r"no split 'dev' \(there are: train, test\)"):
        expand_sources([source_of("huggingface", tmp_path / "both", split="dev")])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"text_field": "body"}, r"has no field 'body' \(there are: text, url, post\)"),
        ({"split": "dev"}, "Bad split: dev"),
        ({"name": "ko"}, "BuilderConfig 'ko' not found"),
    ],
)
def test_what_a_data_set_does_not_have_is_an_error(tmp_path, options, message):
    source = write_rows(tmp_path / "a", "files", ROWS)
    with pytest.raises(ValueError, match=message):
        expand_sources([source.model_copy(update=options)])
