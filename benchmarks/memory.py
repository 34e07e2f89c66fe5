"""Work in parts that fit the memory: a part too large is halved, and that is said."""

import gc
from collections.abc import Callable
from typing import TypeVar

import torch

from electrify.progress import warn

_Result = TypeVar("_Result")
# what torch says where the CPU's memory is at an end, and CUDA's libraries where none is left for
# them (torch's own allocator has an exception of its own)
_MESSAGES = (
    "can't allocate memory", "not enough memory", "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED", "CUDA error: out of memory",
)  # fmt: skip


def in_fitting_parts(
    work: Callable[[int], _Result], num_rows: int, what: str
) -> tuple[_Result, int]:
    """`work(n)` with n rows at once, n halved for as long as memory does not suffice; and that n.

    Raises `ValueError` where one row alone does not fit.
    """
    while True:
        try:
            return work(num_rows), num_rows
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
        # here, for the traceback held what should be freed
        if num_rows == 1:
            raise ValueError(
                f"{what}: out of memory with a single row; lower evaluate.max_sequence_length or "
                "take a smaller model"
            )
        num_rows = -(-num_rows // 2)
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        warn(f"{what}: out of memory; goes on with {num_rows} rows at once")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that memory is at an end."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return any(message in str(error) for message in _MESSAGES)
