"""Places in ordered rows and running maxima, by operators that XLA has too."""

import torch
from torch import Tensor


def insertion_index(ordered: Tensor, values: Tensor) -> Tensor:
    """How many of the rising `ordered` (..., K) are at most each value: (..., M) to (..., M) int64.

    `torch.searchsorted` from the right. XLA lacks it, and compares all in one pass.
    """
    if ordered.device.type == "xla":
        return (ordered[..., None, :] <= values[..., None]).sum(dim=-1)
    return torch.searchsorted(ordered, values.contiguous(), right=True)


def running_maximum(numbers: Tensor) -> Tensor:
    """The largest so far along the last dimension: (..., L) int64, below 2**31, to the same shape.

    By way of int32: of int64 XLA's own does not compile (torch_xla 2.9).
    """
    return numbers.int().cummax(dim=-1).values.to(numbers.dtype)
