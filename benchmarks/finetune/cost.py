"""What a fine-tuning costs: FLOPs of matrix products and peak memory.

FLOPs are counted by torch as the operations run (two for a multiply-add; `model.flops` has
the same convention as "matrix products"). Gradients stay on: without them torch's counter refuses a
module whose input is a weight, such as the relative positions of DeBERTa. Counting slows small
models down, so that it is done on a few rows after the training, forward and backward, and a
quadratic in the length is put through them: what a row of an encoder costs is a + b T + c T^2, of
the [CLS] head, the layers and the attention.
"""

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.tasks.heads.batches import collate
from benchmarks.tasks.task import Features
from electrify.system.memory import peak_since_restart_mb, restart_peak
from electrify.system.outcome import first_line
from electrify.system.progress import warn

if TYPE_CHECKING:
    from benchmarks.finetune.training import Trainer

Batch = Mapping[str, torch.Tensor]

_NUM_PROBES = 3  # as many as the quadratic has coefficients


@dataclass
class Seen:
    """How many rows of which padded length have gone through a network."""

    trained: Counter[int] = field(default_factory=Counter)
    encoded: Counter[int] = field(default_factory=Counter)  # once, into the cache of a frozen one


def count_flops(
    trainer: "Trainer", learnt: Features, rows: NDArray[np.int64], reported: Features
) -> tuple[float | None, float | None]:
    """FLOPs of a finished training, and of predicting one of the reported examples.

    Of every step, forward and backward with the padding (rounds of selection are left out); of an
    example without padding, all of its rows together. None, with a warning, where counting fails,
    whatever the reason: a score stands without its cost.
    """
    seen, network = trainer.seen, trainer.network

    def step(batch: Batch) -> None:
        torch.autograd.backward(network.head.loss(network(batch), batch))

    def step_of_head(batch: Batch) -> None:
        size = (*batch["input_ids"].shape, network.hidden_size)
        step({**batch, "states": torch.zeros(size, device=network.device)})

    try:
        network.train()
        if seen.encoded:
            encoding = _fitted(trainer, learnt, rows, network.encode)
            heads = _fitted(trainer, learnt, rows, step_of_head)
            trained = _total(encoding, seen.encoded) + _total(heads, seen.trained)
        else:
            trained = _total(_fitted(trainer, learnt, rows, step), seen.trained)
        network.eval()
        forward = _fitted(trainer, reported, np.arange(len(reported.input_ids)), network)
    except Exception as error:  # torch and every architecture have sorts of their own
        warn(f"{trainer.label}: its FLOPs are not counted: {first_line(error)}")
        return None, None
    finally:
        network.zero_grad(set_to_none=True)
    num_examples = len(np.unique(reported.example_of))
    lengths = Counter(map(int, reported.lengths))
    return trained, _total(forward, lengths) / num_examples


def _fitted(
    trainer: "Trainer",
    features: Features,
    rows: NDArray[np.int64],
    work: Callable[[Batch], object],
) -> Callable[[float], float]:
    """What one row costs by its length, from a few of `rows`."""
    probes = rows[probe_rows(features.lengths[rows])]
    flops = []
    for row in probes:
        batch = collate(
            trainer.task, features, np.array([row]), trainer.pad_id, trainer.network.device
        )
        with counted_flops() as counter, trainer.autocast():
            work(batch)
        flops.append(counter.get_total_flops())
    return fitted(features.lengths[probes], np.array(flops, dtype=np.float64))


def probe_rows(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Up to three rows of different length: the shortest, one in the middle, the longest."""
    distinct = np.unique(lengths)
    middle = (distinct[0] + distinct[-1]) / 2
    wanted = {
        int(distinct[0]),
        int(distinct[np.abs(distinct - middle).argmin()]),
        int(distinct[-1]),
    }
    return np.array([int(np.argmax(lengths == length)) for length in sorted(wanted)])


def fitted(lengths: NDArray[np.int64], flops: NDArray[np.float64]) -> Callable[[float], float]:
    """The polynomial in the length through what rows of `lengths` cost, of degree two where there
    are three lengths."""
    degree = min(len(np.unique(lengths)), _NUM_PROBES) - 1
    scale = float(lengths.max())  # powers of raw lengths would be of very different sizes
    coefficients = np.polynomial.polynomial.polyfit(lengths / scale, flops, degree)

    def cost(length: float) -> float:
        return max(0.0, float(np.polynomial.polynomial.polyval(length / scale, coefficients)))

    return cost


def _total(cost: Callable[[float], float], rows: Mapping[int, int]) -> float:
    """Of rows, by length."""
    return sum(cost(length) * number for length, number in rows.items())


@contextmanager
def counted_flops() -> Iterator[FlopCounterMode]:
    """Count what runs inside, with attention and recurrent layers taken apart into matrix products:
    torch has no formula for the fused ones of a CPU."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of settings that only other devices have
        with (
            torch.backends.mkldnn.flags(enabled=False),
            torch.backends.cudnn.flags(enabled=False),
            sdpa_kernel(SDPBackend.MATH),
            FlopCounterMode(display=False) as counter,
        ):
            yield counter


def start_memory(device: torch.device) -> None:
    """Begin a job: peaks are counted from here."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    else:
        restart_peak()


def peak_memory(device: torch.device) -> int:
    """In MB since `start_memory`: allocated on the GPU, else resident in this process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) // 10**6
    return peak_since_restart_mb()


def describe_device(device: torch.device) -> str:
    """As records state it."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
