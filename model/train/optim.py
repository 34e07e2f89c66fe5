"""AdamW as the original has it, and which parameters each optimiser of a run moves."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from electrify.config.pretrain import PretrainConfig
from model.devices.device import overwrite

# of a group of parameters: whose they are, and their learning rate as a multiple of the step's
_ONE_NETWORK = {"network": "main", "rate_scale": 1.0}
_OF_GENERATOR = ("generator", "generator_head", "generator_embeddings")


class AdamW(torch.optim.Optimizer):
    """Adam with decoupled weight decay; with or without bias correction.

    Without (google-research/electra model/optimization.py:113-133): m and v are used as they are,
    epsilon stands outside the root, and weight decay is added to the update and scaled by the
    learning rate. With it, the same as `torch.optim.AdamW`; each parameter counts its own steps. A
    parameter without a gradient stays as it is, moments included.

    A step reads nothing back from the device, where rates and counts are tensors: it can be
    captured in a CUDA graph.
    """

    def __init__(
        self,
        groups: Iterable[dict[str, object]],
        betas: tuple[float, float],
        eps: float,
        bias_correction: bool,
    ) -> None:
        self.betas, self.eps, self.bias_correction = betas, eps, bias_correction
        super().__init__(list(groups), {"lr": 0.0, "weight_decay": 0.0} | _ONE_NETWORK)
        device = self.parameters()[0].device
        for group in self.param_groups:
            group["lr"] = torch.tensor(group["lr"], dtype=torch.float32, device=device)
        # the count of a parameter whose moments are not corrected, as after many steps
        self._settled = torch.tensor(math.inf, device=device)

    def parameters(self) -> list[nn.Parameter]:
        """All parameters this optimiser moves: what to clip together."""
        return [parameter for group in self.param_groups for parameter in group["params"]]

    @torch.no_grad()
    def step(self, divisors: Sequence[Tensor] | None = None) -> None:  # type: ignore[override]
        """Update every parameter that has a gradient.

        `divisors`, one scalar on the device for each group, divide its gradients before: clipping
        in the same pass.
        """
        for group, divisor in zip(
            self.param_groups, divisors or [None] * len(self.param_groups), strict=True
        ):
            moved = [parameter for parameter in group["params"] if parameter.grad is not None]
            if not moved:
                continue
            states = [self._state_of(parameter) for parameter in moved]
            counts = [self._settled] * len(moved)
            if self.bias_correction:
                counts = [state["num_steps"] for state in states]
                torch._foreach_add_(counts, 1)
            tensors = _Tensors(
                moved,
                [parameter.grad for parameter in moved],
                [state["first_moment"] for state in states],
                [state["second_moment"] for state in states],
                counts,
            )
            self._update(tensors, group["lr"], group["weight_decay"], divisor)

    def _update(self, of: "_Tensors", rate: Tensor, decay: float, divisor: Tensor | None) -> None:
        if self._settled.device.type not in _FUSED_DEVICES:
            self._update_in_passes(of, rate, decay, divisor)
            return
        # one pass over everything: a fifth of the time of the others (two CPU cores)
        torch._fused_adamw_(
            of.parameters,
            of.gradients,
            of.first,
            of.second,
            [],
            of.counts,
            lr=rate,
            beta1=self.betas[0],
            beta2=self.betas[1],
            weight_decay=decay,
            eps=self.eps,
            amsgrad=False,
            maximize=False,
            grad_scale=divisor,
        )

    def _update_in_passes(
        self, of: "_Tensors", rate: Tensor, decay: float, divisor: Tensor | None
    ) -> None:
        """The same by operators that every device has."""
        beta1, beta2 = self.betas
        if divisor is not None:
            torch._foreach_div_(of.gradients, divisor)
        torch._foreach_lerp_(of.first, of.gradients, 1 - beta1)
        torch._foreach_mul_(of.second, beta2)
        torch._foreach_addcmul_(of.second, of.gradients, of.gradients, 1 - beta2)
        denominator = torch._foreach_sqrt(of.second)
        if self.bias_correction:
            corrections = [_one_minus_power(beta2, count).sqrt() for count in of.counts]
            torch._foreach_div_(denominator, corrections)
        torch._foreach_add_(denominator, self.eps)
        update = torch._foreach_div(of.first, denominator)
        if self.bias_correction:
            corrections = [_one_minus_power(beta1, count) for count in of.counts]
            torch._foreach_div_(update, corrections)
        if decay:
            torch._foreach_add_(update, of.parameters, alpha=decay)
        torch._foreach_mul_(update, rate)
        torch._foreach_sub_(of.parameters, update)

    def make_state(self) -> None:
        """Make all moments now, and not when the first gradients come."""
        for parameter in self.parameters():
            self._state_of(parameter)

    def _state_of(self, parameter: Tensor) -> dict[str, Tensor]:
        state: dict[str, Tensor] = self.state[parameter]
        if not state:
            state["first_moment"] = torch.zeros_like(parameter)
            state["second_moment"] = torch.zeros_like(parameter)
        count = state.pop("num_steps", None)  # of older checkpoints also where it is not needed
        if self.bias_correction:
            if count is None:
                count = torch.zeros_like(self._settled)
            state["num_steps"] = count.to(self._settled)  # where a checkpoint is read it is int64
        return state


def _one_minus_power(beta: float, count: Tensor) -> Tensor:
    """1 - beta^count in fp32. As it is written, after two steps 1 - 0.999^2 would be wrong by 3e-5
    of itself."""
    return -torch.expm1(count * (math.log(beta) if beta else -math.inf))


# those that `torch._fused_adamw_` runs on
_FUSED_DEVICES = ("cpu", "cuda")


class _Tensors(NamedTuple):
    """What one update changes, a list entry a parameter."""

    parameters: list[Tensor]
    gradients: list[Tensor]
    first: list[Tensor]
    second: list[Tensor]
    counts: list[Tensor]  # of steps, this one included; infinite without bias correction


def make_optimizers(model: nn.Module, config: PretrainConfig) -> list[AdamW]:
    """One AdamW over all parameters; with decoupled updates the generator's, then the others'.

    The model may be wrapped by DDP. Shared embeddings belong to both of two
    optimisers: each network moves (and decays) them by its own gradient, with moments of its own,
    as in DeBERTaV3's ES. LayerNorms and biases are not decayed. Frozen parameters are included:
    they move when they get a gradient.
    """
    bare = model.module if isinstance(model, DistributedDataParallel) else model
    betas = (config.adam_beta1, config.adam_beta2)
    optimizers = []
    for names in _trained_together(bare, config):
        groups = _groups(bare, names, config)
        corrected = config.optimizer == "bias-corrected"
        optimizers.append(AdamW(groups, betas, config.adam_epsilon, corrected))
    return optimizers


def _groups(
    model: nn.Module, names: Sequence[str], config: PretrainConfig
) -> list[dict[str, object]]:
    """Groups of one optimiser: by whether weights decay and, where it matters, by network."""
    groups: list[dict[str, object]] = []
    apart = config.generator_learning_rate is not None or config.clipping == "network"
    of_generator = {name for name in names if apart and name.split(".")[0] in _OF_GENERATOR}
    for network, chosen in (
        ("main", [name for name in names if name not in of_generator]),
        ("generator", [name for name in names if name in of_generator]),
    ):
        own = config.generator_learning_rate if network == "generator" else None
        scale = own / config.learning_rate if own else 1.0
        for parameters, decay in zip(
            split_parameters(model, chosen), (config.weight_decay, 0.0), strict=True
        ):
            if parameters:
                of = {"network": network, "rate_scale": scale, "weight_decay": decay}
                groups.append({"params": list(parameters.values())} | of)
    return groups


def clip(optimizer: AdamW, config: PretrainConfig) -> tuple[Tensor, list[Tensor]]:
    """The norm of all gradients, and what to divide those of each group by.

    Together, as in the original, or network by network: the norm that is left is at most
    `max_gradient_norm`.
    """
    networks = [
        group["network"] if config.clipping == "network" else "both"
        for group in optimizer.param_groups
    ]
    norms = {}
    for network in dict.fromkeys(networks):
        norms[network] = torch.nn.utils.get_total_norm(
            [
                parameter.grad
                for group, of in zip(optimizer.param_groups, networks, strict=True)
                for parameter in group["params"]
                if of == network and parameter.grad is not None
            ]
        )
    divisors = {of: (norm / config.max_gradient_norm).clamp(min=1.0) for of, norm in norms.items()}
    total = next(iter(norms.values()))
    if len(norms) > 1:
        total = torch.stack(list(norms.values())).square().sum().sqrt()
    return total, [divisors[network] for network in networks]


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
    """Set the rate of every group, in the tensors that a captured step reads."""
    for group in optimizer.param_groups:
        overwrite(group["lr"], rate * group["rate_scale"])
