"""Marks go, words stay, and so does text that only looks like marks."""

import pytest

from pipeline.rules.markup.html import remove_html
from pipeline.rules.markup.markdown import remove_markdown
from pipeline.rules.markup.wiki import remove_wikitext
from tests.pipeline.cases import read_cases

CASES = read_cases(__file__)


@pytest.mark.parametrize("rule", [remove_html, remove_markdown, remove_wikitext])
def test_marks_go_and_what_only_looks_like_them_stays(rule):
    goes, stays = (CASES[table][rule.__name__] for table in ("goes", "stays"))
    assert {text: rule(text) for text, _ in goes} == dict(goes)
    assert [rule(text) for text in stays] == stays
