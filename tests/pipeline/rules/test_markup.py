"""HTML goes, text that only looks like it stays."""

import pytest

from pipeline.rules.markup.html import remove_html
from pipeline.rules.markup.markdown import remove_markdown
from pipeline.rules.markup.wiki import remove_wikitext
from tests.pipeline.cases import read_cases

CASES = read_cases(__file__)
_RULES = {rule.__name__: rule for rule in (remove_html, remove_markdown, remove_wikitext)}

GOES = {_RULES[name]: rows for name, rows in CASES["goes"].items()}
STAYS = {_RULES[name]: rows for name, rows in CASES["stays"].items()}


@pytest.mark.parametrize("rule", GOES)
def test_marks_go_and_what_only_looks_like_them_stays(rule):
    assert {text: rule(text) for text, _ in GOES[rule]} == dict(GOES[rule])
    assert [rule(text) for text in STAYS[rule]] == STAYS[rule]
