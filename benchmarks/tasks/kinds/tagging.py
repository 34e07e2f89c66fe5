"""One label a character, as KLUE-NER has it; `benchmarks.metrics.tagging` has the rules.

A line holds the labels of characters by the tokenizer's offsets, and beside them those by the
official alignment wherever that one differs: beside [UNK]s, and where characters are cut off. The
official metrics are made of the latter, corrected ones of the former. The official code fills every
row up to the maximum length and frames a sentence by the labels of the first and of the last padded
position, which nothing was learnt at. So that row has its last [PAD] here too, at its official
position; it attends to the sentence alone and the others are not needed for it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.metrics import weighted
from benchmarks.metrics.klue_ner_alignment import official_character_labels
from benchmarks.metrics.tagging import (
    character_macro_f1_present,
    character_macro_f1_without_o,
    character_tags,
    framed,
    inside_labels,
    one_label,
    piece_tags,
    read_sentences,
    seqeval_micro_f1,
    text_entities,
)
from benchmarks.tasks.data.rows import read_text
from benchmarks.tasks.kind import (
    Example,
    Failure,
    Features,
    Kind,
    Line,
    Outputs,
    Pair,
    entity_failure,
    entity_pairs,
)
from benchmarks.tasks.kinds.features import IGNORED_LABEL, Encoded, encode_texts, padded
from benchmarks.tasks.task import Task

if TYPE_CHECKING:
    from torch import Generator, nn

    from benchmarks.tasks.heads.linear import Head

_CORRECTED = (character_macro_f1_without_o, character_macro_f1_present, seqeval_micro_f1)


@dataclass(frozen=True)
class TaggedExample(Example):
    """A sentence, and the position of each character's label in the task's labels."""

    tags: tuple[int, ...] | None = None


class CharacterTagging(Kind):
    """A linear layer on every piece; the label of O stands last among the task's labels."""

    units = "entities"
    failures_quote = True

    def read(self, task: Task, split: str, path: Path) -> Iterator[Example]:
        """Sentences of a file of characters; `ValueError` names the line."""
        label_ids = {label: index for index, label in enumerate(task.labels)}
        seen: dict[str, int] = {}
        for number, sentence in read_sentences(path, read_text(path)):
            if sentence.id in seen:
                raise ValueError(
                    f"{path} line {number}: id {sentence.id!r} is that of line {seen[sentence.id]}"
                )
            seen[sentence.id] = number
            if unknown := sorted(set(sentence.labels) - label_ids.keys()):
                raise ValueError(
                    f"{path} line {number}: unknown label {unknown[0]!r} in sentence {sentence.id} "
                    f"(allowed: {', '.join(task.labels)})"
                )
            tags = tuple(label_ids[name] for name in sentence.labels)
            yield TaggedExample(sentence.id, (sentence.text,), tags)

    def from_hub(
        self, task: Task, split: str, rows: Iterable[Mapping[str, Any]]
    ) -> Iterator[Example]:
        """Rows of the hub: `tokens`, which are characters, and the labels of each."""
        for number, row in enumerate(rows, start=1):
            tokens, labels = row["tokens"], row[task.label_field]
            if len(tokens) != len(labels) or any(len(token) != 1 for token in tokens):
                raise ValueError(
                    f"{task.name} {split} row {number} has {len(labels)} labels for "
                    f"{len(tokens)} tokens, which should be characters"
                )
            tags = tuple(task.labels.index(label) for label in labels)
            yield TaggedExample(f"{split}-{number}", ("".join(tokens),), tags)

    def featurize(
        self,
        task: Task,
        examples: Sequence[Example],
        tokenizer: Any,
        max_length: int,
        train: bool,
    ) -> Features:
        """One row a sentence; a piece learns the label of its first character. For predicting, a
        row that is not full has one [PAD] more."""
        texts = [example.texts for example in examples]
        encoded = encode_texts(texts, tokenizer, max_length, with_spans=True)
        outside = len(task.labels) - 1
        labels = [
            piece_tags(_tags(example), spans.tolist(), outside)
            for example, spans in zip(examples, encoded.spans, strict=True)
        ]
        last = [0] * len(examples) if train else _append_padding(encoded, tokenizer, max_length)
        return Features(
            input_ids=encoded.input_ids,
            token_type_ids=encoded.token_type_ids,
            example_of=np.arange(len(examples)),
            labels={"labels": labels},
            num_truncated=int(encoded.was_cut.sum()),
            details={
                "spans": encoded.spans,
                "last": last,
                "pieces": [] if train else [_pieces(text, tokenizer) for (text,) in texts],
            },
        )

    def label_arrays(
        self, features: Features, rows: NDArray[np.int64], length: int
    ) -> dict[str, NDArray[Any]]:
        """`labels` (B, T), `IGNORED_LABEL` at padding; `attention_mask` and `position_ids` where a
        row has a [PAD] of its own."""
        labels = [features.labels["labels"][row] for row in rows]
        found = {"labels": padded(labels, length, IGNORED_LABEL, np.int64)}
        last = [features.details["last"][row] for row in rows]
        if any(last):
            ones = [np.ones(len(row)) for row in labels]  # a [PAD] has no label
            positions = np.tile(np.arange(length), (len(rows), 1))
            for number, position in enumerate(last):
                if position:
                    positions[number, len(labels[number])] = position
            found["attention_mask"] = padded(ones, length, 0, np.int64)
            found["position_ids"] = positions
        return found

    def make_head(
        self, task: Task, encoder: "nn.Module", tokenizer: Any, generator: "Generator"
    ) -> "Head":
        """One output a label, on every piece."""
        from benchmarks.tasks.heads.linear import LinearHead

        return LinearHead(encoder, len(task.labels), generator, "none")

    def lines(
        self,
        task: Task,
        examples: Sequence[Example],
        features: Features,
        outputs: Sequence[Outputs],
    ) -> list[Line]:
        """Labels of all characters, and those of the first and last position ("frame")."""
        inside = inside_labels(task.labels)
        found = []
        details = features.details
        rows = zip(examples, details["spans"], details["pieces"], outputs, strict=True)
        for example, spans, words, output in rows:
            pieces = output["logits"][: len(spans)].argmax(axis=-1)
            tags, text = _tags(example), example.texts[0]
            predicted = character_tags(pieces.tolist(), spans.tolist(), len(tags), inside)
            line: Line = {
                "id": example.id,
                "text": text,
                "gold": [task.labels[n] for n in tags],
                "prediction": [task.labels[n] for n in predicted],
                "frame": [task.labels[pieces[0]], task.labels[pieces[-1]]],
            }
            official = None if words is None else _official(task, text, tags, pieces, words)
            if official is not None and official != _chains(task, [line]):
                gold, labels = ([task.labels[n] for n in chain] for chain in official)
                line["official"] = {"gold": gold, "prediction": labels}
            found.append(line)
        return found

    def score(self, task: Task, lines: Sequence[Line]) -> dict[str, float]:
        """The task's metrics by the official alignment, and corrected ones by the offsets, where
        the frame does not count; all sentences in one chain."""
        gold, predicted = _chains(task, lines)
        scores = {metric.__name__: metric(gold, predicted) for metric in task.metrics}
        outside = [task.labels[-1]] * 2
        gold, predicted = _chains(
            task, [{**line, "frame": outside, "official": None} for line in lines]
        )
        scores |= {f"{m.__name__}_by_offsets": m(gold, predicted) for m in task.metrics}
        return scores | {metric.__name__: metric(gold, predicted) for metric in _CORRECTED}

    def weighted_score(self, task: Task, lines: Sequence[Line]) -> weighted.Weighted:
        """From counts of entities, by the official alignment."""
        gold, predicted = _chains(task, lines)
        lengths = [len(_chains(task, [line])[0]) for line in lines]
        sentences = np.repeat(np.arange(len(lines)), lengths)
        return weighted.entity_f1(gold, predicted, task.labels, sentences, task.headline)

    def pairs(self, task: Task, line: Line) -> list[Pair]:
        """Entities by the tokenizer's offsets, strict IOB2, blanks left out."""
        return entity_pairs(*_entities(line))

    def failure(self, task: Task, runs: Sequence[Line], example: Example | None) -> Failure | None:
        """The entities that the middle run misses, and those that it makes up."""
        text = runs[0]["text"]
        return entity_failure([_entities(line) for line in runs], lambda a, b: text[a:b])

    def constant(self, task: Task, lines: Sequence[Line]) -> str | None:
        """The one label that every character got."""
        return one_label(lines)


