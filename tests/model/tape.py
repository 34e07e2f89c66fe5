"""A recorder for the CPU that keeps to the rules of a CUDA graph, so that what breaks them shows.

What is recorded is a list of operators with the tensors and numbers they were given. A replay does
them again: numbers are those of the recording, tensors are read and written where they lay then.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

READS_BACK = {"_local_scalar_dense", "nonzero", "equal", "is_nonzero", "masked_select"}


class Tape(TorchDispatchMode):
    """Does and notes every operator; remembers what of the outside it overwrote."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, tuple[Any, ...], dict[str, Any], list[Tensor]]] = []
        self.own: set[int] = set()  # storages made on the tape
        self.overwritten: dict[int, tuple[Tensor, Tensor]] = {}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function.overloadpacket.__name__ in READS_BACK:
            raise RuntimeError(f"{function} waits for the device")
        self._remember(function, args, kwargs)
        result = function(*args, **kwargs)
        given = {id(leaf) for leaf in tree_leaves((args, kwargs))}
        made = [of for of in tree_leaves(result) if isinstance(of, Tensor) and id(of) not in given]
        if function.is_view:
            return result  # it lies where it lies
        self.own |= {address(of) for of in made}
        self.calls.append((function, args, kwargs, made))
        return result

    def _remember(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for number, of in enumerate(function._schema.arguments):
            if of.alias_info is None or not of.alias_info.is_write:
                continue
            value = kwargs.get(of.name) if number >= len(args) else args[number]
            for tensor in tree_leaves(value):
                if isinstance(tensor, Tensor) and address(tensor) not in self.own:
                    whole = tensor.detach().as_strided((storage_length(tensor),), (1,), 0)
                    self.overwritten.setdefault(address(tensor), (whole, whole.clone()))

    def replay(self) -> None:
        with torch._C._AutoDispatchBelowAutograd():
            for function, args, kwargs, made in self.calls:
                again = function(*args, **kwargs)
                leaves = [of for of in tree_leaves(again) if isinstance(of, Tensor)]
                new = leaves[len(leaves) - len(made) :]
                for into, of in zip(made, new, strict=True):
                    into.copy_(of)


def address(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def storage_length(tensor: Tensor) -> int:
    return tensor.untyped_storage().nbytes() // tensor.element_size()


def refuse(*_: object) -> None:
    raise RuntimeError("a generator cannot be seeded in a recording")


class TapeRecorder:
    """In the place of `CudaRecorder`."""

    def __init__(self) -> None:
        self.num_warm = self.num_recorded = self.num_replayed = 0

    @contextmanager
    def warming(self) -> Iterator[None]:
        self.num_warm += 1
        yield

    def record(self, work: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
        self.num_recorded += 1
        tape = Tape()
        with tape, patch.object(torch, "manual_seed", refuse):
            result = work()
        for whole, before in tape.overwritten.values():  # a recording does nothing
            whole.copy_(before)

        def replay() -> None:
            self.num_replayed += 1
            tape.replay()

        return replay, result
