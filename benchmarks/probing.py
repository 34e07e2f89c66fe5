"""States of a frozen encoder, computed once for all epochs."""

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.batches import prediction_batches
from benchmarks.kind import Features

MAX_BYTES = 2 * 2**30  # of cached states; where there are more, they are computed anew each time


class StateCache:
    """The encoder's last states (T, H) of chosen rows, in single precision on the CPU."""

    def __init__(self, rows: NDArray[np.int64], features: Features) -> None:
        self._states: dict[int, torch.Tensor] = {}
        self.rows, self.lengths = rows, features.lengths[rows]

    def fits(self, hidden_size: int) -> bool:
        """Whether they are at most `MAX_BYTES`."""
        return int(self.lengths.sum()) * hidden_size * 4 <= MAX_BYTES

    def batches(self, batch_size: int) -> list[NDArray[np.int64]]:
        """Which rows to encode together."""
        return [self.rows[part] for part in prediction_batches(self.lengths, batch_size)]

    def put(self, rows: NDArray[np.int64], states: torch.Tensor, features: Features) -> None:
        """Keep the states (B, T, H) of a batch of rows, without padding."""
        for position, row in enumerate(rows):
            length = len(features.input_ids[row])
            self._states[int(row)] = states[position, :length].float().cpu()

    def states(self, rows: NDArray[np.int64]) -> torch.Tensor:
        """The states of rows (B, T, H), zeros at padding."""
        found = [self._states[int(row)] for row in rows]
        return torch.nn.utils.rnn.pad_sequence(found, batch_first=True)
