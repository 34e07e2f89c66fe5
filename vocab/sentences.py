"""Sentences of a text as offsets: by punctuation, and by kiwipiepy where Korean has none.

Kiwi is 200 times slower than the pattern (0.2 MB a CPU second), so it sees only the pieces that
seem to hold more than one sentence; text with full stops costs next to nothing.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

Span = tuple[int, int]

# A sentence ends at a newline; behind . ! ? … and what closes a quotation, if a space follows
# (not behind a number or an initial: "3. 1 운동", "J. Kim"); behind 。！？ । ॥ ؟ ۔ without one.
# One character class comes first, so that the search skips from one candidate to the next.
_CLOSE = "[\"'”’)\\]」』》»]*+"
_END = re.compile(
    r"[\n.!?…。！？｡।॥؟۔]"
    r"(?:(?<=\n)"
    rf"|(?<=[!?…])[.!?…]*+{_CLOSE}(?=\s)"
    r"|(?<=[^\s.][.])(?<![0-9][.])(?<![\s.\"'(][A-Z][.])"
    rf"(?<!\bMr[.])(?<!\bDr[.])(?<!\bMrs[.])(?<!\bSt[.])(?<!\bvs[.]){_CLOSE}(?=\s)"
    rf"|(?<=[.])\.++{_CLOSE}(?=\s)"
    r"|(?<=[。！？｡।॥؟۔])[。！？｡।॥؟۔”’」』）》\"']*+)"
)
_LONG = 120  # characters without a boundary, beyond which Kiwi is asked
_FINAL_ENDING = re.compile(r"[다요죠음함임됨][ㅋㅎㅠㅜ~^;]*+\s")  # that Korean sentences close with
_MAX_KIWI = 2_000  # characters at once: its time and memory grow with the length


def sentence_spans(text: str, language: str) -> list[Span]:
    """Start and end of each sentence, in order, without the whitespace around it.

    Every character that is no whitespace lies in exactly one span.
    """
    spans = punctuated_spans(text)
    if language != "ko":
        return spans
    return [part for span in spans for part in _korean_spans(text, span)]


def punctuated_spans(text: str) -> list[Span]:
    """Sentences by punctuation and newlines alone, in any language."""
    spans: list[Span] = []
    start = 0
    for end in (*(match.end() for match in _END.finditer(text)), len(text)):
        if span := _stripped(text, start, end):
            spans.append(span)
        start = end
    return spans


def needs_kiwi(sentence: str) -> bool:
    """Does it look like several Korean sentences without full stops between them?"""
    if not _HANGUL.search(sentence):
        return False
    return len(sentence) > _LONG or _FINAL_ENDING.search(sentence) is not None


_HANGUL = re.compile("[가-힣]")


def _korean_spans(text: str, span: Span) -> Iterator[Span]:
    if not needs_kiwi(text[span[0] : span[1]]):
        yield span
        return
    for start, end in _chunks(text, *span):
        ends = [start + sentence.end for sentence in _kiwi().split_into_sents(text[start:end])]
        for stop in (*ends[:-1], end):  # from one end to the next: nothing is left out
            if part := _stripped(text, start, stop):
                yield part
            start = max(start, stop)


def _chunks(text: str, start: int, end: int) -> Iterator[Span]:
    """The span in pieces that Kiwi takes, cut at spaces where there are any."""
    while end - start > _MAX_KIWI:
        space = text.rfind(" ", start + 1, start + _MAX_KIWI)
        cut = space if space > start else start + _MAX_KIWI
        yield start, cut
        start = cut
    yield start, end


@lru_cache(maxsize=1)
def _kiwi() -> Any:
    """The model, once a process: 1 to 3.5 s and 480 MB."""
    from kiwipiepy import Kiwi

    return Kiwi(num_workers=1)


def _stripped(text: str, start: int, end: int) -> Span | None:
    piece = text[start:end]
    left = len(piece) - len(piece.lstrip())
    length = len(piece.strip())
    return (start + left, start + left + length) if length else None
