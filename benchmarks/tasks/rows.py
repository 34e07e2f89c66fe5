"""Fields of rows, and gold values as people write them: labels, tags, spans, answers.

Each is read by one rule; `ValueError` names the location of what the rule does not cover.
"""

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from benchmarks.metrics.tags import OUTSIDE
from electrify.system.outcome import UserError

_WHOLE = re.compile(r"^(-?\d+)\.0+$")
# soft hyphens, joiners of numbers, directions, byte order marks, variants of emoji; not U+200C and
# U+200D, which change what is seen
_UNSEEN = re.compile(
    "[\u00ad\u034f\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufe0e\ufe0f\ufeff]"
)
_NOT_GIVEN = ("", "nan", "<na>", "nat", "#n/a")  # as pandas and spreadsheets write it
_BEGINNING, _ENDING = "BSUW", "ESULW"  # of entities, in IOB, BIOES, BILOU, BMES and BMEWO
_OUTSIDE = (OUTSIDE, "-", "_")
_PREFIXED, _SUFFIXED = re.compile(r"([BIMESLUW])[-_](.+)"), re.compile(r"(.+)[-_]([BIMESLUW])")
# as brat, doccano, Label Studio and Prodigy call them
_SPAN_FIELDS = (
    ("start", "begin", "start_offset"),
    ("end", "end_offset"),
    ("label", "type", "entity", "labels"),
)
_SPAN_TEXTS = ("text", "word", "form")

Row = Mapping[str, Any]


# Fields.


def nested(row: Any, name: str) -> Any:
    """A field, or one of a field ("labels.label"); None where it is not there."""
    if isinstance(row, Mapping) and name in row:
        return row[name]
    for part in name.split("."):
        row = row.get(part) if isinstance(row, Mapping) else None
    return row


def text_field(row: Row, name: str, location: str) -> str:
    """A field that has to be text."""
    value = nested(row, name)
    if not isinstance(value, str):
        raise UserError(f"{location}: field {name!r} is {_shown(value)}, not text")
    return value


def list_field(row: Any, name: str, location: str) -> list[Any]:
    """A field that has to be a list."""
    value = row.get(name) if isinstance(row, Mapping) else None
    if not isinstance(value, list):
        raise UserError(f"{location}: field {name!r} is {_shown(value)}, not a list")
    return value


def _shown(value: Any) -> str:
    return "missing" if value is None else f"{value!r:.80}"


def number_of(value: Any) -> float:
    """nan of what is no finite number; 1_0 is one to Python alone."""
    is_other = isinstance(value, bool) or (isinstance(value, str) and "_" in value)
    try:
        number = math.nan if is_other else float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan
    return number if math.isfinite(number) else math.nan


def is_missing(value: Any) -> bool:
    """Whether a cell says that it has no value."""
    is_null = value is None or value != value
    return is_null or (isinstance(value, str) and folded(value).lower() in _NOT_GIVEN)


# Labels and tags.


def label_ids(names: Sequence[Any], labels: Sequence[str], location: str) -> tuple[int, ...]:
    """Labels as their positions in the task's; `ValueError` names the unknown one."""
    ids = {label: number for number, label in enumerate(labels)}
    for name in names:
        if not isinstance(name, str) or name not in ids:
            raise UserError(f"{location}: unknown label {name!r} (allowed: {', '.join(labels)})")
    return tuple(ids[name] for name in names)


@lru_cache(maxsize=10_000)
def folded(name: str) -> str:
    """A name without differences that cannot be seen: NFC, single blanks, no invisible characters,
    ordinary letters for full-width and half-width ones."""
    plain = "".join(map(_ordinary, _UNSEEN.sub("", name)))
    return unicodedata.normalize("NFC", " ".join(plain.split()))


def _ordinary(character: str) -> str:
    width, _, codes = unicodedata.decomposition(character).partition(" ")
    return chr(int(codes, 16)) if width in ("<wide>", "<narrow>") else character


def class_name(value: Any) -> Any:
    """A label of a table as text, folded; 1.0 as 1, for a column of whole numbers that has a gap
    somewhere is one of fractions to pandas; true and false in small letters. What is neither text
    nor number is given back."""
    if not isinstance(value, str | int | float):
        return value
    name = _WHOLE.sub(r"\1", folded(str(value)))
    return name.lower() if name.lower() in ("true", "false") else name


def mark_and_type(tag: Any) -> tuple[str, str] | None:
    """The mark and the type of "B-PER" or "PER_B"; ("O", "") outside, None of what is no tag."""
    if tag in _OUTSIDE:
        return OUTSIDE, ""
    if isinstance(tag, str) and (match := _PREFIXED.fullmatch(tag)):
        return match[1], folded(match[2])
    if isinstance(tag, str) and (match := _SUFFIXED.fullmatch(tag)):
        return match[2], folded(match[1])
    return None


