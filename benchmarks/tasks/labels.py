"""Tasks with one output a row: a label, several labels, a number, or the relation between two
entities.

Relations follow KLUE-baseline klue_baseline/data/klue_re.py, `_mark_entity_spans` and
`fix_tokenization_error`.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.tasks.features import (
    IGNORED_LABEL,
    continuation_prefix,
    encode_texts,
    num_truncated,
)
from benchmarks.tasks.rows import Row, class_name, label_ids, nested
from benchmarks.tasks.task import (
    Arrays,
    Details,
    Example,
    Features,
    GoldExample,
    Outputs,
    Positions,
    Prediction,
    Predictions,
    Task,
)
from electrify.system.outcome import UserError

_THRESHOLD = 0.5  # of the probability of one of several labels


class TextTask(Task):
    """A text, or a pair of texts, with a gold value: [CLS] a [SEP] b [SEP]."""

    has_auto_head = True

    def featurize(
        self, examples: Sequence[GoldExample], tokenizer: Any, max_length: int, train: bool
    ) -> Features:
        """One row an example; to learn both orders, row i + n is example i the other way round."""
        texts, gold = [e.texts for e in examples], [e.gold for e in examples]
        is_doubled = train and self.train_both_orders
        rows = [*texts, *(pair[::-1] for pair in texts)] if is_doubled else texts
        encoded, num_orders = encode_texts(rows, tokenizer, max_length), 1 + is_doubled
        return replace(
            encoded,
            example_of=np.tile(np.arange(len(texts)), num_orders),
            labels={"labels": gold * num_orders},
            num_truncated=encoded.num_truncated // num_orders,
        )


class Classification(TextTask):
    """[CLS] a [SEP] b [SEP], one linear layer, a softmax over labels; the most probable one is
    predicted."""

    def gold(self, row: Row, texts: tuple[str, ...], location: str) -> int:
        """The position of the label in the task's."""
        value = nested(row, self.label_field)
        names = [value if value in self.labels else class_name(value)]
        return label_ids(names, self.labels, location)[0]

    def label_arrays(self, features: Features, rows: Positions, length: int) -> Arrays:
        """`labels` (B,); `IGNORED_LABEL` where there is none."""
        labels = [features.labels["labels"][row] for row in rows]
        filled = [IGNORED_LABEL if label is None else label for label in labels]
        return {"labels": np.array(filled, dtype=np.int64)}

    def prediction(self, example: GoldExample, output: Outputs, details: Details) -> Prediction:
        from scipy.special import softmax

        probabilities = softmax(output["logits"].astype(np.float64))
        return {
            "gold": None if example.gold is None else self.labels[example.gold],
            "prediction": self.labels[int(np.argmax(probabilities))],
            "probabilities": [self.rounded(p) for p in probabilities.tolist()],
        }

    def rounded(self, probability: float) -> float:
        return round(probability, 6)

    def sides(self, predictions: Predictions) -> tuple[Positions, NDArray[Any]]:
        gold, predicted = super().sides(predictions)
        return self.ids_of(gold), self.ids_of(predicted)

    def label_pairs(self, prediction: Prediction) -> list[tuple[str, str]]:
        return [(prediction["gold"], prediction["prediction"])]

    def plain_texts(self, example: Example) -> tuple[str, ...]:
        """What a bag of words is made of: the text, or both of a pair."""
        return example.texts

    def doubts(self, train: Sequence[GoldExample], predictions: Predictions) -> list[str]:
        """Those of every kind with one label, and gold labels that cannot have been learnt."""
        doubts = super().doubts(train, predictions)
        learnt = {self.labels[e.gold] for e in train if e.gold is not None}
        if unknown := sorted({p["gold"] for p in predictions} - learnt):
            doubts.append(
                f"{', '.join(unknown)} among the reported rows is in no training row: are the "
                "files of one version?"
            )
        return doubts


