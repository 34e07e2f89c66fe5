"""What a step dispatches: operators and the tensors they make.

Counts do not depend on how busy the machine is, so tests hold them where times would be noise.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

# what touches no element: no kernel is launched for it
_FREE = {
    "detach",
    "empty",
    "empty_like",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
    "_unsafe_view",
    "lift_fresh",
    "alias",
    "promote_types",
    "_local_scalar_dense",
    "_record_function_enter_new",
    "_record_function_exit",
}

Shape = tuple[int, ...]


@dataclass
class Recorded:
    """Everything that was dispatched while the recorder was on."""

    working: int = 0  # operators that touch elements: about one launch each on a GPU, or more
    # new tensors, not views: how many of each shape and type
    made: Counter[tuple[Shape, torch.dtype]] = field(default_factory=Counter)


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records every operator, those of the backward pass and of the optimiser included."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.found = Recorded()

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run the operator and note what it made."""
        result = func(*args, **(kwargs or {}))
        if not (func.is_view or func.overloadpacket.__name__ in _FREE):
            self.found.working += 1
            given = {id(leaf) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)}
            for leaf in tree_leaves(result):
                if isinstance(leaf, Tensor) and id(leaf) not in given:  # not in place
                    self.found.made[tuple(leaf.shape), leaf.dtype] += 1
        return result


def record(work: Callable[[], object]) -> Recorded:
    """What one call dispatches."""
    recorder = Recorder()
    with recorder:
        work()
    return recorder.found
