"""Faults found by reading cleaned English, German, French and Spanish documents."""

import pytest

from electrify.config.clean import CleanConfig, Source
from pipeline.rules.markup.html import remove_html
from pipeline.rules.markup.markdown import remove_markdown
from pipeline.rules.markup.wiki import remove_wikitext
from pipeline.rules.normalize import remove_urls
from pipeline.rules.order import document_rules
from pipeline.rules.quality import Parts


def _clean(text, language="en", profile="documentation"):
    source = Source(kind="jsonl", language=language, path="x", profile=profile)
    return document_rules(source, CleanConfig(sources=(source,))).clean(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("_I_ said _never_, not _perhaps!_", "I said never, not perhaps!"),
        ("Es war _kein_ Zufall, _trotzdem_.", "Es war kein Zufall, trotzdem."),
        ('_The wind, the rain;_\n_"And the sea!"_', 'The wind, the rain;\n"And the sea!"'),
        ("_I've_ seen _her_", "I've seen her"),
        ("_Erbt alles von `Node`_.", "Erbt alles von `Node`."),
        ("choisir **« ouvrir... »** puis **C#** .", "choisir « ouvrir... » puis C# ."),
        ("**¿Listo?** sí", "¿Listo? sí"),
        ("- `x`\n  - : Der Wert.", "- `x`\nDer Wert."),
        ("> - Erstens.\n> - Zweitens.", "- Erstens.\n- Zweitens."),
        (">\n>Prenez garde.", "\nPrenez garde."),
        ("*    *   4.1\n\n    *   Kosten\n\n    *\n\n*    *\n", "*   4.1\n\n*   Kosten\n\n\n\n\n"),
        ("114\\. Satz\nvom\n24\\.1.2020 an", "114. Satz\nvom\n24.1.2020 an"),
        ("{{SubpagesWithSummaries}}{{ListGroups}}{{GlossaryDisambiguation}}", ""),
        ("<xref:A.B.Open%2A> <xref:C.Map%602> <xref:D?x=y>", "A.B.Open C.Map D"),
        ("dans[NOM_LONG](../a/b.md) et", "dansNOM_LONG et"),
        ("---\ntitle: Form :: Open\nms.date: 1\n---\n# Form::open\nText", "Form::open\nText"),
    ],
)
def test_markdown_of_western_sources(text, expected):
    assert remove_markdown(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "f(_first, last_) and for _x, y_ in pairs",
        "x = _a ? b_ : c",
        "`_foo` und `bar_ baz`",
        "__init__ _private _WIN32_ _DEBUG_",
        "a[i](x), f[0](x.y)",
        "+\n-\n- eins\n* zwei",
    ],
)
def test_code_and_lists_stay(text):
    assert remove_markdown(text) == text


def test_a_bracket_that_closes_a_tag_is_no_quotation():
    text = 'Alles, das\n<a href="/x"\n>Fließtext</a\n> annimmt.'
    assert _clean(text, "de").text == "Alles, das\nFließtext annimmt."


def test_entities_that_are_spoken_of_stay():
    assert remove_html("Write `&lt;` for `<` and a &lt; b") == "Write `&lt;` for `<` and a < b"


def test_addresses_go_with_their_brackets():
    assert remove_urls("Paper [https://a.org/x?id=1], code (http://b.org).") == "Paper , code ."
    assert remove_urls("get(http://b.org)") == "get()"


def test_wikitext_is_put_together():
    text = "= Title =\n= = Life = =\n= = = Early = = =\n2 @,@ 500 well @-@ known ; 3 @.@ 5"
    assert remove_wikitext(text) == "Title\nLife\nEarly\n2,500 well-known ; 3.5"
    assert remove_wikitext("a @ b, x @y, a = = b") == "a @ b, x @y, a = = b"


def test_blocks_of_data_go_and_short_ones_stay():
    lines = "".join(f'"field_{number}": {number},\n' for number in range(9))
    assert remove_markdown(f"Before\n```json\n{{\n{lines}}}\n```\nAfter") == "Before\n\nAfter"
    assert remove_markdown('```json\n{ "a": 1 }\n```') == '\n{ "a": 1 }\n'
    assert lines in remove_markdown(f"```python\nd = {{\n{lines}}}\n```")


def test_pages_that_repeat_a_schema_are_kept_for_their_words():
    schema = '"kind": "text",\n"id": null,\n"type": "value"\n},\n' * 40
    words = "The corpus holds letters that farmers wrote to their families in the last century."
    page = f"# letters\n\n{words}\n\n```json\n{{\n{schema}}}\n```\n"
    outcome = _clean(page)
    assert outcome.drop is None
    assert outcome.text == f"letters\n\n{words}"


def test_lists_of_names_are_not_taken_for_their_bullets():
    """At any length: every n-th word of such a list may be a bullet."""
    for num in range(200, 2000, 37):
        words = Parts(" ".join(f"* name{n}" for n in range(num)), "en").sample
        assert 0.4 < sum(word == "*" for word in words) / len(words) < 0.6


def test_a_sample_is_of_words_of_the_text_in_their_order():
    for num in (1, 299, 300, 301, 700, 5003):
        sample = [int(word) for word in Parts(" ".join(map(str, range(num))), "en").sample]
        assert sample == sorted(set(sample))
        assert min(num, 150) <= len(sample) <= 300
        assert sample[-1] >= 0.98 * (num - 1)


def test_english_comments_make_no_foreign_document():
    code = "// Verify that the given pointer has not been released by somebody else before.\n" * 6
    text = f"Active ou désactive le point d’arrêt dans la fenêtre du débogueur.\n\n{code}"
    assert _clean(text, "fr").drop is None
    english = "Verify that the given pointer has not been released by somebody else before.\n" * 6
    assert _clean(english, "fr").drop.reason == "foreign_language"
