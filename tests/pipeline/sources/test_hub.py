"""Data sets of the hub's kinds: saved folders, folders of files, and what goes wrong."""

import shutil

import pytest

from pipeline.sources.files import expand_sources, fingerprints
from pipeline.sources.raw import Fault
from pipeline.sources.readers import read_file
from tests.pipeline.sources.reading import read_files, source_of

datasets = pytest.importorskip("datasets")

LINE_BYTES = 1_000


def _read(source):
    files = expand_sources([source])
    return files, read_files(files, source, LINE_BYTES)


@pytest.fixture(autouse=True)
def _quiet():
    datasets.disable_progress_bars()


def _rows(count=10):
    return datasets.Dataset.from_dict(
        {
            "text": [f"글 {i}" for i in range(count)],
            "url": [f"u{i}" for i in range(count)],
            "post": [i // 3 for i in range(count)],
        }
    )


TEXTS = [f"글 {i}" for i in range(10)]


def test_a_saved_data_set_by_its_files(tmp_path):
    _rows().save_to_disk(tmp_path / "korean", num_shards=3)
    files, items = _read(source_of("huggingface", tmp_path / "korean"))
    assert [(file.part, file.num_parts) for file in files] == [(0, 3), (1, 3), (2, 3)]
    assert [item.text for item in items] == TEXTS
    assert items[1].url == "u1"
    assert {file.stem for file in files} == {"korean"}
    (mark,) = fingerprints(files).values()
    _rows(9).save_to_disk(tmp_path / "korean", num_shards=3)
    other = expand_sources([source_of("huggingface", tmp_path / "korean")])
    assert list(fingerprints(other).values()) != [mark]


def test_the_split_of_a_saved_dictionary(tmp_path):
    both = datasets.DatasetDict(train=_rows(3), test=_rows(2))
    both.save_to_disk(tmp_path / "both")
    assert len(_read(source_of("huggingface", tmp_path / "both"))[1]) == 3
    assert len(_read(source_of("huggingface", tmp_path / "both", split="test"))[1]) == 2
    with pytest.raises(ValueError, match=r"no split 'dev' \(there are: train, test\)"):
        expand_sources([source_of("huggingface", tmp_path / "both", split="dev")])


def test_threads_and_long_rows_of_a_saved_data_set(tmp_path):
    rows = datasets.Dataset.from_dict(
        {"text": ["가", "나", "다" * 500, "라"], "post": [1, 1, 1, 2]}
    )
    rows.save_to_disk(tmp_path / "a")
    _, items = _read(source_of("huggingface", tmp_path / "a", thread_field="post"))
    assert [i.reason if isinstance(i, Fault) else i.text for i in items] == [
        "가\n나",
        "line_too_long",
        "라",
    ]


def _folder(tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    rows = _rows()
    for i in range(2):
        rows.select(range(i * 5, i * 5 + 5)).to_parquet(folder / f"part-{i}.parquet")
    return folder


def test_a_data_set_of_files_by_its_shards(tmp_path):
    folder = _folder(tmp_path)
    files, items = _read(source_of("huggingface", folder))
    assert [(file.part, file.num_parts, file.file_index) for file in files] == [
        (0, 2, 0),
        (1, 2, 1),
    ]
    assert [item.text for item in items] == TEXTS
    assert files[1].where(3) == f"{folder}: row 3 of part 2 of 2"
    assert {file.stem for file in files} == {"files"}
    (mark,) = fingerprints(files).values()

    _rows(3).to_parquet(folder / "part-1.parquet")
    assert list(fingerprints(expand_sources([source_of("huggingface", folder)])).values()) != [mark]


def test_max_documents_counts_through_the_shards(tmp_path):
    files, items = _read(source_of("huggingface", _folder(tmp_path), max_documents=7))
    assert len(files) == 1
    assert [item.text for item in items] == TEXTS[:7]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"text_field": "body"}, r"has no field 'body' \(there are: text, url, post\)"),
        ({"split": "dev"}, "Bad split: dev"),
        ({"name": "ko"}, "BuilderConfig 'ko' not found"),
    ],
)
def test_what_a_data_set_does_not_have_is_an_error(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        expand_sources([source_of("huggingface", _folder(tmp_path), **options)])


def test_a_hub_that_is_not_reached_is_an_error(monkeypatch):
    def refuse(*args, **kwargs):
        raise ConnectionError("Couldn't reach 'some/set' on the Hub")

    monkeypatch.setattr(datasets, "load_dataset_builder", refuse)
    with pytest.raises(ValueError, match=r"'some/set' cannot be opened: ConnectionError: Couldn't"):
        expand_sources([source_of("huggingface", "some/set")])


def test_a_data_set_that_goes_away_while_it_is_read_is_an_error(tmp_path):
    source = source_of("huggingface", _folder(tmp_path))
    files = expand_sources([source])
    shutil.rmtree(tmp_path / "files")
    with pytest.raises(ValueError, match=r"files \(shard 1 of 2\) cannot be read"):
        list(read_file(files[0], source, LINE_BYTES))
