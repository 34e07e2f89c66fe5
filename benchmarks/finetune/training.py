"""Training and prediction of an encoder with a head: steps, micro-batches, selection, resuming."""

import gc
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from benchmarks.finetune.optim import build_optimizer, set_rates
from benchmarks.finetune.recipe import HyperParameters
from benchmarks.tasks.heads import collate, prediction_batches, training_batches
from benchmarks.tasks.heads.linear import EncoderWithHead
from benchmarks.tasks.task import Features, Outputs, Task
from electrify.stage.folder import whole_file
from electrify.system.outcome import UserError, first_line
from electrify.system.progress import Stopped, log, warn

Rows = NDArray[np.int64]
OnStep = Callable[[int], None]  # gets the rows of each finished step; may raise to leave
PREDICTION_BATCH_FACTOR = 4  # no gradients to keep: larger batches fit and are faster
_SAVE_SECONDS = 300.0  # between two states of an unfinished training
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
    # how many rows of which padded length were trained on
    trained: Counter[int] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        batch_size = self.settings.batch_size
        self.micro_batch_size = min(self.settings.micro_batch_size or batch_size, batch_size)
        self.prediction_batch_size = PREDICTION_BATCH_FACTOR * batch_size

    def train(
        self,
        features: Features,
        rows: Rows,
        seed: int,
        on_step: OnStep,
        selection: "Selection | None" = None,
        unfinished: Path | None = None,
    ) -> str | None:
        """Train in place; says what went wrong where the loss was not a number (training ends).

        With a `selection` the network is at last the best one that it saw. From the file
        `unfinished` an earlier training is resumed, and ends with the same weights on a CPU.
        """
        settings, network = self.settings, self.network
        optimizer = build_optimizer(network.encoder, network.head, settings)
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        rng = np.random.default_rng([seed, 2])
        num_steps = settings.num_steps(len(rows))
        lengths = features.lengths[rows]
        numbers = training_batches(lengths, settings.batch_size, num_steps, rng)
        batches = [rows[batch] for batch in numbers]
        network.train()
        file = Unfinished(unfinished, network, optimizer, self.label)
        first = self._resume(file.load(), selection)
        for batch_rows in batches[:first]:
            on_step(len(batch_rows))
        check_steps = 1 if network.device.type == "cpu" else _CHECK_STEPS
        losses: list[torch.Tensor] = []
        batches_ahead = _ahead(partial(self._whole, features), batches[first:])
        for step, whole in enumerate(batches_ahead, start=first):
            if selection is not None and selection.is_over:
                break
            set_rates(optimizer, settings, step, num_steps)
            losses.append(self._gradients(features, batches[step], whole))
            if len(losses) == check_steps or step + 1 == num_steps:
                values = torch.stack(losses).tolist()  # waits for the device
                for number, loss in enumerate(values, start=step + 1 - len(values)):
                    if not math.isfinite(loss):
                        return f"loss is {loss} at step {number} of {num_steps}"
                losses.clear()
            torch.nn.utils.clip_grad_norm_(parameters, settings.max_gradient_norm)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            if selection is not None:
                selection.look(step + 1, self)
            more = partial(self._state, selection)
            file.save(step + 1, False, more)
            try:
                on_step(len(batches[step]))
            except Stopped:
                file.save(step + 1, True, more)
                raise
        if selection is not None:
            selection.restore(self)
        return None

    def _state(self, selection: "Selection | None") -> dict[str, Any]:
        """What `_resume` takes of an unfinished training, beside its weights."""
        chosen = selection.state() if selection else None
        sizes = {"micro_batch_size": self.micro_batch_size, "trained": dict(self.trained)}
        return {**sizes, "selection": chosen}

    def _resume(self, state: Mapping[str, Any], selection: "Selection | None") -> int:
        """The steps that are done."""
        if state:
            self.micro_batch_size = state["micro_batch_size"]
            self.trained.update(state["trained"])
            if selection and state["selection"]:
                vars(selection).update(state["selection"])
        return int(state.get("step", 0))

    def predict(self, features: Features) -> list[Outputs]:
        """The head's outputs of every row, in the order of the rows."""
        self.network.eval()
        outputs, self.prediction_batch_size = in_fitting_parts(
            lambda size: self._predict(features, size), self.prediction_batch_size, self.label
        )
        return outputs

    def _predict(self, features: Features, batch_size: int) -> list[Outputs]:
        outputs: list[Any] = [None] * len(features.input_ids)
        with torch.inference_mode(), self.autocast():
            for rows in prediction_batches(features.lengths, batch_size):
                batch = self.network(self._batch(features, rows))
                arrays = {name: _array(tensor) for name, tensor in batch.items()}
                for position, row in enumerate(rows):
                    outputs[row] = {name: array[position] for name, array in arrays.items()}
        return outputs

    def _whole(self, features: Features, rows: Rows) -> _Batch | None:
        """The rows of a step as one batch, where they fit at once."""
        return self._batch(features, rows) if self.micro_batch_size >= len(rows) else None

    def _gradients(
        self,
        features: Features,
        rows: Rows,
        whole: Callable[[], _Batch | None] = lambda: None,
    ) -> torch.Tensor:
        """Add the gradients of the mean loss over `rows`; the loss, a scalar on the device."""

        def in_parts(size: int) -> torch.Tensor:
            self.network.zero_grad(set_to_none=True)  # of a part before memory was at an end
            of_parts = [rows[start : start + size] for start in range(0, len(rows), size)]
            batch = whole() if len(of_parts) == 1 else None
            parts = [self._batch(features, of) for of in of_parts] if batch is None else [batch]
            loss = self._backward(parts)
            for of, part in zip(of_parts, parts, strict=True):
                self.trained[part["input_ids"].numel() // len(of)] += len(of)
            return loss

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
            with self.autocast():
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

    def autocast(self) -> torch.autocast:
        """bf16 matrix products over fp32 weights, or plain fp32."""
        enabled = self.settings.precision == "bf16"
        return torch.autocast(self.network.device.type, dtype=torch.bfloat16, enabled=enabled)


def _ahead(
    make: Callable[[Rows], _Batch | None], batches: list[Rows]
) -> Iterator[Callable[[], _Batch | None]]:
    """What gives the batch of each step: the next one is made while the device works on this."""
    with ThreadPoolExecutor(1) as pool:
        made: list[Future[_Batch | None]] = []
        for rows in batches:
            made.append(pool.submit(make, rows))
            if len(made) > 1:
                yield made.pop(0).result
        yield from (last.result for last in made)


class Unfinished:
    """The file in which an unfinished training stands: weights, moments and random numbers. Without
    a path there is none."""

    def __init__(
        self, path: Path | None, network: nn.Module, optimizer: torch.optim.Optimizer, label: str
    ) -> None:
        self._path, self._network, self._optimizer, self._label = path, network, optimizer, label
        self._saved_at = time.monotonic()

    def save(self, step: int, is_last: bool, more: Callable[[], Mapping[str, Any]] = dict) -> None:
        """Write what `load` gives, whole or not at all: at last, or where it was long ago. `more`
        is what it gives beside the step."""
        is_due = is_last or time.monotonic() - self._saved_at >= _SAVE_SECONDS
        if self._path is None or not is_due:
            return
        random, device = [torch.get_rng_state()], next(self._network.parameters()).device
        if device.type == "cuda":
            random.append(torch.cuda.get_rng_state(device))
        state = {"network": self._network.state_dict(), "optimizer": self._optimizer.state_dict()}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(self._path) as temporary:
            torch.save({"step": step, **state, "random": random, **more()}, temporary)
        self._saved_at = time.monotonic()

    def load(self) -> dict[str, Any]:
        """Put the state back, and say so; what the file has, nothing where there is none to be
        read."""
        if self._path is None or not self._path.exists():
            return {}
        try:
            device = next(self._network.parameters()).device
            state: dict[str, Any] = torch.load(self._path, map_location=device, weights_only=True)
        except Exception as error:  # pickle and zip have sorts of their own for damaged files
            warn(f"{self._label}: {self._path} is damaged ({first_line(error)}); begins anew")
            return {}
        self._network.load_state_dict(state["network"])
        self._optimizer.load_state_dict(state["optimizer"])
        setters = torch.set_rng_state, torch.cuda.set_rng_state
        for set_state, numbers in zip(setters, state["random"], strict=False):
            set_state(numbers.cpu())
        log(f"{self._label}: resumes at step {state['step']:,}")
        return state


@dataclass
class Selection:
    """Keeps the weights that score best on rows held out of the training split."""

    score: Callable[[Trainer], float]
    every_steps: int
    patience: int | None
    higher_is_better: bool
    best_step: int = 0
    best_value: float = math.nan
    num_evaluations: int = 0
    last_step: int = 0
    num_worse: int = 0  # evaluations in a row
    weights: dict[str, torch.Tensor] = field(default_factory=dict)

    def state(self) -> dict[str, Any]:
        fixed = ("score", "every_steps", "patience", "higher_is_better")
        return {name: value for name, value in vars(self).items() if name not in fixed}

    def described(self) -> dict[str, Any]:
        """For the record: the step that won, its score there, and how many were looked at."""
        return {
            "step": self.best_step,
            "value": None if math.isnan(self.best_value) else self.best_value,
            "num_evaluations": self.num_evaluations,
            "last_step": self.last_step,
        }

    @property
    def is_over(self) -> bool:
        """Whether `patience` evaluations in a row were no better."""
        return self.patience is not None and self.num_worse >= self.patience

    def look(self, step: int, trainer: Trainer) -> None:
        self.last_step = step
        if step % self.every_steps == 0:
            self._evaluate(trainer)

    def restore(self, trainer: Trainer) -> None:
        """Put the best weights back; the last step has its chance too."""
        if self.last_step % self.every_steps:
            self._evaluate(trainer)
        if self.weights:
            trainer.network.load_state_dict(self.weights)
            self.weights = {}

    def _evaluate(self, trainer: Trainer) -> None:
        value, best = self.score(trainer), self.best_value
        self.num_evaluations += 1
        is_better = value > best if self.higher_is_better else value < best
        # nan is worse than any number
        if not self.weights or is_better or (math.isnan(best) and not math.isnan(value)):
            self.best_step, self.best_value, self.num_worse = self.last_step, value, 0
            state = trainer.network.state_dict()
            self.weights = {name: tensor.to("cpu", copy=True) for name, tensor in state.items()}
        else:
            self.num_worse += 1
        trainer.network.train()


def _array(tensor: torch.Tensor) -> NDArray[Any]:
    array: NDArray[Any] = (tensor.float() if tensor.is_floating_point() else tensor).cpu().numpy()
    return array
