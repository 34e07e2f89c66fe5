"""What is new beside a finished corpus, against a search of all pairs."""

import random
import shutil

import pytest

from pipeline.clean import clean
from pipeline.dedup.minhash import shingle
from pipeline.sources import files as sources
from tests.pipeline.builders import clean_afresh, config_of, documents, removed, report, write_texts

SIMILARITY = 0.7


def _text(seed, num_changed=0):
    """Sixty words; each changed one takes five of the 56 shingles."""
    rng = random.Random(seed)
    words = ["".join(chr(rng.randrange(0xAC00, 0xD7A3)) for _ in range(3)) for _ in range(60)]
    for place in range(num_changed):
        words[5 + 10 * place] = f"바꾼{seed}"
    return " ".join(words)


OLD = [_text(i) for i in range(40)] + [_text(3, 1), _text(100)]
NEW = [
    *[_text(i).replace(" ", "\n", 3) for i in range(8)],  # equal but for white space
    *[_text(i, num) for i in range(8, 20) for num in (1, 2, 4)],
    *[_text(i) for i in range(200, 210)],
    _text(200),  # a duplicate in the new corpus
    _text(201, 1) + " 더 길다",
]


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    folder = tmp_path_factory.mktemp("old")
    write_texts(folder / "a.jsonl", OLD[:30])
    write_texts(folder / "b.jsonl", OLD[30:])
    return clean_afresh(config_of(folder, [folder / "*.jsonl"]))


def _jaccard(one, other):
    a, b = ({*shingle([text]).hashes.tolist()} for text in (one, other))
    return len(a & b) / len(a | b)


def _new_run(tmp_path, old, **options):
    write_texts(tmp_path / "new" / "a.jsonl", NEW)
    config = config_of(
        tmp_path / "new", [tmp_path / "new" / "a.jsonl"], dedup_against=[str(old)], **options
    )
    return config, clean_afresh(config)


def test_what_stays_equals_a_search_of_all_pairs(tmp_path, old, monkeypatch):
    monkeypatch.setattr(sources, "FILE_BATCH_BYTES", 1)
    _, folder = _new_run(tmp_path, old)
    before = [row["text"] for row in documents(old)]
    exact = {" ".join(text.split()) for text in before}
    expected = {}
    for row, text in enumerate(NEW, start=1):
        if " ".join(text.split()) in exact:
            expected[row] = "earlier_duplicate"
        elif max(_jaccard(text, other) for other in before) >= SIMILARITY:
            expected[row] = "earlier_near_duplicate"
    expected[NEW.index(_text(200)) + 11] = "duplicate"
    expected[NEW.index(_text(201)) + 1] = "near_duplicate"
    gone = {int(row["id"].split("-")[2]): row for row in removed(folder)}
    assert {row: of["reason"] for row, of in gone.items()} == expected
    reasons = {"duplicate", "near_duplicate"}
    assert {*expected.values()} == reasons | {f"earlier_{reason}" for reason in reasons}
    assert gone[1]["detail"] == f"of {old}/documents-00000.parquet:1"
    kept = [row["text"] for row in documents(folder)]
    assert kept == [text for row, text in enumerate(NEW, start=1) if row not in expected]
    assert report(folder)["totals"]["documents_in"] == len(NEW)  # the old ones are not counted
    assert sum(row["documents"] for row in report(folder)["removed"]) == len(expected)


def test_a_crawl_without_anything_new_is_an_error_that_says_so(tmp_path, old):
    path = write_texts(tmp_path / "new" / "a.jsonl", [*OLD[:9], OLD[0]])
    config = config_of(tmp_path / "new", [path], dedup_against=[str(old)])
    with pytest.raises(ValueError, match="Nothing in them is new beside"):
        clean_afresh(config)


def test_a_folder_that_is_no_other_finished_corpus_is_refused(tmp_path, old):
    old = shutil.copytree(old, tmp_path / "old")
    config, folder = _new_run(tmp_path, old)
    with pytest.raises(ValueError, match="which this run makes"):
        _new_run(tmp_path, folder)
    with pytest.raises(ValueError, match="nothing would be compared"):
        _new_run(tmp_path, old, exact_dedup=False, near_dedup={"enabled": False})
    with pytest.raises(ValueError, match=f"{old.parent}, which is no finished") as refused:
        _new_run(tmp_path, old.parent)  # of raw text, or of the run
    assert "remove" not in str(refused.value)
    shutil.rmtree(old)
    with pytest.raises(ValueError, match="run first: electrify clean"):
        clean(config, [], overwrite=False)
