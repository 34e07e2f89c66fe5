"""One label a word, or one a character.

By words, as the NER of Naver and KoELECTRA have it (finetune/processor/ner.py): every word is cut
into pieces by itself, its first piece learns and predicts the label. A word that the maximum length
cuts off, or that has no pieces, counts as predicted "O"; that code does not score the first and
reads the second as [UNK].

By characters, as KLUE-NER has it; `benchmarks.metrics.tagging` has the rules. A line holds the
labels of characters by the tokenizer's offsets, and beside them those by the official alignment
wherever that one differs: beside [UNK]s, and where characters are cut off. The official metrics are
made of the latter, corrected ones of the former. The official code fills every row up to the
maximum length and frames a sentence by the labels of the first and of the last padded position,
which nothing was learnt at. So that row has its last [PAD] here too, at its official position; it
attends to the sentence alone and the others are not needed for it.
"""

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.metrics import weighted
from benchmarks.metrics.klue_ner_alignment import official_character_labels
from benchmarks.metrics.tagging import (
    OUTSIDE,
    Entity,
    character_macro_f1_present,
    character_macro_f1_without_o,
    character_tags,
    framed,
    inside_labels,
    lenient_entities,
    piece_tags,
    seqeval_micro_f1,
    text_entities,
)
from benchmarks.tasks.kinds.encode import IGNORED_LABEL, encode_texts, padded
from benchmarks.tasks.labels import folded, iob2
from benchmarks.tasks.own_files import TAGS, TOKENS
from benchmarks.tasks.rows import Row, label_ids, list_field, read_text, sentence_blocks
from benchmarks.tasks.task import (
    NOTHING,
    Arrays,
    Example,
    Failure,
    Features,
    Line,
    Outputs,
    Pair,
    Positions,
    Task,
    failure_of_sets,
)
from electrify.system.outcome import UserError

_CORRECTED = (character_macro_f1_without_o, character_macro_f1_present, seqeval_micro_f1)
_SPAN_FIELDS = (("start", "begin"), ("end",), ("label", "type"))
_SPAN_TEXTS = ("text", "word", "form")


class Tagging(Task):
    """A linear layer on every piece."""

    units = "entities"

    @abstractmethod
    def entities_of(self, line: Line, side: str) -> set[Entity]:
        """Entities of "gold" or "prediction"."""

    @abstractmethod
    def text_between(self, line: Line, example: Any | None, start: int, end: int) -> str:
        """What stands from one position to before another."""

    def label_arrays(self, features: Features, rows: Positions, length: int) -> Arrays:
        """`labels` (B, T), `IGNORED_LABEL` where a position has none."""
        labels = [features.labels["labels"][row] for row in rows]
        return {"labels": padded(labels, length, IGNORED_LABEL, np.int64)}

    def pairs(self, line: Line) -> list[Pair]:
        """A pair for each span that holds an entity on either side."""
        gold, found = (
            {(start, end): kind for kind, start, end in self.entities_of(line, side)}
            for side in ("gold", "prediction")
        )
        return [
            Pair(
                gold.get(span, NOTHING), found.get(span, NOTHING), gold.get(span) == found.get(span)
            )
            for span in sorted({*gold, *found})
        ]

    def failure(self, runs: Sequence[Line], example: Any | None) -> Failure | None:
        """The entities missed and made up."""
        gold, found = (
            [sorted(self.entities_of(line, side), key=lambda e: e[1:]) for line in runs]
            for side in ("gold", "prediction")
        )
        return failure_of_sets(
            list(zip(gold, found, strict=True)),
            self.units,
            lambda entity: f"{entity[0]} {self.text_between(runs[0], example, *entity[1:])}",
        )

    def constant(self, lines: Sequence[Line], side: str = "prediction") -> str | None:
        """The one label of all words or characters."""
        labels = {str(label) for line in lines for label in line[side]}
        return labels.pop() if len(labels) == 1 else None

    def _ids(self, names: Sequence[str]) -> list[int]:
        ids = {label: number for number, label in enumerate(self.labels)}
        return [ids[name] for name in names]

    def _tokens(self, row: Row, place: str) -> tuple[list[str], tuple[int, ...]]:
        """Words or characters of a row and the label id of each."""
        tokens, names = list_field(row, TOKENS, place), list_field(row, TAGS, place)
        if len(tokens) != len(names) or not tokens:
            raise UserError(f"{place}: {len(tokens)} {TOKENS} and {len(names)} labels")
        return tokens, label_ids(names, self.labels, place)


