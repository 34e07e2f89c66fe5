"""One label a word, or one a character.

By words, as the NER of Naver and KoELECTRA have it (finetune/processor/ner.py): the first piece of
a word learns and predicts its label. A word that the maximum length cuts off, or that has no
pieces, counts as predicted "O"; that code does not score the first and reads the second as [UNK].

By characters, as KLUE-NER has it; `benchmarks.metrics.tags` has the rules. A prediction holds the
labels of characters by the tokenizer's offsets, for the corrected metrics, and those by the
official alignment, for the official ones, where they differ: beside [UNK]s, and where characters
are cut off. The official code fills every row up to the maximum length and frames a sentence by
the labels of the first and of the last padded position. So a row has its last [PAD] here too, at
its official position; it attends to the sentence alone, and the other [PAD]s are not needed for it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar

import numpy as np

from benchmarks.metrics.tags import (
    OUTSIDE,
    character_tags,
    entity_f1_sampler,
    framed,
    inside_labels,
    official_character_labels,
    piece_tags,
)
from benchmarks.tasks.features import (
    IGNORED_LABEL,
    continuation_prefix,
    encode_texts,
    padded,
    word_positions,
)
from benchmarks.tasks.files import TAGS, TOKENS, read_text, sentence_blocks
from benchmarks.tasks.rows import Row, class_name, entity_spans, iob2, label_ids, list_field, nested
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
    Sampler,
    Task,
)
from electrify.system.outcome import UserError


class Tagging(Task):
    has_auto_head = True

    def label_arrays(self, features: Features, rows: Positions, length: int) -> Arrays:
        """`labels` (B, T), `IGNORED_LABEL` where a position has none."""
        labels = [features.labels["labels"][row] for row in rows]
        return {"labels": padded(labels, length, IGNORED_LABEL, np.int64)}

    def headline_sampler(self, predictions: Predictions) -> Sampler:
        gold, predicted = self.sides(predictions)[:2]
        lengths = [len(self.sides([p])[0]) for p in predictions]
        return entity_f1_sampler(gold, predicted, self.tag_names, lengths, self.headline)

    def label_pairs(self, prediction: Prediction) -> list[tuple[str, str]]:
        return list(zip(prediction["gold"], prediction["prediction"], strict=True))

    def error(self, prediction: Prediction) -> float:
        return fmean(gold != predicted for gold, predicted in self.label_pairs(prediction))

    @property
    def tag_names(self) -> Sequence[str]:
        """The labels as metrics read them: B-TYPE, I-TYPE and O."""
        return self.labels

    def constant(self, predictions: Predictions, side: str = "prediction") -> str | None:
        labels = {str(label) for p in predictions for label in p[side]}
        return labels.pop() if len(labels) == 1 else None

    def gold_names(self, row: Row, location: str) -> Sequence[Any]:
        return list_field(row, TAGS, location)

    def _tags(self, row: Row, num_tokens: int, location: str) -> tuple[int, ...]:
        names = self.gold_names(row, location)
        if num_tokens != len(names) or not names:
            raise UserError(f"{location}: {num_tokens} tokens and {len(names)} labels")
        return label_ids(names, self.labels, location)


@dataclass(frozen=True)
class WordsExample(Example):
    """The words of a sentence, and the position of each one's label; its text is them all."""

    words: tuple[str, ...] = ()
    tags: tuple[int, ...] = ()


