"""One process or several: who this is, and sums over all of them."""

from dataclasses import dataclass

from torch import Tensor, nn

from model.batch import Counts


@dataclass(frozen=True)
class Ranks:
    """This process among those of a run; one alone by default."""

    rank: int = 0
    num_ranks: int = 1

    def sum(self, counts: Counts) -> Counts:
        """Counts over all processes."""
        return counts


def bare(model: nn.Module) -> nn.Module:
    """The model inside its wrapper for several processes."""
    return model
