"""AdamW as the original has it, Muon, and which parameters they move."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from electrify.config.pretrain import PretrainConfig
from model.devices.device import overwrite, precision_of
from model.networks.electra import ElectraPretrainer

_OF_GENERATOR = ("generator", "generator_head", "generator_embeddings")
_FUSED_DEVICES = ("cpu", "cuda")  # those that torch's fused kernel runs on
# torch's names in memory, ours in checkpoints
KINDS = {
    "exp_avg": "first_moment",
    "exp_avg_sq": "second_moment",
    "step": "num_steps",
    "momentum_buffer": "momentum",
}


LEAST_SCALE = 2.0**-4  # what overflows below it (65,504) is above a million by itself


class LossScale:
    """What the loss of an optimiser is multiplied by in fp16, where its gradients would underflow.

    An update whose gradients are not finite is skipped and halves the scale; 2,000 others in a row
    double it (Micikevicius et al. 2018, section 3.2; start and rule are torch.amp.GradScaler's).
    All of it is tensors on the device, so a step can be captured in a CUDA graph.
    """

    def __init__(self, device: torch.device) -> None:
        self.scale = torch.full((), 2.0**16, device=device)
        self.num_good = torch.zeros((), dtype=torch.int32, device=device)  # updates in a row
        self.skips = torch.zeros((), device=device)  # 1.0 if this update is skipped, else 0.0

    @torch.no_grad()
    def judge(self, norm: Tensor) -> Tensor:
        """Skip the update, or not, by the norm of its true gradients, and set the next scale.

        The norm to log: 0 of a skipped update, but as it is below `LEAST_SCALE`, where it is to
        stop the run.
        """
        is_broken = ~norm.isfinite()
        self.skips.copy_(is_broken)
        # as torch/amp/grad_scaler.py calls it (2.13)
        torch._amp_update_scale_(self.scale, self.num_good, self.skips, 2.0, 0.5, 2000)
        return norm.masked_fill(is_broken & (self.scale >= LEAST_SCALE), 0.0)

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint holds of it."""
        return {"loss_scale/scale": self.scale, "loss_scale/num_good_steps": self.num_good}


class AdamW(torch.optim.AdamW):
    """torch's, with or without bias correction; each parameter counts its own steps.

    Without (google-research/electra model/optimization.py:113-133): m and v are used as they are,
    and epsilon stands outside the root. The correction fades with the count of steps, so a count
    that begins at infinity has none. A parameter without a gradient stays as it is. Rates and
    counts are tensors on the device, so a step can be captured in a CUDA graph.
    """

    def __init__(
        self,
        groups: Sequence[dict[str, Any]],
        betas: tuple[float, float],
        eps: float,
        bias_correction: bool,
    ) -> None:
        self.bias_correction = bias_correction
        self.loss_scale: LossScale | None = None
        self._device = groups[0]["params"][0].device
        fused = self._device.type in _FUSED_DEVICES
        super().__init__(groups, 0.0, betas, eps, 0.0, fused=fused, capturable=fused)
        self._is_fused = fused
        for group in self.param_groups:
            group["lr"] = torch.tensor(group["lr"], dtype=torch.float32, device=self._device)
        self.all_groups = self.param_groups

    def scale_loss(self) -> None:
        """Train with a loss scale from now on."""
        self.loss_scale = LossScale(self._device)
        self.found_inf = self.loss_scale.skips  # torch's kernel reads it

    @torch.no_grad()
    def step(self, divisors: Sequence[Tensor | None] = ()) -> None:  # type: ignore[override]
        """Update every parameter that has a gradient.

        `divisors`, one scalar on the device for each group, divide its gradients before: clipping
        in the same pass.
        """
        divisors = divisors or [None] * len(self.param_groups)
        is_one = self._is_fused and all(divisor is divisors[0] for divisor in divisors)
        self.grad_scale = divisors[0] if is_one else None
        for group, divisor in zip(self.param_groups, divisors, strict=True):
            moved = [parameter for parameter in group["params"] if parameter.grad is not None]
            if moved and divisor is not None and not is_one:
                torch._foreach_div_([parameter.grad for parameter in moved], divisor)
            for parameter in moved:
                self._make_state(parameter)
                if not self._is_fused:
                    self._move(parameter, group)
        if self._is_fused:  # a fifth of the time of `_move` (two CPU cores)
            super().step()

    def _move(self, parameter: nn.Parameter, group: Mapping[str, Any]) -> None:
        """The same by operators that every device has. torch's own for XLA divides by the rate,
        which is 0 at first."""
        gradient, (beta1, beta2) = parameter.grad, group["betas"]
        assert gradient is not None
        state = self.state[parameter]
        state["exp_avg"].lerp_(gradient, 1 - beta1)
        state["exp_avg_sq"].mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        denominator, update = state["exp_avg_sq"].sqrt(), state["exp_avg"]
        if self.bias_correction:
            state["step"] += 1
            denominator /= _one_minus_power(beta2, state["step"]).sqrt()
        update = update / (denominator + group["eps"])
        if self.bias_correction:
            update /= _one_minus_power(beta1, state["step"])
        parameter.sub_((update + group["weight_decay"] * parameter) * group["lr"])

    def make_state(self) -> None:
        for group in self.all_groups:
            for parameter in group["params"]:
                self._make_state(parameter)

    def _make_state(self, parameter: Tensor) -> None:
        state: dict[str, Tensor] = self.state[parameter]
        if not state:
            count = 0.0 if self.bias_correction else math.inf
            state["step"] = torch.full((), count, device=self._device)
            state["exp_avg"] = torch.zeros_like(parameter)
            state["exp_avg_sq"] = torch.zeros_like(parameter)

    def tensors(self, parameters: Mapping[str, nn.Parameter]) -> dict[str, Tensor]:
        """What a checkpoint holds: "<kind of moment>/<parameter>", in fp16 "loss_scale/<name>"."""
        moments = {
            f"{KINDS[kind]}/{name}": value
            for name, parameter in parameters.items()
            for kind, value in self.state.get(parameter, {}).items()
            if kind != "step" or self.bias_correction
        }
        return moments | (self.loss_scale.state() if self.loss_scale else {})

    def restore(self, parameters: Mapping[str, nn.Parameter], key: str, value: Tensor) -> None:
        """Resume from one of `tensors`."""
        if self.loss_scale is not None and key in (scale := self.loss_scale.state()):
            overwrite(scale[key], value)
            return
        kind, name = key.split("/", 1)
        kind = next(own for own in KINDS if KINDS[own] == kind)
        self._make_state(parameters[name])
        overwrite(self.state[parameters[name]][kind], value)


class Muon(AdamW):
    """Muon for matrices, AdamW for the rest (Jordan et al. 2024, Liu et al. 2025).

    A matrix moves by its momentum (Nesterov's) with all singular values brought near 1, times
    0.2 sqrt(max(rows, columns)), which is about the size of an update of AdamW. As
    `torch.optim.Muon` with `adjust_lr_fn="match_rms_adamw"`, but for matrices of one shape at once,
    with a chosen dtype of its products, and without reading the rate back from the device, so that
    a step can be recorded. Gradients of matrices are not clipped: the update does not depend on
    their norm.
    """

    def __init__(
        self,
        matrix_groups: Sequence[dict[str, Any]],
        groups: Sequence[dict[str, Any]],
        betas: tuple[float, float],
        eps: float,
        products: torch.dtype,
    ) -> None:
        super().__init__(groups, betas, eps, bias_correction=True)
        self.matrix_groups: list[dict[str, Any]] = [
            group | {"lr": torch.zeros((), device=self._device)} for group in matrix_groups
        ]
        self.all_groups = [*self.param_groups, *self.matrix_groups]
        self._matrices = {id(p) for group in self.matrix_groups for p in group["params"]}
        self._products = products

    @torch.no_grad()
    def step(self, divisors: Sequence[Tensor | None] = ()) -> None:  # type: ignore[override]
        super().step(divisors)
        for group in self.matrix_groups:
            same: dict[tuple[int, int], list[nn.Parameter]] = {}
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._make_state(parameter)
                    rows, columns = parameter.shape
                    same.setdefault((min(rows, columns), max(rows, columns)), []).append(parameter)
            for (_, longer), parameters in same.items():
                wide_first = sorted(parameters, key=_is_wide, reverse=True)
                self._move_matrices(wide_first, group, 0.2 * longer**0.5)

    def _move_matrices(
        self, parameters: list[nn.Parameter], group: Mapping[str, Any], size: float
    ) -> None:
        # lists of tensors at once: a kernel for each would take longer to start than to run
        gradients = [p.grad for p in parameters if p.grad is not None]
        buffers = [self.state[p]["momentum_buffer"] for p in parameters]
        rate = group["lr"]
        if self.loss_scale is not None:  # a skipped update adds to a buffer what it is, and moves 0
            skips = self.loss_scale.skips
            pairs = zip(gradients, buffers, strict=True)
            gradients = [torch.where(skips > 0, buffer, gradient) for gradient, buffer in pairs]
            rate = rate * (1 - skips)
        torch._foreach_lerp_(buffers, gradients, 1 - _MOMENTUM)
        updates = torch._foreach_lerp(gradients, buffers, _MOMENTUM)
        wide = torch.stack([u if _is_wide(u) else u.mT for u in updates])
        moved = orthogonal(wide, self._products).float()
        moved *= rate * size
        num_wide = sum(_is_wide(p) for p in parameters)
        moves = [*moved[:num_wide], *moved[num_wide:].mT.contiguous()]
        moving: list[Tensor] = [*parameters]
        torch._foreach_mul_(moving, 1 - rate * group["weight_decay"])
        torch._foreach_sub_(moving, moves)

    def _make_state(self, parameter: Tensor) -> None:
        if id(parameter) not in self._matrices:
            super()._make_state(parameter)
        elif not self.state[parameter]:
            self.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)


