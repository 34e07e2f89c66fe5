"""Language codes, and what is said of those that are none."""

import pytest

from electrify.config.names import check_language


@pytest.mark.parametrize("code", ["ko", "en", "zh", "ceb"])
def test_codes(code):
    assert check_language(code) == code


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("kr", "did you mean 'ko'"),
        ("CN", "did you mean 'zh'"),
        ("German", "did you mean 'de'"),
        ("KO", "is written 'ko'"),
        ("kor", "is written 'ko'"),
        ("ko-KR", "is written 'ko'"),
        *((code, "is no language code") for code in ("xx", "", "한국어", "k o", "none")),
    ],
)
def test_what_was_meant_is_named(code, says):
    with pytest.raises(ValueError, match=f"{code!r} .*{says}"):
        check_language(code)
