"""All rules of a source together: their order, and the law of the fixed point."""

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from electrify.config.clean import CleanConfig, Source
from pipeline import document
from pipeline.document import DocumentRules, Outcome
from pipeline.rules.markup.markdown import remove_markdown
from tests.pipeline.cases import read_cases

CASES = read_cases(__file__)

_PIECES = [*CASES["pieces"], "\ud83d", "\ud83d\udc4d"]
_TEXTS = st.lists(st.sampled_from(_PIECES) | st.characters(codec=None), max_size=25).map("".join)
_CHOICES = CASES["choices"]


def _rules(code="ko", profile="none", **options):
    source = Source(kind="jsonl", language=code, path="a", profile=profile)
    return DocumentRules(source, CleanConfig(sources=(source,), **options))


@pytest.mark.parametrize("options", _CHOICES)
@given(
    text=_TEXTS
    | st.text("가ㅋa1 \n.~^'\"!;(", max_size=30)
    | st.text("차량 계좌전화0123456789-.@a", max_size=80)
)
@settings(max_examples=90)
def test_cleaning_twice_is_cleaning_once_and_what_changed_is_named(options, text):
    rules = _rules(**options)
    outcome = rules.clean(text)
    if outcome.drop is not None and outcome.drop.reason == "undecodable":
        return
    once = outcome.text
    again = rules.clean(once)
    assert again == Outcome(once, outcome.drop, {})
    assert (once == text) == (not outcome.changes)
    assert unicodedata.is_normalized("NFC", once)
    assert once.encode("utf-8").decode("utf-8") == once == once.strip()
    assert not any(blank in once for blank in ("  ", "\n\n\n"))
    assert not {c for c in once if unicodedata.category(c) == "Cc"} - {"\n"}


@pytest.mark.parametrize(
    "piece",
    [
        *("[", "[a](", "**", "_a ", "{{a(", "|a", "> ", "`a <", "---\n"),
        *("<a>b", "<!--", "http://a", "1-", "a@", "010-1234-", "''a", "{{{#red ", "||a"),
    ],
)
def test_a_long_row_of_one_mark_comes_to_an_end(piece):
    """In time that is linear; quadratic would be minutes."""
    once = _rules().clean("차량 " + piece * 10_000).text
    assert _rules().clean(once).text == once


@pytest.mark.parametrize(
    "text",
    [
        "&" + "amp;" * 5000 + "lt;",
        "<br" * 5000 + ">" * 5000,
        "[[" * 5000 + "가|나" + "]]" * 5000,
        "[" * 5000 + "가" + "](a/b)" * 5000,
        "{% a" * 5000 + "%}" * 5000,
    ],
    ids=["entities", "tags", "wiki links", "links", "macros"],
)
def test_markup_in_many_layers_is_given_up_in_time_that_is_linear(text):
    outcome = _rules().clean(text)
    assert (outcome.text, outcome.drop.reason) == (text, "nested_markup")
    less = "&" + "amp;" * 30 + "lt; 한국어 문장입니다."
    assert _rules().clean(less).text == "< 한국어 문장입니다."


def test_a_rule_that_makes_markup_of_plain_words_has_the_others_asked_again(monkeypatch):
    text = "영화가 참 좋았습니다 굿"
    known = document.text_rules_for
    new = ("slang_replaced", lambda text: text.replace("굿", "<b>추천</b>"))
    monkeypatch.setattr(document, "text_rules_for", lambda *source: (*known(*source), new))
    outcome = _rules(min_characters=1).clean(text)
    assert outcome.text == text.replace("굿", "추천")
    assert [*outcome.changes] == ["slang_replaced", "html_removed"]


@pytest.mark.parametrize(("reason", "text"), CASES["the_first_rule_that_is_broken_is_the_reason"])
def test_the_first_rule_that_is_broken_is_the_reason(reason, text):
    rules = _rules(profile="web")
    outcome = rules.clean(text)
    assert (outcome.drop or rules.broken_limit(outcome.text)).reason == reason


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("vi", "Phim rất hay, mọi người nên xem!"),
        ("ru", "Фильм отличный, всем советую! 10/10"),
        ("ar", "فيلم رائع جدا!"),
        ("ja", "良い映画でした！"),
    ],
)
def test_a_comment_keeps_the_letters_of_its_language(code, text):
    assert _rules(code, "comments").clean(f"@movie_fan {text}").text == text


def test_a_bracket_that_closes_a_tag_is_no_quotation():
    text = 'Alles, das\n<a href="/x"\n>Fließtext</a\n> annimmt.'
    assert _rules("de").clean(text).text == "Alles, das\nFließtext annimmt."


def test_blocks_of_data_go_and_short_ones_stay():
    lines = "".join(f'"field_{number}": {number},\n' for number in range(9))
    assert remove_markdown(f"Before\n```json\n{{\n{lines}}}\n```\nAfter") == "Before\n\nAfter"
    assert remove_markdown('```json\n{ "a": 1 }\n```') == '\n{ "a": 1 }\n'
    assert lines in remove_markdown(f"```python\nd = {{\n{lines}}}\n```")
