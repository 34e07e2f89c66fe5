"""Personal data masked by what it is: `<email>`, `<phone>`, `<rrn>`, ...

`<rrn>` is the number that a state gives a person (Korea, China, the United States), `<account>` a
bank account or an IBAN. The masks are no HTML elements, hold no digits and no @, so neither the
HTML rule nor this one touches them again.

A number is looked for where a group of digits begins, by the forms in data/pii.toml, in a text of
equal length with ASCII hyphens, spaces and digits. A form without a check digit needs separators
that nothing else has, or a word beside it. Every pattern is bounded, so the time is linear.
"""

import ipaddress
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from electrify.config.fields import UNDETERMINED
from pipeline.rules.characters import VARIANT, code_table, kinds, translated
from pipeline.rules.data import compile_all, fill, read_table

_WORDS = read_table("pii")
_PARTS: dict[str, str] = {
    **{name: text for name, text in _WORDS.items() if isinstance(text, str)},
    "country_numbers": "|".join(
        rf"(?:{country})(?:[\-. ]?\(0\))?(?:[\-. ()/]{{0,3}}[0-9]){{{least},{most}}}"
        for country, least, most in _WORDS["countries"]
    ),
    "iban_rests": "|".join(
        rf"(?<=(?:{countries})[0-9])[0-9](?:[ \-]?[A-Z0-9]){{{int(length) - 4}}}"
        for length, countries in _WORDS["iban"].items()
    ),
    **_WORDS["parts"],
}
_RE = compile_all(_WORDS["patterns"], _PARTS)

_WIDE = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
_MARKS = {"-": _WORDS["hyphens"], " ": _WORDS["spaces"], "·": _WORDS["dots"]}
_FOLDED = code_table(
    {chr(wide): chr(code) for wide, code in _WIDE.items()}
    | {odd: plain for plain, all_odd in _MARKS.items() for odd in all_odd}
)


_DIGIT_OR_AT = re.compile("[0-9@０-９＠]")


def mask_pii(text: str, language: str = "") -> tuple[str, dict[str, int]]:
    """The text with masks, and how many of each kind. `language`: national forms are its own.

    To a fixed point: a mask is a neighbour that a number before or behind it did not have.
    """
    counts: dict[str, int] = {}
    if not _DIGIT_OR_AT.search(text):
        return text, counts
    before = None
    while text != before:
        before = text
        if "@" in text or "＠" in text:
            text = _mask_emails(text, counts)
        beginning = _WIDE_BEGINNING if kinds(text) & VARIANT else _BEGINNING
        if starts := [match.start() for match in beginning.finditer(text)]:
            text = _mask_numbers(text, starts, language, counts)
    return text, counts


def _count(counts: dict[str, int], kind: str) -> str:
    counts[kind] = counts.get(kind, 0) + 1
    return f"<{kind}>"


# Addresses

_NOBODY = ("git@", "noreply@", "no-reply@")


def _mask_emails(text: str, counts: dict[str, int]) -> str:
    plain = text.translate(_WIDE) if "＠" in text or "．" in text else text
    parts: list[str] = []
    copied = 0
    for address in _RE["email"].finditer(plain):
        if _is_personal(address):
            parts += text[copied : address.start()], _count(counts, "email")
            copied = address.end()
    return "".join([*parts, text[copied:]])


def _is_personal(address: re.Match[str]) -> bool:
    domain = address[1].lower()
    if _RE["reserved_domain"].search(domain) or address[0].lower().startswith(_NOBODY):
        return False
    last, behind = domain.rpartition(".")[2], address.string[address.end() : address.end() + 1]
    is_call = behind in ("(", "[") and last not in _WORDS["remark_domains"]
    return not is_call and last not in _WORDS["no_domains"]


# Where a number may begin


def _beginning(digit: str) -> re.Pattern[str]:
    """The first digit of seven near to each other, of a plate, an IP address or an IBAN."""
    between = re.escape(" ()./~_·-（）．／～－") + "".join(_MARKS.values())
    return re.compile(
        rf"{digit}(?<!{digit}.)(?=(?:[{between}]{{0,4}}{digit}){{6}}"
        rf"|{digit}{{1,2}} ?[{_WORDS['plate_syllables']}][{between}]?{digit}{{4}}"
        r"|[0-9]{0,2}(?:\.[0-9]{1,3}){3}"
        r"|(?<=[23])[0-9A-Fa-f]{3}:[0-9A-Fa-f]{0,4}:"
        r"|(?<=[A-Z][A-Z][0-9])[0-9](?:[ \-]?[0-9A-Z]){11})"
    )


_BEGINNING, _WIDE_BEGINNING = _beginning("[0-9]"), _beginning("[0-9０-９]")

_CONTEXT = 24  # characters before a number in which the word that names it is looked for
_CONTEXT_BEHIND = 16


