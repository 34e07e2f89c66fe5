"""Examples to token ids and padded batches of like length."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.load import Example
from benchmarks.tagging import piece_tags
from benchmarks.task import Task
from electrify.progress import warn

# Batches sorted together by length: padding falls to a few percent, batches still differ each epoch
POOL_BATCHES = 50
IGNORED_LABEL = -100  # of padding, which has no part in the loss


@dataclass(frozen=True)
class Features:
    """Tokenised examples, in the order of the examples.

    With both orders of the pairs, row i + num_examples is example i the other way round.
    """

    input_ids: list[NDArray[np.int32]]  # each (T,), T <= the maximum length
    token_type_ids: list[NDArray[np.int32]]  # as input_ids; 1 in the second text of a pair
    labels: NDArray[np.int64]  # (rows,)
    num_examples: int
    num_truncated: int  # rows longer than the maximum length
    # of a tagging task, by row: a label a piece (T,), and the characters (T, 2) of each piece
    piece_labels: list[NDArray[np.int64]] = field(default_factory=list)
    spans: list[NDArray[np.int64]] = field(default_factory=list)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each row."""
        return np.array([len(ids) for ids in self.input_ids], dtype=np.int64)


def tokenize(
    task: Task,
    examples: Sequence[Example],
    tokenizer: Any,
    max_sequence_length: int,
    both_orders: bool = False,
) -> Features:
    """Tokenise one split as [CLS] a [SEP] or [CLS] a [SEP] b [SEP], the longer text cut first.

    Rows that were cut are counted and warned about. Raises `ValueError` for a tokenizer without
    padding token, or with a [CLS] that it does not put first.
    """
    texts = [example.texts for example in examples]
    if both_orders:
        texts += [pair[::-1] for pair in texts]
    columns = [list(column) for column in zip(*texts, strict=True)]
    encoded = tokenizer(
        *columns, truncation="longest_first", max_length=max_sequence_length,
        return_token_type_ids=True, return_attention_mask=False,
        return_offsets_mapping=task.head == "tagging",
    )  # fmt: skip
    _check_tokenizer(tokenizer, encoded["input_ids"][0])
    full = [row for row, ids in enumerate(encoded["input_ids"]) if len(ids) >= max_sequence_length]
    num_truncated = 0
    if full:  # only these may have been cut; the others need no second look
        whole = tokenizer(*([c[row] for row in full] for c in columns), verbose=False)["input_ids"]
        num_truncated = sum(len(ids) > max_sequence_length for ids in whole)
    if num_truncated:
        warn(
            f"{task.name}: {num_truncated:,} of {len(texts):,} rows "
            f"({100 * num_truncated / len(texts):.1f} %) are longer than evaluate."
            f"max_sequence_length = {max_sequence_length} tokens and were cut"
        )
    labels = [example.label for example in examples] * (2 if both_orders else 1)
    spans = encoded.get("offset_mapping", [])
    outside = len(task.labels) - 1
    return Features(
        input_ids=[np.array(ids, dtype=np.int32) for ids in encoded["input_ids"]],
        token_type_ids=[np.array(ids, dtype=np.int32) for ids in encoded["token_type_ids"]],
        labels=np.array(labels, dtype=np.int64),
        num_examples=len(examples),
        num_truncated=num_truncated,
        piece_labels=[piece_tags(example.tags, row, outside)
                      for example, row in zip(examples, spans, strict=False)],
        spans=[np.array(row, dtype=np.int64) for row in spans],
    )  # fmt: skip


def _check_tokenizer(tokenizer: Any, first_row: list[int]) -> None:
    if tokenizer.pad_token_id is None:
        raise ValueError("the tokenizer has no padding token; save one with it (pad_token)")
    if tokenizer.cls_token_id is not None and first_row[0] != tokenizer.cls_token_id:
        raise ValueError(
            f"the tokenizer puts no {tokenizer.cls_token} in front of a text, which is where the "
            "head looks; save it with its post-processor"
        )


def collate(
    features: Features, rows: NDArray[np.int64], pad_id: int, device: torch.device
) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Pad rows to their longest: model inputs, each (B, T), and labels (B,); of tags (B, T)."""
    length = max(len(features.input_ids[row]) for row in rows)
    shape = (len(rows), length)
    input_ids = np.full(shape, pad_id, dtype=np.int64)
    token_type_ids, attention_mask = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    for position, row in enumerate(rows):
        ids = features.input_ids[row]
        input_ids[position, : len(ids)] = ids
        token_type_ids[position, : len(ids)] = features.token_type_ids[row]
        attention_mask[position, : len(ids)] = 1
    arrays = {
        "input_ids": input_ids,
        "token_type_ids": token_type_ids,
        "attention_mask": attention_mask,
    }
    labels = features.labels[rows]
    if features.piece_labels:
        labels = np.full(shape, IGNORED_LABEL, dtype=np.int64)
        for position, row in enumerate(rows):
            labels[position, : len(features.piece_labels[row])] = features.piece_labels[row]
    inputs = {name: torch.from_numpy(array).to(device) for name, array in arrays.items()}
    return inputs, torch.from_numpy(labels).to(device)


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
