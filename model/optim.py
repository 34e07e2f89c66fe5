"""AdamW as the original has it, and which parameters each optimiser of a run moves."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from electrify.config_pretrain import PretrainConfig

_OF_GENERATOR = ("generator", "generator_head", "generator_embeddings")


class AdamW(torch.optim.Optimizer):
    """Adam with decoupled weight decay; with or without bias correction.

    Without (google-research/electra model/optimization.py:113-133): m and v are used as they are,
    epsilon stands outside the root, and weight decay is added to the update and scaled by the
    learning rate. With it, the same as `torch.optim.AdamW`. A parameter without a gradient stays
    as it is, moments included; each parameter counts its own steps. Parameters may be DTensors of
    FSDP2, moments then are too.
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

    def parameters(self) -> list[nn.Parameter]:
        """All parameters this optimiser moves: what to clip together."""
        return [parameter for group in self.param_groups for parameter in group["params"]]

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update every parameter that has a gradient."""
        for group in self.param_groups:
            by_num_steps: dict[int, list[Tensor]] = {}
            for parameter in group["params"]:
                if parameter.grad is not None:
                    num_steps = self._state_of(parameter)["num_steps"].add_(1)
                    # the number matters to bias correction only; without it all go at once
                    key = int(num_steps) if self.bias_correction else 0
                    by_num_steps.setdefault(key, []).append(parameter)
            for number, parameters in by_num_steps.items():
                self._update(parameters, number, group["lr"], group["weight_decay"])

    def _update(self, parameters: list[Tensor], num_steps: int, rate: float, decay: float) -> None:
        beta1, beta2 = self.betas
        gradients = [p.grad for p in parameters if p.grad is not None]
        first = [self.state[p]["first_moment"] for p in parameters]
        second = [self.state[p]["second_moment"] for p in parameters]
        torch._foreach_lerp_(first, gradients, 1 - beta1)
        torch._foreach_mul_(second, beta2)
        torch._foreach_addcmul_(second, gradients, gradients, 1 - beta2)
        denominator = torch._foreach_sqrt(second)
        if self.bias_correction:
            torch._foreach_div_(denominator, (1 - beta2**num_steps) ** 0.5)
        torch._foreach_add_(denominator, self.eps)
        update = torch._foreach_div(first, denominator)
        if self.bias_correction:
            torch._foreach_div_(update, 1 - beta1**num_steps)
        if decay:
            torch._foreach_add_(update, parameters, alpha=decay)
        torch._foreach_add_(parameters, update, alpha=-rate)

    def _state_of(self, parameter: Tensor) -> dict[str, Tensor]:
        state: dict[str, Tensor] = self.state[parameter]
        if not state:
            # on the CPU, where reading it costs no wait for the device
            state["num_steps"] = torch.zeros((), dtype=torch.int64)
            state["first_moment"] = torch.zeros_like(parameter)
            state["second_moment"] = torch.zeros_like(parameter)
        return state


def make_optimizers(model: nn.Module, config: PretrainConfig) -> list[AdamW]:
    """One AdamW over all parameters; with decoupled updates the generator's, then the others'.

    The model may be wrapped by DDP, or in parts by FSDP2. Shared embeddings belong to both of two
    optimisers: each network moves (and decays) them by its own gradient, with moments of its own,
    as in DeBERTaV3's ES. LayerNorms and biases are not decayed. Frozen parameters are included:
    they move when they get a gradient.
    """
    bare = model.module if isinstance(model, DistributedDataParallel) else model
    betas = (config.adam_beta1, config.adam_beta2)
    optimizers = []
    for names in _trained_together(bare, config):
        decayed, plain = split_parameters(bare, names)
        groups: list[dict[str, object]] = [
            {"params": list(decayed.values()), "weight_decay": config.weight_decay},
            {"params": list(plain.values()), "weight_decay": 0.0},
        ]
        corrected = config.optimizer == "bias-corrected"
        optimizers.append(AdamW(groups, betas, config.adam_epsilon, corrected))
    return optimizers


def split_parameters(
    model: nn.Module, names: Iterable[str] | None = None
) -> tuple[dict[str, nn.Parameter], dict[str, nn.Parameter]]:
    """Parameters with and without weight decay, by name; each one stands in exactly one.

    Decayed: all weights, embeddings included (optimization.py:56 excludes LayerNorm and bias).
    `names` limits them to some; None takes all.
    """
    chosen = dict(model.named_parameters())  # a tied one once, by its first name
    if names is not None:
        chosen = {name: chosen[name] for name in names}
    decayed: dict[str, nn.Parameter] = {}
    plain: dict[str, nn.Parameter] = {}
    for name, parameter in chosen.items():
        owner, _, kind = name.rpartition(".")
        is_plain = kind == "bias" or isinstance(model.get_submodule(owner), nn.LayerNorm)
        (plain if is_plain else decayed)[name] = parameter
    assert len({id(p) for p in (*decayed.values(), *plain.values())}) == len(chosen)
    return decayed, plain


def _trained_together(model: nn.Module, config: PretrainConfig) -> list[list[str]]:
    """Names of the parameters of each optimiser; together all of them."""
    names = [name for name, _ in model.named_parameters()]
    if config.updates == "joint":
        return [names]
    generator = [name for name in names if name.split(".")[0] in _OF_GENERATOR]
    others = [name for name in names if name.split(".")[0] not in _OF_GENERATOR]
    if config.weight_sharing == "embeddings":
        generator += [name for name in others if name.split(".")[0] == "embeddings"]
    assert generator
    assert {*generator, *others} == set(names)
    return [generator, others]


def set_learning_rate(optimizer: AdamW, rate: float) -> None:
    """Set the rate of every group."""
    for group in optimizer.param_groups:
        group["lr"] = rate
