"""Where a document may be cut: sentences and lines, always between words."""

import unicodedata
from itertools import pairwise
from typing import Literal

from pipeline.rules.sentences import punctuated_spans, sentence_spans
from vocab.normalizer import LOOK_AROUND

Sentences = Literal["punctuation", "kiwi"]


def cut_sentences(text: str, language: str, by: Sentences = "punctuation") -> list[str]:
    """The text in pieces that join to it again, one a sentence or line.

    A cut that would fall inside a word, or between characters that normalisation joins, is left
    out: the ids of the pieces, joined, are the ids of the text.
    """
    spans = sentence_spans(text, language) if by == "kiwi" else punctuated_spans(text)
    cuts = [start for start, _ in spans[1:] if is_between_words(text, start)]
    return [text[start:stop] for start, stop in pairwise([0, *cuts, len(text)])]


def is_between_words(text: str, cut: int) -> bool:
    """Whether the tokenizer ends a word before character number `cut` for certain.

    After a space or line break; or after a punctuation mark, before a letter, digit, mark or space
    (not before a combining accent, which would change the mark). Not at marks that are normalised
    by what stands beside them.
    """
    before = text[cut - 1]
    if before in " \n":
        return True
    if before in LOOK_AROUND or text[cut] in LOOK_AROUND:
        return False
    return unicodedata.category(before)[0] == "P" and unicodedata.category(text[cut])[0] in "LNPSZ"
