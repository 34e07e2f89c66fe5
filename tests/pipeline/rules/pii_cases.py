"""Texts with made-up personal data, and what masking makes of them, known by construction.

A case is a form of a kind between what stands before and behind it, or two of them in a row. Beside
them stand numbers of nobody.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from tests.pipeline.cases import read_cases

Make = Callable[[random.Random], str]
_TABLE = read_cases(__file__)


class Case(NamedTuple):
    text: str
    expected: str
    language: str = "ko"


class Form(NamedTuple):
    """A way to write a number of a kind; `before` and `behind` are words of the text."""

    kind: str
    make: Make
    before: str = ""
    behind: str = ""
    language: str = "ko"


def _fill(pattern: str, rng: random.Random) -> str:
    """The pattern with a digit for each #."""
    return "".join(str(rng.randrange(10)) if c == "#" else c for c in pattern)


def _like(*patterns: str) -> Make:
    return lambda rng: _fill(rng.choice(patterns), rng)


_ASCII_TO_WIDE = {code: code + 0xFEE0 for code in range(0x21, 0x7F)}


def _wide(make: Make) -> Make:
    return lambda rng: make(rng).translate(_ASCII_TO_WIDE)


HYPHENS = "‐‑‒–—―−﹣－ーㅡ"


def _dashed(make: Make) -> Make:
    """With another kind of hyphen, or blanks around it."""
    return lambda rng: make(rng).replace("-", rng.choice([*HYPHENS, " - ", "- ", " – "]))


def _birth(rng: random.Random, first: int, last: int) -> str:
    return f"{rng.randrange(first, last)}{rng.randrange(1, 13):02d}{rng.randrange(1, 29):02d}"


def rrn_digit(twelve: str) -> str:
    """The check digit of a resident registration number."""
    weights = (2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5)
    total = sum(int(d) * w for d, w in zip(twelve, weights, strict=True))
    return str(((13 if twelve[6] in "5678" else 11) - total % 11) % 10)


def _rrn(dash: str, sexes: str = "1234") -> Make:
    def make(rng: random.Random) -> str:
        birth = _birth(rng, 1930, 2000)[2:]
        serial = rng.choice(sexes) + _fill("#####", rng)
        return birth + dash + serial + rrn_digit(birth + serial)

    return make


def _chinese_id(rng: random.Random) -> str:
    place = rng.choice(["110101", "310104", "440305", "510107"])
    own = place + _birth(rng, 1950, 2010) + _fill("###", rng)
    return own + "10X98765432"[sum(int(d) * 2 ** (17 - i) for i, d in enumerate(own)) % 11]


def _ssn(rng: random.Random) -> str:
    return f"{rng.randrange(1, 666):03d}-{rng.randrange(1, 100):02d}-{rng.randrange(1, 10000):04d}"


def luhn_digit(body: str) -> str:
    """The check digit of a card."""
    doubled = [int(d) * (2 - i % 2) for i, d in enumerate(reversed(body))]
    return str(-sum(sum(divmod(d, 10)) for d in doubled) % 10)


def _card(separator: str) -> Make:
    def make(rng: random.Random) -> str:
        if rng.random() < 0.2:
            body = _fill("37" + "#" * 12, rng)
            whole, places = body + luhn_digit(body), (0, 4, 10, 15)
        else:
            body = _fill(rng.choice(["4", "53", "35", "62", "94"]).ljust(15, "#"), rng)
            whole, places = body + luhn_digit(body), (0, 4, 8, 12, 16)
        return separator.join(whole[a:b] for a, b in pairwise(places))

    return make


def _iban(rng: random.Random) -> str:
    country, pattern = rng.choice(
        [("DE", "#" * 18), ("GB", "NWBK" + "#" * 14), ("FR", "#" * 23), ("NL", "ABNA" + "#" * 10)]
    )
    body = _fill(pattern, rng)
    number = int("".join(str(int(c, 36)) for c in f"{body}{country}00"))
    whole = f"{country}{98 - number % 97:02d}{body}"
    return rng.choice(["", " "]).join(whole[i : i + 4] for i in range(0, len(whole), 4))


def business_digit(nine: str) -> str:
    """The check digit of a business registration number."""
    weights = (1, 3, 7, 1, 3, 7, 1, 3, 5)
    total = sum(int(d) * w for d, w in zip(nine, weights, strict=True)) + int(nine[8]) * 5 // 10
    return str(-total % 10)


def _business(rng: random.Random) -> str:
    nine = _fill("#########", rng)
    return f"{nine[:3]}-{nine[3:5]}-{nine[5:]}{business_digit(nine)}"


def _ipv4(rng: random.Random) -> str:
    parts = (rng.choice([121, 175, 211, 218]), *(rng.randrange(100, 256) for _ in range(3)))
    return ".".join(map(str, parts))