@dataclass(frozen=True)
class WordsExample(Example):
    """The words of a sentence, and the position of each one's label; its text is them all."""

    words: tuple[str, ...] = ()
    tags: tuple[int, ...] = ()


class WordTagging(Tagging):
    """The first piece of each word has its label."""

    row_name = "line"

    def rows(self, split: str, path: Path) -> Iterator[tuple[int, Row]]:
        """Lines of a sentence, a tab and as many labels as words."""
        lines = read_text(path).removesuffix("\n").split("\n")
        for number, line in enumerate(lines, start=1):
            text, _, names = line.removesuffix("\r").partition("\t")
            yield number, {"sentence": text, TOKENS: text.split(), TAGS: names.split()}

    def examples(
        self, row: Row, identity: str, place: str, is_labelled: bool
    ) -> Iterator[WordsExample]:
        words, tags = self._tokens(row, place)
        yield WordsExample(identity, self.texts(row, place), tuple(words), tags)

    def featurize(
        self, examples: Sequence[WordsExample], tokenizer: Any, max_length: int, train: bool
    ) -> Features:
        """One row a sentence; pieces that are not the first of a word have no label."""
        encoded = tokenizer(
            [list(example.words) for example in examples],
            is_split_into_words=True,
            truncation=True,
            max_length=max_length,
            return_token_type_ids=True,
        )
        firsts = [_first_pieces(encoded.word_ids(row)) for row in range(len(examples))]
        labels, num_cut = [], 0
        for example, first, ids in zip(examples, firsts, encoded["input_ids"], strict=True):
            row = np.full(len(ids), IGNORED_LABEL, dtype=np.int64)
            row[list(first.values())] = [example.tags[word] for word in first]
            labels.append(row)
            num_cut += len(ids) == max_length and len(example.words) - 1 not in first
        return Features(
            input_ids=[np.array(ids, dtype=np.int32) for ids in encoded["input_ids"]],
            token_type_ids=[np.array(ids, dtype=np.int32) for ids in encoded["token_type_ids"]],
            example_of=np.arange(len(examples)),
            labels={"labels": labels},
            num_truncated=num_cut,
            details={"firsts": firsts},
        )

    def lines(
        self, examples: Sequence[WordsExample], features: Features, outputs: Sequence[Outputs]
    ) -> list[Line]:
        """Gold and predicted label of every word."""
        found = []
        rows = zip(examples, features.details["firsts"], outputs, strict=True)
        for example, first, output in rows:
            predicted = [OUTSIDE] * len(example.words)
            for word, piece in first.items():
                predicted[word] = self.labels[int(output["logits"][piece].argmax())]
            gold = [self.labels[tag] for tag in example.tags]
            found.append({"id": example.id, "gold": gold, "prediction": predicted})
        return found

    def score(self, lines: Sequence[Line]) -> dict[str, float]:
        """The task's metrics over the labels of all words, sentences parted by an "O"."""
        if not lines:
            return {metric.__name__: math.nan for metric in self.metrics}
        names = [_prefixed(label) for label in self.labels]
        gold, predicted = self._chains(lines)
        return {metric.__name__: metric(gold, predicted, names) for metric in self.metrics}

    def weighted_score(self, lines: Sequence[Line]) -> weighted.Weighted:
        if self.headline not in weighted.OF_ENTITIES:
            return super().weighted_score(lines)
        names = [_prefixed(label) for label in self.labels]
        sentences = np.repeat(np.arange(len(lines)), [len(line["gold"]) + 1 for line in lines])
        return weighted.entity_f1(*self._chains(lines), names, sentences, self.headline)

    def entities_of(self, line: Line, side: str) -> set[Entity]:
        """As seqeval reads labels by default, as places among the words."""
        return lenient_entities([_prefixed(label) for label in line[side]])

    def text_between(self, line: Line, example: WordsExample | None, start: int, end: int) -> str:
        words = example.words[start:end] if example else ()
        return " ".join(words) or f"words {start + 1} to {end}"

    def _chains(self, lines: Sequence[Line]) -> tuple[list[int], list[int]]:
        """Gold and predicted label ids of all words, sentences parted by an "O"."""
        gold, predicted = (
            self._ids([label for line in lines for label in (*line[side], OUTSIDE)])
            for side in ("gold", "prediction")
        )
        return gold, predicted


