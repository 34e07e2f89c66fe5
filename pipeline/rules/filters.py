"""Rules that keep or drop a whole text: text in, `Drop` or nothing out."""

from dataclasses import dataclass

from pipeline.rules.characters import LOST, kinds

REPLACEMENT_FRACTION = 0.01  # of characters lost to a wrong decoding, beyond which a text is noise


@dataclass(frozen=True, slots=True)
class Drop:
    """Why a text is not kept: `reason` is counted, `detail` is for the reader."""

    reason: str
    detail: str


def undecodable(text: str) -> Drop | None:
    """Drop a raw text of which over 1 % are U+FFFD or lone surrogates: it was decoded wrongly."""
    if not kinds(text) & LOST:
        return None
    num_lost = text.count("\ufffd") + _num_surrogates(text)
    if num_lost <= REPLACEMENT_FRACTION * len(text):
        return None
    return Drop("undecodable", f"{num_lost} of {len(text)} characters are lost (U+FFFD)")


def too_short(text: str, min_characters: int) -> Drop | None:
    """Drop a cleaned text that is empty or has fewer than `min_characters`."""
    if not text:
        return Drop("empty", "no text after cleaning")
    if len(text) < min_characters:
        return Drop("too_short", f"{len(text)} characters; clean.min_characters = {min_characters}")
    return None


def _num_surrogates(text: str) -> int:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return sum("\ud800" <= character <= "\udfff" for character in text)
    return 0