def _ipv6(rng: random.Random) -> str:
    groups = [f"{rng.randrange(1, 65536):x}" for _ in range(7)]
    return rng.choice([":".join(["2a02", *groups]), f"2001:2d8:{groups[0]}::{groups[1]}"])


_SYLLABLES = "가나다라마거너더러머버서어저고노도로모보소오조구누두루무부수우주바사아자배하허호"


def _plate(rng: random.Random) -> str:
    first, blank = _fill(rng.choice(["##", "###"]), rng), rng.choice(["", " "])
    return f"{first}{rng.choice(_SYLLABLES)}{blank}{_fill('####', rng)}"


def _email(rng: random.Random) -> str:
    names = ("hong", "gildong.hong", "kim_cs", "lee-jh", "park77", "a.b+news", "010-1234-5678")
    domains = ("naver.com", "snu.ac.kr", "foo.blog", "mail.co.kr", "x.photography", "gmail.com")
    return f"{rng.choice(names)}@{rng.choice(domains)}"


_MOBILE = _like("010-####-####", "010-####-####", "011-###-####", "019-####-####")
_LANDLINE = _like(
    *("02-###-####", "02-####-####", "031-###-####", "064-###-####"),
    *("070-####-####", "080-###-####", "0507-####-####"),
)
_ACCOUNT = _like("110-###-######", "302-####-####-91", "1002-###-######", "123###-04-######")
FORMS = [
    *(Form("phone", write(_MOBILE)) for write in (lambda make: make, _dashed, _wide)),
    *(Form("phone", write(_LANDLINE)) for write in (lambda make: make, _dashed, _wide)),
    *(Form("phone", _like(*row.pop("patterns")), **row) for row in _TABLE["phones"]),
    *(Form("rrn", write(_rrn("-"))) for write in (lambda make: make, _dashed, _wide)),
    *(Form("rrn", make) for make in (_rrn("-", "5678"), _rrn(""), _rrn(" "))),
    Form("rrn", _chinese_id, language="zh"),
    Form("rrn", _ssn, language="en"),
    *(Form("card", _card(separator)) for separator in ("-", " ", "")),
    *(Form("card", write(_card("-"))) for write in (_dashed, _wide)),
    Form("account", _ACCOUNT, before="국민은행 "),
    Form("account", _ACCOUNT, before="신한 "),
    Form("account", _dashed(_ACCOUNT), before="계좌번호: "),
    Form("account", _ACCOUNT, behind=" 신한은행"),
    Form("account", _ACCOUNT, behind="(농협 홍길동)"),
    Form("account", _like("352########", "110###########"), before="농협 "),
    Form("account", _iban, language="de"),
    *(Form("business", write(_business)) for write in (lambda make: make, _dashed)),
    *(Form("ip", make) for make in (_ipv4, _ipv6)),
    Form("plate", _plate, before="차량번호 "),
    Form("plate", _plate, behind=" 차량"),
    Form("plate", lambda rng: rng.choice(["서울 ", "경기"]) + _plate(rng)),
    *(Form("email", write(_email)) for write in (lambda make: make, _wide)),
    Form("email", lambda rng: _email(rng).replace("@", "＠")),
]
NOBODY = _TABLE["nobody"].strip().replace("\n", "|").split("|")


def positives(seed: int, num_each: int) -> Iterator[Case]:
    """`num_each` cases of each form alone, and half as many of two forms in a row."""
    rng = random.Random(seed)
    for form in FORMS:
        for _ in range(num_each):
            yield _alone(form, rng)
    for _ in range(num_each * len(FORMS) // 2):
        yield _pair(rng)


def _alone(form: Form, rng: random.Random) -> Case:
    number = form.make(rng)
    before = rng.choice(
        _TABLE["before"] + (_TABLE["before_phones"] if form.kind == "phone" else [])
    )
    behind = rng.choice(_TABLE["behind"])
    if before.endswith("(") and number.count(")") > number.count("("):
        before = ""  # it would belong to the number
    before, behind = f"{before}{form.before}", f"{form.behind}{behind}"
    return Case(f"{before}{number}{behind}", f"{before}<{form.kind}>{behind}", form.language)


def _pair(rng: random.Random) -> Case:
    one, joint = rng.choice(FORMS), rng.choice(_TABLE["joints"])
    other = rng.choice([form for form in FORMS if form.language == one.language])
    text = joint.join(f"{form.before}{form.make(rng)}{form.behind}" for form in (one, other))
    masked = joint.join(f"{form.before}<{form.kind}>{form.behind}" for form in (one, other))
    return Case(text, masked, one.language)


def negatives(seed: int, num_each: int, patterns: Sequence[str]) -> Iterator[Case]:
    """`num_each` cases of each pattern of a number of nobody."""
    rng = random.Random(seed)
    for pattern in patterns:
        for _ in range(num_each):
            text = f"{rng.choice(['', '가 ', '값: ', '('])}{_fill(pattern, rng)} 끝"
            yield Case(text, text, rng.choice(["ko", "zh", "en"]))