def _entities(line: Line) -> tuple[set[tuple[str, int, int]], set[tuple[str, int, int]]]:
    """Gold ones and predicted ones, as places in the text."""
    text = line["text"]
    return text_entities(line["gold"], text), text_entities(line["prediction"], text)


def _chains(task: Task, lines: Sequence[Line]) -> tuple[list[int], list[int]]:
    """Gold and predicted label ids as they are scored, all sentences behind one another."""
    ids = {label: number for number, label in enumerate(task.labels)}
    outside = ids[task.labels[-1]]
    gold: list[int] = []
    predicted: list[int] = []
    for line in lines:
        if official := line.get("official"):
            gold += [ids[label] for label in official["gold"]]
            predicted += [ids[label] for label in official["prediction"]]
            continue
        first, last = (ids[label] for label in line["frame"])
        for chain, tags, frame in (
            (gold, line["gold"], (outside, outside)),
            (predicted, line["prediction"], (first, last)),
        ):
            labels = np.array([ids[label] for label in tags], dtype=np.int64)
            chain += framed(labels, line["text"], *frame).tolist()
    return gold, predicted


def _append_padding(encoded: Encoded, tokenizer: Any, max_length: int) -> list[int]:
    """Put the last [PAD] of the official row behind each that is shorter; its position, else 0."""
    last = []
    for number, ids in enumerate(encoded.input_ids):
        is_full = len(ids) == max_length
        last.append(0 if is_full else max_length - 1)
        if not is_full:
            types = encoded.token_type_ids[number]
            encoded.input_ids[number] = np.append(ids, np.int32(tokenizer.pad_token_id))
            encoded.token_type_ids[number] = np.append(types, np.int32(0))
            encoded.spans[number] = np.append(encoded.spans[number], [[0, 0]], axis=0)
    return last


def _pieces(text: str, tokenizer: Any) -> dict[str, list[str]] | None:
    """The pieces of each word between blanks; None for a tokenizer that is no WordPiece, for which
    there is no official alignment."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None or type(backend.model).__name__ != "WordPiece":
        return None
    return {word: tokenizer.tokenize(word) for word in text.split(" ")}


def _official(
    task: Task,
    text: str,
    tags: Sequence[int],
    pieces: NDArray[np.int64],
    words: Mapping[str, list[str]],
) -> tuple[list[int], list[int]] | None:
    """Gold and predicted chain of one sentence; None where the official code stops."""
    try:
        predicted, gold = official_character_labels(
            text, tags, pieces.tolist(), words.__getitem__, task.labels
        )
    except ValueError:
        return None
    return gold, predicted


def _tags(example: Example) -> tuple[int, ...]:
    assert isinstance(example, TaggedExample)
    assert example.tags is not None
    return example.tags
