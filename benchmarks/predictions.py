"""What a fine-tuned model says of the reported rows: its scores, and a file of its predictions."""

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.features import Features
from benchmarks.finetune import Finetuned
from benchmarks.load import Example
from benchmarks.tagging import character_tags, framed, inside_labels
from benchmarks.task import Task
from electrify.artifacts import write_text

LabelIds = NDArray[np.int64]


def score(task: Task, gold: LabelIds, predicted: LabelIds | None) -> dict[str, float]:
    """Every metric of the task; nan in all where the model gave no numbers (`predicted` None)."""
    if predicted is None:
        return {metric.__name__: math.nan for metric in task.metrics}
    return {metric.__name__: metric(gold, predicted) for metric in task.metrics}


def scored_labels(
    task: Task, examples: Sequence[Example], features: Features, fitted: Finetuned
) -> tuple[LabelIds, LabelIds | None]:
    """Gold and predicted label ids as the metrics take them; None where there are no numbers.

    One a row; of a tagging task one a character, all sentences in one chain.
    """
    if task.head == "classification":
        return features.labels, fitted.predictions if fitted.is_finite else None
    outside = len(task.labels) - 1
    texts = [example.texts[0] for example in examples]
    gold = [
        framed(np.array(example.tags), text, outside, outside)
        for example, text in zip(examples, texts, strict=True)
    ]
    if not fitted.is_finite:
        return np.concatenate(gold), None
    predicted = [
        framed(tags, text, int(pieces[0]), int(pieces[-1]))
        for tags, text, pieces in zip(
            predicted_tags(task, examples, features, fitted), texts, fitted.piece_predictions,
            strict=True,
        )
    ]  # fmt: skip
    return np.concatenate(gold), np.concatenate(predicted)


def predicted_tags(
    task: Task, examples: Sequence[Example], features: Features, fitted: Finetuned
) -> Iterator[LabelIds]:
    """The predicted label ids of each sentence's characters."""
    inside = inside_labels(task.labels)
    rows = zip(examples, features.spans, fitted.piece_predictions, strict=True)
    for example, spans, pieces in rows:
        yield character_tags(pieces.tolist(), spans.tolist(), len(example.tags), inside)


def write_predictions(
    path: Path, task: Task, examples: Sequence[Example], features: Features, fitted: Finetuned
) -> None:
    """One line a reported row, in file order; undefined values are null."""
    if task.head == "classification":
        lines = list(_label_lines(task, examples, fitted))
    else:
        lines = list(_tag_lines(task, examples, features, fitted))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, "\n".join(json.dumps(line, ensure_ascii=False) for line in lines) + "\n")


def _label_lines(
    task: Task, examples: Sequence[Example], fitted: Finetuned
) -> Iterator[dict[str, object]]:
    rows = zip(examples, fitted.probabilities, fitted.predictions, strict=True)
    for example, probabilities, predicted in rows:
        defined = bool(np.isfinite(probabilities).all())
        yield {
            "id": example.id,
            "label": task.labels[example.label],
            "prediction": task.labels[predicted] if defined else None,
            "probabilities": [round(p, 6) for p in probabilities.tolist()] if defined else None,
        }


def _tag_lines(
    task: Task, examples: Sequence[Example], features: Features, fitted: Finetuned
) -> Iterator[dict[str, object]]:
    rows = zip(examples, predicted_tags(task, examples, features, fitted), strict=True)
    for example, tags in rows:
        yield {
            "id": example.id,
            "labels": [task.labels[n] for n in example.tags],
            "predictions": [task.labels[n] for n in tags] if fitted.is_finite else None,
        }
