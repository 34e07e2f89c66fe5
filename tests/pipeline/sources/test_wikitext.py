"""MediaWiki's markup to plain text."""

import mwparserfromhell
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.sources.wikipedia import WikiWords, plain_text
from tests.pipeline.cases import read_cases

CASES = read_cases(__file__)


@pytest.mark.parametrize(
    ("wikitext", "expected"), [(CASES["article"], CASES["text"]), *CASES["pieces_of_markup"]]
)
def test_an_article_and_pieces_of_markup(wikitext, expected):
    assert plain_text(wikitext) == expected


@pytest.mark.parametrize(("language", "wikitext", "shown"), CASES["templates_show_their_argument"])
def test_templates_show_their_argument(language, wikitext, shown):
    assert plain_text(wikitext, WikiWords(language=language)) == shown


@pytest.mark.parametrize(
    "piece",
    [
        *("{{", "[[", "{{{", "{{lang|en|", "({{a}}, ", "( , ", "{{convert|1|", "{{formatnum:1"),
        *("{{hlist|a|", "「{{a}}", "{{a}}, "),
    ],
)
def test_time_is_linear_in_what_is_never_closed(piece):
    plain_text(piece * (100_000 // len(piece)))  # quadratic would be minutes
    plain_text(piece * (50_000 // len(piece)) + "}}" * 25_000)


def test_the_names_of_a_wiki_are_those_of_its_dump():
    words = WikiWords(media=frozenset({"fîle"}), category=frozenset({"dabestan"}))
    assert plain_text("a[[Fîle:b.jpg]][[Dabestan:c]] [[Category:d]]", words) == "a Category:d"


_WORD = st.from_regex(r"[a-z가-힣]{1,6}", fullmatch=True)
_INLINE = st.recursive(
    _WORD,
    lambda inner: st.one_of(
        st.builds("[[{0}|{1}]]".format, _WORD, inner),
        st.builds("'''{0}''' {1}".format, _WORD, inner),
        st.builds("{0} {{{{t|{1}}}}} {0}".format, inner, inner),
        st.builds("{0}<!-- {1} -->".format, _WORD, _WORD),
        st.builds("<b>{0}</b> {1}".format, inner, _WORD),
        st.builds("[http://a.example/ {0}] {1}".format, _WORD, inner),
    ),
    max_leaves=12,
)


@settings(max_examples=30)
@given(st.lists(_INLINE, min_size=1, max_size=5))
def test_words_are_those_of_a_full_parser(paragraphs):
    wikitext = "\n\n".join(paragraphs)
    reference = mwparserfromhell.parse(wikitext).strip_code(normalize=True, collapse=True)
    assert plain_text(wikitext).split() == reference.split()
