"""The text rules: examples of each, and the laws of their fixed point."""

import re
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from electrify.config.clean import CleanRules, Source
from pipeline.rules.normalize import (
    MAX_MARKS,
    clean_comment,
    clean_text,
    compose,
    drop_hanja,
    normalise_hangul,
    remove_control_characters,
    remove_csv_quotes,
    remove_lost_characters,
    remove_urls,
    rules_for,
    squeeze_repeats,
    squeeze_whitespace,
)
from pipeline.rules.quality import undecodable

ALL_RULES = rules_for(CleanRules(), Source(kind="jsonl", language="ko", path="x"))


def test_names_of_the_rules_that_changed_a_text():
    cleaned = clean_text("<i>가\u200b</i>  \u1112\u1161\u11ab\ufffd", ALL_RULES)
    assert cleaned.text == "가 한"
    entities = clean_text("&amp;lt;b&amp;gt;굵게&amp;lt;/b&amp;gt;", ALL_RULES)
    assert entities.text == "굵게"  # an entity may hide a tag
    assert cleaned.altered == (
        "lost_characters_removed",
        "control_characters_removed",
        "whitespace_squeezed",
        "html_removed",
        "unicode_composed",
    )


def test_characters_and_blanks_that_say_nothing():
    assert remove_lost_characters("안\ufffd녕\ud83d\uffff👍") == "안녕👍"
    text = " \t가  나\u3000다\xa0라 \r\n 마\n\n\n\n바\u2028사\x85아 "
    assert squeeze_whitespace(text) == "가 나 다 라\n마\n\n바\n사\n아"
    assert remove_control_characters("가\x00\u200b나\ufeff\u00ad다\u202e\x9f\x1f") == "가나다"
    assert remove_control_characters("가\t나\n") == "가\t나\n"


def test_marks_over_one_letter_are_limited():
    marks = "\u0301\u0316" * 15
    assert compose("ga" + marks) == unicodedata.normalize("NFC", "ga" + marks)
    assert compose("ga" + marks * 9 + "b") == compose("ga" + marks + "b")
    held = clean_text("각" + "\u0344" * 5000, ALL_RULES).text  # NFC makes two of each
    assert len(held) <= 1 + MAX_MARKS
    assert compose(held) == held


def test_joiners_stay_where_they_are_spelling():
    for text in ("می\u200cخواهم", "क्\u200dष", "👨\u200d👩\u200d👧"):
        assert remove_control_characters(text) == text
    assert remove_control_characters("한\u200d국\u200c어 a\u200db") == "한국어 ab"