class WordTagging(Tagging):
    """The first piece of each word has its label."""

    row_name = "line"
    unseen: ClassVar[str] = OUTSIDE  # the prediction for a word that is cut off

    def rows(self, split: str, path: Path) -> Iterator[tuple[int, Row]]:
        """Lines of a sentence, a tab and as many labels as words."""
        lines = read_text(path).removesuffix("\n").split("\n")
        for number, line in enumerate(lines, start=1):
            text, _, names = line.removesuffix("\r").partition("\t")
            yield number, {"sentence": text, TOKENS: text.split(), TAGS: names.split()}

    def examples(
        self, row: Row, identity: str, location: str, is_labelled: bool
    ) -> Iterator[WordsExample]:
        words = self._words(row, location)
        tags = self._tags(row, len(words), location)
        yield WordsExample(identity, self.texts(row, location), tuple(words), tags)

    def _words(self, row: Row, location: str) -> list[str]:
        return list_field(row, TOKENS, location)

    def featurize(
        self, examples: Sequence[WordsExample], tokenizer: Any, max_length: int, train: bool
    ) -> Features:
        """One row a sentence; pieces that are not the first of a word have no label."""
        texts = [(" ".join(example.words),) for example in examples]
        encoded = encode_texts(texts, tokenizer, max_length, with_spans=True)
        firsts, labels = [], []
        for example, spans in zip(examples, encoded.details["spans"], strict=True):
            pieces = [first for first, _ in word_positions(example.words, spans.tolist())]
            firsts.append({word: piece for word, piece in enumerate(pieces) if piece})
            row = np.full(len(spans), IGNORED_LABEL, dtype=np.int64)
            row[list(firsts[-1].values())] = [example.tags[word] for word in firsts[-1]]
            labels.append(row)
        return replace(encoded, labels={"labels": labels}, details={"firsts": firsts})

    def prediction(self, example: WordsExample, output: Outputs, details: Details) -> Prediction:
        predicted = [self.unseen] * len(example.words)
        for word, piece in details["firsts"].items():
            predicted[word] = self.labels[int(output["logits"][piece].argmax())]
        return {"gold": [self.labels[tag] for tag in example.tags], "prediction": predicted}

    @property
    def tag_names(self) -> Sequence[str]:
        return [prefixed(label) for label in self.labels]

    def sides(self, predictions: Predictions) -> tuple[Any, ...]:
        """Gold and predicted label ids of all words, sentences parted by an "O"; the names."""
        gold, predicted = (
            self.ids_of(label for p in predictions for label in (*p[side], OUTSIDE))
            for side in ("gold", "prediction")
        )
        return gold, predicted, self.tag_names


def prefixed(label: str) -> str:
    """PER-B as B-PER, which stays as it is."""
    kind, dash, mark = label.rpartition("-")
    return f"{mark}-{kind}" if dash and label[:2] not in ("B-", "I-") else label


class OwnWordTagging(WordTagging):
    row_name = "row"
    rows = Task.rows

    def texts(self, row: Row, location: str) -> tuple[str, ...]:
        return (" ".join(self._words(row, location)),)

    def _words(self, row: Row, location: str) -> list[str]:
        words = nested(row, self.text_fields[0])
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise UserError(
                f"{location}: {words!r:.80} in column {self.text_fields[0]!r} is no list of words, "
                'which tags need; several labels a text are kind = "multi-label"'
            )
        return words

    def gold_names(self, row: Row, location: str) -> Sequence[Any]:
        self._words(row, location)
        tags = list_field(row, self.label_field, location)
        try:
            return iob2(tags)
        except ValueError as error:
            raise UserError(
                f"{location}, column {self.label_field!r}: {error} of an entity; write B-TYPE, "
                "I-TYPE or O for each word (BIOES, BILOU, BMES and TYPE_B are read, too; for other "
                'tags, such as parts of speech, say kind = "word-labels")'
            ) from None


class WordLabels(OwnWordTagging):
    """A label of its own for each word, such as its part of speech; what is cut off is wrong."""

    unseen: ClassVar[str] = ""

    def gold_names(self, row: Row, location: str) -> Sequence[Any]:
        return [class_name(value) for value in list_field(row, self.label_field, location)]

    def sides(self, predictions: Predictions) -> tuple[Any, ...]:
        """Gold and predicted label ids of all words; -1 of a word that is cut off."""
        ids = {label: number for number, label in enumerate(self.labels)} | {self.unseen: -1}
        gold, predicted = (
            np.array([ids[label] for p in predictions for label in p[side]], dtype=np.int64)
            for side in ("gold", "prediction")
        )
        return gold, predicted

    def headline_sampler(self, predictions: Predictions) -> Sampler:
        pairs = [self.label_pairs(p) for p in predictions]
        right = np.array([sum(gold == predicted for gold, predicted in row) for row in pairs])
        lengths = np.array([len(row) for row in pairs])
        return lambda positions: float(right[positions].sum() / lengths[positions].sum())