def _first_pieces(word_ids: Sequence[int | None]) -> dict[int, int]:
    """Position of the first piece of each word."""
    first: dict[int, int] = {}
    for position, word in enumerate(word_ids):
        if word is not None:
            first.setdefault(word, position)
    return first


def _prefixed(label: str) -> str:
    """PER-B as B-PER, which stays as it is."""
    kind, dash, mark = label.rpartition("-")
    return f"{mark}-{kind}" if dash and label[:2] not in ("B-", "I-") else label


class OwnWordTagging(WordTagging):
    """Words in the column of the task's text field, tags in that of its label field."""

    row_name = "row"
    rows = Task.rows

    def texts(self, row: Row, place: str) -> tuple[str, ...]:
        words = list_field(row, self.text_fields[0], place)
        if not all(isinstance(word, str) for word in words):
            raise UserError(f"{place}: {words!r:.80} are not words")
        return (" ".join(words),)

    def _tokens(self, row: Row, place: str) -> tuple[list[str], tuple[int, ...]]:
        try:
            tags = iob2(list_field(row, self.label_field, place))
        except ValueError as error:
            raise UserError(f"{place}: {error}") from None
        named = {TOKENS: list_field(row, self.text_fields[0], place), TAGS: tags}
        return super()._tokens(named, place)


@dataclass(frozen=True)
class TaggedExample(Example):
    """A sentence, and the position of each character's label in the task's labels."""

    tags: tuple[int, ...] = ()


