"""Statistics of quality against brute force, and rules against texts made to break them."""

import random
import re
import textwrap
from collections import Counter
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from electrify.config.clean import CleanConfig, LanguageRules, Profile, QualityLimits, Source
from pipeline.rules.quality import (
    RULES,
    Statistics,
    bounds_of,
    broken_limit,
    limits_for,
    repeated_fraction,
    top_fraction,
)
from pipeline.rules.scripts import has_spaces
from tests.pipeline.cases import read_cases

CASES = read_cases(__file__)

_WORDS = st.lists(st.sampled_from(["가", "나다", "the", "word", "of"]), max_size=40)


def _runs(words, size):
    return [tuple(words[i : i + size]) for i in range(len(words) - size + 1)]


def _drop(text, language, profile="web"):
    bounds = bounds_of(limits_for(language, profile))
    return broken_limit(text, language, bounds)


@given(_WORDS, st.integers(1, 6))
@settings(max_examples=50)
def test_fractions_of_runs_are_those_of_a_set_and_of_a_counter(words, size):
    seen: set[tuple[str, ...]] = set()
    inside = np.zeros(len(words), dtype=bool)
    for index, run in enumerate(_runs(words, size)):
        if run in seen:
            inside[index : index + size] = True
        seen.add(run)
    total = sum(map(len, words)) or 1
    expected = sum(len(word) for word, is_in in zip(words, inside, strict=True) if is_in) / total
    arrays = Statistics(" ".join(words), "en").words_or_characters
    assert repeated_fraction(*arrays, size) == pytest.approx(expected)
    counts = Counter(_runs(words, size))
    highest = max(counts.values(), default=0)
    longest = max((sum(map(len, run)) for run, n in counts.items() if n == highest), default=0)
    expected = min(1.0, longest * highest / total) if highest > 1 else 0.0
    assert top_fraction(*arrays, size) == pytest.approx(expected)


PROSE = CASES["prose"]


def _wrapped(text, language, width):
    lines = text.split("\n")
    if has_spaces(language):
        return "\n".join(textwrap.fill(line, width) for line in lines)
    return "\n".join(line[i : i + width] for line in lines for i in range(0, len(line), width))


@pytest.mark.parametrize("language", PROSE)
def test_where_the_lines_of_good_text_end_says_nothing(language):
    """Wrapped by hand, a sentence a line, with blank lines; also without full stops in Korean."""
    sentences = re.sub(r"(?<=[.。])\s*", "\n", PROSE[language]).strip()
    wrapped = (_wrapped(PROSE[language], language, width) for width in (20, 40))
    texts = [PROSE[language], sentences, *wrapped]
    if language == "ko":
        texts += [text.replace(".", "") for text in texts]
    for text in texts:
        assert _drop(text, language) is None
        assert _drop(text.replace("\n", "\n\n"), language) is None
    for profile in get_args(Profile):
        assert _drop(PROSE[language], language, profile) is None


_NOUNS = CASES["nouns"]


@pytest.mark.parametrize("separator", [" ", ", ", "\n", "\n\n", "\n- ", " 12\n"])
@pytest.mark.parametrize("language", _NOUNS)
def test_lists_of_words_are_dropped_however_their_lines_end(language, separator):
    rng = random.Random(0)
    text = separator.join(rng.choices(_NOUNS[language].split(), k=120))
    assert _drop(text, language) is not None


def test_the_number_of_a_line_ends_no_sentence():
    def ends(text, language):
        statistics = Statistics(text, language)
        return round(statistics.sentence_ends() * statistics.num_characters / 100)

    assert ends("1. Home\n2. About us\n3. Contact", "en") == 0
    assert ends('He said "stop." It was late... Was it?! Yes (he thought.)\nEnd.', "en") == 5
    assert ends("비가 온다 그런데 우산이 없어요\n어쩌죠 다음에 보자", "ko") == 3
    assert ends("雨だ。「傘は？」と聞いた。。", "ja") == 3
    assert ends("ខ្ញុំទៅសាលារៀន។ គាត់នៅផ្ទះ៕", "km") == ends("Նա տանն է։ Անձրև է։", "hy") == 2


@pytest.mark.parametrize(
    ("reason", "language", "text"),
    [
        ("few_words", "ko", "짧은 글입니다"),
        ("long_words", "ko", "띄어쓰기를전혀하지않은아주긴문장을웹문서로볼수는없습니다 " * 12),
        ("short_words", "en", "a b c d e f g h i j k l m n o p q r s t u v w x y z"),
        ("long_word", "en", PROSE["en"] * 60 + " " + "A" * 1200),
        ("not_alphabetic", "en", "price 1234 5678 9012 3456 " * 8),
        ("function_words", "en", "alpha beta gamma delta epsilon zeta kappa lambda sigma " * 6),
        ("bullet_lines", "en", "- this is one of the points that we have to make\n" * 12),
        ("ellipsis_lines", "en", "this is one of the lines that never come to an end ...\n" * 12),
        ("duplicate_lines", "en", PROSE["en"] + "\nthe same line of text again.\n" * 12),
        ("script_letters", "ko", "가 " + PROSE["en"] * 3),
        ("few_words", "ja", "昨日は雨"),
        # a Latin word is one word where no spaces stand
        ("few_words", "ja", "Example Office Server"),
        ("few_words", "zh", "Example.Tools 4.8"),
    ],
)
def test_web_pages_that_break_a_rule(reason, language, text):
    assert _drop(text, language).reason == reason


@given(st.text(max_size=200), st.sampled_from(["ko", "en", "ja"]), st.sampled_from(RULES))
@settings(max_examples=150)
def test_a_limit_drops_what_lies_on_its_bad_side_and_has_words_and_lines_enough(
    text, language, rule
):
    statistics = Statistics(text, language)
    value = statistics.value(rule)
    has_enough = statistics.num_words >= rule.num_words and len(statistics.lines) >= rule.num_lines
    for limit in {0.0, 0.5, 7.0, value or 0.0}:
        drop = broken_limit(text, language, [(rule, limit)])
        is_bad = value is not None and (value < limit if rule.limit[:3] == "min" else value > limit)
        assert (drop is not None) == (has_enough and is_bad)
        assert drop is None or drop.reason == rule.reason


def test_a_language_goes_before_all_and_both_before_the_profile():
    config = CleanConfig(
        sources=(Source(kind="jsonl", language="ko", path="a"),),
        quality=QualityLimits(min_words=7, max_bullet_lines=0.5),
        language={"ko": LanguageRules(quality=QualityLimits(min_words=3, max_top_2gram=0.9))},
    )
    korean = limits_for("ko", "web", config.rules_for("ko").quality)
    assert (korean.min_words, korean.max_bullet_lines, korean.max_top_2gram) == (3, 0.5, 0.9)
    english = limits_for("en", "web", config.rules_for("en").quality)
    assert (english.min_words, english.max_bullet_lines, english.max_top_2gram) == (7, 0.5, 0.2)
    assert korean.max_duplicate_5gram == limits_for("ko", "web").max_duplicate_5gram
    of_config = limits_for("ko", "none", config.rules_for("ko").quality)  # has no limits of its own
    assert of_config == config.rules_for("ko").quality
