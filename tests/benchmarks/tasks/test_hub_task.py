"""A data set of the hub as a task; reading it from a hub: tests/hub."""

from pathlib import Path

import datasets
import pytest
from huggingface_hub import HfApi

from benchmarks.tasks.own import files_on_hub, is_on_hub


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("skt/kobest_v1:boolq", True),
        ("klue/klue", True),
        ("data/rows.csv", False),
        ("rows.csv", False),
        ("/data/rows", False),
        ("a/b/c", False),
    ],
)
def test_a_name_of_the_hub_is_no_file(name: str, expected: bool):
    assert is_on_hub(name) == expected


def test_without_the_hub_what_was_read_last_is_taken(tmp_path: Path, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise ConnectionError("no route")

    monkeypatch.setattr(HfApi, "dataset_info", fail)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path)
    files_on_hub.cache_clear()
    with pytest.raises(ValueError, match="connection to the hub fails"):
        files_on_hub("made/rows:a")
    folder = tmp_path / "electrify" / "made--rows--a@0123456789ab"
    folder.mkdir(parents=True)
    (folder / "train.parquet").touch()
    assert files_on_hub("made/rows:a") == {"train": folder / "train.parquet"}
    files_on_hub.cache_clear()
