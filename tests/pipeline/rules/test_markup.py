"""Marks and macros go, words stay, and so does text that only looks like marks."""

import pytest

from electrify.config.clean import CleanConfig, Source
from pipeline.document import DocumentRules
from pipeline.rules.markup.html import remove_html
from pipeline.rules.markup.markdown import remove_markdown
from pipeline.rules.markup.wiki import remove_namuwiki, remove_wikitext
from pipeline.rules.normalize import squeeze_whitespace
from tests.pipeline.cases import read_cases

CASES = read_cases(__file__)
_RULES = {
    rule.__name__: rule for rule in (remove_html, remove_markdown, remove_wikitext, remove_namuwiki)
}


@pytest.mark.parametrize("name", _RULES)
def test_marks_go_and_what_only_looks_like_them_stays(name):
    rule, goes, stays = _RULES[name], CASES["goes"][name], CASES["stays"][name]
    of_blanks = squeeze_whitespace if name == "remove_namuwiki" else str
    assert {text: of_blanks(rule(text)) for text, _ in goes} == dict(goes)
    assert [rule(text) for text in stays] == stays


def test_a_page_of_namuwiki():
    source = Source(kind="jsonl", language="ko", path="x")
    rules = DocumentRules(source, CleanConfig(sources=(source,)))
    assert rules.clean(CASES["namuwiki_page"]).text == CASES["namuwiki_words"]


@pytest.mark.parametrize("piece", CASES["namuwiki_pieces"])
def test_time_is_linear_in_what_is_never_closed(piece):
    for text in (piece * 30_000, "{{{+1 가}}} " + piece * 30_000 + "}}}" * 30_000):
        remove_namuwiki(text)  # quadratic would be minutes
