"""What predictions have wrong, for a reader: by label, example by example.

Everything is made from lines; an example adds its texts where the data are at hand. A kind of task
has an entry in `parts_of`, and one in `_mistake` and `shown` where it differs.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.metrics.tags import Entity, entities
from benchmarks.tasks.dialogue import DialogueStateTracking, slot_values
from benchmarks.tasks.labels import (
    MultiLabelClassification,
    MultipleChoice,
    Regression,
    RelationExtraction,
    SingleLabel,
)
from benchmarks.tasks.rows import GoldAnswer
from benchmarks.tasks.spans import NORMALIZE, Spans
from benchmarks.tasks.tags import CharacterTagging, Tagging, WordLabels, WordTagging, prefixed
from benchmarks.tasks.task import Example, Line, Task, listed
from benchmarks.tasks.trees import DependencyParsing

NOTHING = ""  # the label on the side of a `Part` that has none
NO_ANSWER = "no answer"
_TOP = 4  # probabilities shown
_AROUND = 160  # characters of a context shown on each side of an answer
_TURNS_SHOWN = 3

Side = Mapping[Any, tuple[str, str]]  # of gold or prediction by place: a label, and its text


@dataclass(frozen=True)
class Part:
    """A part of an example: its gold and its predicted label, and both for a reader, if any."""

    gold: str
    predicted: str
    is_right: bool
    gold_text: str = ""
    predicted_text: str = ""


@dataclass(frozen=True)
class Failure:
    """An example that most runs have wrong: what was asked for, what they said, how sure. The
    higher the `severity`, the worse. Its unit is the kind's: failures of one task compare."""

    severity: float
    gold: str
    prediction: str
    certainty: str


def units(task: Task) -> str:
    """What the parts of an example are; empty for a kind without labels."""
    match task:
        case WordLabels():
            return "words"
        case Tagging():
            return "entities"
        case MultiLabelClassification():
            return "labels"
        case DependencyParsing():
            return "words"
        case DialogueStateTracking():
            return "slots with a value"
        case Spans():
            return "questions"
    return "examples" if isinstance(task, SingleLabel) else ""


def has_confusions(task: Task) -> bool:
    """Whether one label is taken for another; a slot never is."""
    return not isinstance(task, DialogueStateTracking)


def quotes_texts(task: Task) -> bool:
    """Whether a failure quotes the data, even without an example."""
    return isinstance(task, Spans | CharacterTagging | DialogueStateTracking)


def parts_of(task: Task, line: Line, example: Any = None) -> list[Part]:
    """The labelled parts of an example; none for a kind without labels."""
    gold, said = line["gold"], line["prediction"]
    match task:
        case SingleLabel():
            names = task.label_names
            return [Part(gold, said, gold == said, names.get(gold, gold), names.get(said, said))]
        case MultiLabelClassification():
            first, second = ({name: (name, name) for name in side} for side in (gold, said))
            return _compared(first, second, task.labels)
        case Tagging():
            entities, others = (
                {
                    (start, end): (kind, f"{kind} {_between(line, example, start, end)}")
                    for kind, start, end in _entities(task, line, side)
                }
                for side in ("gold", "prediction")
            )
            return _compared(entities, others, sorted({*entities, *others}))
        case DependencyParsing():
            return _words(line, example)
        case DialogueStateTracking():
            states = slot_values(gold), slot_values(said)
            first, second = (
                {slot: (slot, f"{slot}-{value}") for slot, value in of.items()} for of in states
            )
            return _compared(first, second, list(dict.fromkeys([*first, *second])))
        case Spans() if task.has_unanswerable:
            gold, said = ("answer" if side else NO_ANSWER for side in (gold, said))
            return [Part(gold, said, gold == said)]
    return []


def _entities(task: Tagging, line: Line, side: str) -> set[Entity]:
    if isinstance(task, WordLabels):
        return {(label, n, n + 1) for n, label in enumerate(line[side]) if label}
    if isinstance(task, WordTagging):
        return entities([prefixed(label) for label in line[side]], is_lenient=True)
    kept = [place for place, character in enumerate(line["text"]) if not character.isspace()]
    inner = entities([line[side][place] for place in kept])
    return {(kind, kept[start], kept[end - 1] + 1) for kind, start, end in inner}


def _between(line: Line, example: Any, start: int, end: int) -> str:
    if "text" in line:
        return str(line["text"][start:end])
    words = example.words[start:end] if example else ()
    return " ".join(words) or f"words {start + 1} to {end}"


def _compared(gold: Side, said: Side, places: Sequence[Any]) -> list[Part]:
    """A part for each place of a side, right where both sides have the same there."""
    nothing = (NOTHING, "")
    taken = [place for place in places if place in gold or place in said]
    pairs = [(gold.get(place, nothing), said.get(place, nothing)) for place in taken]
    return [Part(a[0], b[0], a == b, a[1], b[1]) for a, b in pairs]


