"""What is masked, and numbers that are nobody's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.rules.markup.html import remove_html
from pipeline.rules.pii import mask_pii


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("문의: kim.cs+a@mail.co.kr로", "문의: <email>로"),
        ("010-9876-5432, 01098765432, 010 9876 5432", "<phone>, <phone>, <phone>"),
        ("전화:02-345-6789 (031) 345-6789", "전화:<phone> <phone>"),
        ("+82-10-9876-5432 / +44 20 7946 0958", "<phone> / <phone>"),
        ("고객센터 1588-1234", "고객센터 <phone>"),
        ("900101-1234567", "<rrn>"),
        ("4111 1111 1111 1111", "<card>"),
        ("국민은행 123456-04-123456", "국민은행 <account>"),
        ("접속 211.45.67.89에서", "접속 <ip>에서"),
        ("차량 123가4567을", "차량 <plate>을"),
    ],
)
def test_masked(text, expected):
    masked, counts = mask_pii(text, "ko")
    assert masked == expected
    assert sum(counts.values()) == expected.count("<")
    assert remove_html(masked) == masked
    assert mask_pii(masked, "ko") == (masked, {})


@pytest.mark.parametrize(
    "text",
    [
        "@tf.function\ndef f(): x@np.array(y)",
        "train_step\n@tf.function",
        "user@example.com, a@b.example, git@github.com",
        "법률 제2019-1234호, 2019-1234-5678, 2020.12.31-2021.01.01",
        "버전 16.11.32126.315, v211.45.67.89, 10.0.0.1, 192.168.0.1, 192.0.2.44, 1.2.3.4",
        "ISBN 978-89-546-0000-1",
        "{ed1e4994-a84b-4759-8bf9-cd48fb073f4d}",
        "1588-1599년, 1592-1598",
        "901399-1234567, 900101-9234567",
        "4111 1111 1111 1112",
        "1234567890123 3.14159265358979",
        "시 123가4567",
        "https://a.kr/010-9876-5432",
    ],
)
def test_a_number_of_nobody_stays(text):
    assert mask_pii(text, "ko") == (text, {})


def test_a_mask_is_no_word_that_names_the_next_number():
    text = "+49 157 0156 99\n(800) 555-0123"
    assert mask_pii(text, "vi") == ("<phone>\n(800) 555-0123", {"phone": 1})


@given(st.text(st.sampled_from("차량 계좌전화0123456789-가.@a"), max_size=80))
def test_masking_twice_is_masking_once(text):
    once = mask_pii(text, "ko")[0]
    assert mask_pii(once, "ko") == (once, {})


def _check_digit(twelve: str) -> int:
    weights = (2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5)
    return (11 - sum(int(d) * w for d, w in zip(twelve, weights, strict=True)) % 11) % 10


@given(st.dates(), st.integers(1, 4), st.integers(0, 99999))
def test_a_number_without_hyphen_needs_its_check_digit(birth, sex, serial):
    twelve = f"{birth:%y%m%d}{sex}{serial:05d}"
    right = _check_digit(twelve)
    for digit in range(10):
        masked = mask_pii(f"번호 {twelve}{digit} 끝", "ko")[1]
        assert ("rrn" in masked) == (digit == right)


def _business(nine: str) -> int:
    weights = (1, 3, 7, 1, 3, 7, 1, 3, 5)
    total = sum(int(d) * w for d, w in zip(nine, weights, strict=True)) + int(nine[8]) * 5 // 10
    return -total % 10


@given(st.integers(100_000_000, 999_999_999))
def test_business_numbers_need_their_check_digit(number):
    nine = str(number)
    for digit in range(10):
        text = f"등록 {nine[:3]}-{nine[3:5]}-{nine[5:]}{digit}"
        assert ("business" in mask_pii(text, "ko")[1]) == (digit == _business(nine))
