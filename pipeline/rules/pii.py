"""Personal data masked by what it was: `<email>`, `<phone>`, `<rrn>`, ...

Digits are looked at once: every cluster of digits goes to the checks that its form allows. The
masks are no HTML elements, hold no digits and no @, so neither the HTML rule nor this one touches
them again. Numbers of laws, versions, dates, ISBN and GUIDs must stay, so a form without a
check digit needs a word beside it that says what it is, or separators that nothing else has.
"""

import ipaddress
import re
from collections.abc import Callable
from functools import partial

import numpy as np

from pipeline.rules.characters import SHORT, codes

# two letters, or a domain that people have addresses in: "@tf.function" is code
_TOP = (
    "[A-Za-z]{2}|com|net|org|edu|gov|mil|int|info|biz|name|pro|mobi|asia|app|dev|xyz|online|site"
    "|club|shop|store|tech|cloud|email|company|agency|academy|kim"
)
_EMAIL = re.compile(
    r"(?<![A-Za-z0-9_.+\-%/=@])[A-Za-z0-9][A-Za-z0-9._%+\-]{0,63}+@"
    rf"(?:[A-Za-z0-9][A-Za-z0-9\-]{{0,62}}\.){{1,5}}(?:{_TOP})(?![A-Za-z0-9_(@\[/]|\.[A-Za-z0-9])",
    re.IGNORECASE,
)
_RESERVED_DOMAIN = re.compile(
    r"(?:^|\.)(?:example\.[a-z]+|example|test|invalid|localhost)$", re.IGNORECASE
)  # RFC 2606
_NOBODY = ("git@", "noreply@", "no-reply@")


def mask_pii(text: str, language: str = "") -> tuple[str, dict[str, int]]:
    """The text with masks, and how many of each kind. `language`: national forms are its own.

    To a fixed point: a mask is shorter than a number, so a word may come near enough to the next.
    """
    counts: dict[str, int] = {}
    before = None
    while text != before:
        before = text
        text = _mask_once(text, language, counts)
    return text, counts


def _mask_once(text: str, language: str, counts: dict[str, int]) -> str:
    if "@" in text:
        text = _EMAIL.sub(partial(_mask_email, counts), text)
    if _may_hold_number(text) and _LONG_NUMBER.search(text):
        text = _CLUSTER.sub(partial(_mask_number, counts, language), text)
    if language == "ko" and any(word in text for word in _PLATE_WORDS):
        text = _PLATE.sub(partial(_mask_plate, counts), text)
    return text


def _count(counts: dict[str, int], kind: str) -> str:
    counts[kind] = counts.get(kind, 0) + 1
    return f"<{kind}>"


def _mask_email(counts: dict[str, int], address: re.Match[str]) -> str:
    domain = address[0].partition("@")[2]
    if _RESERVED_DOMAIN.search(domain) or address[0].lower().startswith(_NOBODY):
        return address[0]
    return _count(counts, "email")


# seven digits with at most one mark between two of them; "2019. 1. 2" is a date
_LONG_NUMBER = re.compile(r"[0-9](?:[\-–. )(]{0,2}[0-9]){6}")


def _may_hold_number(text: str) -> bool:
    """Are seven digits near enough to each other? Arrays take a fifth of the time of a search."""
    if len(text) < SHORT:
        return True
    places = np.flatnonzero(codes(text) - 48 < 10)  # unsigned: what is less than "0" is large
    return bool((places[6:] - places[:-6] <= 6 * 3).any())


# Not in a word, path, decimal or formula. Possessive and bounded, so linear. Where no seven digits
# follow nothing is matched: nearly every number is shorter.
_CLUSTER = re.compile(
    r"[0-9+(](?<![A-Za-z0-9_.\-/\\#&$*^@].)(?<=(?=(?:[ \-–.()+]{0,4}[0-9]){7}).)"
    r"(?:(?<=\+)[0-9]{1,3}[ \-.]?(?:\([0-9]{1,4}\)[ \-]?)?|(?<=\()[0-9]{2,4}\)[ \-]?|(?<=[0-9]))"
    r"[0-9]{0,14}+(?:(?:[\-–.]| ?- ?|\) ?| )[0-9]{1,14}+){0,5}+"
    r"(?![A-Za-z0-9_/\\=%*^]|[.\-][0-9]|-[A-Za-z])"
)
_CONTEXT = 24  # characters before a number in which the word that names it is looked for


