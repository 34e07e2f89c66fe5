"""What a run says about itself: figures, speed and cost.

They go into `metrics.jsonl` and to boards: TensorBoard where it is installed, and the trackers that
`[pretrain]` names (`electrify.stage.trackers`).
"""

import json
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from electrify.config.run import RunConfig
from electrify.stage.folder import write_text
from electrify.stage.plan import METRICS
from electrify.stage.trackers import Trackers, require_trackers
from electrify.storage.files import parse_json
from electrify.system.progress import log
from model.batch import Outputs
from model.data import StepData
from model.devices.device import describe, num_devices, precision_of, synchronize
from model.devices.processes import Ranks
from model.flops import peak_flops, run_flops
from model.metrics import MetricsWindow
from model.plan import learning_rate


class RunLog:
    """The records of one run, which the first process writes.

    A run that resumes after `step` writes later records again. Time of validation and saving does
    not count.
    """

    def __init__(
        self,
        config: RunConfig,
        folder: Path,
        step: int,
        data: StepData,
        device: torch.device,
        ranks: Ranks,
    ) -> None:
        self._config, self._ranks, self._device = config.pretrain, ranks, device
        self._cost_until = partial(run_flops, self._config, data.last.vocab_size)
        # every process refuses, or the others would wait
        require_trackers(self._config, "pretrain")
        self._path, self._seconds = folder / METRICS, 0.0
        if ranks.is_first:
            records = _cut_off(self._path, step)
            self._seconds = max((float(r["seconds"]) for r in records), default=0.0)
            self._boards = Trackers(
                folder, self._config, "pretrain", config.model_dump(mode="json")
            )
            with suppress(ImportError):
                self._boards.add("TensorBoard", TensorBoard(folder, step))
        self.window = MetricsWindow(data.last.languages, device)  # steps count their figures in it
        number = ranks.num_ranks * num_devices(device)
        self._peak = number * peak_flops(describe(device), precision_of(self._config, device))
        self._done = self._cost_until(step)
        self._lap = self._seconds, self._done
        self._since = time.monotonic()

    def start(self) -> None:
        """Count the time from here on as training."""
        self._since = time.monotonic()

    def pause(self, step: int) -> None:
        """Count no time until `start`; waits for the device."""
        synchronize(self._device)
        now = time.monotonic()
        self._seconds += now - self._since
        self._since, self._done = now, self._cost_until(step)

    def train(self, step: int, norm: Tensor, waited_seconds: float) -> str:
        """Write the figures since the last record, in which the loop waited `waited_seconds` for
        data; what to show beside the progress bar.

        All processes must call it.
        """
        self.pause(step)
        record = self._read(self.window) | self._speed(waited_seconds)
        record["learning_rate"] = learning_rate(step - 1, self._config)
        record["gradient_norm"] = float(norm)
        self.window.reset()
        self.write("train", step, record)
        return ", ".join(_in_words(record)[:2])

    def _speed(self, waited_seconds: float) -> dict[str, float]:
        """Figures since they were last asked for, and the FLOPs so far."""
        seconds, before = self._lap
        self._lap = self._seconds, self._done
        elapsed = max(self._seconds - seconds, 1e-9)
        flops = self._done.matmul - before.matmul
        return {
            "tokens_per_second": (self._done.positions - before.positions) / elapsed,
            "mfu": flops / elapsed / self._peak,
            "data_wait_fraction": waited_seconds / elapsed,
            **self._done.figures(),
        }

    def valid(self, step: int, outputs: Iterable[Outputs], languages: Sequence[str]) -> None:
        """Write the figures of a validation on text in these languages."""
        window = MetricsWindow(languages, self._device)
        window.add(outputs)
        record = self._read(window)
        self.write("valid", step, record)
        log(f"step {step:,}: valid {', '.join(_in_words(record))}")

    def close(self) -> None:
        if self._ranks.is_first:
            self._boards.close()

    def cost(self) -> dict[str, Any]:
        """Positions read, time and FLOPs so far, for the summary."""
        seconds, done = self._seconds, self._done
        return {
            "tokens": done.positions,
            "seconds": round(seconds, 1),
            "tokens_per_second": round(done.positions / seconds if seconds else 0.0, 1),
            **done.figures(),
        }

    def write(self, kind: str, step: int, figures: Mapping[str, float]) -> None:
        """Append a record, undefined figures as null. A figure named `ko/rtd_auc` is of one
        language."""
        if not self._ranks.is_first:
            return
        seconds = round(self._seconds, 3)
        moment = {"step": step, "tokens": self._cost_until(step).positions, "seconds": seconds}
        record = {"kind": kind, **moment, **nested(figures)}
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
        self._boards.log(step, {f"{kind}/{name}": value for name, value in figures.items()})

    def _read(self, window: MetricsWindow) -> dict[str, float]:
        """The figures of all processes together."""
        for sums in window.tensors():
            self._ranks.sum(sums)
        if not self._config.has_detection_head:
            return window.read()
        own = window.detections()  # a process may have none
        return window.read(self._ranks.gather(torch.empty(4, 0) if own is None else own))


def _cut_off(path: Path, step: int) -> list[dict[str, Any]]:
    """Leave the records up to a step in a file, which are returned; not one cut off by a kill. Of
    step 0 none: the run begins anew."""
    lines, records = [], []
    # as bytes: text would also be cut at U+2028 inside of a string
    for line in path.read_bytes().splitlines() if path.exists() else []:
        with suppress(ValueError, KeyError, TypeError, OverflowError):
            record = parse_json(line, path)
            float(record["seconds"])
            if step and float(record["step"]) <= step:
                lines.append(f"{line.decode()}\n")
                records.append(record)
    write_text(path, "".join(lines))
    return records


def nested(figures: Mapping[str, float]) -> dict[str, Any]:
    """Figures as they are written: eight digits, null for what is undefined, languages apart."""
    record: dict[str, Any] = {}
    languages: dict[str, dict[str, Any]] = {}
    for name, value in figures.items():
        language, _, own = name.rpartition("/")
        target = languages.setdefault(language, {}) if language else record
        if isinstance(value, int):
            target[own] = value
        else:
            target[own] = float(f"{value:.8g}") if math.isfinite(value) else None
    return record | ({"languages": languages} if languages else {})


class TensorBoard:
    """TensorBoard's events in `folder/tensorboard`; a resumed run hides those after `step`."""

    def __init__(self, folder: Path, step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer: Any = SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1)

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        for name, value in figures.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        self._writer.close()


_SHOWN = (
    ("generator_loss", "MLM loss {:.3f}"),
    ("language_loss", "main MLM loss {:.3f}"),
    ("rtd_loss", "RTD loss {:.4f}"),
    ("generator_accuracy", "generator accuracy {:.3f}"),
    ("language_accuracy", "main accuracy {:.3f}"),
    ("rtd_accuracy", "RTD accuracy {:.3f}"),
    ("rtd_auc", "AUC {:.3f}"),
    ("replaced_fraction", "replaced {:.3f}"),
)


def _in_words(record: Mapping[str, float]) -> list[str]:
    return [
        words.format(record[key])
        for key, words in _SHOWN
        if key in record and math.isfinite(record[key])
    ]
