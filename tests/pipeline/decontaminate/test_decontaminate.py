"""The index of benchmark texts: what goes in, what is too short, and that it is always equal."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.decontaminate.index import in_bitmap, make_bitmap, read_statistics, write_index
from pipeline.decontaminate.match import BenchmarkIndex

KOREAN = "오래된 항구의 등대는 밤마다 세 번씩 깜빡인다"
ENGLISH = "The old lighthouse at the harbour blinks three times every night."


def _write(folder, rows):
    folder.mkdir(exist_ok=True)
    for task, text in rows:
        with (folder / f"{task}.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps({"task": task, "split": "dev", "text": text}) + "\n")
    return folder


def test_short_texts_are_counted_and_not_looked_for(tmp_path):
    rows = [
        ("reviews", "재밌어요"),
        ("reviews", KOREAN),
        ("reviews", "최고최고최고최고최고최고최고"),
        ("words", "thank you very much"),
        ("words", ENGLISH),
        ("words", ""),
    ]
    write_index(_write(tmp_path / "texts", rows), tmp_path / "index")
    assert read_statistics(tmp_path / "index") == [("reviews", 3, 2), ("words", 3, 2)]
    index = BenchmarkIndex.load(tmp_path / "index")
    for _, text in rows:
        assert (index.decontaminate(text).drop is not None) == (text in (KOREAN, ENGLISH))


def test_the_same_texts_make_the_same_bytes(tmp_path):
    rows = [("a", KOREAN), ("b", ENGLISH), ("b", KOREAN)]
    for name in ("one", "two"):
        write_index(_write(tmp_path / f"texts-{name}", rows), tmp_path / name)
    names = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert names == sorted(path.name for path in (tmp_path / "two").iterdir())
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_a_text_of_two_tasks_is_found_for_both(tmp_path):
    texts = _write(tmp_path / "texts", [("a", KOREAN), ("b", KOREAN + "."), ("b", KOREAN)])
    write_index(texts, tmp_path / "index")
    found = BenchmarkIndex.load(tmp_path / "index").decontaminate(KOREAN)
    assert [match.task for match in found.matches] == ["a", "b"]


def test_a_template_in_hundreds_of_texts_does_not_hide_them(tmp_path):
    cities = [a + b for a in "가나다라마바사아자차" for b in "강산들골천도리동면읍"]
    rows = [("rooms", f"{city} 근처에 있는 저렴한 숙소를 하나 추천해 주세요") for city in cities]
    write_index(_write(tmp_path / "texts", rows), tmp_path / "index")
    index = BenchmarkIndex.load(tmp_path / "index")
    for _, text in rows:
        assert index.decontaminate(text).drop is not None


def test_no_texts_or_wrong_rows_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"no \*\.jsonl"):
        write_index(tmp_path, tmp_path / "index")
    (tmp_path / "a.jsonl").write_text('{"task": "a", "text": "x"}\n{"text": "y"}\n')
    with pytest.raises(ValueError, match=r"a\.jsonl:2"):
        write_index(tmp_path, tmp_path / "index")


def test_an_index_of_nothing_finds_nothing(tmp_path):
    write_index(_write(tmp_path / "texts", [("a", "짧다")]), tmp_path / "index")
    found = BenchmarkIndex.load(tmp_path / "index").decontaminate(KOREAN)
    assert (found.text, found.drop, found.matches) == (KOREAN, None, ())


@given(st.lists(st.integers(0, 2**64 - 1), max_size=200))
def test_the_bitmap_has_every_key(numbers):
    keys = np.array(numbers, dtype=np.uint64)
    assert in_bitmap(make_bitmap(keys), keys).tolist() == list(range(len(keys)))


def test_the_bitmap_keeps_most_other_keys_out():
    rng = np.random.default_rng(0)
    keys = rng.integers(0, 2**64, 10_000, dtype=np.uint64)
    others = rng.integers(0, 2**64, 100_000, dtype=np.uint64)
    assert len(in_bitmap(make_bitmap(keys), others)) < 0.1 * len(others)
