"""Texts with made-up personal data, and what masking makes of them, known by construction.

A case is a form of a kind between what stands before and behind it, or two of them in a row. Beside
them stand numbers of nobody.
"""

import random
from collections.abc import Iterator
from typing import Any

from tests.pipeline.cases import read_cases

_TABLE = read_cases(__file__)
HYPHENS = "‐‑‒–—―−﹣－ーㅡ"
_ASCII_TO_WIDE = {code: code + 0xFEE0 for code in range(0x21, 0x7F)}


Case = tuple[str, str, str]  # a text, what masking makes of it, its language


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


FORMS: list[dict[str, Any]] = [
    {"before": "", "behind": "", "language": "ko"} | row | {"write": write}
    for row in _TABLE["forms"]
    for write in ("plain", *row.get("also_written", ()))
]


def _written(form: dict[str, Any], rng: random.Random) -> list[str]:
    """A number of the form between words of the text, and what masking makes of it."""
    number = _fill(rng.choice(form["numbers"]), rng)
    if form["write"] == "dashed":  # with another kind of hyphen, or blanks around it
        number = number.replace("-", rng.choice([*HYPHENS, " - ", "- ", " – "]))
    elif form["write"] == "wide":
        number = number.translate(_ASCII_TO_WIDE)
    return [f"{form['before']}{one}{form['behind']}" for one in (number, f"<{form['kind']}>")]


def positives(seed: int, num_each: int) -> Iterator[Case]:
    """`num_each` cases of each form alone, and half as many of two forms in a row."""
    rng = random.Random(seed)
    for form in FORMS * num_each:
        text, masked = _written(form, rng)
        phones = _TABLE["before_phones"] if form["kind"] == "phone" else []
        before, behind = rng.choice(_TABLE["before"] + phones), rng.choice(_TABLE["behind"])
        if before.endswith("(") and text.count(")") > text.count("("):
            before = ""  # it would belong to the number
        yield f"{before}{text}{behind}", f"{before}{masked}{behind}", form["language"]
    for _ in range(num_each * len(FORMS) // 2):
        one, joint = rng.choice(FORMS), rng.choice(_TABLE["joints"])
        other = rng.choice([form for form in FORMS if form["language"] == one["language"]])
        pair = zip(_written(one, rng), _written(other, rng), strict=True)
        text, masked = map(joint.join, pair)
        yield text, masked, one["language"]


def negatives(seed: int, num_each: int) -> Iterator[Case]:
    """`num_each` cases of each pattern of a number of nobody."""
    rng = random.Random(seed)
    for pattern in _TABLE["nobody"].strip().replace("\n", "|").split("|") * num_each:
        text = f"{rng.choice(['', '가 ', '값: ', '('])}{_fill(pattern, rng)} 끝"
        yield text, text, rng.choice(["ko", "zh", "en"])