_MOMENTUM = 0.95
_NEWTON_SCHULZ = 3.4445, -4.7750, 2.0315  # five steps bring singular values into .7 to 1.2


def _is_wide(matrix: Tensor) -> bool:
    return matrix.shape[0] <= matrix.shape[1]


def orthogonal(matrices: Tensor, dtype: torch.dtype) -> Tensor:
    """Matrices (N, rows, columns), not more rows than columns, with all singular values near 1, by
    Newton-Schulz steps in the dtype."""
    a, b, c = _NEWTON_SCHULZ
    made = matrices.to(dtype)
    made = made / made.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)
    for _ in range(5):
        gram = made @ made.mT
        made = torch.baddbmm(made, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), made, beta=a)
    return made


def _one_minus_power(beta: float, count: Tensor) -> Tensor:
    """1 - beta^count in fp32. As it is written, after two steps 1 - 0.999^2 would be wrong by 3e-5
    of itself."""
    return -torch.expm1(count * (math.log(beta) if beta else -math.inf))


def make_optimizer(network: ElectraPretrainer, config: PretrainConfig) -> AdamW:
    """One optimiser of all parameters. LayerNorms and biases are not decayed.

    With `optimizer = "muon"` Muon moves the matrices of the layers. In fp16 there is a scale of the
    loss.
    """
    betas, eps = (config.adam_beta1, config.adam_beta2), config.adam_epsilon
    names = [name for name, _ in network.named_parameters()]
    optimizer: AdamW
    if config.optimizer == "muon":
        matrices = [n for n in names if ".layers." in n and network.get_parameter(n).dim() == 2]
        rate = config.matrix_learning_rate or 2 * config.learning_rate
        scale = rate / config.learning_rate
        groups = _groups(network, matrices, config)
        scaled = [group | {"rate_scale": scale * group["rate_scale"]} for group in groups]
        others = _groups(network, [n for n in names if n not in set(matrices)], config)
        # Muon's own: a CPU without units for bf16 would take thirty times as long in bf16, and fp16
        # has too small a range
        device = next(network.parameters()).device
        products = torch.bfloat16 if precision_of(config, device) == "bf16" else torch.float32
        optimizer = Muon(scaled, others, betas, eps, products)
    else:
        corrected = config.optimizer == "bias-corrected"
        optimizer = AdamW(_groups(network, names, config), betas, eps, corrected)
    if config.precision == "fp16":
        optimizer.scale_loss()
    return optimizer