class CharacterTagging(Tagging):
    """A piece learns the label of its first character; O stands last among the task's labels."""

    def gold(self, row: Row, texts: tuple[str, ...], location: str) -> tuple[int, ...]:
        """The position of each character's label in the task's labels."""
        return self._tags(row, len(texts[0]), location)

    def featurize(
        self, examples: Sequence[GoldExample], tokenizer: Any, max_length: int, train: bool
    ) -> Features:
        texts = [example.texts for example in examples]
        encoded = encode_texts(texts, tokenizer, max_length, with_spans=True)
        labels = [
            piece_tags(example.gold, of_row.tolist(), len(self.labels) - 1)
            for example, of_row in zip(examples, encoded.details["spans"], strict=True)
        ]
        return replace(encoded, labels={"labels": labels})

    def prediction(self, example: GoldExample, output: Outputs, details: Details) -> Prediction:
        spans = details["spans"]
        return self._tagged(example, output["logits"][: len(spans)].argmax(axis=-1), spans)

    def _tagged(self, example: GoldExample, pieces: Positions, spans: Positions) -> Prediction:
        inside = inside_labels(self.labels)
        tags = character_tags(pieces.tolist(), spans.tolist(), len(example.gold), inside)
        return {
            "text": example.texts[0],
            "gold": self._labelled(example.gold),
            "prediction": self._labelled(tags),
        }

    def _labelled(self, ids: Sequence[int] | Positions) -> list[str]:
        return [self.labels[number] for number in ids]

    def sides(self, predictions: Predictions) -> tuple[Any, ...]:
        """Gold and predicted label ids as they are scored, all texts behind one another; the
        names."""
        gold, predicted = (
            np.concatenate([self.ids_of([]), *(self._scored(p, side) for p in predictions)])
            for side in ("gold", "prediction")
        )
        return gold, predicted, self.labels

    def _scored(
        self, prediction: Prediction, side: str, frame: Sequence[str] = (OUTSIDE, OUTSIDE)
    ) -> Positions:
        """The label ids of a text, between two that part it from others."""
        return framed(
            self.ids_of(prediction[side]), prediction["text"], *self.ids_of(frame).tolist()
        )


class OwnEntityTagging(CharacterTagging):
    def gold_names(self, row: Row, location: str) -> Sequence[Any]:
        (text,) = self.texts(row, location)
        tags = [OUTSIDE] * len(text)
        for start, end, kind in sorted(entity_spans(row, self.label_field, text, location)):
            if end > len(text) or any(tag != OUTSIDE for tag in tags[start:end]):
                what = "ends behind the text" if end > len(text) else "overlaps another one"
                raise UserError(f"{location}: the span {start} to {end} ({kind}) {what}")
            tags[start:end] = [f"B-{kind}", *[f"I-{kind}"] * (end - start - 1)]
        return tags


