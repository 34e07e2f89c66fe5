"""Language codes, and what is said of those that are none."""

import pytest

from electrify.config.languages import check_language


@pytest.mark.parametrize(
    "code", ["ko", "en", "ja", "zh", "de", "fr", "es", "ru", "ar", "hi", "vi", "ceb"]
)
def test_codes(code):
    assert check_language(code) == code


@pytest.mark.parametrize(
    ("code", "meant"),
    [
        ("kr", "ko"),
        ("jp", "ja"),
        ("cn", "zh"),
        ("CN", "zh"),
        ("us", "en"),
        ("vn", "vi"),
        ("korean", "ko"),
        ("German", "de"),
    ],
)
def test_what_was_meant_is_named(code, meant):
    with pytest.raises(ValueError, match=f"{code!r} is .*did you mean {meant!r}"):
        check_language(code)


@pytest.mark.parametrize("code", ["xx", "", "a", "한국어", "zz", "k o", "none"])
def test_codes_nobody_knows(code):
    with pytest.raises(ValueError, match="is no language code"):
        check_language(code)


@pytest.mark.parametrize(
    ("code", "right"), [("KO", "ko"), ("kor", "ko"), ("ko-KR", "ko"), ("eng", "en")]
)
def test_another_way_to_write_a_code(code, right):
    with pytest.raises(ValueError, match=f"{code!r} is written {right!r} here"):
        check_language(code)