def _groups(model: nn.Module, names: Sequence[str], config: PretrainConfig) -> list[dict[str, Any]]:
    """Groups of parameters: by whether weights decay and, where it matters, by network; each with
    its learning rate as a multiple of the step's.

    Decayed: all weights, embeddings included (optimization.py:56 excludes LayerNorm and bias).
    """
    own = config.generator_learning_rate
    rates = {"main": 1.0, "generator": own / config.learning_rate if own else 1.0}
    apart = own is not None or config.clipping == "network"
    members: dict[tuple[str, bool], list[nn.Parameter]] = {
        (network, decays): [] for network in rates for decays in (True, False)
    }
    for name in names:
        owner, _, kind = name.rpartition(".")
        decays = kind != "bias" and not isinstance(model.get_submodule(owner), nn.LayerNorm)
        network = "generator" if apart and name.split(".")[0] in _OF_GENERATOR else "main"
        members[network, decays].append(model.get_parameter(name))
    return [
        {
            "params": parameters,
            "network": network,
            "rate_scale": rates[network],
            "weight_decay": config.weight_decay if decays else 0.0,
        }
        for (network, decays), parameters in members.items()
        if parameters
    ]


def clip(optimizer: AdamW, config: PretrainConfig) -> tuple[Tensor, list[Tensor]]:
    """The norm of all gradients, and what to divide those of each group by.

    Together, as in the original, or network by network: the norm that is left is at most
    `max_gradient_norm`.
    """
    groups = optimizer.param_groups
    networks = ["both" if config.clipping == "together" else g["network"] for g in groups]
    # of no gradients, as of the generator in the first stage, torch has a zero on the CPU
    none = [torch.zeros(1, device=groups[0]["params"][0].device)]
    norms = {}
    for network in dict.fromkeys(networks):
        gradients = [
            parameter.grad
            for group, own in zip(groups, networks, strict=True)
            for parameter in group["params"]
            if own == network and parameter.grad is not None
        ]
        norms[network] = torch.nn.utils.get_total_norm(gradients or none)
    divisors = {of: (norm / config.max_gradient_norm).clamp(min=1.0) for of, norm in norms.items()}
    if isinstance(optimizer, Muon):
        grads = [p.grad for g in optimizer.matrix_groups for p in g["params"]]
        grads = [grad for grad in grads if grad is not None]
        norms["matrices"] = torch.nn.utils.get_total_norm(grads or none)
    total = next(iter(norms.values()))
    if len(norms) > 1:
        total = torch.stack(list(norms.values())).square().sum().sqrt()
    return total, [divisors[network] for network in networks]


def set_learning_rate(optimizer: AdamW, rate: float) -> None:
    """Set the rate of every group, in the tensors that a captured step reads."""
    for group in optimizer.all_groups:
        overwrite(group["lr"], rate * group["rate_scale"])
