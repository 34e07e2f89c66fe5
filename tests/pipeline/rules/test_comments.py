"""The preset for comments."""

import pytest

from electrify.config.clean import CleanRules, Source
from pipeline.rules.normalize import clean_text, rules_for
from pipeline.rules.repeats import clean_comment


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
