"""Runs are cut to the number of repeats, whatever stands around them."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from electrify.config.clean import CleanRules, Source
from pipeline.rules.normalize import clean_comment, clean_text, rules_for, squeeze_repeats

_TEXTS = st.text(st.sampled_from("ㅋㅎ하아!~.a0-= \n👍漢"), max_size=60)


@given(_TEXTS, st.integers(1, 5))
@settings(max_examples=200)
def test_no_run_is_longer_and_nothing_but_repeats_goes(text, n):
    squeezed = squeeze_repeats(n)(text)
    assert squeeze_repeats(n)(squeezed) == squeezed
    assert not re.search(rf"([ㅋㅎ하아!👍漢])\1{{{n}}}|([ㅋㅎ하아]{{2}})\2{{{n}}}", squeezed)
    runs = (re.sub(r"(..?)\1+", r"\1", one, flags=re.DOTALL) for one in (text, squeezed))
    assert len({*map(frozenset, runs)}) == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ㅋㅋㅋㅋㅋㅋㅋ 웃겨!!!!!!!!", "ㅋㅋㅋㅋ 웃겨!!!!"),
        ("하하하하하하하", "하하하하"),
        ("ㅋㅎㅋㅎㅋㅎㅋㅎㅋㅎㅋㅎ", "ㅋㅎㅋㅎㅋㅎㅋㅎ"),
        ("글쎄........", "글쎄..."),
        ("---------- 1 ==========", "--- 1 ==="),
        ("*****시 *** 씨 ** 동", "****시 *** 씨 ** 동"),
        ("👍👍👍👍👍👍", "👍👍👍👍"),
        ("와아아아아아아 대박대박대박대박대박", "와아아아아 대박대박대박대박"),
    ],
)
def test_four_repeats(text, expected):
    assert squeeze_repeats(4)(text) == expected


@pytest.mark.parametrize(
    "text", ["0000000", "wwwwww zzzzzz", "((((((", "一一一一一一", "ㅋㅋㅋㅋ", "a === b", ""]
)
def test_a_few_repeats_stay(text):
    assert squeeze_repeats(4)(text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("진짜 OOO 같은 놈", "진짜  같은 놈"),
        ("@홍길동 맞아요", " 맞아요"),
        ("中國 사람 яб", "  사람  "),
        ("mail@a.kr 주세요", "mail@a.kr 주세요"),
    ],
)
def test_what_goes(text, expected):
    assert clean_comment(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "ㅠㅠ 좋아요 Good 10점!!",
        "최고 👍🏽❤️ 👨‍👩‍👧",
        "“말” — 『책』 ～ ★ 5,000₩ 25℃",
        "BOOOK, OO",
        "café",
    ],
)
def test_what_stays(text):
    assert clean_comment(text) == text


def test_the_profile_chooses_it_with_two_repeats():
    source = Source(kind="jsonl", language="ko", path="x", profile="comments")
    text = "ㅋㅋㅋㅋㅋㅋ 대박!!!!! 中..... OOO"
    assert clean_text(text, rules_for(CleanRules(), source)).text == "ㅋㅋ 대박!! .."
    gloss = clean_text("한국(韓國)의 말", rules_for(CleanRules(), source)).text
    assert gloss == "한국의 말"
    kept = clean_text(text, rules_for(CleanRules(max_repeats=1), source)).text
    assert kept == "ㅋ 대박! ."
