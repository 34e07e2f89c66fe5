"""What a run says of its discriminator is what `inspect` marks."""

import re

import pytest

from benchmarks.inspect.inspect import examine, threshold_chooser
from benchmarks.inspect.report import format_finding
from benchmarks.inspect.verdict import open_detector
from benchmarks.proofreading.marked import FALSE_ALARMS, marked_lines

SHIPPED = "model/shipped/ko-tiny/discriminator"


@pytest.fixture(scope="module")
def lines() -> list[str]:
    return marked_lines(SHIPPED, "ko")


def test_the_shipped_encoder_finds_wrong_particles_and_misses_exchanged_words(lines: list[str]):
    fractions = []
    for line in lines[1::2]:
        found = re.match(r"(\d+) of (\d+) ", line)
        assert found
        fractions.append(int(found[1]) / int(found[2]))
    particles, words = fractions
    assert particles > 0.8
    assert words < 0.4


def test_the_sentences_are_marked_as_inspect_marks_them(lines: list[str]):
    detector = open_detector(SHIPPED)
    choose = threshold_chooser(detector, None, None, FALSE_ALARMS)
    assert str(choose("한국어")) in lines[0]
    for said, marked in zip(lines[1::2], lines[2::2], strict=True):
        text = re.sub(r"[\[\]]", "", marked.strip())
        finding = examine(detector, text, choose(text), has_attributions=False)
        assert format_finding(finding).splitlines()[0] == marked.strip()
        planted, outcome = re.search(r"; (\S+) for \S+ is( not)?:$", said).groups()
        assert planted in text
        assert (f"[{planted}" in marked) == (outcome is None)


def test_other_languages_have_the_threshold_or_nothing():
    (line,) = marked_lines(SHIPPED, "en")
    assert "in Latin" in line
    assert marked_lines(SHIPPED, "ja") == []
