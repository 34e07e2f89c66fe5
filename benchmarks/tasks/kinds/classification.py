"""One label, or one number, for a text or a pair of texts."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.metrics import weighted
from benchmarks.tasks.kinds import IGNORED_LABEL, encode_rows
from benchmarks.tasks.rows import Row, class_name, label_ids, nested
from benchmarks.tasks.task import Arrays, Example, Features, Line, Outputs, Positions, Task
from electrify.system.outcome import UserError

MAX_EXCHANGE_GAIN = 0.5  # of accuracy: WNLI's dev set alone gains some with its labels exchanged


@dataclass(frozen=True)
class LabelExample(Example):
    """A text or pair, and the position of its label in the task's labels."""

    label: int | None = None


class Classification(Task):
    """[CLS] a [SEP] b [SEP], one linear layer, cross-entropy; the most probable label."""

    def examples(
        self, row: Row, identity: str, place: str, is_labelled: bool
    ) -> Iterator[LabelExample]:
        yield LabelExample(identity, self.texts(row, place), self._label(row, place, is_labelled))

    def plain_texts(self, example: Example) -> tuple[str, ...]:
        """What a bag of words is made of: the text, or both of a pair."""
        return example.texts

    def _label(self, row: Row, place: str, is_labelled: bool) -> int | None:
        if not is_labelled:
            return None
        value = nested(row, self.label_field)
        name = value if value in self.labels else class_name(value)
        return label_ids([name], self.labels, place)[0]

    def featurize(
        self, examples: Sequence[LabelExample], tokenizer: Any, max_length: int, train: bool
    ) -> Features:
        labels = {"labels": [example.label for example in examples]}
        both_orders = train and self.train_both_orders
        return encode_rows(examples, labels, tokenizer, max_length, both_orders)

    def label_arrays(self, features: Features, rows: Positions, length: int) -> Arrays:
        """`labels` (B,); `IGNORED_LABEL` where there is none."""
        labels = [features.labels["labels"][row] for row in rows]
        filled = [IGNORED_LABEL if label is None else label for label in labels]
        return {"labels": np.array(filled, dtype=np.int64)}

    def lines(
        self, examples: Sequence[LabelExample], features: Features, outputs: Sequence[Outputs]
    ) -> list[Line]:
        from scipy.special import softmax

        lines = []
        for example, output in zip(examples, outputs, strict=True):
            probabilities = softmax(output["logits"].astype(np.float64))
            lines.append(
                {
                    "id": example.id,
                    "gold": None if example.label is None else self.labels[example.label],
                    "prediction": self.labels[int(np.argmax(probabilities))],
                    "probabilities": [self.rounded(p) for p in probabilities.tolist()],
                }
            )
        return lines

    def rounded(self, probability: float) -> float:
        return round(probability, 6)

    def sides(self, lines: Sequence[Line]) -> tuple[Positions, Positions]:
        gold, predicted = super().sides(lines)
        return self.ids_of(gold), self.ids_of(predicted)

    def weighted_score(self, lines: Sequence[Line]) -> weighted.Weighted:
        return weighted.OF_LABELS[self.headline](*self.sides(lines), len(self.labels))

    def doubts(self, train: Sequence[LabelExample], lines: Sequence[Line]) -> list[str]:
        """Labels that look exchanged, and gold labels that cannot have been learnt."""
        doubts = super().doubts(train, lines)
        if not doubts and (exchanged := self._exchanged_labels(lines)):
            doubts.append(exchanged)
        learnt = {self.labels[e.label] for e in train if e.label is not None}
        if unknown := sorted({line["gold"] for line in lines} - learnt):
            doubts.append(
                f"{', '.join(unknown)} among the reported rows is in no training row: are the "
                "files of one version?"
            )
        return doubts

    def _exchanged_labels(self, lines: Sequence[Line]) -> str | None:
        """Says so where each predicted label mostly stands for another gold one, and putting them
        right would gain much: labels of two files, or of a model and its data, differ in order."""
        counts = np.zeros((len(self.labels),) * 2, dtype=np.int64)  # predicted, gold
        gold, predicted = self.sides(lines)
        np.add.at(counts, (predicted, gold), 1)
        # the gold label that each predicted one stands for
        meant = {row: int(of.argmax()) for row, of in enumerate(counts) if of.any()}
        now, then = np.trace(counts) / len(lines), counts.max(axis=1).sum() / len(lines)
        if len(set(meant.values())) < len(meant) or then - now <= MAX_EXCHANGE_GAIN:
            return None
        pairs = [f"{self.labels[a]} as {self.labels[b]}" for a, b in meant.items() if a != b]
        return (
            f"labels look exchanged: {100 * now:.1f} % are right, and {100 * then:.1f} % would be "
            f"with {', '.join(pairs)}"
        )


@dataclass(frozen=True)
class ValueExample(Example):
    """A text or pair, and its gold value in the task's own range."""

    value: float | None = None


@dataclass(frozen=True, kw_only=True)
class Regression(Task):
    """[CLS] a [SEP] b [SEP], one output that learns the value scaled from its range to 0..1.

    google-research/electra classification_tasks.py:332-392 does so for STS-B, (x - 0) / 5. What is
    predicted is scaled back, and cut to the range only if the task says so.
    """

    is_bounded: bool = False

    def examples(
        self, row: Row, identity: str, place: str, is_labelled: bool
    ) -> Iterator[ValueExample]:
        value = None
        if is_labelled:
            given, (low, high) = nested(row, self.label_field), self.value_range
            try:
                value = float(given)
            except (TypeError, ValueError, OverflowError):
                value = math.nan
            if not low <= value <= high:
                raise UserError(
                    f"{place}: {self.label_field} {given!r:.80} is no number from {low:g} to "
                    f"{high:g}"
                )
        yield ValueExample(identity, self.texts(row, place), value)

    def featurize(
        self, examples: Sequence[ValueExample], tokenizer: Any, max_length: int, train: bool
    ) -> Features:
        low, high = self.value_range
        values = [math.nan if e.value is None else (e.value - low) / (high - low) for e in examples]
        both_orders = train and self.train_both_orders
        return encode_rows(examples, {"values": values}, tokenizer, max_length, both_orders)

    def label_arrays(self, features: Features, rows: Positions, length: int) -> Arrays:
        """`values` (B,), scaled; nan where there is none."""
        values = [features.labels["values"][row] for row in rows]
        return {"values": np.array(values, dtype=np.float32)}

    def lines(
        self, examples: Sequence[ValueExample], features: Features, outputs: Sequence[Outputs]
    ) -> list[Line]:
        low, high = self.value_range
        scaled = [low + (high - low) * float(output["logits"][0]) for output in outputs]
        if self.is_bounded:
            scaled = [min(max(value, low), high) for value in scaled]
        return [
            {"id": example.id, "gold": example.value, "prediction": value}
            for example, value in zip(examples, scaled, strict=True)
        ]

    def sides(self, lines: Sequence[Line]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        gold, predicted = (np.array(side, dtype=np.float64) for side in super().sides(lines))
        return gold, predicted

    def score(self, lines: Sequence[Line]) -> dict[str, float]:
        return super().score(lines if len(lines) > 1 else [])

    def weighted_score(self, lines: Sequence[Line]) -> weighted.Weighted:
        return weighted.OF_VALUES[self.headline](*self.sides(lines))
