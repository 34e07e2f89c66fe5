"""Text read with the wrong encoding comes back as a whole, or stays as it is."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipeline.rules.mojibake import repair_mojibake
from tests.pipeline.cases import read_cases

CASES = read_cases(__file__)

GOOD = CASES["good"]
LANGUAGES = ["ko", "ja", "zh", "ru", "fr", "vi"]


@pytest.mark.parametrize("text", [*GOOD, "\n".join(GOOD)])
def test_good_text_stays(text):
    for language in LANGUAGES:
        assert repair_mojibake(text, language) == text


@pytest.mark.parametrize("encoding", ["latin-1", "sloppy-windows-1252"])
@pytest.mark.parametrize(
    "text", ["안녕하세요 세계의 모든 사람들", "déjà vu à l’été", "Привет, мир", "日本語の文章です"]
)
def test_utf8_read_as_latin_is_repaired(text, encoding):
    # a line of its own, so that a line end cannot come from the bytes
    broken = text.encode("utf-8").decode(encoding)
    assert repair_mojibake(f"first\n{broken}\nlast", "en") == f"first\n{text}\nlast"


@given(st.text(st.characters(min_codepoint=0xAC00, max_codepoint=0xD7A3), min_size=4, max_size=40))
@example("갠갠갠갠")  # ftfy leaves it
@settings(max_examples=100)
def test_any_hangul_comes_back(text):
    assert repair_mojibake(text.encode("utf-8").decode("latin-1"), "ko") == text


KOREAN = "참 안녕하세요 그 말,\n네.\n**군** 수협과 ‘집’ · 3차 볼 수 있는 LG전자 「책」"
JAPANESE = "黴\nそれから、富永太郎。\n［注］２０年 Button 要素"
CHINESE = "公\n第一条 为了防洪治水，防御灾害，制定本法。\n《法》"
CP1252 = "sloppy-windows-1252"


@pytest.mark.parametrize(
    ("language", "text", "written", "read"),
    [
        *(("ko", KOREAN, "utf-8", read) for read in ("latin-1", CP1252)),
        *(("ko", KOREAN, "euc-kr", read) for read in ("latin-1", CP1252)),
        *(("ko", "똠방각하를 " + KOREAN, "cp949", r) for r in ("latin-1", CP1252)),
        *(("ja", JAPANESE, "utf-8", read) for read in ("latin-1", CP1252)),
        *(("ja", JAPANESE, "cp932", read) for read in ("latin-1", CP1252)),
        ("ja", "日本語の文章です。\n日本", "cp932", "latin-1"),
        ("ja", JAPANESE, "euc_jp", "latin-1"),
        *(("zh", CHINESE, written, "latin-1") for written in ("utf-8", "gbk")),
        ("vi", "Một header nội dung\nGiá trị trả về\nMột", "utf-8", CP1252),
        ("ru", "Слияние\nи её", "utf-8", CP1252),
    ],
)
def test_short_runs_come_back_with_the_long_ones(language, text, written, read):
    broken = text.encode(written).decode(read)
    assert broken != text
    assert repair_mojibake(broken, language) == text


def test_a_document_half_in_cp949_and_half_in_utf8_comes_back():
    lines = KOREAN.split("\n") * 2
    encodings = ["cp949", "utf-8"] * 3
    broken = [line.encode(e).decode("latin-1") for line, e in zip(lines, encodings, strict=True)]
    assert repair_mojibake("\n".join(broken), "ko") == "\n".join(lines)
    good = ["바른 줄도 있다. ¾È³ç 과 ÇÏ¼¼¿ä¿©", "바른 줄도 있다. 안녕 과 하세요여"]
    assert repair_mojibake(good[0], "ko") == good[1]


def test_spaces_in_place_of_no_break_spaces():
    broken = KOREAN.encode("utf-8").decode(CP1252).replace("\xa0", " ")
    assert "\x90" in broken or "\x8d" in broken
    assert repair_mojibake(broken, "ko") == KOREAN


@pytest.mark.parametrize("language", ["ko", "ja", "zh", "ru", "hi", "ar"])
def test_what_lost_bytes_stays_as_a_whole(language):
    text = {
        "ko": KOREAN + "\n또 있는 일이 아닌",
        "ja": JAPANESE + "この「日」",
        "zh": CHINESE + "的",
        "ru": "Слияние и правда, с ней\nПривет, мир",
        "hi": "इकाईयाँ और इकाई समूह\nयात्रा की आवश्यकता",
        "ar": "كيفية تغيير الملف\nمستكشف مصدر المحاسبة",
    }[language]
    broken = text.encode("utf-8").decode(CP1252)
    lossy = "".join(character for character in broken if not "\x80" <= character <= "\x9f")
    assert lossy != broken
    assert repair_mojibake(lossy, language) == lossy


def test_a_text_cut_within_a_character_comes_back_without_it():
    for encoding in ("utf-8", "cp949"):
        broken = "안녕하세요 세계의 모든 사람들".encode(encoding)[:-1].decode("latin-1")
        assert repair_mojibake(broken, "ko") == "안녕하세요 세계의 모든 사람"


def test_cp949_is_looked_for_in_korean_only():
    broken = "안녕하세요".encode("cp949").decode("latin-1")
    assert repair_mojibake(f"({broken})", "ko") == "(안녕하세요)"
    assert "안녕" not in repair_mojibake(broken, "en")
