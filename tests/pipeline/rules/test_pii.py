"""What is masked, and numbers that are nobody's."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.rules.markup.html import remove_html
from pipeline.rules.pii import mask_pii
from tests.pipeline.cases import read_cases
from tests.pipeline.rules.pii_cases import business_digit, negatives, positives, rrn_digit

CASES = read_cases(__file__)


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        *(("ko", text, expected) for text, expected in CASES["masked"]),
        *(("ko", text, text) for text in CASES["a_number_of_nobody_stays"]),
        *CASES["nationally_written"],
    ],
)
def test_a_number_is_masked_as_its_language_writes_it_and_one_of_nobody_stays(
    language, text, expected
):
    masked, counts = mask_pii(text, language)
    assert masked == expected
    assert sum(counts.values()) == expected.count("<")
    assert remove_html(masked) == masked
    assert mask_pii(masked, language) == (masked, {})
    assert mask_pii(text, "und")[0] != text or "<" not in expected  # of a text of no known language


@pytest.mark.parametrize("seed", range(4))
def test_every_form_between_any_neighbours_is_masked_alone_and_wholly(seed):
    for text, expected, language in positives(seed, 8):
        assert mask_pii(text, language)[0] == expected, text
        assert mask_pii(expected, language) == (expected, {})


def test_numbers_of_nobody_stay_whatever_their_digits():
    for text, expected, language in negatives(0, 8):
        assert mask_pii(text, language) == (expected, {}), text


@pytest.mark.parametrize("sex", "12345678")
def test_a_corporation_is_no_person(sex):
    """Of 1911 nobody lives; of 2011 only a number with a corporation's check digit is one."""
    twelve = f"110111{sex}23456"
    weights = (1, 2) * 6
    of_corporation = -sum(int(d) * w for d, w in zip(twelve, weights, strict=True)) % 10
    for digit in range(10):
        number = f"{twelve[:6]}-{twelve[6:]}{digit}"
        is_person = sex in "3478" and (digit != of_corporation or str(digit) == rrn_digit(twelve))
        assert ("rrn" in mask_pii(f"등록 {number} 끝", "ko")[1]) == is_person
        assert mask_pii(f"법인등록번호 {number} 끝", "ko")[1] == {}
        assert mask_pii(f"주민등록번호 {number} 끝", "ko")[1] == {"rrn": 1}


@pytest.mark.parametrize(
    "piece",
    [
        *("1", "1 - ", "1.", "1\u200b", "010 ", "010-1234-", "010-1234-5678", "1234 ", "+", "(02)"),
        *("4111 1111 1111 1111 ", "+44 20 7946 0958", "211.45.67.89.02 123 4567 ", "2001::", "ㅡ1"),
        *("a.", "a@a.com.", "a-", "DE89", "12가", "차량 12가 3456 ", "은행 123-45-"),
        *("전화 1588", "tel. 22 1"),
    ],
)
def test_a_long_row_of_one_piece_takes_linear_time(piece):
    """Quadratic would be minutes."""
    once = mask_pii(piece * (30_000 // len(piece)), "ko")[0]
    assert mask_pii(once, "ko") == (once, {})


@given(st.dates(), st.integers(1, 4), st.integers(0, 99999))
@settings(max_examples=30)
def test_a_number_without_hyphen_needs_its_check_digit(birth, sex, serial):
    twelve = f"{birth:%y%m%d}{sex}{serial:05d}"
    right = int(rrn_digit(twelve))
    for digit in range(10):
        masked = mask_pii(f"번호 {twelve}{digit} 끝", "ko")[1]
        assert ("rrn" in masked) == (digit == right)


@given(st.integers(100_000_000, 999_999_999))
@settings(max_examples=30)
def test_business_numbers_need_their_check_digit(number):
    nine = str(number)
    for digit in range(10):
        text = f"등록 {nine[:3]}-{nine[3:5]}-{nine[5:]}{digit}"
        assert ("business" in mask_pii(text, "ko")[1]) == (digit == int(business_digit(nine)))
