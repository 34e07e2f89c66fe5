"""What a prediction has wrong, in the form that readers and tables of labels want."""

import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

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


def failure_of_pairs(runs: Sequence[Sequence[Pair]], units: str) -> Failure | None:
    """The units of the middle run that are wrong."""

    def wrong(pairs: Sequence[Pair]) -> list[Pair]:
        return [pair for pair in pairs if not pair.is_right]

    pairs = mostly_wrong(runs, lambda run: len(wrong(run)))
    if pairs is None:
        return None
    missed = [pair.gold for pair in wrong(pairs) if pair.gold]
    said = [pair.predicted for pair in wrong(pairs) if pair.predicted]
    count = f"{len(wrong(pairs))} wrong of {len(pairs)} {units}"
    return Failure(len(wrong(pairs)), listed(missed), listed(said), count)


def failure_of_sets(
    runs: Sequence[tuple[Collection[Any], Collection[Any]]],
    units: str,
    shown: Callable[[Any], str] = str,
) -> Failure | None:
    """The parts that the middle run misses and those it makes up; `runs` are (gold, predicted)."""
    middle = mostly_wrong(runs, lambda sides: len(set(sides[0]) ^ set(sides[1])))
    if middle is None:
        return None
    gold, predicted = middle
    missed = [shown(part) for part in gold if part not in predicted]
    made_up = [shown(part) for part in predicted if part not in gold]
    count = f"{len(missed)} of {len(gold)} {units} missed, {len(made_up)} made up"
    severity = len(set(gold) ^ set(predicted))
    return Failure(severity, listed(missed), listed(made_up), count)


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
    runs: Sequence[tuple[Collection[Entity], Collection[Entity]]],
    text_of: Callable[[int, int], str],
) -> Failure | None:
    """The entities missed and made up; `text_of` gives the text between two positions."""
    ordered = [
        (sorted(gold, key=lambda e: e[1:]), sorted(predicted, key=lambda e: e[1:]))
        for gold, predicted in runs
    ]
    return failure_of_sets(
        ordered, "entities", lambda entity: f"{entity[0]} {text_of(*entity[1:])}"
    )


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
