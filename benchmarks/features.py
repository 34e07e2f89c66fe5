"""Texts to token ids, and rows of features to padded batches of like length."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.kind import Features, Kind

# Batches sorted together by length: padding falls to a few percent, batches still differ each epoch
POOL_BATCHES = 50
IGNORED_LABEL = -100  # of padding, which has no part in the loss


@dataclass(frozen=True)
class Encoded:
    """Rows of pieces, one a text or pair."""

    input_ids: list[NDArray[np.int32]]  # each (T,)
    token_type_ids: list[NDArray[np.int32]]
    was_cut: NDArray[np.bool_]  # (rows,) longer than the maximum
    # characters of each piece, (T, 2): the first, and behind the last; where asked for
    spans: list[NDArray[np.int64]] = field(default_factory=list)


def encode_texts(
    texts: Sequence[tuple[str, ...]], tokenizer: Any, max_length: int, with_spans: bool = False
) -> Encoded:
    """[CLS] a [SEP] or [CLS] a [SEP] b [SEP] of each row, the longer text cut first."""
    if not texts:
        return Encoded([], [], np.zeros(0, dtype=np.bool_))
    columns = [list(column) for column in zip(*texts, strict=True)]
    encoded = tokenizer(
        *columns, truncation="longest_first", max_length=max_length, return_token_type_ids=True,
        return_attention_mask=False, return_offsets_mapping=with_spans,
    )  # fmt: skip
    was_cut = np.zeros(len(texts), dtype=np.bool_)
    full = [row for row, ids in enumerate(encoded["input_ids"]) if len(ids) >= max_length]
    if full:  # only these may have been cut; the others need no second look
        whole = tokenizer(*([c[row] for row in full] for c in columns), verbose=False)["input_ids"]
        was_cut[full] = [len(ids) > max_length for ids in whole]
    return Encoded(
        input_ids=[np.array(ids, dtype=np.int32) for ids in encoded["input_ids"]],
        token_type_ids=[np.array(ids, dtype=np.int32) for ids in encoded["token_type_ids"]],
        was_cut=was_cut,
        spans=[np.array(row, dtype=np.int64) for row in encoded.get("offset_mapping", [])],
    )


def encode_rows(
    texts: Sequence[tuple[str, ...]],
    labels: Mapping[str, Sequence[Any]],
    tokenizer: Any,
    max_length: int,
    both_orders: bool,
) -> Features:
    """Features of one row an example; with both orders row i + n is example i the other way round.

    `labels` holds a value an example, which both rows get.
    """
    num_orders = 2 if both_orders else 1
    rows = [*texts, *(pair[::-1] for pair in texts)] if both_orders else list(texts)
    encoded = encode_texts(rows, tokenizer, max_length)
    return Features(
        input_ids=encoded.input_ids,
        token_type_ids=encoded.token_type_ids,
        example_of=np.tile(np.arange(len(texts)), num_orders),
        labels={name: list(values) * num_orders for name, values in labels.items()},
        num_truncated=int(encoded.was_cut[: len(texts)].sum()),
    )


def padded(
    rows: Sequence[Sequence[Any] | NDArray[Any]], length: int, value: float, dtype: type
) -> torch.Tensor:
    """Rows of different length as one tensor (rows, length), filled up with `value`."""
    array: NDArray[Any] = np.full((len(rows), length), value, dtype=dtype)
    for position, row in enumerate(rows):
        array[position, : len(row)] = row
    return torch.from_numpy(array)


def collate(
    kind: Kind,
    features: Features,
    rows: NDArray[np.int64],
    pad_id: int,
    device: torch.device,
) -> dict[str, torch.Tensor]:
    """Pad rows to their longest: `input_ids`, `token_type_ids` and `attention_mask`, each (B, T),
    and the kind's `label_tensors`."""
    ids = [features.input_ids[row] for row in rows]
    length = max(map(len, ids))
    batch = {
        "input_ids": padded(ids, length, pad_id, np.int64),
        "token_type_ids": padded([features.token_type_ids[r] for r in rows], length, 0, np.int64),
        "attention_mask": padded([np.ones(len(row)) for row in ids], length, 0, np.int64),
    }
    batch |= kind.label_tensors(features, rows, length)
    return {name: tensor.to(device) for name, tensor in batch.items()}


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