class CharacterTagging(Tagging):
    """A piece learns the label of its first character; O stands last among the task's labels."""

    row_name = "line"
    failures_quote = True

    def rows(self, split: str, path: Path) -> Iterator[tuple[int, Row]]:
        """Sentences of lines of a character, a tab and a label."""
        for start, identity, block in sentence_blocks(path):
            cells = [line.partition("\t") for _, line in block]
            for (number, line), (character, tab, _) in zip(block, cells, strict=True):
                if not tab or len(character) != 1:
                    raise UserError(
                        f"{path} line {number}: {line[:40]!r} is not a character, a tab and a label"
                    )
            characters, _, labels = (list(column) for column in zip(*cells, strict=True))
            yield start, {self.id_field: identity, TOKENS: characters, TAGS: labels}

    def texts(self, row: Row, place: str) -> tuple[str, ...]:
        characters = list_field(row, TOKENS, place)
        if any(not isinstance(token, str) or len(token) != 1 for token in characters):
            raise UserError(f"{place}: {characters!r:.80} are not characters")
        return ("".join(characters),)

    def examples(
        self, row: Row, identity: str, place: str, is_labelled: bool
    ) -> Iterator[TaggedExample]:
        yield TaggedExample(identity, self.texts(row, place), self._tokens(row, place)[1])

    def featurize(
        self, examples: Sequence[TaggedExample], tokenizer: Any, max_length: int, train: bool
    ) -> Features:
        """One row a sentence; a piece learns the label of its first character. For predicting, a
        row that is not full has one [PAD] more."""
        texts = [example.texts for example in examples]
        encoded = encode_texts(texts, tokenizer, max_length, with_spans=True)
        outside, spans = len(self.labels) - 1, encoded.details["spans"]
        labels = [
            piece_tags(example.tags, of_row.tolist(), outside)
            for example, of_row in zip(examples, spans, strict=True)
        ]
        last = [0] * len(examples) if train else _append_padding(encoded, tokenizer, max_length)
        pieces = [] if train else [_pieces(text, tokenizer) for (text,) in texts]
        details = {"spans": spans, "last": last, "pieces": pieces}
        return replace(encoded, labels={"labels": labels}, details=details)

    def label_arrays(self, features: Features, rows: Positions, length: int) -> Arrays:
        """And `attention_mask` and `position_ids` where a row has a [PAD] of its own."""
        found, labels = super().label_arrays(features, rows, length), features.labels["labels"]
        last = [features.details["last"][row] for row in rows]
        if any(last):
            ones = [np.ones(len(labels[row])) for row in rows]  # a [PAD] has no label
            positions = np.tile(np.arange(length), (len(rows), 1))
            for number, position in enumerate(last):
                if position:
                    positions[number, len(ones[number])] = position
            found["attention_mask"] = padded(ones, length, 0, np.int64)
            found["position_ids"] = positions
        return found

    def lines(
        self, examples: Sequence[TaggedExample], features: Features, outputs: Sequence[Outputs]
    ) -> list[Line]:
        """Labels of all characters, and those of the first and last position ("frame")."""
        inside = inside_labels(self.labels)
        found = []
        details = features.details
        rows = zip(examples, details["spans"], details["pieces"], outputs, strict=True)
        for example, spans, words, output in rows:
            pieces = output["logits"][: len(spans)].argmax(axis=-1)
            tags = character_tags(pieces.tolist(), spans.tolist(), len(example.tags), inside)
            line: Line = {
                "id": example.id,
                "text": example.texts[0],
                "gold": [self.labels[n] for n in example.tags],
                "prediction": [self.labels[n] for n in tags],
                "frame": [self.labels[pieces[0]], self.labels[pieces[-1]]],
            }
            official = None if words is None else self._official(example, pieces, words)
            if official is not None and official != self._chains([line]):
                gold, labels = ([self.labels[n] for n in chain] for chain in official)
                line["official"] = {"gold": gold, "prediction": labels}
            found.append(line)
        return found

    def _official(
        self, example: TaggedExample, pieces: Positions, words: Mapping[str, list[str]]
    ) -> tuple[list[int], list[int]] | None:
        """Gold and predicted chain of one sentence; None where the official code stops."""
        try:
            predicted, gold = official_character_labels(
                example.texts[0], example.tags, pieces.tolist(), words.__getitem__, self.labels
            )
        except ValueError:
            return None
        return gold, predicted

    def score(self, lines: Sequence[Line]) -> dict[str, float]:
        """The task's metrics by the official alignment, and corrected ones by the offsets, where
        the frame does not count; all sentences in one chain."""
        gold, predicted = self._chains(lines)
        scores = {metric.__name__: metric(gold, predicted) for metric in self.metrics}
        outside = [self.labels[-1]] * 2
        gold, predicted = self._chains(
            [{**line, "frame": outside, "official": None} for line in lines]
        )
        scores |= {f"{m.__name__}_by_offsets": m(gold, predicted) for m in self.metrics}
        scores |= {metric.__name__: metric(gold, predicted) for metric in _CORRECTED}
        return scores if lines else dict.fromkeys(scores, math.nan)

    def weighted_score(self, lines: Sequence[Line]) -> weighted.Weighted:
        """By the official alignment."""
        if self.headline not in weighted.OF_ENTITIES:
            return super().weighted_score(lines)
        gold, predicted = self._chains(lines)
        lengths = [len(self._chains([line])[0]) for line in lines]
        sentences = np.repeat(np.arange(len(lines)), lengths)
        return weighted.entity_f1(gold, predicted, self.labels, sentences, self.headline)

    def entities_of(self, line: Line, side: str) -> set[Entity]:
        """By the tokenizer's offsets, strict IOB2, blanks left out."""
        return text_entities(line[side], line["text"])

    def text_between(self, line: Line, example: TaggedExample | None, start: int, end: int) -> str:
        return str(line["text"][start:end])

    def _chains(self, lines: Sequence[Line]) -> tuple[list[int], list[int]]:
        """Gold and predicted label ids as they are scored, all sentences behind one another."""
        gold, predicted = list[int](), list[int]()
        for line in lines:
            if official := line.get("official"):
                gold += self._ids(official["gold"])
                predicted += self._ids(official["prediction"])
                continue
            text, outside = line["text"], len(self.labels) - 1
            first, last = self._ids(line["frame"])
            tags, said = (np.array(self._ids(line[s]), np.int64) for s in ("gold", "prediction"))
            gold += framed(tags, text, outside, outside).tolist()
            predicted += framed(said, text, first, last).tolist()
        return gold, predicted


