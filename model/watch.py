"""The record of a pretraining run: `metrics.jsonl`, TensorBoard events, and its speed."""

import json
import math
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from electrify.artifacts import write_text
from model.device import synchronize

METRICS = "metrics.jsonl"


@dataclass
class Speed:
    """Tokens trained on and the seconds it took, validation and saving left out."""

    seconds: float = 0.0
    tokens: int = 0
    _since: float = field(default_factory=time.monotonic)

    def start(self) -> None:
        """Begin or go on counting."""
        self._since = time.monotonic()

    def add(self, tokens: int, device: torch.device) -> None:
        """Count the time since the last call, for `tokens`."""
        synchronize(device)
        self.seconds += time.monotonic() - self._since
        self.tokens += tokens
        self.start()

    @property
    def tokens_per_second(self) -> float:
        """The mean rate."""
        return self.tokens / self.seconds if self.seconds else 0.0


class MetricsFile:
    """`metrics.jsonl` and, where TensorBoard is installed, its events; continues after `step`."""

    def __init__(self, folder: Path, step: int) -> None:
        self._path = folder / METRICS
        lines = self._path.read_text(encoding="utf-8").splitlines() if self._path.exists() else []
        kept = [line for line in lines if _step_of(line) <= step]
        write_text(self._path, "".join(f"{line}\n" for line in kept))
        self.last_seconds = max((float(json.loads(line)["seconds"]) for line in kept), default=0.0)
        self._board = _open_board(folder, step)

    def write(self, kind: str, place: dict[str, Any], record: dict[str, float]) -> None:
        """Append one record; undefined figures are null."""
        values = {k: round(v, 6) if math.isfinite(v) else None for k, v in record.items()}
        if "learning_rate" in record:
            values["learning_rate"] = record["learning_rate"]
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"kind": kind} | place | values) + "\n")
        if self._board is not None:
            for name, value in record.items():
                self._board.add_scalar(f"{kind}/{name}", value, place["step"])

    def close(self) -> None:
        """Flush the events."""
        if self._board is not None:
            self._board.close()


def _step_of(line: str) -> float:
    try:
        return float(json.loads(line)["step"])
    except (json.JSONDecodeError, KeyError, TypeError):
        return math.inf  # a line cut off by a kill


def _open_board(folder: Path, step: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1)
