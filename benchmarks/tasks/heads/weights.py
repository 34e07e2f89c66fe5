"""Fresh weights of a head with modules whose initialisers take no generator."""

from collections.abc import Callable
from typing import TypeVar

import torch

Built = TypeVar("Built")


def drawn(build: Callable[[], Built], generator: torch.Generator) -> Built:
    """What `build` makes, its random numbers drawn by `generator`; the global state stays as is."""
    seed = int(torch.randint(2**62, (), generator=generator))
    with torch.random.fork_rng(devices=[]):  # modules are built on the CPU
        torch.manual_seed(seed)
        return build()
