"""The relation between two marked entities of a sentence, as KLUE-RE has it.

KLUE-baseline klue_baseline/data/klue_re.py `_mark_entity_spans` and `fix_tokenization_error`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.metrics import weighted
from benchmarks.metrics.classification import (
    auprc,
    auprc_absent_as_half,
    auprc_without_no_relation,
    micro_f1,
)
from benchmarks.tasks.kinds import continuation_prefix, num_truncated
from benchmarks.tasks.kinds.classification import Classification
from benchmarks.tasks.rows import Row
from benchmarks.tasks.task import Example, Features, GoldExample, Line
from electrify.system.outcome import UserError

SUBJECT = ("<subj>", "</subj>")
OBJECT = ("<obj>", "</obj>")
MARKERS = (*SUBJECT, *OBJECT)  # in the order in which they become tokens

WORD_START = "▁"  # sentencepiece: stands in place of the blank before a word

Span = tuple[int, int]  # the first and the last character of an entity


def marked(sentence: str, subject: Span, object_: Span) -> str:
    """The sentence with markers around both entities, in the order of the text.

    Of entities that overlap the common characters stand twice, as the official code has it; the
    same span for both is refused with `ValueError`, as there.
    """
    if subject == object_:
        raise UserError(
            f"subject and object are the same characters {subject[0]} to {subject[1]}; "
            "a relation has two entities"
        )
    text, end = "", 0
    for (first, last), (opening, closing) in sorted([(subject, SUBJECT), (object_, OBJECT)]):
        text += sentence[end:first] + opening + sentence[first : last + 1] + closing
        end = last + 1
    return text + sentence[end:]


def entity_span(entity: Any, place: str) -> Span:
    """The span of an entity of a file, {"start_idx", "end_idx"}, the last character included."""
    known = entity if isinstance(entity, Mapping) else {}
    first, last = known.get("start_idx"), known.get("end_idx")
    if not isinstance(first, int) or not isinstance(last, int) or not 0 <= first <= last:
        raise UserError(f"{place}: {entity!r} has no start_idx and end_idx of characters")
    return first, last


def closed(text: str) -> str:
    """The marked text with a blank behind it where it ends in a marker, so that `repaired` can
    read on: no piece follows and none is repaired. The official code stops with an IndexError."""
    return text + " " if text.endswith((SUBJECT[1], OBJECT[1])) else text


def repaired(text: str, pieces: Sequence[str], tokenizer: Any) -> list[str]:
    """The pieces of a marked text as if the closing markers did not cut words.

    The first piece behind a marker in a word becomes a continuation ("##") if it begins with a
    Hangul syllable; which piece that makes need not be in the vocabulary. With sentencepiece it
    loses its word start. Raises `ValueError` for a text that ends in a closing marker.
    """
    marked = list(pieces)
    prefix = continuation_prefix(tokenizer)
    model = getattr(getattr(tokenizer, "backend_tokenizer", None), "model", None)
    has_word_starts = type(model).__name__ == "Unigram"  # as XLM-R and others of sentencepiece
    for marker in (SUBJECT[1], OBJECT[1]):
        behind = text.find(marker) + len(marker)
        if behind >= len(text):
            raise UserError(
                f"the text ends in {marker}: no character says whether a word continues"
            )
        if text[behind] == " " or marker not in marked:  # cut off by the maximum length
            continue
        position = marked.index(marker) + 1
        piece = marked[position] if position < len(marked) else ""
        if prefix and not piece.startswith(prefix) and "가" <= piece[:1] <= "힣":
            marked[position] = prefix + piece
        elif has_word_starts and piece == WORD_START:
            del marked[position]
        elif has_word_starts and piece.startswith(WORD_START):
            marked[position] = piece.removeprefix(WORD_START)
    return marked


def entity_inputs(texts: Sequence[str], tokenizer: Any, max_length: int) -> list[list[int]]:
    """Token ids of marked texts with [CLS] and [SEP], repaired and cut to `max_length`."""
    encoded = tokenizer(list(texts), truncation=True, max_length=max_length)["input_ids"]
    rows: list[list[int]] = []
    for text, ids in zip(texts, encoded, strict=True):
        pieces = tokenizer.convert_ids_to_tokens(ids)
        fixed = repaired(text, pieces, tokenizer)
        rows.append(ids if fixed == pieces else tokenizer.convert_tokens_to_ids(fixed))
    return rows


NO_RELATION = "no_relation"


@dataclass(frozen=True)
class RelationExample(GoldExample):
    """A sentence, the label of its relation, and the sentence with its entities marked."""

    marked: str = ""


class RelationExtraction(Classification):
    """[CLS] sentence [SEP] with markers around both entities; a linear layer on [CLS].

    A sentence that ends right behind an entity is read like any other (the official code stops at
    one with an IndexError).
    """

    added_tokens = MARKERS
    headline = "micro_f1"

    @property
    def has_parts(self) -> bool:
        return True

    def examples(
        self, row: Row, identity: str, place: str, is_labelled: bool
    ) -> Iterator[RelationExample]:
        (sentence,) = texts = self.texts(row, place)
        spans = [entity_span(row.get(name), place) for name in ("subject_entity", "object_entity")]
        if max(last for _, last in spans) >= len(sentence):
            raise UserError(
                f"{place}: entities {spans} in a sentence of {len(sentence)} characters"
            )
        try:
            text = marked(sentence, *spans)
        except ValueError as error:
            raise UserError(f"{place}: {error}") from None
        label = self.gold(row, texts, place) if is_labelled else None
        yield RelationExample(identity, texts, label, text)

    def plain_texts(self, example: Example) -> tuple[str, ...]:
        assert isinstance(example, RelationExample)
        return (example.marked,)

    def featurize(
        self, examples: Sequence[Any], tokenizer: Any, max_length: int, train: bool
    ) -> Features:
        """One row a sentence, of one segment; `examples` are `RelationExample`."""
        texts = [closed(example.marked) for example in examples]
        rows = entity_inputs(texts, tokenizer, max_length)
        return Features.of_rows(
            rows,
            labels={"labels": [example.gold for example in examples]},
            num_truncated=num_truncated([texts], rows, tokenizer, max_length),
        )

    def rounded(self, probability: float) -> float:
        """To significant digits, not decimals: the curves ask for the order of small ones too."""
        return float(f"{probability:.8g}")

    def score(self, lines: Sequence[Line]) -> dict[str, float]:
        """Micro F1 without `no_relation` and the areas under the precision-recall curves."""
        no_relation = self.labels.index(NO_RELATION)
        gold, predicted = self.sides(lines)
        size = (len(lines), len(self.labels))
        probabilities = np.reshape([line["probabilities"] for line in lines], size)
        scores = {
            "micro_f1": micro_f1(gold, predicted, no_relation),
            "auprc": auprc(gold, probabilities),
            "auprc_absent_as_half": auprc_absent_as_half(gold, probabilities),
            "auprc_without_no_relation": auprc_without_no_relation(
                gold, probabilities, no_relation
            ),
        }
        return scores if lines else dict.fromkeys(scores, float("nan"))

    def weighted_score(self, lines: Sequence[Line]) -> weighted.Weighted:
        return weighted.micro_f1(*self.sides(lines), self.labels.index(NO_RELATION))
