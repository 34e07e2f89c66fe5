"""All rules of a source together: their order, and the law of the fixed point."""

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from electrify.config.clean import CleanConfig, LanguageRules, Source
from pipeline.rules.order import document_rules

_PIECES = st.sampled_from(
    [
        "<b>",
        "</b>",
        "&lt;",
        "&amp;",
        "<!--",
        "-->",
        "http://a.kr/",
        "www.b.com",
        "가나다",
        "ㅋㅋㅋㅋㅋㅋ",
        "!!!!!!",
        "hong@naver.com",
        "010-1234-5678",
        "900101-1234568",
        "무단전재 및 재배포 금지",
        "기자 =",
        "ⓒ 한국일보",
        "\n",
        "\n\n",
        " ",
        "[x](http://y.kr)",
        "**굵게**",
        "# 제목",
        "```",
        "漢字",
        "ﾊﾝ",
        "\u200b",
        "\ufffd",
        "1",
        "-",
        "@",
        "The weather was fine, so we walked along the river all day.",
    ]
)
_TEXTS = st.lists(_PIECES | st.characters(codec=None), max_size=20).map("".join)


def _rules(code="ko", profile="none", **options):
    source = Source(kind="jsonl", language=code, path="a", profile=profile)
    return document_rules(source, CleanConfig(sources=(source,), **options))


@pytest.mark.parametrize("profile", ["none", "comments", "web"])
@given(text=_TEXTS)
@settings(max_examples=300, deadline=None)
def test_cleaning_twice_is_cleaning_once(profile, text):
    rules = _rules(profile=profile, remove_foreign_lines=True)
    once = rules.clean(text)
    again = rules.clean(once.text)
    assert again.text == once.text
    if once.drop is None or once.drop.reason != "undecodable":
        assert again.drop == once.drop


def test_every_change_is_counted():
    text = (
        "<p>문의는 hong@naver.com 또는 kim@daum.net으로 주십시오."
        " 자세한 것은 http://a.kr 에 있습니다.</p>\n무단전재 및 재배포 금지"
    )
    outcome = _rules().clean(text)
    assert outcome.drop is None
    assert outcome.text == "문의는 <email> 또는 <email>으로 주십시오. 자세한 것은 에 있습니다."
    assert outcome.altered["email_masked"] == 2
    assert outcome.altered["boilerplate_removed"] == 1
    assert outcome.altered["html_removed"] == outcome.altered["url_removed"] == 1


# what a comment is made of, and the marks that other rules would know there
_PLAIN_TEXTS = st.text(alphabet="가ㅋa1 \n.~^'\"!;(", max_size=30)


@pytest.mark.parametrize("profile", ["none", "comments"])
@given(text=_TEXTS | _PLAIN_TEXTS)
@settings(max_examples=400, deadline=None)
def test_what_is_shown_of_the_rules_is_what_was_counted(profile, text):
    rules = _rules(profile=profile, remove_foreign_lines=True)
    outcome = rules.clean(text)
    if outcome.drop is None or outcome.drop.reason != "undecodable":
        assert {name for name, _ in rules.changes(text)} == outcome.altered.keys()


def test_what_is_shown_of_the_rules():
    text = "<p>문의는 hong@naver.com 으로 주십시오.</p>\n무단전재 및 재배포 금지"
    assert dict(_rules().changes(text)) == {
        "html_removed": "<p>문의는 hong@naver.com 으로 주십시오.</p>⏎무단전재 및 재배포 금지"
        "  →  ⏎문의는 hong@naver.com 으로 주십시오.⏎⏎무단전재 및 재배포 금지",
        "whitespace_squeezed": "⏎문의는 hong@naver.com 으로 주십시오.⏎⏎무단전재 및 재배포 금지"
        "  →  문의는 hong@naver.com 으로 주십시오.⏎⏎무단전재 및 재배포 금지",
        "email_masked": "문의는 ho*** 으로 주십시오.⏎⏎무단전재 및 재배포 금지"
        "  →  문의는 <email> 으로 주십시오.⏎⏎무단전재 및 재배포 금지",
        "boilerplate_removed": "문의는 <email> 으로 주십시오.⏎⏎무단전재 및 재배포 금지"
        "  →  문의는 <email> 으로 주십시오.",
    }
    assert _rules().changes("바뀔 것이 없는 글") == []


def test_options_turn_rules_off():
    text = "문의는 hong@naver.com 으로 주십시오.\n무단전재 및 재배포 금지"
    outcome = _rules(mask_pii=False, remove_boilerplate=False).clean(text)
    assert outcome.text == text
    assert outcome.altered == {}


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ("undecodable", "가나\ufffd\ufffd 다라마바사아자차카타파하"),
        ("empty", "<br> \u200b"),
        ("too_short", "가나다"),
        ("no_letters", "12:30 ~ 13:00 (10%)"),
        ("foreign_language", "All of this text is in English, nothing is in Korean."),
        ("few_words", "열 자는 넘지만 짧은 글"),
    ],
)
def test_the_first_rule_that_is_broken_is_the_reason(reason, text):
    drop = _rules(profile="web").clean(text).drop
    assert drop is not None
    assert drop.reason == reason


def test_rules_differ_by_language():
    options = {"language": {"en": LanguageRules(min_language_fraction=0.0)}}
    text = "이 글은 모두 한국어로 쓰여 있고 영어는 없습니다."
    assert _rules("en", **options).clean(text).drop is None
    assert _rules("de", **options).clean(text).drop is not None


def test_foreign_lines_go_if_asked():
    english = "The weather was fine today, so we walked along the river for a long time."
    text = f"오늘은 날씨가 좋았다.\n{english}\n그래서 강가를 오래 걸었다."
    assert _rules().clean(text).text == text
    outcome = _rules(remove_foreign_lines=True).clean(text)
    assert outcome.text == "오늘은 날씨가 좋았다.\n그래서 강가를 오래 걸었다."
    assert outcome.altered["foreign_lines_removed"] == 1


def test_rules_go_to_workers():
    rules = _rules(profile="web")
    text = "<b>문의</b>는 hong@naver.com 으로 주십시오."
    assert pickle.loads(pickle.dumps(rules)).clean(text) == rules.clean(text)