class FramedTagging(CharacterTagging):
    """With the official alignment and frame of KLUE-NER."""

    row_name = "line"

    def rows(self, split: str, path: Path) -> Iterator[tuple[int, Row]]:
        for start, identity, block in sentence_blocks(path):
            cells = [line.partition("\t") for _, line in block]
            for (number, line), (character, tab, _) in zip(block, cells, strict=True):
                if not tab or len(character) != 1:
                    raise UserError(
                        f"{path} line {number}: {line[:40]!r} is not a character, a tab and a label"
                    )
            characters, _, labels = (list(column) for column in zip(*cells, strict=True))
            yield start, {self.id_field: identity, TOKENS: characters, TAGS: labels}

    def texts(self, row: Row, location: str) -> tuple[str, ...]:
        characters = list_field(row, TOKENS, location)
        if any(not isinstance(token, str) or len(token) != 1 for token in characters):
            raise UserError(f"{location}: {characters!r:.80} are not characters")
        return ("".join(characters),)

    def examples(
        self, row: Row, identity: str, location: str, is_labelled: bool
    ) -> Iterable[Example]:
        return super().examples(row, identity, location, is_labelled=True)  # every file has labels

    def featurize(
        self, examples: Sequence[GoldExample], tokenizer: Any, max_length: int, train: bool
    ) -> Features:
        """For predicting, a row that is not full has one [PAD] more."""
        encoded = super().featurize(examples, tokenizer, max_length, train)
        last = [0] * len(examples) if train else _append_padding(encoded, tokenizer, max_length)
        # of the words between blanks, by sentence; only WordPiece has an official alignment
        has_pieces = not train and continuation_prefix(tokenizer) is not None
        pieces = [
            {word: tokenizer.tokenize(word) for word in example.texts[0].split(" ")}
            if has_pieces
            else None
            for example in examples
        ]
        return replace(encoded, details={**encoded.details, "last": last, "pieces": pieces})

    def label_arrays(self, features: Features, rows: Positions, length: int) -> Arrays:
        """And `attention_mask` and `position_ids` where a row has a [PAD] of its own."""
        arrays, labels = super().label_arrays(features, rows, length), features.labels["labels"]
        last = [features.details["last"][row] for row in rows]
        if any(last):
            ones = [np.ones(len(labels[row])) for row in rows]  # a [PAD] has no label
            positions = np.tile(np.arange(length), (len(rows), 1))
            for number, position in enumerate(last):
                if position:
                    positions[number, len(ones[number])] = position
            arrays["attention_mask"] = padded(ones, length, 0, np.int64)
            arrays["position_ids"] = positions
        return arrays

    def prediction(self, example: GoldExample, output: Outputs, details: Details) -> Prediction:
        spans = details["spans"]
        pieces = output["logits"][: len(spans)].argmax(axis=-1)
        prediction = self._tagged(example, pieces, spans) | {
            "frame": self._labelled(pieces[[0, -1]])
        }
        if (words := details["pieces"]) is not None:
            prediction |= self._official(prediction, example, pieces, words)
        return prediction

    def _official(
        self,
        prediction: Prediction,
        example: GoldExample,
        pieces: Positions,
        words: Mapping[str, list[str]],
    ) -> Prediction:
        """The official gold and predicted chain of a sentence, where they differ from those of its
        prediction; nothing where the official code stops."""
        try:
            predicted, gold = official_character_labels(
                example.texts[0], example.gold, pieces.tolist(), words.__getitem__, self.labels
            )
        except ValueError:
            return {}
        if [gold, predicted] == [chain.tolist() for chain in self.sides([prediction])[:2]]:
            return {}
        return {"official": {"gold": self._labelled(gold), "prediction": self._labelled(predicted)}}

    def _scored(
        self, prediction: Prediction, side: str, frame: Sequence[str] = (OUTSIDE, OUTSIDE)
    ) -> Positions:
        if official := prediction.get("official"):
            return self.ids_of(official[side])
        return super()._scored(prediction, side, frame if side == "gold" else prediction["frame"])


def _append_padding(encoded: Features, tokenizer: Any, max_length: int) -> list[int]:
    """Put the last [PAD] of the official row behind each that is shorter; its position, else 0."""
    last = []
    spans: Any = encoded.details["spans"]
    for number, ids in enumerate(encoded.input_ids):
        is_full = len(ids) == max_length
        last.append(0 if is_full else max_length - 1)
        if not is_full:
            encoded.input_ids[number] = np.append(ids, np.int32(tokenizer.pad_token_id))
            types = encoded.token_type_ids[number]
            encoded.token_type_ids[number] = np.append(types, np.int32(0))
            spans[number] = np.append(spans[number], [[0, 0]], axis=0)
    return last
