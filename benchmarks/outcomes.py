"""What a prediction got right and wrong: labels in pairs, and the account of a failure.

Made by the kinds (`Kind.pairs`, `Kind.failure`) from lines of predictions, read by `errors`.
"""

import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, TypeVar

NOTHING = ""  # the label on the side that has none in a place
_MAX_LISTED = 8
_TOP = 4  # probabilities shown

Run = TypeVar("Run")
Entity = tuple[str, int, int]  # type, first position, position behind the last


class Pair(NamedTuple):
    """A gold label and the predicted one in its place; `NOTHING` where one side has none."""

    gold: str
    predicted: str
    is_right: bool


class Failure(NamedTuple):
    """An example that most runs have wrong: what was asked for, what they said, how sure.

    The higher the `severity`, the worse; its unit is the kind's, so only failures of one task
    compare.
    """

    severity: float
    gold: str
    prediction: str
    certainty: str  # probabilities, or how many parts are wrong


def entity_pairs(gold: Collection[Entity], predicted: Collection[Entity]) -> list[Pair]:
    """A pair for each span that holds an entity on either side; right where types agree too."""
    found = {entity[1:]: entity[0] for entity in predicted}
    asked = {entity[1:]: entity[0] for entity in gold}
    pairs = []
    for span in sorted({*found, *asked}):
        right, said = asked.get(span, NOTHING), found.get(span, NOTHING)
        pairs.append(Pair(right, said, right == said))
    return pairs


def entity_failure(
    runs: Sequence[tuple[set[Entity], set[Entity]]], text_of: Callable[[int, int], str]
) -> Failure | None:
    """The entities that the middle run misses and those it makes up; `runs` are (gold, predicted).

    `text_of` gives the text between two positions.
    """
    middle = mostly_wrong(runs, lambda sides: len(sides[0] ^ sides[1]))
    if middle is None:
        return None
    gold, predicted = middle
    missed, made_up = (
        [f"{kind} {text_of(start, end)}" for kind, start, end in sorted(side, key=lambda e: e[1:])]
        for side in (gold - predicted, predicted - gold)
    )
    count = f"{len(missed)} of {len(gold)} entities missed, {len(made_up)} made up"
    return Failure(len(missed) + len(made_up), listed(missed), listed(made_up), count)


def pairs_by_key(gold: Mapping[str, str], predicted: Mapping[str, str]) -> list[Pair]:
    """A pair for each key that either side has a value for; the keys are the labels."""
    return [
        Pair(
            key if key in gold else NOTHING,
            key if key in predicted else NOTHING,
            gold.get(key) == predicted.get(key),
        )
        for key in dict.fromkeys([*gold, *predicted])
    ]


def mostly_wrong(runs: Sequence[Run], is_wrong: Callable[[Run], float]) -> Run | None:
    """The middle one of the runs by how wrong each is; None where that one is not.

    Of an even number the lower middle one: half the runs right is not mostly wrong.
    """
    ranked = sorted(runs, key=is_wrong)
    middle = ranked[(len(ranked) - 1) // 2]
    return middle if is_wrong(middle) else None


def listed(parts: Sequence[str]) -> str:
    """Parts in a row, the first few and how many more; a dash of none."""
    more = [f"and {len(parts) - _MAX_LISTED} more"] if len(parts) > _MAX_LISTED else []
    return "; ".join([*parts[:_MAX_LISTED], *more]) or "–"


def likeliest(labels: Sequence[str], probabilities: Sequence[float]) -> str:
    """'neutral: 0.810, entailment: 0.120': the most probable first, the least left out if many."""
    ranked = sorted(zip(probabilities, labels, strict=True), key=lambda pair: -pair[0])
    return ", ".join(f"{label}: {probability:.3f}" for probability, label in ranked[:_TOP])


def medians(rows: Sequence[Sequence[float]]) -> list[float]:
    """The median of each column."""
    return [statistics.median(column) for column in zip(*rows, strict=True)]
