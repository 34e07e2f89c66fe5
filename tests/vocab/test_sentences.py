"""Sentences as offsets: the laws of the spans, and what is a sentence."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vocab import sentences
from vocab.sentences import needs_kiwi, punctuated_spans, sentence_spans

_TEXTS = st.lists(
    st.sampled_from(
        ["가다", "했어요", "a", "Mr", "3", ".", "..", "!", "?", "。", "”", '"', " ", "\n", "…"]
    ),
    max_size=30,
).map("".join)


def _cover(text, spans):
    assert all(start < end for start, end in spans)
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    outside = set(range(len(text))) - {i for start, end in spans for i in range(start, end)}
    assert all(text[index].isspace() for index in outside)
    assert all(text[start:end] == text[start:end].strip() for start, end in spans)


@given(_TEXTS | st.text(max_size=80))
@settings(max_examples=400)
def test_spans_cover_all_that_is_no_space_in_order(text):
    _cover(text, punctuated_spans(text))


class _EveryTen:
    """Stands for Kiwi: a sentence every ten characters, the last two left out as space."""

    def split_into_sents(self, text):
        class Sentence:
            def __init__(self, end):
                self.end = end

        return [Sentence(min(at + 8, len(text))) for at in range(0, len(text), 10)]


@given(_TEXTS | st.text("가나다요 \n.", max_size=400))
@settings(max_examples=200)
def test_spans_of_kiwi_cover_all_too(text):
    real = sentences._kiwi
    sentences._kiwi = _EveryTen
    try:
        _cover(text, sentence_spans(text, "ko"))
    finally:
        sentences._kiwi = real


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("비가 왔다. 집에 갔다.", ["비가 왔다.", "집에 갔다."]),
        ('"정말?" 그가 물었다... 네!', ['"정말?"', "그가 물었다...", "네!"]),
        ("Mr. Kim paid 3.5 dollars. J. Kim no!", ["Mr. Kim paid 3.5 dollars.", "J. Kim no!"]),
        ("3. 1 운동", ["3. 1 운동"]),
        ("雨だ。「行く」と言った。", ["雨だ。", "「行く」と言った。"]),
        ("यह है। वह है।", ["यह है।", "वह है।"]),
        ("하나\n둘\n\n셋", ["하나", "둘", "셋"]),
        ("", []),
    ],
)
def test_sentences(text, expected):
    assert [text[start:end] for start, end in sentence_spans(text, "en")] == expected


def test_kiwi_is_asked_only_where_it_may_help():
    assert not needs_kiwi("비가 와서 집에 갔다.")
    assert needs_kiwi("정말 재밌게 봤어요 다음에 또 볼게요")
    assert needs_kiwi("가나다 " * 40)
    assert not needs_kiwi("word " * 100)


def test_korean_without_full_stops():
    text = "정말 재밌게 봤어요 배우들 연기가 좋네요 다음에 또 볼게요"
    assert [text[start:end] for start, end in sentence_spans(text, "ko")] == [
        "정말 재밌게 봤어요",
        "배우들 연기가 좋네요",
        "다음에 또 볼게요",
    ]
