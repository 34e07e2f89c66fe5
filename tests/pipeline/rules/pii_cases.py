"""Texts with made-up personal data, and what masking makes of them, known by construction.

A case is a form of a kind between what stands before and behind it, or two of them in a row. Beside
them stand numbers of nobody.
"""

import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tests.pipeline.cases import read_cases

_TABLE = read_cases(__file__)
HYPHENS = "‐‑‒–—―−﹣－ーㅡ"
_ASCII_TO_WIDE = {code: code + 0xFEE0 for code in range(0x21, 0x7F)}


class Case(NamedTuple):
    text: str
    expected: str
    language: str = "ko"


class Form(NamedTuple):
    """A way to write a number of a kind; `before` and `behind` are words of the text."""

    kind: str
    numbers: Sequence[str]  # patterns, or examples where a digit follows from the others
    before: str = ""
    behind: str = ""
    language: str = "ko"
    write: str = "plain"

    def make(self, rng: random.Random) -> str:
        number = _fill(rng.choice(self.numbers), rng)
        if self.write == "dashed":  # with another kind of hyphen, or blanks around it
            return number.replace("-", rng.choice([*HYPHENS, " - ", "- ", " – "]))
        return number.translate(_ASCII_TO_WIDE) if self.write == "wide" else number


def _fill(pattern: str, rng: random.Random) -> str:
    """The pattern with a digit for each #."""
    return "".join(str(rng.randrange(10)) if c == "#" else c for c in pattern)


def rrn_digit(twelve: str) -> str:
    """The check digit of a resident registration number."""
    weights = (2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5)
    total = sum(int(d) * w for d, w in zip(twelve, weights, strict=True))
    return str(((13 if twelve[6] in "5678" else 11) - total % 11) % 10)


def business_digit(nine: str) -> str:
    """The check digit of a business registration number."""
    weights = (1, 3, 7, 1, 3, 7, 1, 3, 5)
    total = sum(int(d) * w for d, w in zip(nine, weights, strict=True)) + int(nine[8]) * 5 // 10
    return str(-total % 10)


FORMS = [
    Form(**row, write=write)
    for row in _TABLE["forms"]
    for write in ("plain", *row.pop("also_written", ()))
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
