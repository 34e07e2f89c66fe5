"""Hangul characters in one form, Hanja dropped."""

import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipeline.rules.hangul import drop_hanja, normalise_hangul
from pipeline.rules.mojibake import repair_korean_mojibake, repair_mojibake

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


GOOD = [
    "안녕하세요, 오늘은 날씨가 좋네요.",
    "L’âge d’or « à la française » — où êtes-vous ? Très bientôt…",
    "Đây là một bài viết về Ân Độ và những điều bạn cần biết — “ê”.",
    "Ação, coração e não; São João “é” lá.",
    "Die „Große Straße“ und Ü“ – schön…",
    "Ещё раз: «привет»",
    "日本語の文章。",
    "ÀÀÀÀÀÀ!!",
    "naïve café, 25 °C ± 2",
]


@pytest.mark.parametrize("text", GOOD)
def test_good_text_stays(text):
    assert repair_korean_mojibake(text) == text
    assert repair_mojibake(text) == text


@pytest.mark.parametrize("encoding", ["latin-1", "sloppy-windows-1252"])
@pytest.mark.parametrize(
    "text", ["안녕하세요 세계의 모든 사람들", "déjà vu à l’été", "Привет, мир", "日本語の文章です"]
)
def test_utf8_read_as_latin_is_repaired(text, encoding):
    # a line of its own, so that a line end cannot come from the bytes
    broken = text.encode("utf-8").decode(encoding)
    assert repair_mojibake(f"first\n{broken}\nlast") == f"first\n{text}\nlast"


@given(st.text(st.characters(min_codepoint=0xAC00, max_codepoint=0xD7A3), min_size=4, max_size=40))
@example("갠갠갠갠")  # ftfy leaves it
@settings(max_examples=100, deadline=None)
def test_any_hangul_comes_back(text):
    assert repair_korean_mojibake(text.encode("utf-8").decode("latin-1")) == text


def test_cp949_read_as_latin_is_repaired_in_korean_only():
    broken = "안녕하세요".encode("cp949").decode("latin-1")
    assert repair_korean_mojibake(f"({broken})") == "(안녕하세요)"
    assert "안녕" not in repair_mojibake(broken)