class _Number(NamedTuple):
    """What matches a form; in the text before it masks stand for other numbers."""

    match: re.Match[str]
    before: str

    @property
    def digits(self) -> str:
        return "".join(filter(str.isdigit, self.match[0]))

    @property
    def behind(self) -> str:
        return self.match.string[self.match.end() : self.match.end() + _CONTEXT_BEHIND]


class _Form(NamedTuple):
    """A way to write a number of a kind, and what must be true of it and beside it: data/pii.toml.

    `near` is found before or behind the number; without `is_free` it may be a part of another.
    """

    kind: str
    pattern: str
    check: str = ""
    language: str = ""
    before: str = ""
    behind: str = ""
    near: str = ""
    is_free: bool = True
    prefix: str = ""

    def fits(self, number: _Number, language: str) -> bool:
        if self.language and language not in ("", UNDETERMINED, self.language):
            return False
        if self.check and not _CHECKS[self.check](number):
            return False
        if self.before and not _search(self.before, number.before):
            return False
        if self.behind or self.near:
            neighbour = _RE["neighbour"].match(number.behind)
            behind = neighbour[0] if neighbour else ""
            if self.behind and not _search(f"^(?:{self.behind})", behind):
                return False
            if self.near and not (_search(self.near, number.before) or _search(self.near, behind)):
                return False
        return not self.is_free or _is_free(number)

    def first(self, number: _Number) -> int:
        """Where it begins; an opening bracket is a part of it if it closes within."""
        usual = r"\(?\+$|\($" if self.kind == "phone" else "$"
        whole, prefix = number.match[0], _search(self.prefix or usual, number.before)
        beginning = prefix[0] if prefix else ""
        if beginning.startswith("(") and whole.count("(") >= whole.count(")"):
            beginning = beginning[1:]
        return number.match.start() - len(beginning)


@lru_cache(maxsize=64)  # forms ask for the same words
def _search(pattern: str, text: str) -> re.Match[str] | None:
    return re.search(pattern, text)


def _mask_numbers(text: str, starts: Sequence[int], language: str, counts: dict[str, int]) -> str:
    # character by character, with ASCII hyphens, spaces, digits, letters and marks
    plain = text if text.isascii() else translated(text, _FOLDED)
    copied, left = 0, ""  # `left`: the end of what is written
    parts: list[str] = []
    for start in starts:
        if start < copied or not (match := _ANY_FORM.match(plain, start)):
            continue
        before = (left + plain[max(copied, start - _CONTEXT) : start])[-_CONTEXT:]
        if match_form := _number_at(match, before, language):
            form, number = match_form
            first, end = form.first(number), number.match.end()
            parts += text[copied:first], _count(counts, form.kind)
            left = (left + plain[max(copied, first - _CONTEXT) : first] + parts[-1])[-_CONTEXT:]
            copied = end
    return "".join([*parts, text[copied:]])


def _number_at(
    match_of_any: re.Match[str], before: str, language: str
) -> tuple[_Form, _Number] | None:
    """The first form that fits, of those from the first that matches."""
    assert match_of_any.lastindex is not None
    plain, start = match_of_any.string, match_of_any.start()
    first = _FIRST_FORMS[match_of_any.lastindex - 1]
    for form, pattern in zip(_FORMS[first:], _PATTERNS[first:], strict=True):
        match = pattern.match(plain, start)
        if match and form.fits(number := _Number(match, before), language):
            is_in_url = _RE["url"].search(plain[max(0, start - 200) : start])
            return None if is_in_url else (form, number)
    return None


# What stands beside numbers of all kinds


def _is_free(number: _Number) -> bool:
    """Whether nothing beside the number says that it is another one or a part of one."""
    whole, before = number.match[0], number.before
    if _RE["other"].search(before):
        return False
    is_named = _RE["letter_of_phones"].search(before) is not None
    if whole.isdigit():
        is_part = not is_named and _RE["bound_before"].search(before)
        is_amount = whole[0] != "0" and _RE["unit"].match(number.behind)
        return not (is_part or is_amount or _RE["bound_behind"].match(number.behind))
    if "." in whole and "-" not in whole:  # as versions and decimals
        is_part = not is_named and _RE["decimal_before"].search(before)
        return not is_part and not re.match(r"\.[0-9]", number.behind)
    return True


# Numbers that a state gives a person

_RRN_WEIGHTS = (2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5)


def _has_rrn_digit(number: _Number) -> bool:
    """Whether the check digit is right; numbers given since October 2020 have none."""
    digits = number.digits
    total = sum(int(d) * w for d, w in zip(digits, _RRN_WEIGHTS, strict=False))
    remainder = 13 if digits[6] in "5678" else 11
    return (remainder - total % 11) % 10 == int(digits[12])


