"""Groups of examples that a score is looked at by: how long, which script, what is asked.

Ways of grouping come from the gold values in lines (`Kind.groups`) and, where the data are at hand,
from the texts. Groups of one way do not overlap and hold all examples.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from benchmarks.kind import Example, Line
from benchmarks.kinds.spans_files import QuestionExample
from benchmarks.task import Task

Item = TypeVar("Item")
Groups = Mapping[str, Mapping[str, Sequence[int]]]  # way of grouping -> group -> positions of lines

_HANGUL = re.compile("[\u1100-\u11ff\u3130-\u318f\uac00-\ud7a3]")
_OTHER_LETTER = re.compile(r"[^\W\d_]")
# the first that occurs in a question names its group; of Korean ones stems, without particles
_QUESTION_WORDS = (
    "how many", "how much", "who", "whom", "whose", "what", "which", "when", "where", "why", "how",
    "누구", "누가", "언제", "어디", "무엇", "무슨", "어느", "어떤", "왜", "얼마", "몇", "어떻게",
)  # fmt: skip
_NO_QUESTION_WORD = "another word"
_NUM_PARTS = 4


def groups_of(task: Task, lines: Sequence[Line], examples: Sequence[Example] | None) -> Groups:
    """Every way in which the examples fall into two groups or more; `examples` are by line."""
    named: dict[str, dict[str, list[int]]] = {}
    for position, line in enumerate(lines):
        for way, group in task.kind.groups(task, line).items():
            named.setdefault(way, {}).setdefault(group, []).append(position)
    found = {way: dict(sorted(parts.items(), key=_by_number)) for way, parts in named.items()}
    if examples is not None:
        found |= _text_groups(examples)
    return {way: parts for way, parts in found.items() if len(parts) > 1}


def _text_groups(examples: Sequence[Example]) -> dict[str, dict[str, list[int]]]:
    if all(isinstance(example, QuestionExample) for example in examples):
        found = {
            "question word": _named(examples, lambda e: question_word(e.texts[1])),
            "context, characters": _parts([len(e.texts[0]) for e in examples]),
            "question, characters": _parts([len(e.texts[1]) for e in examples]),
        }
    else:
        found = {"length, characters": _parts([sum(map(len, e.texts)) for e in examples])}
        if all(len(example.texts) == 2 for example in examples):
            overlaps = [word_overlap(*example.texts) for example in examples]
            found["words in common, %"] = _parts([round(100 * share) for share in overlaps])
    shares = [hangul_share(" ".join(example.texts)) for example in examples]
    found["script"] = _named(shares, _script)
    return found


def hangul_share(text: str) -> float:
    """Share of Hangul among the letters; 0 without letters."""
    hangul = len(_HANGUL.findall(text))
    letters = len(_OTHER_LETTER.findall(text))  # of any script, Hangul too
    return hangul / letters if letters else 0.0


def word_overlap(first: str, second: str) -> float:
    """Jaccard coefficient of the two texts' sets of lower-case words; 0 of two without words."""
    a, b = (set(re.findall(r"\w+", text.lower())) for text in (first, second))
    return len(a & b) / max(1, len(a | b))


def question_word(question: str) -> str:
    """The question word that stands first; Korean ones are found within words."""
    lowered = question.lower()
    found = []
    for number, word in enumerate(_QUESTION_WORDS):
        pattern = rf"\b{word}\b" if word.isascii() else word
        if match := re.search(pattern, lowered):
            found.append((match.start(), number, word))
    return min(found)[2] if found else _NO_QUESTION_WORD


def _by_number(item: tuple[str, list[int]]) -> tuple[float, str]:
    """By the number that a group's name begins with, others last."""
    number = re.match(r"[\d.]+", item[0])
    return float(number[0]) if number else math.inf, item[0]


def _script(share: float) -> str:
    if share == 0:
        return "no Hangul"
    return "over 90 % Hangul" if share > 0.9 else "Hangul and others"


def _named(items: Sequence[Item], name: Callable[[Item], str]) -> dict[str, list[int]]:
    """The largest groups first."""
    found: dict[str, list[int]] = {}
    for position, item in enumerate(items):
        found.setdefault(name(item), []).append(position)
    return dict(sorted(found.items(), key=lambda pair: (-len(pair[1]), pair[0])))


def _parts(values: Sequence[float]) -> dict[str, list[int]]:
    """Quarters by value, lowest first, equal values together; each named by its bounds."""
    array = np.asarray(values)
    bounds = np.quantile(array, np.arange(1, _NUM_PARTS) / _NUM_PARTS)
    part = np.searchsorted(bounds, array, side="left")  # a value on a bound is in the part below
    found = {}
    for number in np.unique(part):
        positions = np.flatnonzero(part == number)
        inside = array[positions]
        found[f"{inside.min():g} to {inside.max():g}"] = positions.tolist()
    return found
