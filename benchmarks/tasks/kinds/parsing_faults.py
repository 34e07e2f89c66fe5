"""Where a parse goes wrong: labels in pairs, and wrong arcs in words."""

from collections.abc import Sequence

from benchmarks.tasks.kind import NOTHING, Failure, Line, Pair, listed, mostly_wrong


def arc_pairs(line: Line) -> list[Pair]:
    """The labels of each word; right where the head is right too, which is what LAS counts.

    A word that was cut off has no predicted label.
    """
    gold, predicted = line["gold"], line["prediction"]
    columns = zip(
        gold["labels"], predicted["labels"], gold["heads"], predicted["heads"], strict=True
    )
    return [
        Pair(label, said or NOTHING, (label, head) == (said, place))
        for label, said, head, place in columns
    ]


def arc_failure(runs: Sequence[Line], forms: Sequence[str] | None) -> Failure | None:
    """The words whose head or label is wrong in the middle run; as severe as they are many.

    Without `forms` words are named by their numbers.
    """

    def wrong(line: Line) -> list[int]:
        return [number for number, pair in enumerate(arc_pairs(line)) if not pair.is_right]

    line = mostly_wrong(runs, lambda line: len(wrong(line)))
    if line is None:
        return None
    gold, said = (
        listed([_arc(number, line[side], forms) for number in wrong(line)])
        for side in ("gold", "prediction")
    )
    count = f"{len(wrong(line))} of {len(line['gold']['heads'])} words wrong"
    return Failure(len(wrong(line)), gold, said, count)


def _arc(number: int, arcs: Line, forms: Sequence[str] | None) -> str:
    """'간다 → ROOT (VP)'."""
    head, label = arcs["heads"][number], arcs["labels"][number]
    if label is None:
        return f"{_name(number + 1, forms)} cut off"
    return f"{_name(number + 1, forms)} → {_name(head, forms) if head else 'ROOT'} ({label})"


def _name(number: int, forms: Sequence[str] | None) -> str:
    return forms[number - 1] if forms else f"word {number}"
