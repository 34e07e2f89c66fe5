"""The paper's fine-tuning recipe: hyper-parameters by size, schedule, layer-wise learning rates."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from benchmarks.heads import Pooling
from benchmarks.task import Task
from electrify.config import EvaluateConfig

ADAM_EPSILON = 1e-6
MAX_GRADIENT_NORM = 1.0
# "layer.3.", "layers.3.", "h.3.", "block.3." of the encoders of `transformers`
_LAYER = re.compile(r"(?:^|[._])(?:layers?|h|blocks?)\.(\d+)\.")


@dataclass(frozen=True)
class HyperParameters:
    """Everything that shaped one fine-tuning, as its record states it."""

    learning_rate: float
    layer_lr_decay: float
    num_epochs: float
    num_steps: int
    warmup_steps: int
    batch_size: int
    weight_decay: float
    max_sequence_length: int
    max_train_examples: int | None
    train_both_orders: bool
    pooling: Pooling
    dropout: float | None
    head_dropout: float
    max_gradient_norm: float
    adam_epsilon: float
    precision: str


def default_learning_rate(hidden_size: int) -> float:
    """3e-4 small, 1e-4 base, 5e-5 large (Table 7).

    The released code's default for small is 1e-4; the paper's value had to be passed to it.
    """
    if hidden_size <= 256:
        return 3e-4
    return 1e-4 if hidden_size < 1024 else 5e-5


def default_layer_lr_decay(hidden_size: int) -> float:
    """0.8 small and base, 0.9 large (Table 7)."""
    return 0.8 if hidden_size < 1024 else 0.9


def num_training_steps(task: Task, options: EvaluateConfig, num_train_rows: int) -> int:
    """int(epochs x rows / batch), at least one, as in the released code."""
    num_epochs = options.num_epochs or task.num_epochs
    return max(1, int(num_epochs * num_train_rows / options.batch_size))


def resolve_hyper_parameters(
    task: Task,
    options: EvaluateConfig,
    hidden_size: int,
    num_train_rows: int,
    head_dropout: float,
    precision: str,
) -> HyperParameters:
    """Options as given, else the paper's for the size and the task's for the epochs."""
    num_steps = num_training_steps(task, options, num_train_rows)
    return HyperParameters(
        learning_rate=options.learning_rate or default_learning_rate(hidden_size),
        layer_lr_decay=options.layer_lr_decay or default_layer_lr_decay(hidden_size),
        num_epochs=options.num_epochs or task.num_epochs,
        num_steps=num_steps,
        warmup_steps=int(num_steps * options.warmup_fraction),
        batch_size=options.batch_size,
        weight_decay=options.weight_decay,
        max_sequence_length=options.max_sequence_length,
        max_train_examples=options.max_train_examples,
        train_both_orders=task.train_both_orders,
        pooling="none" if task.head == "tagging" else options.pooling,
        dropout=options.dropout,
        head_dropout=head_dropout,
        max_gradient_norm=MAX_GRADIENT_NORM,
        adam_epsilon=ADAM_EPSILON,
        precision=precision,
    )


def schedule(step: int, num_steps: int, warmup_steps: int) -> float:
    """Share of the peak learning rate at a step counted from 0: (1 - t/T) min(1, t/W).

    Warm-up times decay, both over the whole run, as google-research/electra model/optimization.py
    has it. The first step has a rate of 0 if there is a warm-up.
    """
    warmup = min(1.0, step / warmup_steps) if warmup_steps else 1.0
    return (1.0 - step / num_steps) * warmup


def layer_depth(name: str, num_layers: int) -> int:
    """Depth of an encoder parameter: 0 embeddings, 1 to n the layers, n for what stands on top."""
    match = _LAYER.search(name)
    if match:
        return int(match[1]) + 1
    return 0 if "embed" in name else num_layers


def learning_rate_scales(encoder_names: Iterable[str], layer_lr_decay: float) -> dict[str, float]:
    """Factor on the peak rate of each encoder parameter: decay^(n + 1 - depth).

    The head has 1, the top layer decay, the embeddings decay^(n + 1): the paper's rule. The
    released code is off by one, decay^(n + 2 - depth), so its top layer already has decay^2
    (model/optimization.py:181-193; issues 51 and 64 there). Scores of the two differ slightly.
    """
    names = list(encoder_names)
    found = [int(match[1]) for name in names if (match := _LAYER.search(name))]
    num_layers = max(found, default=-1) + 1
    return {name: layer_lr_decay ** (num_layers + 1 - layer_depth(name, num_layers))
            for name in names}  # fmt: skip


def build_optimizer(
    encoder: nn.Module, head: nn.Module, settings: HyperParameters
) -> torch.optim.AdamW:
    """AdamW with one group a learning rate and decay; biases and norm weights are not decayed.

    torch's bias correction stands (the released Adam has none: its first steps are larger).
    """
    scales = learning_rate_scales(
        (name for name, _ in encoder.named_parameters()), settings.layer_lr_decay
    )
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    rated = [(scales[name], parameter) for name, parameter in encoder.named_parameters()]
    rated += [(1.0, parameter) for parameter in head.parameters()]
    for scale, parameter in rated:
        weight_decay = settings.weight_decay if parameter.ndim > 1 else 0.0
        groups.setdefault((scale, weight_decay), []).append(parameter)
    described: list[dict[str, Any]] = [
        {"params": parameters, "lr": settings.learning_rate * scale, "weight_decay": weight_decay}
        for (scale, weight_decay), parameters in groups.items()
    ]
    return torch.optim.AdamW(described, eps=settings.adam_epsilon, fused=True)
