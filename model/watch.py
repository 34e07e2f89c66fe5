"""The record of a pretraining run: `metrics.jsonl`, its boards, its alarms, and its speed."""

import json
import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch

from electrify.artifacts import write_text
from electrify.config import RunConfig
from electrify.json_text import parse_json
from electrify.progress import is_main_process, log, warn
from electrify.stages import METRICS
from model.alarm_causes import RunFacts
from model.alarms import Alarms
from model.boards import Board, import_wandb, open_boards
from model.device import synchronize
from model.flops import Flops, run_flops
from model.schedule import phases_of, tokens_until

_NO_FLOPS = Flops(0.0, 0.0, 0.0)
_NOT_DRAWN = frozenset({"data_fingerprint"})


@dataclass(frozen=True)
class Work:
    """What a run has done from its first step on, over all processes."""

    positions: int = 0  # padding included
    flops: Flops = _NO_FLOPS

    @classmethod
    def until(cls, config: RunConfig, vocab_size: int, num_steps: int) -> Self:
        """That of the first `num_steps` steps."""
        length = config.encode.sequence_length
        positions = tokens_until(phases_of(config.pretrain, length), num_steps)
        return cls(positions, run_flops(config.pretrain, vocab_size, length, num_steps))


class Speed:
    """The seconds of training, validation and saving left out, and the work done in them."""

    def __init__(
        self,
        device: torch.device,
        done: Work,
        seconds: float = 0.0,
        peak_flops: float = math.nan,
    ) -> None:
        """`done` in `seconds` before this process; `peak_flops` a second, of all devices."""
        self.seconds, self.done = seconds, done
        self._device, self._peak = device, peak_flops
        self._lap = (self.seconds, self.done)
        self.start()

    def start(self) -> None:
        """Begin or go on counting."""
        self._since = time.monotonic()

    def pause(self, done: Work) -> None:
        """Count the time since `start`, in which the run came to `done`; waits for the device."""
        synchronize(self._device)
        self.seconds += time.monotonic() - self._since
        self.done = done
        self.start()

    def lap(self, num_tokens: float, waited_seconds: float) -> dict[str, float]:
        """Figures since the last `lap`, in which `num_tokens` were real and the loop waited
        `waited_seconds` for data, and the FLOPs so far."""
        seconds, before = self._lap
        self._lap = (self.seconds, self.done)
        elapsed = max(self.seconds - seconds, 1e-9)
        flops = self.done.flops.matmul - before.flops.matmul
        return {
            "tokens_per_second": num_tokens / elapsed,
            "positions_per_second": (self.done.positions - before.positions) / elapsed,
            "mfu": flops / elapsed / self._peak,
            "data_wait_fraction": waited_seconds / elapsed,
            "flops_matmul": self.done.flops.matmul,
            "flops_paper": self.done.flops.paper,
            "flops_6nd": self.done.flops.six_nd,
        }

    @property
    def positions_per_second(self) -> float:
        """The mean rate of the whole run, padding included."""
        return self.done.positions / self.seconds if self.seconds else 0.0


class MetricsFile:
    """`metrics.jsonl`, TensorBoard where installed, W&B where asked for; continues after `step`.

    Records of later steps are dropped: a resumed run writes them again. Rank 0 alone writes.
    Raises `ValueError` if `wandb_project` is given and W&B is not installed.
    """

    def __init__(
        self,
        folder: Path,
        step: int,
        facts: RunFacts | None = None,
        wandb_project: str | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self._path, self._boards = folder / METRICS, list[Board]()
        self._alarms: Alarms | None = None
        self.last_seconds = 0.0
        if wandb_project is not None:
            import_wandb(wandb_project)  # every process refuses, or the others would wait
        if not is_main_process():
            return
        kept = [(line, r) for line, r in _read_lines(self._path) if float(r["step"]) <= step]
        write_text(self._path, "".join(f"{line}\n" for line, _ in kept))
        records = [record for _, record in kept]
        self.last_seconds = max((float(record["seconds"]) for record in records), default=0.0)
        if facts is not None:
            self._alarms = Alarms(facts, records)
        self._boards = open_boards(folder, step, wandb_project, config or {})

    def write(self, kind: str, place: Mapping[str, Any], figures: Mapping[str, float]) -> None:
        """Append one record, undefined figures as null, and the alarms that it sets off.

        `place` is step, tokens and seconds. A figure named `ko/rtd_auc` goes under
        "languages": {"ko": {"rtd_auc": ...}}.
        """
        if not is_main_process():
            return
        record = {"kind": kind, **place, **_nested(figures)}
        self._append(record)
        drawn = {name: value for name, value in figures.items() if name not in _NOT_DRAWN}
        for board in self._boards:
            board.scalars(kind, place["step"], drawn)
        for alarm in self._alarms.add(record) if self._alarms is not None else []:
            self._append({"kind": "alarm", **place, **alarm.record()})
            (warn if alarm.state == "raised" else log)(f"step {place['step']:,}: {alarm}")
            for board in self._boards:
                board.alarm(alarm.name, place["step"], str(alarm))

    def close(self) -> None:
        """Flush what is drawn."""
        for board in self._boards:
            board.close()

    def _append(self, record: Mapping[str, Any]) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")


def _nested(figures: Mapping[str, float]) -> dict[str, Any]:
    """Figures as they are written: eight digits, null for what is undefined, languages apart."""
    record: dict[str, Any] = {}
    languages: dict[str, dict[str, Any]] = {}
    for name, value in figures.items():
        language, _, own = name.rpartition("/")
        target = languages.setdefault(language, {}) if language else record
        target[own] = value if isinstance(value, int) else _rounded(value)
    return record | ({"languages": languages} if languages else {})


def _rounded(value: float) -> float | None:
    return float(f"{value:.8g}") if math.isfinite(value) else None


def _read_lines(path: Path) -> Iterable[tuple[str, dict[str, Any]]]:
    """Lines and their records, without one cut off by a kill."""
    # as bytes: text would also be cut at U+2028 inside of a string
    for line in path.read_bytes().splitlines() if path.exists() else []:
        try:
            record = parse_json(line, path)
            float(record["step"]), float(record["seconds"])
        except (ValueError, KeyError, TypeError, OverflowError):
            continue
        yield line.decode(), record