def _mask_number(counts: dict[str, int], language: str, cluster: re.Match[str]) -> str:
    number = cluster[0]
    if sum(character.isdigit() for character in number) < 7:
        return number
    before = cluster.string[max(0, cluster.start() - _CONTEXT) : cluster.start()]
    for kind, check in _CHECKS:
        if check(number, before, language):
            return _count(counts, kind)
    return number


def _digits(number: str) -> str:
    return "".join(character for character in number if character.isdigit())


_RRN = re.compile(r"(\d{2})(\d{2})(\d{2})( ?[-–] ?)?([1-8])(\d{6})")
_RRN_WEIGHTS = (2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5)
_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def _is_rrn(number: str, before: str, language: str) -> bool:
    """Resident registration number: date of birth, century and sex, then six digits.

    The check digit is required only where no hyphen shows the form: numbers given since October
    2020 have none.
    """
    match = _RRN.fullmatch(number)
    if not match or language not in ("", "ko"):
        return False
    month, day = int(match[2]), int(match[3])
    if not 1 <= month <= 12 or not 1 <= day <= _DAYS[month - 1]:
        return False
    if match[4]:
        return True
    digits = _digits(number)
    total = sum(int(d) * w for d, w in zip(digits, _RRN_WEIGHTS, strict=False))
    remainder = 13 if match[5] in "5678" else 11
    return (remainder - total % 11) % 10 == int(digits[12])


_MOBILE_KR = re.compile(
    r"(?:\+?82[ \-.)]{0,2}\(?0?\)?|0)1[016789][ \-.–)]{0,2}\d{3,4}[ \-.–]{0,3}\d{4}"
)
_AREA_KR = r"(?:2|3[1-3]|4[1-4]|5[1-5]|6[1-4]|70|80|50\d)"
_LANDLINE_KR = re.compile(
    rf"(?:\(0{_AREA_KR}\) ?|0{_AREA_KR}[\-.–)] ?|\+82[ \-.]?\(?0?\)?{_AREA_KR}[ \-.)])"
    r"\d{3,4}(?: ?[\-–] ?|[. ])\d{4}"
)
_SERVICE_KR = re.compile(r"1[568]\d{2}[ \-]\d{4}")
_INTERNATIONAL = re.compile(r"\+[1-9]\d{0,2}(?:[ \-.]?\(?\d{1,4}\)?){2,5}")
_NORTH_AMERICA = re.compile(
    r"(?:1[\-. ])?(?:\([2-9]\d{2}\) ?|[2-9]\d{2}[\-. ])[2-9]\d{2}[\-. ]\d{4}"
)
_PHONE_WORD = re.compile(
    r"전화|연락|문의|휴대|핸드폰|팩스|고객|상담|콜센터|대표번호|☎|☏|(?<![\w<])(?:tel|phone|fax|call|mobile|telefon"
    r"|téléphone|teléfono|тел|hotline|điện thoại)\b|電話|电话|手机|هاتف|फोन",
    re.IGNORECASE,
)


def _is_phone(number: str, before: str, language: str) -> bool:
    num_digits = len(_digits(number))
    if _INTERNATIONAL.fullmatch(number):
        return 9 <= num_digits <= 15
    if language in ("", "ko"):
        if _MOBILE_KR.fullmatch(number) or _LANDLINE_KR.fullmatch(number):
            return True
        if _SERVICE_KR.fullmatch(number):
            return bool(_PHONE_WORD.search(before))
    if not 8 <= num_digits <= 13 or not _PHONE_WORD.search(before):
        return False
    return bool(
        _NORTH_AMERICA.fullmatch(number) or re.fullmatch(r"0\d{1,4}[\-. ]\d[\d\-. ]+", number)
    )


