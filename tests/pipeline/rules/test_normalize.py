"""The text rules: examples of each, and the laws of their fixed point."""

import re
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from electrify.config.clean import CleanRules, Source
from pipeline.rules.normalize import (
    MAX_MARKS,
    Changes,
    changed_part,
    clean_comment,
    clean_text,
    compose,
    drop_hanja,
    drop_mentions,
    normalise_hangul,
    remove_control_characters,
    remove_csv_quotes,
    remove_lost_characters,
    remove_urls,
    squeeze_repeats,
    squeeze_whitespace,
    text_rules_for,
)
from pipeline.rules.quality import undecodable
from tests.pipeline.cases import read_cases

CASES = read_cases(__file__)
_PLAIN_RULES = (
    *(clean_comment, drop_hanja, drop_mentions, normalise_hangul, remove_csv_quotes, remove_urls),
)
_RULES = {rule.__name__: rule for rule in _PLAIN_RULES} | {"squeeze_repeats": squeeze_repeats(4)}

ALL_RULES = text_rules_for(CleanRules(), Source(kind="jsonl", language="ko", path="x"))


def test_names_of_the_rules_that_changed_a_text():
    changes = Changes()
    assert clean_text("<i>가\u200b</i>  \u1112\u1161\u11ab\ufffd", ALL_RULES, changes) == "가 한"
    # an entity may hide a tag
    assert clean_text("&amp;lt;b&amp;gt;굵게&amp;lt;/b&amp;gt;", ALL_RULES, Changes()) == "굵게"
    plain = "lost_characters_removed", "control_characters_removed", "whitespace_squeezed"
    assert (*changes,) == (*plain, "html_removed", "unicode_composed")


def test_characters_and_blanks_that_say_nothing():
    assert remove_lost_characters("안\ufffd녕\ud83d\uffff👍") == "안녕👍"
    text = " \t가  나\u3000다\xa0라 \r\n 마\n\n\n\n바\u2028사\x85아 "
    assert squeeze_whitespace(text) == "가 나 다 라\n마\n\n바\n사\n아"
    assert remove_control_characters("가\x00\u200b나\ufeff\u00ad다\u202e\u061c\x9f\x1f") == "가나다"
    assert remove_control_characters("가\t나\n") == "가\t나\n"


def test_marks_over_one_letter_are_limited():
    marks = "\u0301\u0316" * 15
    assert compose("ga" + marks) == unicodedata.normalize("NFC", "ga" + marks)
    assert compose("ga" + marks * 9 + "b") == compose("ga" + marks + "b")
    held = clean_text("각" + "\u0344" * 5000, ALL_RULES, Changes())  # NFC makes two of each
    assert len(held) <= 1 + MAX_MARKS
    assert compose(held) == held


def test_joiners_stay_where_they_are_spelling():
    for text in ("می\u200cخواهم", "क्\u200dष", "👨\u200d👩\u200d👧"):
        assert remove_control_characters(text) == text
    assert remove_control_characters("한\u200d국\u200c어 a\u200db") == "한국어 ab"


GIVES = {_RULES[name]: rows for name, rows in CASES["gives"].items()}


@pytest.mark.parametrize("rule", GIVES, ids=lambda rule: rule.__qualname__)
def test_what_a_rule_makes_of_a_text(rule):
    assert {text: rule(text) for text, _ in GIVES[rule]} == dict(GIVES[rule])


_REPEATS = st.text(st.sampled_from("ㅋㅎ하아!~.a0-= \n👍漢"), max_size=60)


@given(_REPEATS, st.integers(1, 5))
@settings(max_examples=100)
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


@given(st.text("가나ab", max_size=9), st.text("가나ab", max_size=9), st.text("가나ab", max_size=9))
@settings(max_examples=50)
def test_what_is_shown_of_a_change_is_what_went(start, part, end):
    before, after = start + part + end, start + end
    shown = changed_part(before, after)
    assert len(shown) == len(part)
    assert after in {before[:n] + before[n + len(shown) :] for n in range(len(before) + 1)}
    assert changed_part("가<b>나", "가*나") == "<b>"
