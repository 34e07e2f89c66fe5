"""Texts that most rules need not look at: the law is that those rules leave them."""

from hypothesis import assume, example, given
from hypothesis import strategies as st

from electrify.config.clean import CleanRules, Source
from pipeline.rules.boilerplate import remove_boilerplate
from pipeline.rules.normalize import (
    RULES,
    clean_text,
    is_plain,
    rules_for,
    squeeze_blanks,
    squeeze_whitespace,
)
from pipeline.rules.pii import mask_pii

_TEXTS = st.text(
    st.sampled_from("aOWw가ㅋ1 9 \n\n.,!?~^()'\"%…·“’-@/:#*_[<&\t|"), max_size=40
) | st.text(st.sampled_from("a가ㅋ12 \n.,!?~^()'\"%…·“"), max_size=60)


def _rules(profile: str) -> tuple:
    source = Source(kind="jsonl", language="ko", path="x", profile=profile)
    return rules_for(CleanRules(hanja="drop"), source)


@given(_TEXTS, st.sampled_from(["comments", "web"]))
@example('"가""나"', "web")
@example("''가''", "web")
@example("~~가~~\n ^^ 나", "web")
@example("가 1 2 3 4 5 6 7", "web")
@example(".. 가나\n다..", "web")
def test_a_plain_text_is_changed_by_blanks_and_repeats_alone(text, profile):
    assume(is_plain(text))
    assert squeeze_blanks(text) == squeeze_whitespace(text)
    text = squeeze_whitespace(text)  # before it no other rule is asked that looks at blanks
    for name, rule in _rules(profile):
        assert name in RULES or rule(text) == text, name
    assert mask_pii(text, "ko") == (text, {})


@given(_TEXTS, st.sampled_from(["comments", "web"]))
def test_a_plain_text_stays_plain(text, profile):
    assume(is_plain(text))
    chosen = [rule for rule in _rules(profile) if rule[0] in RULES]
    cleaned = clean_text(text, chosen).text
    assert is_plain(cleaned)
    assert is_plain(remove_boilerplate(cleaned, "ko")[0])


def test_reviews_are_plain_and_marks_are_not():
    assert is_plain("최고의 영화 ㅋㅋㅋ 10점 줍니다!! 'Good'…")
    for text in ("OOO 감독", "www.a.kr", "010 1234 5678", "<b>", "a*b", "漢字", "가" * 500):
        assert not is_plain(text)
