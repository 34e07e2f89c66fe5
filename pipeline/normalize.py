"""Rules that change a text. Each is text to text; `clean_text` runs them to a fixed point.

One round is not enough: an entity may hide a tag, a tag a URL. Rounds end because after the first
each one that changes anything shortens the text or leaves it in its normal form. Hence the law that
the tests hold: clean_text(clean_text(x)) == clean_text(x).
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pipeline.markup import remove_html

Rule = tuple[str, Callable[[str], str]]


@dataclass(frozen=True, slots=True)
class Cleaned:
    """A text with the names of the rules that changed it."""

    text: str
    altered: tuple[str, ...]


def rules(remove_html_markup: bool, remove_url: bool) -> tuple[Rule, ...]:
    """The rules in their order; the name says what happened to a text."""
    return (
        ("lost_characters_removed", remove_lost_characters),
        *((("html_removed", remove_html),) if remove_html_markup else ()),
        ("control_characters_removed", remove_control_characters),
        ("unicode_composed", compose),
        *((("url_removed", remove_urls),) if remove_url else ()),
        ("whitespace_squeezed", squeeze_whitespace),
    )


def clean_text(text: str, chosen: Sequence[Rule]) -> Cleaned:
    """Apply the rules in order, again until none changes anything."""
    altered: set[str] = set()
    before = None
    while text != before:
        before = text
        for name, rule in chosen:
            changed = rule(text)
            if changed != text:
                altered.add(name)
                text = changed
    return Cleaned(text, tuple(name for name, _ in chosen if name in altered))


def compose(text: str) -> str:
    """Unicode NFC: Hangul typed as jamo (as macOS file names are) becomes syllables."""
    return unicodedata.normalize("NFC", text)


_LOST = re.compile("[\ud800-\udfff\ufffd\ufffe\uffff]+")


def remove_lost_characters(text: str) -> str:
    """Remove lone surrogates, U+FFFD and noncharacters: what stood there cannot be known.

    BERT tokenizers drop U+FFFD too, so a text reads the same to the model.
    """
    return _LOST.sub("", text)


# invisible marks: zero-width space, soft hyphen, joiners, writing direction, byte order mark
_CONTROL = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u180e\u200b\u200e\u200f\u202a-\u202e"
    "\u2060-\u206f\ufeff\ufff9-\ufffb]+"
)
# The joiners U+200C and U+200D are spelling in Arabic and Indic scripts and hold emoji together;
# anywhere else they are noise.
_JOINERS = re.compile(
    "(?<![\u0600-\u08ff\u0900-\u0dff\u0e00-\u109f\u1780-\u18af\u2600-\u27bf\ufe0f"
    "\U0001f000-\U0001faff])[\u200c\u200d]"
)


def remove_control_characters(text: str) -> str:
    """Remove control and zero-width characters that are no whitespace."""
    return _JOINERS.sub("", _CONTROL.sub("", text))


# Hangul belongs to a URL only as a path segment or value; a particle written against the URL
# (".com에서") stays. Possessive, so the time is linear.
_URL = (
    r"(?<![A-Za-z0-9])(?:(?:https?|ftp)://|www\.(?=[A-Za-z0-9]))"
    r"(?:[A-Za-z0-9\-._~:/?#@!$&*+,;=%]++|\([A-Za-z0-9\-._~/%,]*+\)|(?<=[/=_%])[가-힣]++)*+"
)
_URL_MARK = re.compile(r"://|www\.", re.IGNORECASE)
_URLS = re.compile(
    rf"<{_URL}>|(?<=\])\(\s*{_URL}(?:\s+(?:\"[^\"\n]*\"|'[^'\n]*'))?\s*\)|{_URL}", re.IGNORECASE
)


def remove_urls(text: str) -> str:
    """Remove http, ftp and www addresses; of a Markdown link the words stay.

    Bare domains stay: in a sentence they are names.
    """
    return _URLS.sub(_after_url, text) if _URL_MARK.search(text) else text


def _after_url(url: re.Match[str]) -> str:
    """What a match gives back: the punctuation of the sentence around it."""
    if url[0][0] in "<(":
        return ""
    return url[0][len(url[0].rstrip(".,;:!?")) :]


_NEWLINES = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
# every Unicode space but the newline; U+2800 and U+3164 are letters by class, but blank
_SPACES = re.compile("(?:[^\\S\n]|[\u2800\u3164\uffa0])+")
_LINE_EDGES = re.compile(" *\n *")
_BLANK_LINES = re.compile("\n{3,}")


def squeeze_whitespace(text: str) -> str:
    """One space between words, at most one blank line between paragraphs, none at the edges.

    Every kind of line end becomes a newline, a tab a space.
    """
    text = _NEWLINES.sub("\n", text)
    text = _SPACES.sub(" ", text)
    text = _LINE_EDGES.sub("\n", text)
    return _BLANK_LINES.sub("\n\n", text).strip(" \n")
