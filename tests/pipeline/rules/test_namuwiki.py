"""Namuwiki's marks and macros go, its words stay; what only looks like them stays, too."""

import pytest

from electrify.config.clean import CleanConfig, Source
from pipeline.document import DocumentRules
from pipeline.rules.markup.wiki import remove_namuwiki
from pipeline.rules.normalize import squeeze_whitespace
from tests.pipeline.cases import read_cases

CASES = read_cases(__file__)

PAGE = CASES["page"]
WORDS = CASES["words"]


def test_a_page():
    source = Source(kind="jsonl", language="ko", path="x")
    assert DocumentRules(source, CleanConfig(sources=(source,))).clean(PAGE).text == WORDS


@pytest.mark.parametrize("text", ["#redirect 느낌표(기호)", "#넘겨주기 가람#s-1", "#REDIRECT a"])
def test_redirects_go(text):
    assert remove_namuwiki(text) == ""


@pytest.mark.parametrize(("text", "words"), CASES["marks_go_and_words_stay"])
def test_marks_go_and_words_stay(text, words):
    assert squeeze_whitespace(remove_namuwiki(text)) == words


@pytest.mark.parametrize("text", CASES["what_only_looks_like_it_stays"])
def test_what_only_looks_like_it_stays(text):
    assert remove_namuwiki(text) == text


PIECES = CASES["pieces"]


@pytest.mark.parametrize("piece", PIECES)
def test_time_is_linear_in_what_is_never_closed(piece):
    for text in (piece * 30_000, "{{{+1 가}}} " + piece * 30_000 + "}}}" * 30_000):
        remove_namuwiki(text)  # quadratic would be minutes
