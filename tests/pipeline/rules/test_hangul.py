"""Hangul characters in one form, Hanja dropped."""

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.rules.hangul import drop_hanja, normalise_hangul

_CHARACTERS = st.sampled_from(
    [
        *map(chr, range(0x1100, 0x1200)),
        *map(chr, range(0xFFA0, 0xFFDD)),
        *"가각ㄱㅏㆍ・‧Ａ１！，a1 ㅤ",
        "ᇹ",
    ]
)


@given(st.lists(_CHARACTERS | st.characters(), max_size=20).map("".join))
@settings(max_examples=200)
def test_twice_is_once_and_composed(text):
    once = normalise_hangul(text)
    assert normalise_hangul(once) == once
    assert unicodedata.is_normalized("NFC", once)
    if len(text) == 1 and "\u1100" <= text <= "\u1112":  # a lead by itself
        assert unicodedata.normalize("NFKC", once) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\u1112\u1161\u11ab\u1100\u1173\u11af", "한글"),
        ("ᄏᄏᄏ", "ㅋㅋㅋ"),
        ("가\u11a8\u11a8", "각ㄱ"),
        ("ᄀ\u1160", "ㄱ"),  # with the filler of the missing vowel
        ("ＡＢＣ１２３ﾡￜ", "ABC123ㄱㅣ"),
        ("안녕！！ 정말？", "안녕!! 정말?"),
        ("시ㆍ도지사 3ㆍ1운동", "시·도지사 3·1운동"),
        ("국어・영어‧수학", "국어·영어·수학"),
        ("가\u3164나 가\u2800나", "가 나 가 나"),
        ("１０월 Ａ형 （Ａ） 한・미", "10월 A형 （A） 한·미"),
        ("가" + 16 * "！", "가" + 16 * "!"),
    ],
)
def test_one_form(text, expected):
    assert normalise_hangul(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "ᄒᆞᆫ글",  # Old Korean: a vowel that has no syllable
        "ㅎㆍㄴ",  # the same in compatibility letters: no dot
        "你好！，？",
        "カラオケ・バー",
        "句読点、。！？",
        "plain text",
    ],
)
def test_hangul_stays(text):
    assert normalise_hangul(text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("법률(法律)에", "법률에"),
        ("이순신(李舜臣, 1545~1598)", "이순신(1545~1598)"),
        ("大韓民國 만세", " 만세"),
        ("한글(가나)만", "한글(가나)만"),
        ("정의 (正義)", "정의"),
        ("豈", ""),  # a compatibility ideograph
    ],
)
def test_hanja(text, expected):
    assert drop_hanja(text) == expected