class MultiLabelClassification(TextTask):
    """[CLS] a [SEP] b [SEP], one linear layer, a sigmoid and the binary cross-entropy for each
    label; the labels above one half. Such as the targets of an insult."""

    def gold_names(self, row: Row, location: str) -> Sequence[Any]:
        given = nested(row, self.label_field)
        if not isinstance(given, list):
            raise UserError(
                f"{location}: {given!r:.80} in {self.label_field!r} is no list of labels; JSON, "
                "JSONL and Parquet can hold one, a table of text cannot"
            )
        return [class_name(value) for value in given]

    def gold(self, row: Row, texts: tuple[str, ...], location: str) -> tuple[int, ...]:
        """The positions of the labels in the task's, ascending."""
        return tuple(sorted({*label_ids(self.gold_names(row, location), self.labels, location)}))

    def label_arrays(self, features: Features, rows: Positions, length: int) -> Arrays:
        """`label_sets` (B, labels), 1 where a label is given."""
        sets = [features.labels["labels"][row] or () for row in rows]
        return {"label_sets": self._indicators(sets).astype(np.float32)}

    def prediction(self, example: GoldExample, output: Outputs, details: Details) -> Prediction:
        from scipy.special import expit

        probabilities = expit(output["logits"].astype(np.float64))
        gold, predicted = example.gold, np.flatnonzero(probabilities >= _THRESHOLD)
        return {
            "gold": None if gold is None else [self.labels[n] for n in gold],
            "prediction": [self.labels[n] for n in predicted],
            "probabilities": [round(p, 6) for p in probabilities.tolist()],
        }

    def sides(self, predictions: Predictions) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """(n, labels) each: which labels are given, and which were predicted."""
        gold, predicted = (
            self._indicators([self.ids_of(labels) for labels in side])
            for side in super().sides(predictions)
        )
        return gold, predicted

    def label_pairs(self, prediction: Prediction) -> list[tuple[str, str]]:
        sides = [
            [label if label in prediction[side] else "" for label in self.labels]
            for side in ("gold", "prediction")
        ]
        return [pair for pair in zip(*sides, strict=True) if any(pair)]

    def error(self, prediction: Prediction) -> float:
        return float(len({*prediction["gold"]} ^ {*prediction["prediction"]}))

    def _indicators(self, sets: Sequence[Any]) -> NDArray[np.bool_]:
        matrix = np.zeros((len(sets), len(self.labels)), dtype=np.bool_)
        for row, labels in enumerate(sets):
            matrix[row, [*labels]] = True
        return matrix


@dataclass(frozen=True, kw_only=True)
class Regression(TextTask):
    """[CLS] a [SEP] b [SEP], one output that learns the value scaled from its range to 0..1.

    google-research/electra classification_tasks.py:332-392 does so for STS-B, (x - 0) / 5. What is
    predicted is scaled back.
    """

    is_scaled: bool = True  # what the network says is 0..1; else it is in the task's range

    def gold(self, row: Row, texts: tuple[str, ...], location: str) -> float:
        """The number, in the task's own range."""
        given, (low, high) = nested(row, self.label_field), self.value_range
        try:
            value = float(given)
        except (TypeError, ValueError, OverflowError):
            value = math.nan
        if math.isnan(value) or (self.is_scaled and not low <= value <= high):
            raise UserError(
                f"{location}: {self.label_field} {given!r:.80} is no number from {low:g} to "
                f"{high:g}"
            )
        return value

    def label_arrays(self, features: Features, rows: Positions, length: int) -> Arrays:
        """`values` (B,), scaled; nan where there is none."""
        low, high = self.value_range
        gold = np.array([features.labels["labels"][row] for row in rows], dtype=np.float64)
        return {"values": ((gold - low) / (high - low)).astype(np.float32)}

    def prediction(self, example: GoldExample, output: Outputs, details: Details) -> Prediction:
        low, high = self.value_range
        value = float(output["logits"][0])
        if self.is_scaled:
            value = low + (high - low) * value
        return {"gold": example.gold, "prediction": value}

    def sides(self, predictions: Predictions) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        gold, predicted = (np.array(side, dtype=np.float64) for side in super().sides(predictions))
        return gold, predicted

    def score(self, predictions: Predictions) -> dict[str, float]:
        return super().score(predictions if len(predictions) > 1 else [])

    def error(self, prediction: Prediction) -> float:
        return abs(float(prediction["gold"] - prediction["prediction"]))


