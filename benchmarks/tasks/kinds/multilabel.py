"""Any number of labels for a text or a pair of texts, such as the targets of an insult."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.metrics import weighted
from benchmarks.tasks.kinds import encode_rows
from benchmarks.tasks.rows import Row, class_name, label_ids, nested
from benchmarks.tasks.task import Arrays, Example, Features, Line, Outputs, Positions, Task
from electrify.system.outcome import UserError

_THRESHOLD = 0.5  # of the probability of a label


@dataclass(frozen=True)
class LabelSetExample(Example):
    """A text or pair, and the positions of its labels in the task's, ascending."""

    label_set: tuple[int, ...] | None = None


class MultiLabelClassification(Task):
    """[CLS] a [SEP] b [SEP], one linear layer, a sigmoid and the binary cross-entropy for each
    label; the labels above one half."""

    def examples(
        self, row: Row, identity: str, place: str, is_labelled: bool
    ) -> Iterator[LabelSetExample]:
        labels = self._labels(row, place) if is_labelled else None
        yield LabelSetExample(identity, self.texts(row, place), labels)

    def _labels(self, row: Row, place: str) -> tuple[int, ...]:
        given = nested(row, self.label_field)
        if not isinstance(given, list):
            raise UserError(f"{place}: {given!r:.80} in {self.label_field!r} is no list of labels")
        return tuple(sorted({*label_ids([class_name(v) for v in given], self.labels, place)}))

    def featurize(
        self, examples: Sequence[LabelSetExample], tokenizer: Any, max_length: int, train: bool
    ) -> Features:
        labels = {"label_sets": [example.label_set for example in examples]}
        return encode_rows(
            examples, labels, tokenizer, max_length, train and self.train_both_orders
        )

    def label_arrays(self, features: Features, rows: Positions, length: int) -> Arrays:
        """`label_sets` (B, labels), 1 where a label is given."""
        sets = [features.labels["label_sets"][row] or () for row in rows]
        return {"label_sets": self._indicators(sets).astype(np.float32)}

    def lines(
        self, examples: Sequence[LabelSetExample], features: Features, outputs: Sequence[Outputs]
    ) -> list[Line]:
        from scipy.special import expit

        lines = []
        for example, output in zip(examples, outputs, strict=True):
            probabilities = expit(output["logits"].astype(np.float64))
            gold = example.label_set
            lines.append(
                {
                    "id": example.id,
                    "gold": None if gold is None else [self.labels[n] for n in gold],
                    "prediction": [
                        self.labels[n] for n in np.flatnonzero(probabilities >= _THRESHOLD)
                    ],
                    "probabilities": [round(p, 6) for p in probabilities.tolist()],
                }
            )
        return lines

    def sides(self, lines: Sequence[Line]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """(n, labels) each: which labels are given, and which were predicted."""
        gold, predicted = (
            self._indicators([self.ids_of(labels) for labels in side])
            for side in super().sides(lines)
        )
        return gold, predicted

    def weighted_score(self, lines: Sequence[Line]) -> weighted.Weighted:
        return weighted.OF_LABEL_SETS[self.headline](*self.sides(lines))

    def _indicators(self, sets: Sequence[Any]) -> NDArray[np.bool_]:
        matrix = np.zeros((len(sets), len(self.labels)), dtype=np.bool_)
        for row, labels in enumerate(sets):
            matrix[row, [*labels]] = True
        return matrix
