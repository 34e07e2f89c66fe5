"""Training and prediction of an encoder with a head: rates, steps, micro-batches."""

import gc
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from benchmarks.encoder import layer_depth, num_layers
from benchmarks.tasks.heads import collate, prediction_batches, training_batches
from benchmarks.tasks.heads.linear import EncoderWithHead
from benchmarks.tasks.task import Features, Outputs, Task
from benchmarks.training.recipe import HyperParameters, Schedule
from electrify.system.outcome import UserError
from electrify.system.progress import warn

Rows = NDArray[np.int64]
OnStep = Callable[[int], None]  # gets the rows of each finished step; may raise to leave
PREDICTION_BATCH_FACTOR = 4  # no gradients to keep: larger batches fit and are faster
_MAX_GRADIENT_NORM = 1.0  # in all three recipes
_CHECK_STEPS = 50  # between two looks at the losses of a device that works apart from the host
_Result = TypeVar("_Result")
_Batch = Mapping[str, torch.Tensor]
# what torch says where the CPU's memory is at an end, and CUDA's libraries where none is left for
# them (torch's own allocator has an exception of its own)
_MESSAGES = (
    "can't allocate memory",
    "not enough memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
    "CUDA error: out of memory",
)


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


def is_out_of_memory(error: Exception) -> bool:
    is_of_torch = isinstance(error, torch.OutOfMemoryError | MemoryError)
    return is_of_torch or any(message in str(error) for message in _MESSAGES)


def in_fitting_parts(
    work: Callable[[int], _Result], num_rows: int, what: str
) -> tuple[_Result, int]:
    """`work(n)` with n rows at once, n halved while memory does not suffice; and that n."""
    while True:
        try:
            return work(num_rows), num_rows
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
        # here, for the traceback kept alive what should be freed
        if num_rows == 1:
            raise UserError(
                f"{what}: out of memory with a single row; lower evaluate.max_sequence_length or "
                "take a smaller model"
            )
        num_rows = -(-num_rows // 2)
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        warn(f"{what}: out of memory; continues with {num_rows} rows at once")


@dataclass
class Trainer:
    """One network on its device; sizes of batches fall where memory does not suffice."""

    network: EncoderWithHead
    task: Task
    pad_id: int
    settings: HyperParameters
    label: str  # for messages
    micro_batch_size: int = field(init=False)
    prediction_batch_size: int = field(init=False)

    def __post_init__(self) -> None:
        batch_size = self.settings.batch_size
        self.micro_batch_size = batch_size
        self.prediction_batch_size = PREDICTION_BATCH_FACTOR * batch_size

    def train(self, features: Features, rows: Rows, seed: int, on_step: OnStep) -> str | None:
        """Train in place; says what went wrong where the loss was not a number (training ends)."""
        settings, network = self.settings, self.network
        optimizer = build_optimizer(network.encoder, network.head, settings)
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        rng = np.random.default_rng([seed, 2])
        num_steps = settings.num_steps(len(rows))
        batches = training_batches(features.lengths[rows], settings.batch_size, num_steps, rng)
        network.train()
        check_steps = 1 if network.device.type == "cpu" else _CHECK_STEPS
        losses: list[torch.Tensor] = []
        for step, batch in enumerate(batches):
            set_rates(optimizer, settings, step, num_steps)
            losses.append(self._gradients(features, rows[batch]))
            if len(losses) == check_steps or step + 1 == num_steps:
                values = torch.stack(losses).tolist()  # waits for the device
                for number, loss in enumerate(values, start=step + 1 - len(values)):
                    if not math.isfinite(loss):
                        return f"loss is {loss} at step {number} of {num_steps}"
                losses.clear()
            torch.nn.utils.clip_grad_norm_(parameters, _MAX_GRADIENT_NORM)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            on_step(len(batch))
        return None

    def predict(self, features: Features) -> list[Outputs]:
        """The head's outputs of every row, in the order of the rows."""
        self.network.eval()
        outputs, self.prediction_batch_size = in_fitting_parts(
            lambda size: self._predict(features, size), self.prediction_batch_size, self.label
        )
        return outputs

    def _predict(self, features: Features, batch_size: int) -> list[Outputs]:
        outputs: list[Any] = [None] * len(features.input_ids)
        with torch.inference_mode(), self._autocast():
            for rows in prediction_batches(features.lengths, batch_size):
                batch = self.network(self._batch(features, rows))
                arrays = {name: _array(tensor) for name, tensor in batch.items()}
                for position, row in enumerate(rows):
                    outputs[row] = {name: array[position] for name, array in arrays.items()}
        return outputs

    def _gradients(self, features: Features, rows: Rows) -> torch.Tensor:
        """Add the gradients of the mean loss over `rows`; the loss, a scalar on the device."""

        def in_parts(size: int) -> torch.Tensor:
            self.network.zero_grad(set_to_none=True)  # of a part before memory was at an end
            parts = [rows[start : start + size] for start in range(0, len(rows), size)]
            batches = [self._batch(features, part) for part in parts]
            return self._backward(batches)

        size = min(self.micro_batch_size, len(rows))
        loss, self.micro_batch_size = in_fitting_parts(in_parts, size, self.label)
        return loss

    def _backward(self, parts: list[_Batch]) -> torch.Tensor:
        """Parts are weighed by their labels, term by term of the loss, so that the sum is the
        gradient of the whole."""
        head = self.network.head
        counts = [head.counts(part) for part in parts] if len(parts) > 1 else [(1,)]
        totals = [max(1, sum(column)) for column in zip(*counts, strict=True)]
        total = torch.zeros((), device=self.network.device)
        for part, of_part in zip(parts, counts, strict=True):
            if not any(of_part):  # nothing to learn from in it
                continue
            with self._autocast():
                outputs = self.network(part)
            if len(parts) == 1:
                loss = head.loss(outputs, part)
            else:  # a term without labels is 0 / 0
                terms = zip(head.terms(outputs, part), of_part, totals, strict=True)
                loss = torch.stack([term * (n / of) for term, n, of in terms if n]).sum()
            torch.autograd.backward(loss)
            total += loss.detach()
        return total

    def _batch(self, features: Features, rows: Rows) -> _Batch:
        return collate(self.task, features, rows, self.pad_id, self.network.device)

    def _autocast(self) -> torch.autocast:
        """bf16 matrix products over fp32 weights, or plain fp32."""
        enabled = self.settings.precision == "bf16"
        return torch.autocast(self.network.device.type, dtype=torch.bfloat16, enabled=enabled)


def _array(tensor: torch.Tensor) -> NDArray[Any]:
    array: NDArray[Any] = (tensor.float() if tensor.is_floating_point() else tensor).cpu().numpy()
    return array