_CARD = re.compile(r"\d{4}([ \-]?)\d{4}\1\d{4}\1\d{4}|3[47]\d{2}([ \-]?)\d{6}\2\d{5}")
_ISSUER = re.compile(r"4|5[1-5]|2[2-7]|3[47]|35|6011|62|65|9[4-9]")


def _is_card(number: str, before: str, language: str) -> bool:
    """Payment card: the issuer's prefix and Luhn's check digit (ISO/IEC 7812)."""
    if not _CARD.fullmatch(number) or not _ISSUER.match(number):
        return False
    digits = [int(digit) for digit in reversed(_digits(number))]
    doubled = sum(sum(divmod(2 * digit, 10)) for digit in digits[1::2])
    return (sum(digits[::2]) + doubled) % 10 == 0 and len(set(digits)) > 1


_BUSINESS = re.compile(r"\d{3}-\d{2}-\d{5}")
_BUSINESS_WEIGHTS = (1, 3, 7, 1, 3, 7, 1, 3, 5)


def _is_business(number: str, before: str, language: str) -> bool:
    """Korean business registration number (사업자등록번호) with its check digit."""
    if language not in ("", "ko") or not _BUSINESS.fullmatch(number):
        return False
    digits = [int(digit) for digit in _digits(number)]
    total = sum(d * w for d, w in zip(digits, _BUSINESS_WEIGHTS, strict=False))
    return (10 - (total + digits[8] * 5 // 10) % 10) % 10 == digits[9]


_ACCOUNT = re.compile(r"\d{2,6}-\d{2,7}-\d{2,7}(?:-\d{1,4})?|\d{10,14}")
_BANK_WORD = re.compile(r"계좌|은행|농협|신협|새마을금고|우체국|카카오뱅크|토스뱅크|입금|예금주")


def _is_account(number: str, before: str, language: str) -> bool:
    """Bank account: every bank has its own form, so a word must name it."""
    if language not in ("", "ko") or not _ACCOUNT.fullmatch(number):
        return False
    return 10 <= len(_digits(number)) <= 14 and bool(_BANK_WORD.search(before))


_IPV4 = re.compile(r"\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}")
_VERSION_WORD = re.compile(
    r"(?:v|ver|version|버전|版本|バージョン|versión|версия|버젼|phiên bản|الإصدار|संस्करण)[ .:]*$",
    re.IGNORECASE,
)
_IP_PART = 32  # versions have small numbers: two parts must reach this


def _is_ip(number: str, before: str, language: str) -> bool:
    """Public IPv4 address; private, documentation and other special ranges are nobody's."""
    if not _IPV4.fullmatch(number) or _VERSION_WORD.search(before):
        return False
    parts = [int(part) for part in number.split(".")]
    if sum(part >= _IP_PART for part in parts) < 2 or max(parts) > 255:
        return False
    if any(len(part) > 1 and part[0] == "0" for part in number.split(".")):
        return False
    return ipaddress.IPv4Address(number).is_global and parts[0] < 224


_CHECKS: tuple[tuple[str, Callable[[str, str, str], bool]], ...] = (
    ("rrn", _is_rrn),
    ("card", _is_card),
    ("ip", _is_ip),
    ("phone", _is_phone),
    ("business", _is_business),
    ("account", _is_account),
)

_PLATE_WORDS = ("번호판", "차량", "차번호")
_PLATE_WORD = re.compile("|".join(_PLATE_WORDS))
_REGION = "서울|부산|대구|인천|광주|대전|울산|세종|경기|강원|충북|충남|전북|전남|경북|경남|제주"
_PLATE = re.compile(rf"(?<![0-9가-힣])(?:(?:{_REGION}) ?)?[0-9]{{2,3}}[가-힣] ?[0-9]{{4}}(?![0-9])")


def _mask_plate(counts: dict[str, int], plate: re.Match[str]) -> str:
    start, end = plate.span()
    around = plate.string[max(0, start - _CONTEXT) : end + _CONTEXT]
    return _count(counts, "plate") if _PLATE_WORD.search(around) else plate[0]
