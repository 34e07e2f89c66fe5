"""Korean sentences with the morphemes that kiwipiepy finds in them."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from electrify.system.outcome import UserError

_WORD = re.compile(r"\S+")
_HANGUL = re.compile(r"[가-힣]")
_MIN_WORDS, _MIN_HANGUL = 4, 0.8  # words; share of the letters
_LETTER = re.compile(r"[^\W\d_]")


class Morpheme(NamedTuple):
    """A morpheme with its part of speech in the Sejong tag set, and its characters.

    Morphemes may share a syllable: `갔` is 가 + 았.
    """

    form: str
    tag: str
    start: int
    end: int


@dataclass(frozen=True)
class Sentence:
    """A text whose words stand between single spaces, with its morphemes."""

    text: str
    morphemes: tuple[Morpheme, ...]


Span = tuple[int, int]


def word_spans(text: str) -> list[Span]:
    """Where each word, a run without spaces, begins and ends."""
    return [match.span() for match in _WORD.finditer(text)]


def korean_sentences(texts: Iterable[str], max_characters: int) -> list[str]:
    """The different texts of four words or more, mostly of Hangul, with single spaces."""
    found: dict[str, None] = {}
    for text in texts:
        line = " ".join(text.split())
        is_korean = len(_HANGUL.findall(line)) >= _MIN_HANGUL * max(1, len(_LETTER.findall(line)))
        if is_korean and len(line) <= max_characters and line.count(" ") + 1 >= _MIN_WORDS:
            found[line] = None
    return list(found)


def analyse(texts: Sequence[str]) -> list[Sentence]:
    """Each text with its morphemes; tags are without kiwi's mark of irregular verbs."""
    return [
        Sentence(
            text,
            tuple(
                Morpheme(token.form, token.tag.split("-")[0], token.start, token.start + token.len)
                for token in tokens
            ),
        )
        for text, tokens in zip(texts, kiwi().tokenize(list(texts)), strict=True)
    ]


@cache
def kiwi() -> Any:
    """kiwipiepy's analyser; `ValueError` where it is not installed."""
    try:
        from kiwipiepy import Kiwi
    except ModuleNotFoundError as error:
        raise UserError("no kiwipiepy: run pip install 'electrify[benchmarks]'") from error
    return Kiwi(num_workers=1)
