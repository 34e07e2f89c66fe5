"""Limits by language, profile and config."""

from typing import get_args

import pytest

from electrify.config.clean import CleanConfig, LanguageRules, Profile, QualityLimits, Source
from pipeline.rules.quality_limits import has_spaces, limits_for

_PROFILES = get_args(Profile)


def test_none_has_no_limits_even_with_overrides():
    assert limits_for("ko", "none", QualityLimits(min_words=5)) == QualityLimits()


@pytest.mark.parametrize("profile", [name for name in _PROFILES if name != "none"])
@pytest.mark.parametrize("language", ["ko", "en", "ja", "zh", "ar", "ceb", "th"])
def test_web_is_the_strictest(language, profile):
    web = limits_for(language, "web").model_dump()
    other = limits_for(language, profile).model_dump()
    for name, limit in other.items():
        if limit is None or name in {"max_top_word"}:
            continue
        assert web[name] is not None
        assert limit <= web[name] if name.startswith("min") else limit >= web[name]


def test_word_lengths_are_no_matter_without_spaces():
    assert not has_spaces("ja")
    assert not has_spaces("th")
    assert has_spaces("ko")
    assert limits_for("zh", "web").max_mean_word_length is None


@pytest.mark.parametrize(("profile", "num_characters"), [("web", 9), ("comments", 46)])
def test_korean_without_spaces_is_korean(profile, num_characters):
    most = limits_for("ko", profile).max_mean_word_length
    assert most
    assert num_characters <= most < 6 * num_characters


def test_only_korean_is_asked_for_particles():
    assert limits_for("ko", "web").min_particles
    assert limits_for("en", "web").min_particles is None
    assert limits_for("en", "documentation").min_particles is None


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
    assert korean.max_top_3gram == limits_for("ko", "web").max_top_3gram
