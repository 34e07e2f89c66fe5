"""The input of relation extraction as KLUE-RE has it: a sentence with its two entities marked.

KLUE-baseline klue_baseline/data/klue_re.py `_mark_entity_spans` and `fix_tokenization_error`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.kinds.subwords import WORD_START, continuation_prefix, starts_words

SUBJECT = ("<subj>", "</subj>")
OBJECT = ("<obj>", "</obj>")
MARKERS = (*SUBJECT, *OBJECT)  # in the order in which they become tokens

Span = tuple[int, int]  # the first and the last character of an entity


def marked(sentence: str, subject: Span, object_: Span) -> str:
    """The sentence with markers around both entities, in the order of the text.

    Of entities that overlap the common characters stand twice, as the official code has it; the
    same span for both is refused with `ValueError`, as there.
    """
    if subject == object_:
        raise ValueError(
            f"subject and object are the same characters {subject[0]} to {subject[1]}; "
            "a relation has two entities"
        )
    (first, opening), (second, other) = sorted([(subject, SUBJECT), (object_, OBJECT)])
    return "".join((
        sentence[: first[0]],
        opening[0], sentence[first[0] : first[1] + 1], opening[1],
        sentence[first[1] + 1 : second[0]],
        other[0], sentence[second[0] : second[1] + 1], other[1],
        sentence[second[1] + 1 :],
    ))  # fmt: skip


def entity_span(entity: Any, place: str) -> Span:
    """The span of an entity of a file, {"start_idx", "end_idx"}, the last character included."""
    known = entity if isinstance(entity, Mapping) else {}
    first, last = known.get("start_idx"), known.get("end_idx")
    if not isinstance(first, int) or not isinstance(last, int) or not 0 <= first <= last:
        raise ValueError(f"{place}: {entity!r} has no start_idx and end_idx of characters")
    return first, last


def closed(text: str) -> str:
    """The marked text with a blank behind it where it ends in a marker, so that `repaired` can
    read on: no piece follows and none is repaired. The official code stops with an IndexError."""
    return text + " " if text.endswith((SUBJECT[1], OBJECT[1])) else text


def repaired(text: str, pieces: Sequence[str], tokenizer: Any) -> list[str]:
    """The pieces of a marked text as if the closing markers did not cut words.

    A marker in the middle of a word makes the rest a word of its own. The first piece of the rest
    becomes a continuation ("##") if it begins with a Hangul syllable; which piece that makes need
    not be in the vocabulary. With sentencepiece it loses its word start. Only an ordinary blank
    behind the marker ends the word. Other tokenizers: as they are.

    Raises `ValueError` for a text that ends in a closing marker (IndexError in the official code).
    """
    found = list(pieces)
    prefix, has_word_starts = continuation_prefix(tokenizer), starts_words(tokenizer)
    for marker in (SUBJECT[1], OBJECT[1]):
        behind = text.find(marker) + len(marker)
        if behind >= len(text):
            raise ValueError(f"the text ends in {marker}: no character says whether a word goes on")
        if text[behind] == " " or marker not in found:  # cut off by the maximum length
            continue
        position = found.index(marker) + 1
        piece = found[position] if position < len(found) else ""
        if prefix and not piece.startswith(prefix) and "가" <= piece[:1] <= "힣":
            found[position] = prefix + piece
        elif has_word_starts and piece == WORD_START:
            del found[position]
        elif has_word_starts and piece.startswith(WORD_START):
            found[position] = piece.removeprefix(WORD_START)
    return found


def entity_inputs(texts: Sequence[str], tokenizer: Any, max_length: int) -> list[list[int]]:
    """Token ids of marked texts with [CLS] and [SEP], repaired and cut to `max_length`."""
    encoded = tokenizer(list(texts), truncation=True, max_length=max_length)["input_ids"]
    rows: list[list[int]] = []
    for text, ids in zip(texts, encoded, strict=True):
        pieces = tokenizer.convert_ids_to_tokens(ids)
        fixed = repaired(text, pieces, tokenizer)
        rows.append(ids if fixed == pieces else tokenizer.convert_tokens_to_ids(fixed))
    return rows