SUBJECT = ("<subj>", "</subj>")
OBJECT = ("<obj>", "</obj>")
MARKERS = (*SUBJECT, *OBJECT)  # in the order in which they become tokens

WORD_START = "▁"  # sentencepiece: stands in location of the blank before a word

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


def entity_span(entity: Any, location: str) -> Span:
    """The span of an entity of a file, {"start_idx", "end_idx"}, the last character included."""
    known = entity if isinstance(entity, Mapping) else {}
    first, last = known.get("start_idx"), known.get("end_idx")
    if not isinstance(first, int) or not isinstance(last, int) or not 0 <= first <= last:
        raise UserError(f"{location}: {entity!r} has no start_idx and end_idx of characters")
    return first, last


def repaired(text: str, pieces: Sequence[str], tokenizer: Any) -> list[str]:
    """The pieces of a marked text as if the closing markers did not cut words.

    The first piece behind a marker in a word becomes a continuation ("##") if it begins with a
    Hangul syllable; which piece that makes need not be in the vocabulary. With sentencepiece it
    loses its word start. The official code stops at a text that ends in a marker.
    """
    marked = list(pieces)
    prefix = continuation_prefix(tokenizer)
    model = getattr(getattr(tokenizer, "backend_tokenizer", None), "model", None)
    has_word_starts = type(model).__name__ == "Unigram"  # as XLM-R and others of sentencepiece
    for marker in (SUBJECT[1], OBJECT[1]):
        behind = text.find(marker) + len(marker)
        if text[behind : behind + 1] in (" ", "") or marker not in marked:  # cut off by the length
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
    has_auto_head = False

    @property
    def has_parts(self) -> bool:
        return True

    def examples(
        self, row: Row, identity: str, location: str, is_labelled: bool
    ) -> Iterator[RelationExample]:
        (sentence,) = texts = self.texts(row, location)
        spans = [
            entity_span(row.get(name), location) for name in ("subject_entity", "object_entity")
        ]
        if max(last for _, last in spans) >= len(sentence):
            raise UserError(
                f"{location}: entities {spans} in a sentence of {len(sentence)} characters"
            )
        try:
            text = marked(sentence, *spans)
        except ValueError as error:
            raise UserError(f"{location}: {error}") from None
        label = self.gold(row, texts, location) if is_labelled else None
        yield RelationExample(identity, texts, label, text)

    def plain_texts(self, example: Example) -> tuple[str, ...]:
        assert isinstance(example, RelationExample)
        return (example.marked,)

    def featurize(
        self, examples: Sequence[Any], tokenizer: Any, max_length: int, train: bool
    ) -> Features:
        """One row a sentence, of one segment; `examples` are `RelationExample`."""
        texts = [example.marked for example in examples]
        rows = entity_inputs(texts, tokenizer, max_length)
        return Features.from_rows(
            rows,
            labels={"labels": [example.gold for example in examples]},
            num_truncated=num_truncated([texts], rows, tokenizer, max_length),
        )

    def rounded(self, probability: float) -> float:
        """To significant digits, not decimals: the curves ask for the order of small ones too."""
        return float(f"{probability:.8g}")

    def sides(self, predictions: Predictions) -> tuple[Positions, NDArray[np.float64]]:
        """Gold label ids (n,) and the probabilities of all labels, (n, labels)."""
        shape = len(predictions), len(self.labels)
        probabilities = np.reshape([p["probabilities"] for p in predictions], shape)
        return self.ids_of(p["gold"] for p in predictions), probabilities