class OwnEntityTagging(CharacterTagging):
    """Spans of characters with a type, in the column of the task's label field."""

    row_name = "row"
    rows, texts = Task.rows, Task.texts

    def _tokens(self, row: Row, place: str) -> tuple[list[str], tuple[int, ...]]:
        (text,) = self.texts(row, place)
        tags = [OUTSIDE] * len(text)
        for start, end, kind in sorted(entity_spans(row, self.label_field, text, place)):
            if end > len(text) or any(tag != OUTSIDE for tag in tags[start:end]):
                what = "ends behind the text" if end > len(text) else "overlaps another one"
                raise UserError(f"{place}: the span {start} to {end} ({kind}) {what}")
            tags[start:end] = [f"B-{kind}", *[f"I-{kind}"] * (end - start - 1)]
        return list(text), label_ids(tags, self.labels, place)

    def _official(self, *_: Any) -> None:
        """The tokenizer's offsets alone say which characters a piece stands for."""

    def score(self, lines: Sequence[Line]) -> dict[str, float]:
        """The task's metrics over the labels of all characters but blanks."""
        gold, predicted = self._chains(lines)
        scores = {m.__name__: m(gold, predicted, self.labels) for m in self.metrics}
        return scores if lines else dict.fromkeys(scores, math.nan)

    def lines(
        self, examples: Sequence[TaggedExample], features: Features, outputs: Sequence[Outputs]
    ) -> list[Line]:
        """As of any tagging by characters; what stands at [CLS] and [PAD] does not count."""
        frame = [OUTSIDE, OUTSIDE]
        return [{**line, "frame": frame} for line in super().lines(examples, features, outputs)]


def entity_spans(
    row: Row, name: str, text: str, place: str, moved: list[str] | None = None
) -> list[tuple[int, int, str]]:
    """(first character, the one behind the last, type) of each span of a row: an object with
    start (or begin), end and label (or type), or a list of the three.

    An object may have the text of the span, too (text, word or form). Where that does not stand at
    start and end but at start or in one place alone, the span is put there, and `moved` gets
    `place`. `ValueError` names `place`.
    """
    found = []
    for span in list_field(row, name, place):
        said = span if isinstance(span, dict) else {}
        parts = [_first_of(said, names) for names in _SPAN_FIELDS] if said else span
        match parts:
            case [int(start), int(end), str(kind)] if 0 <= start < end and folded(kind):
                here = start, end
            case _:
                raise UserError(
                    f"{place}: {span!r:.80} in column {name!r} is no span: write "
                    '{"start": 0, "end": 2, "label": "TYPE"} or [0, 2, "TYPE"], characters counted '
                    "from 0, the end not included"
                )
        form = _first_of(said, _SPAN_TEXTS)
        if isinstance(form, str) and form and text[start:end] != form:
            here = _place_of(form, start, text, f"{place}: the span {start} to {end}")
            if moved is not None:
                moved.append(place)
        found.append((*here, folded(kind)))
    return found


def _first_of(span: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((span[name] for name in names if name in span), None)


def _place_of(form: str, start: int, text: str, place: str) -> tuple[int, int]:
    """Where a text stands that a span holds: at its start, or in the only place."""
    if not text.startswith(form, start):
        if text.count(form) != 1:
            raise UserError(
                f"{place} does not hold its text {form!r:.80}, which stands {text.count(form)} "
                "times in the row; correct it"
            )
        start = text.index(form)
    return start, start + len(form)


def _append_padding(encoded: Features, tokenizer: Any, max_length: int) -> list[int]:
    """Put the last [PAD] of the official row behind each that is shorter; its position, else 0."""
    last = []
    for number, ids in enumerate(encoded.input_ids):
        is_full = len(ids) == max_length
        last.append(0 if is_full else max_length - 1)
        if not is_full:
            types: Any = encoded.token_type_ids
            spans: Any = encoded.details["spans"]
            encoded.input_ids[number] = np.append(ids, np.int32(tokenizer.pad_token_id))
            types[number] = np.append(types[number], np.int32(0))
            spans[number] = np.append(spans[number], [[0, 0]], axis=0)
    return last


def _pieces(text: str, tokenizer: Any) -> dict[str, list[str]] | None:
    """The pieces of each word between blanks; None for a tokenizer that is no WordPiece, for which
    there is no official alignment."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None or type(backend.model).__name__ != "WordPiece":
        return None
    return {word: tokenizer.tokenize(word) for word in text.split(" ")}
