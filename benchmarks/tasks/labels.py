"""Labels and tags as people write them, each read by one rule."""

import math
import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from benchmarks.metrics.tagging import OUTSIDE
from electrify.system.outcome import UserError

_WHOLE = re.compile(r"^(-?\d+)\.0+$")
# soft hyphens, joiners of numbers, directions, byte order marks, variants of emoji; not U+200C and
# U+200D, which change what is seen
_UNSEEN = re.compile(
    "[\u00ad\u034f\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufe0e\ufe0f\ufeff]"
)
_NOT_GIVEN = ("", "nan", "<na>", "nat", "#n/a")  # as pandas and spreadsheets write it
_NOT_GIVEN_AMONG_NUMBERS = (*_NOT_GIVEN, "none", "null", "na", "n/a", "-", ".", "?")
_BEGINNING, _ENDING = "BSUW", "ESULW"  # of entities, in IOB, BIOES, BILOU, BMES and BMEWO
_MARKS = "BIMESLUW"
_OUTSIDE = (OUTSIDE, "-", "_")
_PREFIXED = re.compile(rf"([{_MARKS}])[-_](.+)")
_SUFFIXED = re.compile(rf"(.+)[-_]([{_MARKS}])")


@lru_cache(maxsize=10_000)
def folded(name: str) -> str:
    """A name without differences that cannot be seen: NFC, single blanks, no invisible characters,
    ordinary letters for full-width and half-width ones."""
    plain = "".join(map(_ordinary, _UNSEEN.sub("", name)))
    return unicodedata.normalize("NFC", " ".join(plain.split()))


def _ordinary(character: str) -> str:
    width, _, codes = unicodedata.decomposition(character).partition(" ")
    return chr(int(codes, 16)) if width in ("<wide>", "<narrow>") else character


def alike(name: str) -> str:
    """What names that differ in case or blanks alone have in common."""
    return "".join(unicodedata.normalize("NFKC", name).casefold().split())


def class_name(value: Any) -> Any:
    """A label of a table as text, folded; 1.0 as 1, for a column of whole numbers that has a gap
    somewhere is one of fractions to pandas; true and false in small letters. What is neither text
    nor number is given back."""
    if not isinstance(value, str | int | float):
        return value
    name = _WHOLE.sub(r"\1", folded(str(value)))
    return name.lower() if name.lower() in ("true", "false") else name


def number_of(value: Any) -> float:
    """nan of what is no finite number."""
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan
    return number if math.isfinite(number) else math.nan


def is_missing(value: Any, among_numbers: bool = False) -> bool:
    """Whether a cell says that it has no value; "none" and "-" do so among numbers alone."""
    if value is None or value != value:
        return True
    words = _NOT_GIVEN_AMONG_NUMBERS if among_numbers else _NOT_GIVEN
    return isinstance(value, str) and folded(value).lower() in words


def mark_and_type(tag: Any) -> tuple[str, str] | None:
    """The mark and the type of "B-PER" or "PER_B"; ("O", "") outside, None of what is no tag."""
    if tag in _OUTSIDE:
        return OUTSIDE, ""
    if isinstance(tag, str) and (found := _PREFIXED.fullmatch(tag)):
        return found[1], folded(found[2])
    if isinstance(tag, str) and (found := _SUFFIXED.fullmatch(tag)):
        return found[2], folded(found[1])
    return None


def iob2(tags: Sequence[Any]) -> list[str]:
    """Tags of a sentence as B-TYPE, I-TYPE and O; the same entities.

    A mark goes before the type or behind it. Where no tag of its type stands before, an I- begins
    an entity, as conlleval reads IOB1. `ValueError` names what is no tag.
    """
    found, before = [], ""
    for tag in tags:
        parts = mark_and_type(tag)
        if parts is None:
            raise UserError(f"{tag!r:.80} is no tag")
        mark, kind = parts
        if mark == OUTSIDE:
            found.append(OUTSIDE)
        else:
            begins = mark in _BEGINNING or kind != before
            found.append(f"{'B' if begins else 'I'}-{kind}")
        before = "" if mark in _ENDING else kind
    return found