def iob2(tags: Sequence[Any]) -> list[str]:
    """Tags of a sentence as B-TYPE, I-TYPE and O; the same entities.

    A mark goes before the type or behind it. Where no tag of its type stands before, an I- begins
    an entity, as conlleval reads IOB1. `ValueError` names what is no tag.
    """
    names, before = [], ""
    for tag in tags:
        parts = mark_and_type(tag)
        if parts is None:
            raise UserError(f"{tag!r:.80} is no tag")
        mark, kind = parts
        begins = mark in _BEGINNING or kind != before
        names.append(OUTSIDE if mark == OUTSIDE else f"{'B' if begins else 'I'}-{kind}")
        before = "" if mark in _ENDING else kind
    return names


# Spans and answers. Where a text does not stand where it is said to, its only location is taken.


def find_starts(text: str, context: str) -> list[int]:
    """Every character at which a text begins."""
    return [match.start() for match in re.finditer(f"(?={re.escape(text)})", context)]


def _start_of(text: str, start: int | None, context: str, what: str) -> int:
    """The start that is said, if the text stands there, else its only location."""
    if start is not None and context.startswith(text, start):
        return start
    starts = find_starts(text, context)
    if len(starts) != 1:
        where = "no start" if start is None else f"start {start}"
        raise UserError(
            f"{what} {text!r:.80} has {where}, and is {len(starts)} times in its text; correct it"
        )
    return starts[0]


def entity_spans(row: Row, name: str, text: str, location: str) -> list[tuple[int, int, str]]:
    """(first character, the one behind the last, type) of each span of a row: an object with
    start (or begin), end and label (or type), and perhaps its text, or a list of the three."""
    spans = []
    for span in list_field(row, name, location):
        said = span if isinstance(span, dict) else {}
        parts = [_first_of(said, names) for names in _SPAN_FIELDS] if said else span
        if (
            isinstance(parts, list)
            and parts
            and isinstance(parts[-1], list)
            and len(parts[-1]) == 1
        ):
            parts = [*parts[:-1], parts[-1][0]]
        match parts:
            case [int(start), int(end), str(kind)] if 0 <= start < end and folded(kind):
                form = _first_of(said, _SPAN_TEXTS)
            case _:
                raise UserError(
                    f"{location}: {span!r:.80} in column {name!r} is no span: write "
                    '{"start": 0, "end": 2, "label": "TYPE"} or [0, 2, "TYPE"], characters counted '
                    "from 0, the end not included"
                )
        if isinstance(form, str) and form and text[start:end] != form:
            start = _start_of(form, start, text, f"{location}: the span")
            end = start + len(form)
        spans.append((start, end, folded(kind)))
    return spans


def _first_of(span: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((span[name] for name in names if name in span), None)


class GoldAnswer(NamedTuple):
    """An answer as it stands in the context."""

    text: str
    start: int  # character


def placed_answers(row: Row, location: str) -> tuple[GoldAnswer, ...]:
    """The answers of a row where their texts stand in its context; `ValueError` if
    one stands nowhere or in several, or the row says that there is an answer and has none."""
    context, answers = text_field(row, "context", location), []
    for text, start in spelt_answers(row, location):
        kept = text.strip()
        said = None if start is None else start + len(text) - len(text.lstrip())
        answers.append(GoldAnswer(kept, _start_of(kept, said, context, f"{location}: the answer")))
    if not answers and row.get("is_impossible") not in (None, True):
        raise UserError(f"{location}: is_impossible is false, and there is no answer")
    return tuple(answers)


def spelt_answers(row: Row, location: str) -> list[tuple[str, int | None]]:
    """Text and start of each answer: of a list of objects, or of an object of lists as the hub has
    it.

    There is none where `is_impossible` says so, as files and the hub may have KLUE's plausible
    answers then, where the field is null or an empty list, and where all texts are empty. A start
    that is missing, null or negative is None.
    """
    if "answers" not in row:
        raise UserError(f"{location}: field 'answers' is missing")
    if row.get("is_impossible") not in (None, True, False):
        said = row["is_impossible"]
        raise UserError(f"{location}: is_impossible is {said!r:.80}; write true or false")
    entries = row["answers"]
    if isinstance(entries, Mapping):
        texts, starts = (list_field(entries, name, location) for name in ("text", "answer_start"))
        if len(texts) != len(starts):
            raise UserError(f"{location}: {len(texts)} answers have {len(starts)} answer_start")
        pairs = zip(texts, starts, strict=True)
        entries = [{"text": text, "answer_start": start} for text, start in pairs]
    elif entries is not None:
        entries = list_field(row, "answers", location)
    answers = [
        (text_field(entry, "text", location), _start(entry.get("answer_start"), location))
        for entry in entries or ()
    ]
    if row.get("is_impossible"):
        return []
    given = [(text, start) for text, start in answers if text.strip()]
    if given and len(given) < len(answers):
        raise UserError(f"{location}: one answer is empty and another is {given[0][0]!r:.80}")
    return given


def _start(value: Any, location: str) -> int | None:
    if value is None or value != value:
        return None
    if not isinstance(value, int | float) or not float(value).is_integer():
        raise UserError(f"{location}: answer_start is {value!r:.80}, no whole number")
    return None if value < 0 else int(value)
