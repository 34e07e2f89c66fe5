"""Frequent runs of words against a plain count."""

from collections import Counter

from pipeline.report import ngrams
from pipeline.report.ngrams import NGrams


def test_runs_are_counted_by_language_and_masked():
    counted = NGrams()
    korean = "할 수 있는 일을 할 수 있는 사람 010-1234-5678 로 연락"
    counted.add(f"{korean}\n{korean}", "ko")
    counted.add("今日は今日は今日は", "ja")
    found = {(language, run): count for language, run, count in counted.frequent()}
    assert found["ko", "할 수 있는"] == 4
    assert found["ko", "사람 <phone> 로"] == 2
    assert found["ja", "今日は今日は"] == 2
    words = korean.split()
    runs = Counter(zip(words, words[1:], words[2:], strict=False))
    assert len([run for language, run in found if language == "ko"]) == len(runs)


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(ngrams, "_MOST_CHARACTERS", 100)
    counted = NGrams()
    label = next(f"{n}" for n in range(100) if counted.wants(f"{n}"))
    for _ in range(50):
        if counted.wants(label):
            counted.add("하나 둘 셋 넷 다섯 " * 20, "ko")
    assert not counted.wants(label)
    assert sum(count for *_, count in counted.frequent()) < 100
