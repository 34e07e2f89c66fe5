"""What a fine-tuning costs: FLOPs of matrix products, peak memory.

torch counts the FLOPs as the operations run (two for a multiply-add; `model.flops` has the
same convention as "matrix products"). Counting slows small models down, so it is done on a few rows
after the training, and a quadratic in the length is put through them: a row of an encoder costs
a + b T + c T^2, of the [CLS] head, the layers and the attention.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import torch
from numpy.polynomial.polynomial import polyfit, polyval
from numpy.typing import NDArray
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.tasks.heads import collate
from benchmarks.tasks.task import Features
from benchmarks.training.trainer import Trainer
from electrify.system.machine import peak_since_restart_mb, restart_peak
from electrify.system.outcome import first_line
from electrify.system.progress import warn

Batch = Mapping[str, torch.Tensor]
Cost = Callable[[float], float]  # FLOPs of one row by its length


def count_flops(
    trainer: Trainer, learnt: Features, rows: NDArray[np.int64], reported: Features
) -> tuple[float | None, float | None]:
    """FLOPs of a finished training, and of predicting one of the reported examples.

    Of every step, forward and backward with the padding (rounds of selection are left out); of an
    example without padding, all of its rows together. None, with a warning, where counting fails,
    whatever the reason: a score stands without its cost.
    """
    network = trainer.network

    def step(batch: Batch) -> None:
        torch.autograd.backward(network.head.loss(network(batch), batch))

    try:
        network.train()
        trained = _row_cost(trainer, learnt, rows, step)
        network.eval()
        forward = _row_cost(trainer, reported, np.arange(len(reported.input_ids)), network)
    except Exception as error:  # torch and every architecture have sorts of their own
        warn(f"{trainer.label}: its FLOPs are not counted: {first_line(error)}")
        return None, None
    finally:
        network.zero_grad(set_to_none=True)
    of_training = sum(trained(length) * number for length, number in trainer.trained.items())
    return of_training, sum(map(forward, reported.lengths)) / len(np.unique(reported.example_of))


def _row_cost(
    trainer: Trainer,
    features: Features,
    rows: NDArray[np.int64],
    work: Callable[[Batch], object],
) -> Cost:
    """What `work` costs on one row, by its length: the polynomial through the costs of the shortest
    of `rows`, one of middle length and the longest.

    Gradients stay on: without them torch's counter refuses a module whose input is a weight, such
    as the relative positions of DeBERTa.
    """
    lengths, firsts = np.unique(features.lengths[rows], return_index=True)
    middle = np.abs(lengths - (lengths[0] + lengths[-1]) / 2).argmin()
    sampled = np.unique([0, middle, len(lengths) - 1])
    flops = []
    for row in rows[firsts[sampled]]:
        batch = collate(
            trainer.task, features, np.array([row]), trainer.pad_id, trainer.network.device
        )
        with counted_flops() as counter, trainer.autocast():
            work(batch)
        flops.append(float(counter.get_total_flops()))
    scale = float(lengths[-1])  # powers of raw lengths would be of very different sizes
    coefficients = polyfit(lengths[sampled] / scale, flops, len(sampled) - 1)
    return lambda length: max(0.0, float(polyval(length / scale, coefficients)))


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
