"""Running sums and maxima, and places in ordered rows, by operators that XLA's chips have too.

A TPU computes 64-bit numbers by pairs of 32-bit ones, and not in every operator. For XLA these
functions take operators that work on each element by itself.
"""

from collections.abc import Callable

import torch
from torch import Tensor


def insertion_index(ordered: Tensor, values: Tensor) -> Tensor:
    """How many of the rising `ordered` (..., K) are at most each value: (..., M) to (..., M) int64.

    `torch.searchsorted` from the right. XLA lacks it, and compares all in one pass.
    """
    if ordered.device.type == "xla":
        at_most = ordered[..., None, :] <= values[..., None]
        return at_most.sum(dim=-1, dtype=torch.int32).long()
    return torch.searchsorted(ordered, values.contiguous(), right=True)


def running_sum(numbers: Tensor, dtype: torch.dtype) -> Tensor:
    """Sums up to and with each place along the last dimension, computed in `dtype`."""
    if numbers.device.type == "xla":
        return _scan(numbers.to(dtype), torch.add)
    return numbers.cumsum(dim=-1, dtype=dtype)


def running_maximum(numbers: Tensor) -> Tensor:
    """The largest so far along the last dimension."""
    if numbers.device.type == "xla":
        return _scan(numbers, torch.maximum)
    return numbers.cummax(dim=-1).values


def _scan(numbers: Tensor, combine: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """By doubling: after k passes each place holds what the last 2^k come to."""
    shift = 1
    while shift < numbers.shape[-1]:
        later = combine(numbers[..., shift:], numbers[..., :-shift])
        numbers = torch.cat([numbers[..., :shift], later], dim=-1)
        shift *= 2
    return numbers
