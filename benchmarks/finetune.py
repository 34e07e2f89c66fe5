"""Fine-tune one encoder on one task with one seed, and predict the reported rows.

The protocol is `last`: a fixed number of steps, the model of the last one, no look at the reported
rows before.
"""

import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F

from benchmarks.features import (
    IGNORED_LABEL,
    Features,
    collate,
    prediction_batches,
    training_batches,
)
from benchmarks.heads import (
    HEAD_DROPOUT,
    Classifier,
    ModelSource,
    Variant,
    load_encoder,
    prepare_encoder,
)
from benchmarks.optim import (
    HyperParameters,
    build_optimizer,
    resolve_hyper_parameters,
    schedule,
)
from benchmarks.task import Task
from electrify.config import EvaluateConfig

SELECTION = "last"
PREDICTION_BATCH_FACTOR = 4  # no gradients to keep: larger batches fit and are faster

OnStep = Callable[[int], None]  # gets the rows of each finished step; may raise to leave


@dataclass(frozen=True)
class TaskFeatures:
    """A task with its tokenised rows."""

    task: Task
    train: Features
    reported: Features


@dataclass(frozen=True)
class Finetuned:
    """Predictions of one fine-tuned model, and what made them."""

    probabilities: NDArray[np.float64]  # (reported rows, labels); nan after a failed training
    degenerate: str | None
    hyper_parameters: HyperParameters
    num_train_examples: int
    train_seconds: float
    piece_predictions: tuple[NDArray[np.int64], ...] = ()  # tagging: (T,) label ids, by row

    @property
    def is_finite(self) -> bool:
        """Whether the model gave numbers at all."""
        return bool(np.isfinite(self.probabilities).all())

    @property
    def predictions(self) -> NDArray[np.int64]:
        """Most probable label id of each row (the first of equal ones)."""
        return np.asarray(np.argmax(self.probabilities, axis=1), dtype=np.int64)


def finetune(
    data: TaskFeatures,
    model: ModelSource,
    variant: Variant,
    seed: int,
    options: EvaluateConfig,
    on_step: OnStep = lambda rows: None,
) -> Finetuned:
    """Train encoder and head on `data.train`, predict `data.reported`.

    The seed decides sample, order, head, dropout and (`random-init`) the encoder; the pretrained
    model and its control share all but the last. Global random state is as before afterwards.
    """
    device = choose_device(options.device)
    rows = training_rows(data.train, options.max_train_examples, seed)
    settings = resolve_hyper_parameters(
        data.task, options, model.config.hidden_size, len(rows), HEAD_DROPOUT,
        choose_precision(options.precision, device),
    )  # fmt: skip
    with _seeded(seed, device):
        generator = torch.Generator().manual_seed(seed)
        encoder = load_encoder(model, variant, seed)
        prepare_encoder(encoder, options.dropout, device, settings.precision)
        pooling = settings.pooling
        classifier = Classifier(encoder, len(data.task.labels), generator, pooling).to(device)
        start = time.monotonic()
        pad_id = model.tokenizer.pad_token_id
        degenerate = _train(classifier, data.train, rows, pad_id, settings, seed, on_step)
        train_seconds = time.monotonic() - start
        batch_size = PREDICTION_BATCH_FACTOR * settings.batch_size
        logits = predict(classifier, data.reported, pad_id, batch_size, settings.precision)
    pieces = tuple(row.argmax(axis=-1) for row in logits) if pooling == "none" else ()
    # of tags: the mean over the pieces of a row, which tells a failed training
    probabilities = np.stack([row.reshape(-1, row.shape[-1]).mean(axis=0) for row in logits])
    if degenerate:
        probabilities = np.full_like(probabilities, math.nan)
    elif not np.isfinite(probabilities).all():
        degenerate = "probabilities are not numbers"
    elif pieces:
        degenerate = _constant(data.task, data.reported.piece_labels, pieces)
    else:
        degenerate = _constant(data.task, [data.reported.labels], [probabilities.argmax(axis=1)])
    num_orders = 2 if data.task.train_both_orders else 1
    return Finetuned(
        probabilities, degenerate, settings, len(rows) // num_orders, train_seconds, pieces
    )  # fmt: skip


