"""One label a word, as the NER of Naver and KoELECTRA have it.

KoELECTRA finetune/processor/ner.py: every word is cut into pieces by itself, its first piece learns
and predicts the label. A word that the maximum length cuts off, or that has no pieces, counts as
predicted "O"; that code does not score the first and reads the second as [UNK].
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.metrics import weighted
from benchmarks.metrics.tagging import OUTSIDE, lenient_entities, one_label
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
from benchmarks.tasks.kinds.features import IGNORED_LABEL, padded
from benchmarks.tasks.task import Task

if TYPE_CHECKING:
    from torch import Generator, nn

    from benchmarks.tasks.heads.linear import Head


@dataclass(frozen=True)
class WordsExample(Example):
    """The words of a sentence, and the position of each one's label; its text is them all."""

    words: tuple[str, ...] = ()
    tags: tuple[int, ...] = ()


class WordTagging(Kind):
    """A linear layer on the first piece of each word."""

    units = "entities"

    def read(self, task: Task, split: str, path: Path) -> Iterator[Example]:
        """Lines of a sentence, a tab and as many labels as words; `ValueError` names the line."""
        lines = read_text(path).removesuffix("\n").split("\n")
        for number, line in enumerate(lines, start=1):
            text, _, names = line.removesuffix("\r").partition("\t")
            words, labels = text.split(), names.split()
            if len(words) != len(labels) or not words:
                raise ValueError(
                    f"{path} line {number}: {len(words)} words and {len(labels)} labels"
                )
            if unknown := sorted(set(labels) - set(task.labels)):
                raise ValueError(
                    f"{path} line {number}: unknown label {unknown[0]!r} "
                    f"(allowed: {', '.join(task.labels)})"
                )
            tags = tuple(task.labels.index(label) for label in labels)
            yield WordsExample(f"{split}-{number}", (text,), tuple(words), tags)

    def featurize(
        self,
        task: Task,
        examples: Sequence[Example],
        tokenizer: Any,
        max_length: int,
        train: bool,
    ) -> Features:
        """One row a sentence; pieces that are not the first of a word have no label."""
        sentences = [_words(example) for example in examples]
        encoded = tokenizer(
            [list(sentence.words) for sentence in sentences],
            is_split_into_words=True,
            truncation=True,
            max_length=max_length,
            return_token_type_ids=True,
        )
        firsts = [_first_pieces(encoded.word_ids(row)) for row in range(len(sentences))]
        labels, num_cut = [], 0
        for sentence, first, ids in zip(sentences, firsts, encoded["input_ids"], strict=True):
            row = np.full(len(ids), IGNORED_LABEL, dtype=np.int64)
            row[list(first.values())] = [sentence.tags[word] for word in first]
            labels.append(row)
            num_cut += len(ids) == max_length and len(sentence.words) - 1 not in first
        return Features(
            input_ids=[np.array(ids, dtype=np.int32) for ids in encoded["input_ids"]],
            token_type_ids=[np.array(ids, dtype=np.int32) for ids in encoded["token_type_ids"]],
            example_of=np.arange(len(sentences)),
            labels={"labels": labels},
            num_truncated=num_cut,
            details={"firsts": firsts},
        )

    def label_arrays(
        self, features: Features, rows: NDArray[np.int64], length: int
    ) -> dict[str, NDArray[Any]]:
        """`labels` (B, T), `IGNORED_LABEL` at padding and inside words."""
        labels = [features.labels["labels"][row] for row in rows]
        return {"labels": padded(labels, length, IGNORED_LABEL, np.int64)}

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
        """Gold and predicted label of every word."""
        found = []
        rows = zip(examples, features.details["firsts"], outputs, strict=True)
        for example, first, output in rows:
            sentence = _words(example)
            predicted = [OUTSIDE] * len(sentence.words)
            for word, piece in first.items():
                predicted[word] = task.labels[int(output["logits"][piece].argmax())]
            gold = [task.labels[tag] for tag in sentence.tags]
            found.append({"id": example.id, "gold": gold, "prediction": predicted})
        return found

    def score(self, task: Task, lines: Sequence[Line]) -> dict[str, float]:
        """The task's metrics over the labels of all words, sentences parted by an "O"."""
        if not lines:
            return {metric.__name__: float("nan") for metric in task.metrics}
        names = [_prefixed(label) for label in task.labels]
        gold, predicted = _chains(task, lines)
        scores: dict[str, float] = {}
        for metric in task.metrics:
            scores[metric.__name__] = metric(gold, predicted, names)
        return scores

    def weighted_score(self, task: Task, lines: Sequence[Line]) -> weighted.Weighted:
        """From counts of entities."""
        names = [_prefixed(label) for label in task.labels]
        sentences = np.repeat(np.arange(len(lines)), [len(line["gold"]) + 1 for line in lines])
        return weighted.entity_f1(*_chains(task, lines), names, sentences, task.headline)

    def pairs(self, task: Task, line: Line) -> list[Pair]:
        """Entities as seqeval reads labels by default."""
        return entity_pairs(*_entities(line))

    def failure(self, task: Task, runs: Sequence[Line], example: Example | None) -> Failure | None:
        """The entities that the middle run misses, and those that it makes up."""
        words = _words(example).words if example else ()

        def text_of(start: int, end: int) -> str:
            return " ".join(words[start:end]) or f"words {start + 1} to {end}"

        return entity_failure([_entities(line) for line in runs], text_of)

    def constant(self, task: Task, lines: Sequence[Line]) -> str | None:
        """The one label that every word got."""
        return one_label(lines)


def _entities(line: Line) -> tuple[set[tuple[str, int, int]], set[tuple[str, int, int]]]:
    """Gold ones and predicted ones, as places among the words."""
    gold, predicted = (
        lenient_entities([_prefixed(label) for label in line[side]])
        for side in ("gold", "prediction")
    )
    return gold, predicted


def _chains(task: Task, lines: Sequence[Line]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Gold and predicted label ids of all words, sentences parted by an "O"."""
    ids = {label: number for number, label in enumerate(task.labels)}
    gold, predicted = (
        np.array([ids[label] for line in lines for label in (*line[side], OUTSIDE)], dtype=np.int64)
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
    """PER-B as B-PER."""
    kind, dash, mark = label.rpartition("-")
    return f"{mark}-{kind}" if dash else label


def _words(example: Example) -> WordsExample:
    assert isinstance(example, WordsExample)
    return example
