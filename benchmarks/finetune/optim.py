"""Rates of a fine-tuning: schedule, layer-wise decay, groups of the optimizer."""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from benchmarks.encoder import layer_depth, num_layers
from benchmarks.finetune.recipe import HyperParameters, Schedule


def schedule(kind: Schedule, step: int, num_steps: int, warmup_steps: int) -> float:
    """Fraction of the peak learning rate at a step counted from 0.

    "product" is (1 - t/T) min(1, t/W): warm-up times decay, both over the whole run, as
    google-research/electra model/optimization.py has it. "linear" is min(t/W, (T - t)/(T - W)), as
    `transformers` and KLUE-baseline have it. The first step has a rate of 0 if there is a warm-up.
    """
    warmup = min(1.0, step / warmup_steps) if warmup_steps else 1.0
    if kind == "product":
        return (1.0 - step / num_steps) * warmup
    if step < warmup_steps:
        return warmup
    return (num_steps - step) / max(1, num_steps - warmup_steps)


def learning_rate_scales(encoder_names: Iterable[str], layer_lr_decay: float) -> dict[str, float]:
    """Factor on the peak rate of each encoder parameter: decay^(n + 1 - depth), the paper's rule.

    The head has 1, the top layer decay, the embeddings decay^(n + 1). The released code is off by
    one: decay^(n + 2 - depth) (google-research/electra model/optimization.py:181-193).
    """
    names = list(encoder_names)
    layers = num_layers(names)
    return {name: layer_lr_decay ** (layers + 1 - layer_depth(name, layers)) for name in names}


def build_optimizer(
    encoder: nn.Module, head: nn.Module, settings: HyperParameters
) -> torch.optim.AdamW:
    """AdamW with one group a learning rate and decay, at the peak (`set_rates` makes those of a
    step). Biases and norm weights are not decayed; what the head shares with the encoder has the
    encoder's rate."""
    scales = learning_rate_scales(dict(encoder.named_parameters()), settings.layer_lr_decay)
    rated = [(scales[name], parameter) for name, parameter in encoder.named_parameters()]
    shared = {id(parameter) for _, parameter in rated}
    rated += [(1.0, parameter) for parameter in head.parameters() if id(parameter) not in shared]
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for scale, parameter in rated:
        if parameter.requires_grad:
            weight_decay = settings.weight_decay if parameter.ndim > 1 else 0.0
            groups.setdefault((settings.learning_rate * scale, weight_decay), []).append(parameter)
    described: list[dict[str, Any]] = [
        {"params": parameters, "lr": peak, "peak": peak, "weight_decay": decay, "decay": decay}
        for (peak, decay), parameters in groups.items()
    ]
    return torch.optim.AdamW(described, eps=settings.adam_epsilon, fused=True)


def set_rates(
    optimizer: torch.optim.AdamW, settings: HyperParameters, step: int, num_steps: int
) -> None:
    """Rates of a step counted from 0, by the schedule.

    torch's step is rate / c1 * m / (sqrt(v / c2) + epsilon) with c = 1 - beta^t. Without bias
    correction rate, epsilon and decay are such that it is rate * m / (sqrt(v) + epsilon), the step
    of google-research/electra model/optimization.py.
    """
    warmup_steps = int(num_steps * settings.warmup_fraction)
    fraction = schedule(settings.schedule, step, num_steps, warmup_steps)
    scale = root = 1.0
    if not settings.adam_bias_correction:
        first, second = (1 - beta ** (step + 1) for beta in optimizer.defaults["betas"])
        root = math.sqrt(second)
        scale = first / root
    for group in optimizer.param_groups:
        group["lr"] = group["peak"] * fraction * scale
        group["eps"] = settings.adam_epsilon / root
        group["weight_decay"] = group["decay"] / scale
