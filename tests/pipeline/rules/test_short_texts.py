"""Short texts: what counts as a letter of the language, and as a word."""

import pytest

from pipeline.rules.language import foreign_language
from pipeline.rules.quality import quality
from pipeline.rules.quality_limits import limits_for


@pytest.mark.parametrize(
    ("language", "text", "is_foreign"),
    [
        ("hi", "।।4.7।। There is no note to this verse.", True),  # a danda is no letter
        ("ar", "Orders، returns، invoices and payments؟", True),
        ("hi", "।।4.7।। इस पर टीका नहीं है, see verse eight.", False),
        ("ar", "Orders and returns، الطلبات والمرتجعات", False),
    ],
)
def test_punctuation_of_a_script_is_no_letter(language, text, is_foreign):
    assert (foreign_language(text, language, 0.5) is not None) == is_foreign


@pytest.mark.parametrize(
    ("language", "text", "is_kept"),
    [
        ("ja", "Example Office Server", False),
        ("zh", "Example.Tools 4.8", False),
        ("ja", "設定を保存してから閉じます", True),
        ("zh", "请先用 Example 打开这个文件", True),
    ],
)
def test_a_latin_word_is_one_word_in_a_language_without_spaces(language, text, is_kept):
    drop = quality(text, language, limits_for(language, "documentation"))
    assert (drop is None) == is_kept
    assert is_kept or drop.reason == "few_words"
