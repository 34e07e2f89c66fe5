"""Runs are cut to the number of repeats, whatever stands around them."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from electrify.config.clean import CleanRules, Source
from pipeline.rules.characters import DRAWN, RULE, TABLE
from pipeline.rules.normalize import clean_text, rules_for
from pipeline.rules.repeats import clean_comment, squeeze_repeats

_TEXTS = st.text(st.sampled_from("ㅋㅎ하아!~.a0-= \n👍漢"), max_size=60)


def _by_expression(text: str, n: int) -> str:
    """The single characters, by the back-reference that the arrays stand for."""

    def cut(run: re.Match[str]) -> str:
        character = run[1]
        kind = int(TABLE[ord(character)])
        if character == ".":
            limit = min(3, n)
        elif kind & RULE:
            limit = max(3, n) if character == "~" else 3
        elif kind & DRAWN:
            limit = n
        else:
            limit = len(run[0])
        return character * min(limit, len(run[0]))

    return re.sub(r"(.)\1+", cut, text, flags=re.DOTALL)


@given(_TEXTS, st.integers(1, 5))
@settings(max_examples=200)
def test_equals_the_expression(text, n):
    singles = _by_expression(text, n)
    letters = "ㅋㅎ하아"
    expected = re.sub(
        rf"([{letters}])(?!\1)([{letters}])(?:\1\2){{{n},}}\1?", lambda run: _unit(run, n), singles
    )
    assert squeeze_repeats(n)(text) == expected


def _unit(run: re.Match[str], n: int) -> str:
    odd = run[0][-1] == run[1]
    return (run[1] + run[2]) * n + (run[1] if odd else "")


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
    kept = clean_text(text, rules_for(CleanRules(max_repeats=1), source)).text
    assert kept == "ㅋ 대박! ."
