"""The corpus stage under a limit of addresses, and what the way of torture takes for a fault."""

import json
import random
import sys

import pytest

from benchmarks.torture import memory
from benchmarks.torture.memory import MemoryFigures, torture_by_limit
from electrify.stage.folder import write_manifest

LINE_BYTES = 21_000_000  # clean.max_line_bytes is 20,000,000
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits and /proc are Linux's")


@pytest.fixture
def corpora(tmp_path):
    rng = random.Random(1)
    words = ("river", "mountain", "stone", "light", "village", "winter", "the", "of", "by", "in")
    folder = tmp_path / "corpora" / "en"
    folder.mkdir(parents=True)
    texts = [" ".join(rng.choices(words, k=30)).capitalize() + "." for _ in range(50)]
    lines = [json.dumps({"text": text}) for text in texts]
    (folder / "a.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return folder.parent


def test_the_same_documents_under_the_limit_and_a_long_line_read_past(corpora, tmp_path):
    figures = torture_by_limit(corpora, 1400, LINE_BYTES, tmp_path / "work")
    assert figures.faults == []
    assert figures.counts["documents"] > 0
    # before Arrow's allocator was chosen by the verb, 1,418 MB were reserved ahead of any work
    assert 100 < figures.costs["bound"].addresses_mb < 1200
    assert figures.costs["bound"].resident_mb < figures.costs["bound"].addresses_mb
    # twice the line, as text and as bytes, would show
    assert figures.costs["line"].resident_mb < figures.costs["bound"].resident_mb + 80


def test_a_stage_that_dies_under_the_limit_is_a_fault(corpora, tmp_path):
    figures = MemoryFigures(60)
    source = memory._source("en", corpora / "en" / "a.jsonl")
    assert memory._clean(tmp_path / "run", [source], 60, figures)
    assert "status" in figures.faults[0]


def test_documents_that_are_not_the_same_are_named(tmp_path):
    for name, digest in (("free", "1"), ("bound", "2")):
        folder = tmp_path / name / "clean"
        folder.mkdir(parents=True)
        files = {
            "documents-00000.parquet": {"bytes": 1, "sha256": digest},
            "removed-00000.parquet": {"bytes": 1, "sha256": "same"},
            "report.html": {"bytes": 1, "sha256": digest},
        }
        write_manifest(folder, {"config": {}, "inputs": {}, "files": files, "digest": digest})
    found = list(memory._differences(tmp_path / "free", tmp_path / "bound"))
    assert found == ["documents-00000.parquet is not the same under the limit"]


def test_a_folder_without_corpora_is_refused(tmp_path):
    with pytest.raises(ValueError, match="--data-dir"):
        torture_by_limit(tmp_path, 1500, 0, tmp_path / "work")


def test_a_long_line_has_the_length_asked_for():
    first, line, second = b"".join(memory._lines(3_000_000)).splitlines()
    assert len(json.loads(line)["text"]) == 3_000_000
    assert [json.loads(row)["text"] for row in (first, second)] == list(memory._SHORT)
