"""A process's share of a step as it is read: narrow, in one run of bytes, which one copy moves."""

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.batch import Batch, Noise


@dataclass(frozen=True)
class HostBatch:
    """Sequences, types, languages and draws on the CPU.

    At 128 x 128: 0.16 MB, of which ids are 33 kB. Each copy to a GPU costs a launch of its own,
    whatever its size, so everything goes in one, and is widened to int64 there.
    """

    buffer: Tensor  # (bytes,) uint8
    forms: tuple[tuple[torch.dtype, tuple[int, ...]], ...]  # of what lies in it
    micro_batch_size: int  # sequences a forward pass
    packed: bool  # as of a `Batch`

    @classmethod
    def of(
        cls,
        input_ids: NDArray[np.unsignedinteger[Any]],
        token_type_ids: NDArray[np.uint8],
        languages: NDArray[np.int64],
        noise: Noise,
        packed: bool,
        micro_batch_size: int | None = None,
    ) -> Self:
        """From sequences (B, L), the number of each one's language (B,) and their draws."""
        # widest first: then each begins at a multiple of its own width. By NumPy, since torch would
        # start a team of threads for each thread that copies
        arrays: list[NDArray[Any]] = [
            noise.samples.numpy(), languages, noise.positions.numpy(), noise.mask.numpy(),
            input_ids, token_type_ids,
        ]  # fmt: skip
        buffer = np.concatenate([array.ravel().view(np.uint8) for array in arrays])
        forms = tuple((torch.from_numpy(array).dtype, array.shape) for array in arrays)
        return cls(torch.from_numpy(buffer), forms, micro_batch_size or len(input_ids), packed)

    def to(self, device: torch.device) -> Batch:
        """All of it on the device; waits for nothing.

        A GPU reads pinned memory while the host goes on. That memory is torch's own, which it gives
        out again only after the copy; nothing here keeps it.
        """
        buffer = self.buffer
        if device.type == "cuda":
            buffer = buffer.pin_memory().to(device, non_blocking=True)
        samples, languages, positions, mask, input_ids, token_type_ids = self._parts(buffer)
        noise = Noise(positions, mask, samples)
        return Batch(
            input_ids.long(), token_type_ids.long(), noise, languages, self.packed
        ).to(device)  # fmt: skip

    def micro_batches(self, device: torch.device) -> list[Batch]:
        """The forward passes of the step, on the device."""
        # XLA devices have parts of each pass, so it is cut before it is given out
        batch = self.to(torch.device("cpu") if device.type == "xla" else device)
        size = self.micro_batch_size
        starts = range(0, len(batch.input_ids), size)
        return [batch.rows(slice(start, start + size)).to(device) for start in starts]

    def _parts(self, buffer: Tensor) -> list[Tensor]:
        parts, start = [], 0
        for dtype, shape in self.forms:
            stop = start + math.prod(shape) * dtype.itemsize
            parts.append(buffer[start:stop].view(dtype).view(shape))
            start = stop
        return parts
