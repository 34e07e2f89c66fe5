"""AdamW as the original has it, its parameter groups, and the learning-rate schedule."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from electrify.config import PretrainConfig


class AdamW(torch.optim.Optimizer):
    """Adam with decoupled weight decay; with or without bias correction.

    Without (google-research/electra model/optimization.py:113-133): m and v are used as they are,
    epsilon stands outside the root, and weight decay is added to the update and scaled by the
    learning rate. With it, the same as `torch.optim.AdamW`.
    """

    def __init__(
        self,
        groups: Iterable[dict[str, object]],
        betas: tuple[float, float],
        eps: float,
        bias_correction: bool,
    ) -> None:
        self.betas, self.eps, self.bias_correction = betas, eps, bias_correction
        super().__init__(list(groups), {"lr": 0.0, "weight_decay": 0.0})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update every parameter from its gradient."""
        beta1, beta2 = self.betas
        for group in self.param_groups:
            parameters: list[Tensor] = [p for p in group["params"] if p.grad is not None]
            if not parameters:
                continue
            gradients = [p.grad for p in parameters if p.grad is not None]
            states = [self._state_of(p) for p in parameters]
            first = [state["first_moment"] for state in states]
            second = [state["second_moment"] for state in states]
            for state in states:
                state["num_steps"] += 1
            torch._foreach_lerp_(first, gradients, 1 - beta1)
            torch._foreach_mul_(second, beta2)
            torch._foreach_addcmul_(second, gradients, gradients, 1 - beta2)
            denominator = torch._foreach_sqrt(second)
            if self.bias_correction:
                num_steps = int(states[0]["num_steps"])
                torch._foreach_div_(denominator, (1 - beta2**num_steps) ** 0.5)
            torch._foreach_add_(denominator, self.eps)
            update = torch._foreach_div(first, denominator)
            if self.bias_correction:
                torch._foreach_div_(update, 1 - beta1**num_steps)
            if group["weight_decay"]:
                torch._foreach_add_(update, parameters, alpha=group["weight_decay"])
            torch._foreach_add_(parameters, update, alpha=-group["lr"])

    def _state_of(self, parameter: Tensor) -> dict[str, Tensor]:
        state: dict[str, Tensor] = self.state[parameter]
        if not state:
            state["num_steps"] = torch.zeros((), dtype=torch.int64)
            state["first_moment"] = torch.zeros_like(parameter)
            state["second_moment"] = torch.zeros_like(parameter)
        return state


def make_optimizer(model: nn.Module, config: PretrainConfig) -> AdamW:
    """AdamW over every parameter of the model, LayerNorms and biases without weight decay."""
    decayed, plain = split_parameters(model)
    groups: list[dict[str, object]] = [
        {"params": list(decayed.values()), "weight_decay": config.weight_decay},
        {"params": list(plain.values()), "weight_decay": 0.0},
    ]
    betas = (config.adam_beta1, config.adam_beta2)
    return AdamW(groups, betas, config.adam_epsilon, config.adam_bias_correction)


def split_parameters(model: nn.Module) -> tuple[dict[str, nn.Parameter], dict[str, nn.Parameter]]:
    """Parameters with and without weight decay, by name; each one stands in exactly one.

    Decayed: all weights, embeddings included (optimization.py:56 excludes LayerNorm and bias).
    """
    decayed: dict[str, nn.Parameter] = {}
    plain: dict[str, nn.Parameter] = {}
    for name, parameter in model.named_parameters():
        *_, owner, kind = ("", *name.split("."))
        (plain if kind == "bias" or owner.endswith("norm") else decayed)[name] = parameter
    assert len(decayed) + len(plain) == len(list(model.parameters()))
    return decayed, plain


def learning_rate(step: int, config: PretrainConfig) -> float:
    """Rate of the update that follows `step` finished ones.

    peak (1 - t/T) min(1, t/warmup): warmup and linear decay apply *together* from t = 0, as in
    optimization.py:36-45 (so the first update has rate 0); `transformers`' schedule differs.
    """
    warmup = min(1.0, step / config.warmup_steps) if config.warmup_steps else 1.0
    return config.learning_rate * (1 - step / config.num_steps) * warmup


def set_learning_rate(optimizer: AdamW, rate: float) -> None:
    """Set the rate of every group."""
    for group in optimizer.param_groups:
        group["lr"] = rate