CASES = {
    remove_urls: [
        ("보기: https://a.kr/x?y=1&z=%20#top.", "보기: ."),
        ("http://example.com에서 봅니다", "에서 봅니다"),
        ("https://www.law.go.kr/법령/민법 참고", " 참고"),
        ("http://www.mois.go.kr/에서 확인", "에서 확인"),
        ("http://a.kr/의 글, http://a.kr/으로 http://a.kr/입니다.", "의 글, 으로 입니다."),
        ("http://a.kr/에서. (http://a.kr/b/는 글)", "에서. (는 글)"),
        ("https://ko.wikipedia.org/wiki/한국어에서 https://a.kr/한국을", "에서 을"),
        ("https://a.kr/%ED%95%9C%EA%B5%AD에서", "에서"),
        # titles that end as a particle does: the form would be another, or nouns end so
        ("https://a.kr/마을 https://a.kr/회의 https://a.kr/국가 https://a.kr/도로", "   "),
        ("https://a.kr/법령/제1조까지 https://a.kr/봄-여행-글을", "까지 을"),
        ("https://ko.wikipedia.org/wiki/가람_(강)은", "은"),
        ("https://a.jp/を参照。（https://a.jp/b）「https://a.jp/c」、", "を参照。「」、"),
        ("https://ja.wikipedia.org/wiki/日本語を読む", "日本語を読む"),
        ("https://a.kr/b…, https://a.kr/c!?", "…, !?"),
        ("https://ko.wikipedia.org/wiki/A_(B)!", "!"),
        ("(https://a.kr)", ""),
        ("www.naver.com, WWW.A.KR", ", "),
        ("[문서](https://a.kr/b) 참고", "[문서] 참고"),
        ('[문서](https://a.kr/b "제목") 참고', "[문서] 참고"),
        ("<https://a.kr>", ""),
        ("Paper [https://a.org/x?id=1], code (http://b.org).", "Paper , code ."),
        ("get(http://b.org)", "get()"),
        ("`https://a.kr`로, ``http://b.kr/c`` 에서", "로,  에서"),
        ("ftp://a.kr/f.zip", ""),
        ("naver.com은 이름이다", "naver.com은 이름이다"),
        ("xhttp://a.kr", "xhttp://a.kr"),
        ("www. 는 셋", "www. 는 셋"),
    ],
    remove_csv_quotes: [
        ('"가수, ""새 노래"" 내다"', '가수, "새 노래" 내다'),
        ('"""끝"" 이라고 했다"', '"끝" 이라고 했다'),
        ('"따온 말"', '"따온 말"'),
        ('"하나" 그리고 "둘"', '"하나" 그리고 "둘"'),
        ('"하나 ""둘" 셋', '"하나 ""둘" 셋'),
        ('"하나.""둘."', '"하나.""둘."'),
        ('"""\n설명\n"""', '"""\n설명\n"""'),
        ('x = ""', 'x = ""'),
        ("", ""),
    ],
    normalise_hangul: [
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
        *(
            (same, same)
            for same in [
                "ᄒᆞᆫ글",  # Old Korean: a vowel that has no syllable
                "ㅎㆍㄴ",  # the same in compatibility letters: no dot
                "你好！，？",
                "カラオケ・バー",
                "句読点、。！？",
                "plain text",
            ]
        ),
    ],
    drop_hanja: [
        ("법률(法律)에", "법률에"),
        ("이순신(李舜臣, 1545~1598)", "이순신(1545~1598)"),
        ("大韓民國 만세", " 만세"),
        ("한글(가나)만", "한글(가나)만"),
        ("정의 (正義)", "정의"),
        ("豈", ""),  # a compatibility ideograph
    ],
    squeeze_repeats(4): [
        ("ㅋㅋㅋㅋㅋㅋㅋ 웃겨!!!!!!!!", "ㅋㅋㅋㅋ 웃겨!!!!"),
        ("하하하하하하하", "하하하하"),
        ("ㅋㅎㅋㅎㅋㅎㅋㅎㅋㅎㅋㅎ", "ㅋㅎㅋㅎㅋㅎㅋㅎ"),
        ("글쎄........", "글쎄..."),
        ("---------- 1 ==========", "--- 1 ==="),
        ("*****시 *** 씨 ** 동", "****시 *** 씨 ** 동"),
        ("👍👍👍👍👍👍", "👍👍👍👍"),
        ("와아아아아아아 대박대박대박대박대박", "와아아아아 대박대박대박대박"),
        *(
            (few, few)
            for few in ("0000000", "wwwwww zzzzzz", "((((((", "一一一一一一", "ㅋㅋㅋㅋ", "a === b")
        ),
    ],
    clean_comment: [
        ("진짜 OOO 같은 놈", "진짜  같은 놈"),
        ("@홍길동 맞아요", " 맞아요"),
        ("中國 사람 яб", "  사람  "),
        ("mail@a.kr 주세요", "mail@a.kr 주세요"),
        *(
            (same, same)
            for same in [
                "ㅠㅠ 좋아요 Good 10점!!",
                "최고 👍🏽❤️ 👨‍👩‍👧",
                "“말” — 『책』 ～ ★ 5,000₩ 25℃",
                "BOOOK, OO",
                "café",
            ]
        ),
    ],
}


@pytest.mark.parametrize("rule", CASES, ids=lambda rule: rule.__qualname__)
def test_what_a_rule_makes_of_a_text(rule):
    assert {text: rule(text) for text, _ in CASES[rule]} == dict(CASES[rule])


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


_REPEATS = st.text(st.sampled_from("ㅋㅎ하아!~.a0-= \n👍漢"), max_size=60)


@given(_REPEATS, st.integers(1, 5))
@settings(max_examples=200)
def test_no_run_is_longer_and_nothing_but_repeats_goes(text, n):
    squeezed = squeeze_repeats(n)(text)
    assert squeeze_repeats(n)(squeezed) == squeezed
    assert not re.search(rf"([ㅋㅎ하아!👍漢])\1{{{n}}}|([ㅋㅎ하아]{{2}})\2{{{n}}}", squeezed)
    runs = (re.sub(r"(..?)\1+", r"\1", one, flags=re.DOTALL) for one in (text, squeezed))
    assert len({*map(frozenset, runs)}) == 1


def test_a_text_with_more_than_one_lost_character_of_a_hundred_is_undecodable():
    assert undecodable("") is None
    assert undecodable("가" * 199 + "\ufffd") is None
    assert undecodable("가" * 9 + "\ud83d").reason == "undecodable"
