"""Text misread as Latin comes back; good text of any language stays."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.rules.mojibake import repair_korean_mojibake, repair_mojibake

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
@settings(max_examples=100, deadline=None)
def test_any_hangul_comes_back(text):
    assert repair_korean_mojibake(text.encode("utf-8").decode("latin-1")) == text


def test_cp949_read_as_latin_is_repaired_in_korean_only():
    broken = "안녕하세요".encode("cp949").decode("latin-1")
    assert repair_korean_mojibake(f"({broken})") == "(안녕하세요)"
    assert "안녕" not in repair_mojibake(broken)


def test_lost_bytes_are_not_guessed():
    assert "\ufffd" not in repair_mojibake("caf\u00c3 au lait")
    assert repair_mojibake("안\ufffd녕") == "안\ufffd녕"