def _words(line: Line, example: Any) -> list[Part]:
    """A part for each word, right where head and label are, which is what LAS counts. A word that
    was cut off has no predicted label; without an example words are named by their numbers."""

    def name(number: int) -> str:
        return example.words[number - 1].form if example else f"word {number}"

    def text(number: int, head: int, label: str | None) -> str:
        if label is None:
            return f"{name(number)} cut off"
        return f"{name(number)} → {name(head) if head else 'ROOT'} ({label})"

    gold, said = (
        list(zip(line[side]["heads"], line[side]["labels"], strict=True))
        for side in ("gold", "prediction")
    )
    return [
        Part(asked[1], given[1] or NOTHING, asked == given, text(n, *asked), text(n, *given))
        for n, (asked, given) in enumerate(zip(gold, said, strict=True), start=1)
    ]


def failure_of(task: Task, runs: Sequence[Line], example: Example | None) -> Failure | None:
    """What the middle one of the runs has wrong with an example; None if nothing.

    `runs` hold its line in each; of an even number the lower middle one counts: half of the runs
    right is not mostly wrong.
    """
    failures = [_mistake(task, line, example) for line in runs]
    failures.sort(key=lambda failure: failure.severity if failure else -math.inf)
    return failures[(len(failures) - 1) // 2]


def _mistake(task: Task, line: Line, example: Any) -> Failure | None:
    """What one line has wrong; as severe as a wrong label is sure, or as many parts are wrong."""
    if isinstance(task, Regression):
        gold, said = line["gold"], line["prediction"]
        distance = abs(said - gold)
        return Failure(distance, f"{gold:g}", f"{said:.2f}", f"off by {distance:.2f}")
    if isinstance(task, Spans):
        return _wrong_answer(task, line)
    parts = parts_of(task, line, example)
    wrong = [part for part in parts if not part.is_right]
    if not wrong:
        return None
    if isinstance(task, SingleLabel):
        (part,) = wrong
        names = [task.label_names.get(label, label) for label in task.labels]
        ranked = sorted(zip(line["probabilities"], names, strict=False), key=lambda pair: -pair[0])
        sure = ", ".join(f"{name}: {probability:.3f}" for probability, name in ranked[:_TOP])
        return Failure(ranked[0][0], part.gold_text, part.predicted_text, sure)
    gold = [part.gold_text for part in wrong if part.gold_text]
    said = [part.predicted_text for part in wrong if part.predicted_text]
    count = f"{len(gold)} of {sum(bool(part.gold) for part in parts)} {units(task)} wrong"
    if num_made_up := len(wrong) - len(gold):
        count += f", {num_made_up} made up"
    return Failure(len(gold) + len(said), listed(gold), listed(said), count)


def _wrong_answer(task: Spans, line: Line) -> Failure | None:
    """None for an exact match; as severe as the text, or that there is none, is sure."""
    normalize, said, odds = NORMALIZE[task.scorer], line["prediction"], line.get("null_odds")
    if normalize(said) in {normalize(answer) for answer in line["gold"] or [""]}:
        return None
    sure = next((float(probability) for text, probability in line["n_best"] if text == said), 0.0)
    if not said and odds is not None:
        sure = 1 / (1 + math.exp(-max(-500.0, odds)))
    parts = [f"“{text}” {probability:.3f}" for text, probability in line["n_best"][:3]]
    if odds is not None:
        parts.insert(0, f"odds of {NO_ANSWER} {odds:.2f}")
    gold = " / ".join(dict.fromkeys(line["gold"])) or f"({NO_ANSWER})"
    return Failure(sure, gold, said or f"({NO_ANSWER})", "; ".join(parts))


def shown(task: Task, example: Any, line: Line) -> list[tuple[str, str]]:
    """The texts of an example for a reader, each with its name."""
    match task:
        case RelationExtraction():
            return [("sentence", example.marked)]
        case DialogueStateTracking():  # the other turns stand in the examples before
            turns = example.texts[-_TURNS_SHOWN:]
            left_out = len(example.texts) - len(turns)
            before = [("", f"({left_out} turns before)")] if left_out else []
            return before + [("turn", text) for text in turns]
        case Spans():  # the context around the first gold answer, or what was answered
            context, said = example.context, line["prediction"]
            gold = example.answers[0] if example.answers else GoldAnswer(said, context.find(said))
            start, end = max(0, gold.start - _AROUND), max(0, gold.start) + len(gold.text) + _AROUND
            around = "… " * (start > 0) + context[start:end] + " …" * (end < len(context))
            return [("question", example.question), ("context", around)]
        case MultipleChoice():
            text, *choices = example.texts
            return [("text", text), *zip(task.labels, choices, strict=False)]
    names = task.text_fields or ("text",) * len(example.texts)
    return list(zip(names, example.texts, strict=True))
