"""All of a task that needs torch: the head that stands on an encoder, and the batches it reads."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from transformers import (
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)

from benchmarks.tasks.dialogue import DialogueStateTracking
from benchmarks.tasks.features import padded
from benchmarks.tasks.heads.klue import Parser, SlotGenerator
from benchmarks.tasks.heads.linear import Head, JointHead, LinearHead, SpanHead, fresh_head, seeded
from benchmarks.tasks.labels import OBJECT, SUBJECT, RelationExtraction, TextTask
from benchmarks.tasks.spans import Spans
from benchmarks.tasks.tags import Tagging
from benchmarks.tasks.task import Arrays, Features, Task
from benchmarks.tasks.trees import DependencyParsing

# Batches sorted together by length: padding falls to a few percent, batches still differ each epoch
POOL_BATCHES = 50


def make_head(task: Task, encoder: nn.Module, tokenizer: Any, generator: torch.Generator) -> Head:
    """A fresh head for a task, its weights drawn by `generator`."""
    config: Any = encoder.config
    num_labels = len(task.labels)
    is_auto = task.pooling == "transformers"
    match task:
        case Tagging() if is_auto:
            return fresh_head(encoder, AutoModelForTokenClassification, num_labels, generator)
        case Spans(head="span") if is_auto:
            return fresh_head(encoder, AutoModelForQuestionAnswering, 2, generator)
        case TextTask() if is_auto:
            auto_class = AutoModelForSequenceClassification
            return fresh_head(encoder, auto_class, num_labels or 1, generator)
        case RelationExtraction():
            markers = [tokenizer.convert_tokens_to_ids(list(pair)) for pair in (SUBJECT, OBJECT)]
            return LinearHead(encoder, num_labels, generator, task.pooling, markers)
        case TextTask():
            return LinearHead(encoder, num_labels or 1, generator, task.pooling)
        case Tagging():
            return LinearHead(encoder, num_labels, generator, "none")
        case DependencyParsing():  # of one size whatever the encoder's
            tags = len(task.pos_tags)
            return seeded(lambda: Parser(config.hidden_size, num_labels, tags), generator)
        case DialogueStateTracking():
            names = [slot.replace("-", " ") for slot in task.labels]
            ids = tokenizer(names, add_special_tokens=False)["input_ids"]
            return seeded(lambda: SlotGenerator(encoder, ids, tokenizer.pad_token_id), generator)
        case Spans(head="span"):
            return SpanHead(encoder, generator)
        case Spans():  # with a classifier only where questions may have no answer
            weight = task.answerable_weight if task.has_unanswerable else None
            return JointHead(encoder, generator, task.beam_size, weight)
    raise AssertionError(f"no head for {type(task).__name__}")


def collate(
    task: Task, features: Features, rows: NDArray[np.int64], pad_id: int, device: torch.device
) -> dict[str, torch.Tensor]:
    """Pad rows to their longest: `input_ids`, `token_type_ids` and `attention_mask`, each (B, T),
    and the kind's `label_arrays`."""
    batch = pad_rows(features, rows, pad_id)
    batch |= task.label_arrays(features, rows, batch["input_ids"].shape[1])
    return to_device(batch, device)


def pad_rows(features: Features, rows: NDArray[np.int64], pad_id: int) -> Arrays:
    """`input_ids`, `token_type_ids` and `attention_mask` of rows, each (B, T)."""
    ids = [features.input_ids[row] for row in rows]
    types = [features.token_type_ids[row] for row in rows]
    length = max(map(len, ids))
    return {
        "input_ids": padded(ids, length, pad_id, np.int64),
        "token_type_ids": padded(types, length, 0, np.int64),
        "attention_mask": padded([np.ones(len(row)) for row in ids], length, 0, np.int64),
    }


def to_device(batch: Arrays, device: torch.device) -> dict[str, torch.Tensor]:
    tensors = {name: torch.from_numpy(array) for name, array in batch.items()}
    if device.type == "cuda":  # from pinned memory, so that the host does not wait
        return {n: t.pin_memory().to(device, non_blocking=True) for n, t in tensors.items()}
    return {name: tensor.to(device) for name, tensor in tensors.items()}


def training_batches(
    lengths: NDArray[np.int64], batch_size: int, num_steps: int, rng: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Row numbers of every training step, each of exactly `batch_size` rows.

    One shuffled epoch follows the other and is cut into batches without regard to where epochs end
    (as the TensorFlow input of the paper's code). Within pools of `POOL_BATCHES` batches rows are
    sorted by length and the batches shuffled.
    """
    num_rows = num_steps * batch_size
    num_epochs = -(-num_rows // len(lengths))
    stream = np.concatenate([rng.permutation(len(lengths)) for _ in range(num_epochs)])[:num_rows]
    batches: list[NDArray[np.int64]] = []
    for start in range(0, num_rows, POOL_BATCHES * batch_size):
        pool = stream[start : start + POOL_BATCHES * batch_size]
        pool = pool[np.argsort(lengths[pool], kind="stable")]
        cut = pool.reshape(-1, batch_size)
        batches += list(cut[rng.permutation(len(cut))])
    return batches


def prediction_batches(lengths: NDArray[np.int64], batch_size: int) -> list[NDArray[np.int64]]:
    """Row numbers of batches that hold every row once, sorted by length."""
    order = np.argsort(lengths, kind="stable")
    return [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