def _is_of_person(number: _Number) -> bool:
    """Whether it is not of a corporation (법인등록번호): court, kind, serial number, check digit.

    Without a word that says it, it is of one where it would be the number of somebody over a
    hundred years old, or of a child with a wrong check digit.
    """
    if _RE["corporation"].search(number.before) or _RE["corporation"].match(number.behind):
        return False
    digits = number.digits
    if not "11" <= digits[:2] <= "28" or digits[4:6] not in ("11", "12", "13", "14", "15", "21"):
        return True
    total = sum(int(d) * (1 + i % 2) for i, d in enumerate(digits[:12]))
    has_digit = -total % 10 == int(digits[12]) and not _has_rrn_digit(number)
    return not has_digit and digits[6] not in "1256"


def _has_chinese_digit(number: _Number) -> bool:
    """GB 11643, ISO 7064 MOD 11-2."""
    digits = re.sub("[ -]", "", number.match[0])
    total = sum(int(d) * pow(2, 17 - i, 11) for i, d in enumerate(digits[:17]))
    return "10X98765432"[total % 11] == digits[17].upper()


# Cards and accounts


def _is_card(number: _Number) -> bool:
    """The issuer's prefix and Luhn's check digit (ISO/IEC 7812)."""
    digits = [int(digit) for digit in reversed(number.digits)]
    doubled = sum(sum(divmod(2 * digit, 10)) for digit in digits[1::2])
    has_digit = (sum(digits[::2]) + doubled) % 10 == 0
    return (
        has_digit
        and len(set(digits)) > 1
        and re.match(_WORDS["card_issuers"], number.digits) is not None
    )


def _has_iban_digits(number: _Number) -> bool:
    """ISO 13616."""
    whole = re.sub("[ -]", "", number.before[-2:] + number.match[0])
    return int("".join(str(int(c, 36)) for c in whole[4:] + whole[:4])) % 97 == 1


_BUSINESS_WEIGHTS = (1, 3, 7, 1, 3, 7, 1, 3, 5)


def _has_business_digit(number: _Number) -> bool:
    """Of a Korean business registration number (사업자등록번호)."""
    digits = [int(digit) for digit in number.digits]
    total = sum(d * w for d, w in zip(digits, _BUSINESS_WEIGHTS, strict=False))
    return -(total + digits[8] * 5 // 10) % 10 == digits[9]


# Telephone numbers


def _is_international(number: _Number) -> bool:
    is_term = re.search(r"[0-9A-Za-z+]\+$", number.before)  # of a sum
    is_named = not is_term or _RE["letter_of_phones"].search(number.before) is not None
    return is_named and 9 <= len(number.digits) <= 15


def _is_service(number: _Number) -> bool:
    """A known beginning; and neither years nor pages nor amounts from one to the other."""
    first, second = number.digits[:4], number.digits[4:]
    is_range = first < second < "2200" or (first.endswith("00") and second.endswith("00"))
    return re.match(_WORDS["phone_services"], first) is not None and not is_range


# Addresses of the internet

_IP_PART = 32  # versions have small numbers: two parts must reach this


def _is_ipv4(number: _Number) -> bool:
    parts = [int(part) for part in number.match[0].split(".")]
    is_large = sum(part >= _IP_PART for part in parts) > 1 or _RE["ip"].search(number.before)
    is_version = not is_large or _RE["version"].search(number.before)
    return not is_version and parts[0] < 224 and _is_public(number)


def _is_public(number: _Number) -> bool:
    """Private, documentation and other special ranges are nobody's."""
    try:
        return ipaddress.ip_address(number.match[0]).is_global  # no leading zeros either
    except ValueError:
        return False


_CHECKS: dict[str, Callable[[_Number], bool]] = {
    "has_rrn_digit": _has_rrn_digit,
    "is_of_person": _is_of_person,
    "has_chinese_digit": _has_chinese_digit,
    "is_card": _is_card,
    "has_iban_digits": _has_iban_digits,
    "has_business_digit": _has_business_digit,
    "is_international": _is_international,
    "is_mobile": lambda n: "." not in n.match[0] or "-" in n.match[0] or _is_free(n),
    "is_service": _is_service,
    "is_ipv4": _is_ipv4,
    "is_public": _is_public,
    "has_account_length": lambda number: 10 <= len(number.digits) <= 16,
    "is_national": lambda number: 8 <= len(number.digits) <= 13,
}
_ROWS: list[dict[str, Any]] = [
    {key: fill(value, _PARTS) if isinstance(value, str) else value for key, value in row.items()}
    for row in _WORDS["forms"]
]
_FORMS = [_Form(**row) for row in _ROWS]
_PATTERNS = [re.compile(form.pattern) for form in _FORMS]
_FIRST_FORMS = [i for i, pattern in enumerate(_PATTERNS) if pattern not in _PATTERNS[:i]]
_ANY_FORM = re.compile("|".join(f"({_PATTERNS[i].pattern})" for i in _FIRST_FORMS))
KINDS = frozenset(["email", *(form.kind for form in _FORMS)])
