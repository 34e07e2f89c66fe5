"""Operators on the memory of the null GPU, computed by the CPU's kernels.

That memory is host memory, so a CPU tensor can lie at the same address. Allocator, streams,
autocast, autograd and the capture of graphs are CUDA's own. An operator that is captured is noted
with its addresses, and computed when the graph is replayed. So a replay reads and writes the
memory of the recording, whoever owns it by then, as on a GPU. Attention is its formula: the CPU has
not CUDA's fused operators.
"""

import ctypes
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from tests.cuda.nullgpu.card import is_null_gpu

Work = Callable[[], None]
# operators that start no kernel
_NO_KERNEL = {
    *("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "detach"),
    *("record_stream", "_pin_memory", "is_pinned", "resize_", "set_", "lift_fresh"),
    "_fused_sdp_choice",
}
_recorded: list[Work] = []  # of the graph that is being captured


@dataclass(frozen=True)
class Place:
    """Where a tensor lies, in memory that may since have been given to another one."""

    address: int
    num_bytes: int
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype

    @classmethod
    def of(cls, t: Tensor) -> "Place":
        memory = t.untyped_storage()
        place = memory.data_ptr(), memory.nbytes(), int(t.storage_offset())
        return cls(*place, tuple(t.shape), t.stride(), t.dtype)

    def tensor(self) -> Tensor:
        """A CPU tensor over this memory."""
        if self.num_bytes == 0 or math.prod(self.shape) == 0:
            return torch.empty_strided(self.shape, self.stride, dtype=self.dtype)
        raw = (ctypes.c_ubyte * self.num_bytes).from_address(self.address)
        memory = torch.frombuffer(raw, dtype=torch.uint8).untyped_storage()
        return torch.empty(0, dtype=self.dtype).set_(memory, self.offset, self.shape, self.stride)


def _alias(value: object) -> object:
    """A CPU tensor in place of one on the GPU, and the CPU in place of any device."""
    if isinstance(value, torch.device):
        return torch.device("cpu")
    return Place.of(value).tensor() if isinstance(value, Tensor) and value.is_cuda else value


def _noted(value: object) -> object:
    """For a later replay: the place of a tensor on the GPU, and the value of one on the host."""
    if not isinstance(value, Tensor):
        return _alias(value)
    return Place.of(value) if value.is_cuda else value.clone()


def _restored(value: object) -> object:
    return value.tensor() if isinstance(value, Place) else value


def _compute_into(places: list[Any], func: Any, args: Any, kwargs: Any) -> Any:
    """Compute from CPU tensors; results go to `places`, which has None for one that needs none."""
    given = {name: value for name, value in kwargs.items() if name != "pin_memory"}
    if func.overloadpacket.__name__ == "log_sigmoid_backward":  # CUDA keeps no buffer
        computed = args[0] * torch.sigmoid(-args[1])
    else:
        computed = func(*args, **given)
    for place, value in zip(places, tree_leaves(computed), strict=False):
        into = place.tensor() if isinstance(place, Place) else place
        if into is None or not isinstance(value, Tensor) or into.shape != value.shape:
            continue
        if into.data_ptr() != value.data_ptr():
            into.copy_(value)
    return computed


class Emulator(TorchDispatchMode):
    """Inside, operators on the null GPU are computed."""

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        leaves = tree_leaves((args, kwargs))
        inputs = [leaf for leaf in leaves if isinstance(leaf, Tensor) and leaf.is_cuda]
        is_made_there = any(isinstance(x, torch.device) and x.type == "cuda" for x in leaves)
        starts_none = func.overloadpacket.__name__ in _NO_KERNEL
        if starts_none or not (inputs or is_made_there):
            return func(*args, **kwargs)
        # CUDA's own part: allocates, checks, counts, and fails where CUDA forbids it
        result = func(*args, **kwargs)
        given = {tensor.untyped_storage().data_ptr() for tensor in inputs}
        made = [
            leaf
            if isinstance(leaf, Tensor) and leaf.untyped_storage().data_ptr() not in given
            else None
            for leaf in tree_leaves(result)
        ]
        if func.is_view and all(leaf is None for leaf in made):  # `reshape` may be none
            return result
        if torch.cuda.is_current_stream_capturing():
            places = [
                Place.of(leaf) if leaf is not None and leaf.is_cuda else None for leaf in made
            ]
            noted = tree_map(_noted, (args, kwargs))

            def work() -> None:
                _compute_into(places, func, *tree_map(_restored, noted))

            _recorded.append(work)
            return result
        aliases = [_alias(leaf) for leaf in made]
        computed = _compute_into(aliases, func, *tree_map(_alias, (args, kwargs)))
        is_number = bool(made) and not isinstance(tree_leaves(result)[0], Tensor)
        return computed if is_number else result


@contextmanager
def computed() -> Iterator[None]:
    """Inside, operators are computed, on the null GPU as on any."""
    if is_null_gpu():
        with sdpa_kernel(SDPBackend.MATH), Emulator():
            yield
    else:
        yield


class EmulatedGraph(torch.cuda.CUDAGraph):
    """A CUDA graph whose replay computes what was captured."""

    def capture_begin(self, *args: Any, **kwargs: Any) -> None:
        _recorded.clear()
        super().capture_begin(*args, **kwargs)

    def capture_end(self) -> None:
        self.work = list(_recorded)
        _recorded.clear()
        super().capture_end()

    def replay(self) -> None:
        super().replay()
        with torch._C._DisableTorchDispatch(), torch.no_grad():
            for work in self.work:
                work()
