"""Which lines are of a language, by script and by models."""

import pytest

from pipeline.rules import language as rules
from pipeline.rules.language import (
    PLAIN_FRACTION,
    language_meant,
    language_share,
    main_language,
    only_language,
)
from tests.pipeline.cases import read_cases

CASES = read_cases(__file__)

SENTENCES = CASES["sentences"]


def foreign_language(text, language, min_fraction):
    share = language_share(text, language, min_fraction > PLAIN_FRACTION)
    return share and rules.foreign_language(share, min_fraction)


_CODE = "for (int i = 0; i < values.size(); ++i) { total += weight[i] * value_of(values[i]); }"


@pytest.mark.parametrize("language", SENTENCES)
def test_a_text_is_of_its_own_language_alone(language):
    for other, sentence in SENTENCES.items():
        for text in (sentence, "\n".join([sentence] * 4)):
            for fraction in (0.5,) if text == sentence else (0.01, 1.0):
                drop = foreign_language(text, language, fraction)
                assert (drop and drop.reason) == (None if language == other else "foreign_language")


@pytest.mark.parametrize("language", SENTENCES)
def test_half_and_half(language):
    other = "en" if language != "en" else "ko"
    text = "\n".join([SENTENCES[language], SENTENCES[other]] * 3)
    assert foreign_language(text, language, 0.3) is None
    assert foreign_language(text, language, 0.7) is not None


def test_code_counts_as_no_language():
    text = "\n".join([SENTENCES["ko"], *[_CODE] * 30])
    assert foreign_language(text, "ko", 1.0) is None


def test_short_texts_are_dropped_only_without_a_letter_of_the_script():
    assert foreign_language("good", "ko", 0.5) is None
    assert foreign_language("this is a very good movie 굿", "ko", 0.5) is None
    for language, text in (
        ("ko", "this is a very good movie"),
        ("en", "한국어 문장이지만 영어 말뭉치에 들어 있는 짧은 글"),
        ("hi", "।।4.7।। There is no note to this verse."),  # a danda is no letter
        ("ar", "Orders، returns، invoices and payments؟"),
    ):
        assert foreign_language(text, language, 0.5) is not None


@pytest.mark.parametrize(
    ("language", "text"),
    [(code, t) for code, of in (("zh", "chinese"), ("ja", "japanese")) for t in CASES[of]],
)
def test_short_chinese_japanese_and_korean_are_told_apart(language, text):
    drops = {code: foreign_language(text, code, 0.5) for code in ("zh", "zh-Hant", "ja", "ko")}
    kept = {"zh", "zh-Hant"} if language == "zh" else {language}
    assert {code for code, drop in drops.items() if drop is None} == kept


@pytest.mark.parametrize(("language", "text"), CASES["kept"])
def test_good_short_texts_with_letters_of_others_are_kept(language, text):
    assert foreign_language(text, language, 0.5) is None


def test_a_language_that_nothing_knows_is_never_dropped():
    for code in ("nv", "qaa", "zxx"):
        for text in SENTENCES.values():
            assert foreign_language("\n".join([text] * 5), code, 1.0) is None


@pytest.mark.parametrize(
    ("text", "language"),
    [
        *CASES["main_language"],
        ("국회는 오늘 본회의를 열어 예산안을 처리했다.\nfor (i = 0; i < n; ++i) { next(); }", "ko"),
        ("12 + 34 = 46\n", None),
        ("", None),
    ],
)
def test_the_main_language_of_a_text_of_which_nothing_is_known(text, language):
    assert main_language(text) == language


@pytest.mark.parametrize(
    ("code", "languages", "language"),
    [
        *(("no", ("en", "nb"), "nb"), ("no", ("da", "nb"), "nb"), ("da", ("nb", "da"), "da")),
        *(("ms", ("en", "id"), "id"), ("ms", ("id", "ms"), "ms"), ("fil", ("en", "tl"), "tl")),
        *(("fr", ("en", "de"), None), ("en", ("qaa",), None)),
    ],
)
def test_a_model_means_a_language_by_the_code_of_another(code, languages, language):
    assert language_meant(code, languages) == language


@pytest.mark.parametrize(
    ("text", "languages", "language"),
    [
        ("Super Film", ("ru", "de"), "de"),
        ("Super Film", ("ru", "de", "en"), None),
        ("iPhone 15 팝니다", ("ko", "en"), None),
        ("12 + 34", ("ru", "de"), None),
        ("ありがとう", ("ja", "ko"), "ja"),
    ],
)
def test_a_script_tells_where_one_language_alone_is_written_in_it(text, languages, language):
    assert only_language(text, languages) == language