def choose_device(name: str) -> torch.device:
    """The device asked for; "auto" is the GPU where there is one."""
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("evaluate.device = 'cuda', but torch sees no GPU; use 'auto' or 'cpu'")
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


def training_rows(
    features: Features, max_train_examples: int | None, seed: int
) -> NDArray[np.int64]:
    """Rows to train on: all, or a sample of the examples by the seed, with both orders of each."""
    rows = np.arange(features.num_examples)
    if max_train_examples is not None and max_train_examples < len(rows):
        rng = np.random.default_rng([seed, 1])
        rows = np.sort(rng.choice(rows, max_train_examples, replace=False))
    num_orders = len(features.labels) // features.num_examples
    return np.concatenate([rows + order * features.num_examples for order in range(num_orders)])


def predict(
    classifier: Classifier, features: Features, pad_id: int, batch_size: int, precision: str
) -> list[NDArray[np.float64]]:
    """Probabilities of every row, in the order of the rows: (labels,) each; of tags (T, labels)."""
    classifier.eval()
    device = classifier.head.weight.device
    found: list[Any] = [None] * len(features.labels)
    with torch.inference_mode():
        for rows in prediction_batches(features.lengths, batch_size):
            inputs, _ = collate(features, rows, pad_id, device)
            with _autocast(device, precision):
                logits = classifier(inputs)
            probabilities = F.softmax(logits.double(), dim=-1).cpu().numpy()
            for row, values in zip(rows, probabilities, strict=True):
                found[row] = values[: len(features.input_ids[row])] if values.ndim > 1 else values
    return found


def _train(
    classifier: Classifier,
    features: Features,
    rows: NDArray[np.int64],
    pad_id: int,
    settings: HyperParameters,
    seed: int,
    on_step: OnStep,
) -> str | None:
    """Train in place; says what went wrong where the loss was not a number (training ends)."""
    device = classifier.head.weight.device
    optimizer = build_optimizer(classifier.encoder, classifier.head, settings)
    peaks = [group["lr"] for group in optimizer.param_groups]
    parameters = list(classifier.parameters())
    rng = np.random.default_rng([seed, 2])
    batches = training_batches(features.lengths[rows], settings.batch_size, settings.num_steps, rng)
    classifier.train()
    for step, batch in enumerate(batches):
        share = schedule(step, settings.num_steps, settings.warmup_steps)
        for group, peak in zip(optimizer.param_groups, peaks, strict=True):
            group["lr"] = peak * share
        inputs, labels = collate(features, rows[batch], pad_id, device)
        with _autocast(device, settings.precision):
            logits = classifier(inputs)
        loss = F.cross_entropy(
            logits.float().flatten(0, -2), labels.flatten(), ignore_index=IGNORED_LABEL
        )
        if not math.isfinite(loss.item()):
            return f"loss is {loss.item()} at step {step} of {settings.num_steps}"
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(parameters, settings.max_gradient_norm)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        on_step(len(batch))
    return None


def _constant(
    task: Task, gold: Sequence[NDArray[np.int64]], predicted: Sequence[NDArray[np.int64]]
) -> str | None:
    """Names the one label predicted everywhere, where the rows have more than one."""
    labels = set(np.concatenate(predicted).tolist())
    if len(labels) > 1 or len(set(np.concatenate(gold).tolist())) < 2:
        return None
    return f"constant predictions: {task.labels[labels.pop()]}"


def choose_precision(name: str, device: torch.device) -> str:
    """The precision asked for; "auto" is bf16 on a GPU and fp32 on a CPU."""
    if name != "auto":
        return name
    return "bf16" if device.type == "cuda" else "fp32"


def _autocast(device: torch.device, precision: str) -> torch.autocast:
    """bf16 matrix products over fp32 weights, or plain fp32."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=precision == "bf16")


@contextmanager
def _seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed Python, NumPy and torch, and put their states back afterwards."""
    python_state, numpy_state = random.getstate(), np.random.get_state()
    devices = [device.index or 0] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        random.seed(seed)
        np.random.seed(seed % 2**32)
        torch.manual_seed(seed)
        try:
            yield
        finally:
            random.setstate(python_state)
            np.random.set_state(numpy_state)
