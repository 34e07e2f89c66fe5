"""One number for a text or a pair of texts, such as how alike two sentences are."""

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.metrics import weighted
from benchmarks.tasks.data.rows import Row, hub_rows, read_rows, row_id
from benchmarks.tasks.kind import Example, Failure, Features, Kind, Line, Outputs
from benchmarks.tasks.kinds.features import encode_rows
from benchmarks.tasks.task import Task

if TYPE_CHECKING:
    from torch import Generator, nn

    from benchmarks.tasks.heads.linear import Head


@dataclass(frozen=True)
class ValueExample(Example):
    """A text or pair, and its gold value in the task's own range."""

    value: float | None = None


class Regression(Kind):
    """[CLS] a [SEP] b [SEP], one output that learns the value scaled from its range to 0..1.

    google-research/electra classification_tasks.py:332-392 does so for STS-B, (x - 0) / 5. What is
    predicted is scaled back and not cut to the range.
    """

    def read(self, task: Task, split: str, path: Path) -> Iterator[Example]:
        """Rows of an official file; `ValueError` names the row of a value outside the range."""
        for number, row in read_rows(task, split, path):
            yield _example(task, split, number, row, f"{path} row {number}")

    def from_hub(
        self, task: Task, split: str, rows: Iterable[Mapping[str, Any]]
    ) -> Iterator[Example]:
        """Rows of the hub by our field names."""
        for number, row in hub_rows(task, split, rows):
            yield _example(task, split, number, row, f"{task.name} {split} row {number}")

    def featurize(
        self,
        task: Task,
        examples: Sequence[Example],
        tokenizer: Any,
        max_length: int,
        train: bool,
    ) -> Features:
        """One row an example, or two where the task learns both orders."""
        low, high = task.value_range
        values = [_value(example) for example in examples]
        scaled = [math.nan if v is None else (v - low) / (high - low) for v in values]
        return encode_rows(
            [example.texts for example in examples],
            {"values": scaled},
            tokenizer,
            max_length,
            train and task.train_both_orders,
        )

    def label_arrays(
        self, features: Features, rows: NDArray[np.int64], length: int
    ) -> dict[str, NDArray[Any]]:
        """`values` (B,), scaled; nan where there is none."""
        values = [features.labels["values"][row] for row in rows]
        return {"values": np.array(values, dtype=np.float32)}

    def make_head(
        self, task: Task, encoder: "nn.Module", tokenizer: Any, generator: "Generator"
    ) -> "Head":
        """One output."""
        from benchmarks.tasks.heads.linear import RegressionHead

        return RegressionHead(encoder, 1, generator, task.pooling)

    def lines(
        self,
        task: Task,
        examples: Sequence[Example],
        features: Features,
        outputs: Sequence[Outputs],
    ) -> list[Line]:
        """Gold and predicted value, both in the task's range."""
        low, high = task.value_range
        return [
            {
                "id": example.id,
                "gold": _value(example),
                "prediction": low + (high - low) * float(found["logits"][0]),
            }
            for example, found in zip(examples, outputs, strict=True)
        ]

    def score(self, task: Task, lines: Sequence[Line]) -> dict[str, float]:
        """The task's metrics over values; nan of less than two rows."""
        if len(lines) < 2:
            return {metric.__name__: math.nan for metric in task.metrics}
        gold, predicted = _values(lines)
        return {metric.__name__: metric(gold, predicted) for metric in task.metrics}

    def weighted_score(self, task: Task, lines: Sequence[Line]) -> weighted.Weighted:
        """Correlations from weighted sums and ranks."""
        return weighted.OF_VALUES[task.headline](*_values(lines))

    def groups(self, task: Task, line: Line) -> dict[str, str]:
        """The fifth of the range that the gold value lies in."""
        low, high = task.value_range
        width = (high - low) / 5
        number = min(4, int((line["gold"] - low) / width))
        return {"gold value": f"{low + number * width:g} to {low + (number + 1) * width:g}"}

    def failure(self, task: Task, runs: Sequence[Line], example: Example | None) -> Failure | None:
        """As severe as the median of the predictions is far off."""
        predictions, gold = [line["prediction"] for line in runs], runs[0]["gold"]
        median = statistics.median(predictions)
        certainty = f"{min(predictions):.2f} to {max(predictions):.2f} over the seeds"
        return Failure(abs(median - gold), f"{gold:g}", f"{median:.2f}", certainty)


def _values(lines: Sequence[Line]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Gold and predicted ones."""
    gold = np.array([line["gold"] for line in lines], dtype=np.float64)
    return gold, np.array([line["prediction"] for line in lines], dtype=np.float64)


def _value(example: Example) -> float | None:
    assert isinstance(example, ValueExample)
    return example.value


def _example(task: Task, split: str, number: int, row: Row, place: str) -> ValueExample:
    value = None
    if split not in task.unlabelled:
        text, (low, high) = row[task.label_field], task.value_range
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not low <= value <= high:
            raise ValueError(
                f"{place}: {task.label_field} {text!r} is no number from {low:g} to {high:g}"
            )
    texts = tuple(row[field] for field in task.text_fields)
    return ValueExample(row_id(task, split, number, row), texts, value)
