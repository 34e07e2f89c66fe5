"""One label for a text or a pair of texts."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.metrics import weighted
from benchmarks.tasks.data.rows import Row, hub_rows, read_rows, row_id
from benchmarks.tasks.kind import (
    Example,
    Failure,
    Features,
    Kind,
    Line,
    Outputs,
    Pair,
    likeliest,
    medians,
)
from benchmarks.tasks.kinds.features import IGNORED_LABEL, encode_rows
from benchmarks.tasks.task import Task

if TYPE_CHECKING:
    from torch import Generator, nn

    from benchmarks.tasks.heads.linear import Head

MAX_EXCHANGE_GAIN = 0.5  # of accuracy: WNLI's dev set alone gains some with its labels exchanged


@dataclass(frozen=True)
class LabelExample(Example):
    """A text or pair, and the position of its label in the task's labels."""

    label: int | None = None


class Classification(Kind):
    """[CLS] a [SEP] b [SEP], one linear layer, cross-entropy; the most probable label."""

    units = "examples"

    def read(self, task: Task, split: str, path: Path) -> Iterator[Example]:
        """Rows of an official file; `ValueError` names the row of an unknown label."""
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
        return encode_rows(
            [example.texts for example in examples],
            {"labels": [_label(example) for example in examples]},
            tokenizer,
            max_length,
            train and task.train_both_orders,
        )

    def label_arrays(
        self, features: Features, rows: NDArray[np.int64], length: int
    ) -> dict[str, NDArray[Any]]:
        """`labels` (B,); `IGNORED_LABEL` where there is none."""
        labels = [features.labels["labels"][row] for row in rows]
        filled = [IGNORED_LABEL if label is None else label for label in labels]
        return {"labels": np.array(filled, dtype=np.int64)}

    def make_head(
        self, task: Task, encoder: "nn.Module", tokenizer: Any, generator: "Generator"
    ) -> "Head":
        """One output a label."""
        from benchmarks.tasks.heads.linear import LinearHead

        return LinearHead(encoder, len(task.labels), generator, task.pooling)

    def lines(
        self,
        task: Task,
        examples: Sequence[Example],
        features: Features,
        outputs: Sequence[Outputs],
    ) -> list[Line]:
        """Gold label, the most probable one (the first of equals) and all probabilities."""
        return [
            _line(task, example.id, _label(example), softmax(found["logits"]))
            for example, found in zip(examples, outputs, strict=True)
        ]

    def score(self, task: Task, lines: Sequence[Line]) -> dict[str, float]:
        """The task's metrics over label ids."""
        gold, predicted = label_ids(task, lines)
        return {metric.__name__: metric(gold, predicted) for metric in task.metrics}

    def weighted_score(self, task: Task, lines: Sequence[Line]) -> weighted.Weighted:
        """From counts by class."""
        metric = weighted.OF_LABELS[task.headline]
        return metric(*label_ids(task, lines), len(task.labels))

    def doubts(self, task: Task, train: Sequence[Example], lines: Sequence[Line]) -> list[str]:
        """Labels that look exchanged, and gold labels that cannot have been learnt."""
        found = []
        exchanged = exchanged_labels(task, lines)
        if exchanged:
            found.append(exchanged)
        learnt = {task.labels[label] for e in train if (label := _label(e)) is not None}
        if unknown := sorted({line["gold"] for line in lines} - learnt):
            found.append(
                f"{', '.join(unknown)} among the reported rows is in no training row: are the "
                "files of one version?"
            )
        return found

    def pairs(self, task: Task, line: Line) -> list[Pair]:
        """The one label of the example."""
        return [Pair(line["gold"], line["prediction"], line["gold"] == line["prediction"])]

    def failure(self, task: Task, runs: Sequence[Line], example: Example | None) -> Failure | None:
        """Wrong by the medians of the runs' probabilities; as severe as the wrong label is sure."""
        probabilities = medians([line["probabilities"] for line in runs])
        severity = max(probabilities)
        predicted, gold = task.labels[probabilities.index(severity)], runs[0]["gold"]
        if predicted == gold:
            return None
        names = [task.label_names.get(label, label) for label in task.labels]
        shown = dict(zip(task.labels, names, strict=True))
        return Failure(severity, shown[gold], shown[predicted], likeliest(names, probabilities))

    def constant(self, task: Task, lines: Sequence[Line]) -> str | None:
        """The one label predicted everywhere."""
        return None if super().constant(task, lines) is None else str(lines[0]["prediction"])


def label_ids(task: Task, lines: Sequence[Line]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Gold and predicted label ids."""
    ids = {label: number for number, label in enumerate(task.labels)}
    gold = np.array([ids[line["gold"]] for line in lines], dtype=np.int64)
    return gold, np.array([ids[line["prediction"]] for line in lines], dtype=np.int64)


def exchanged_labels(task: Task, lines: Sequence[Line]) -> str | None:
    """Says so where each predicted label mostly stands for another gold one, and putting them right
    would gain much: labels of two files, or of a model and its data, do not stand in one order."""
    ids = {label: number for number, label in enumerate(task.labels)}
    counts = np.zeros((len(ids), len(ids)), dtype=np.int64)  # predicted, gold
    for line in lines:
        counts[ids[line["prediction"]], ids[line["gold"]]] += 1
    # the gold label that each predicted one stands for
    meant = {row: int(counts[row].argmax()) for row in range(len(ids)) if counts[row].any()}
    now, then = np.trace(counts) / len(lines), counts.max(axis=1).sum() / len(lines)
    if len(set(meant.values())) < len(meant) or then - now <= MAX_EXCHANGE_GAIN:
        return None
    pairs = ", ".join(
        f"{task.labels[predicted]} as {task.labels[gold]}"
        for predicted, gold in meant.items()
        if predicted != gold
    )
    return (
        f"labels look exchanged: {100 * now:.1f} % are right, and {100 * then:.1f} % would be with "
        f"{pairs}"
    )


def softmax(logits: NDArray[Any]) -> NDArray[np.float64]:
    """Probabilities over the last axis, in double precision."""
    shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    exponentials = np.exp(shifted)
    return np.asarray(exponentials / exponentials.sum(axis=-1, keepdims=True))


def _line(task: Task, identity: str, label: int | None, probabilities: NDArray[Any]) -> Line:
    return {
        "id": identity,
        "gold": None if label is None else task.labels[label],
        "prediction": task.labels[int(np.argmax(probabilities))],
        "probabilities": [round(p, 6) for p in probabilities.tolist()],
    }


def _label(example: Example) -> int | None:
    assert isinstance(example, LabelExample)
    return example.label


def _example(task: Task, split: str, number: int, row: Row, place: str) -> LabelExample:
    label = None
    if split not in task.unlabelled:
        name = row[task.label_field]
        if name not in task.labels:
            raise ValueError(
                f"{place}: unknown {task.label_field} {name!r} (allowed: {', '.join(task.labels)})"
            )
        label = task.labels.index(name)
    texts = tuple(row[field] for field in task.text_fields)
    return LabelExample(row_id(task, split, number, row), texts, label)
