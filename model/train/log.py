"""What a run says about itself: figures, speed and cost."""

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from electrify.config.run import RunConfig
from electrify.stage.trackers import require_trackers
from electrify.system.machine import load_warning
from electrify.system.progress import log, warn
from model.batch import Outputs
from model.devices.device import describe, num_devices, precision_of, synchronize
from model.flops import Cost, peak_flops, run_flops
from model.plan import learning_rate
from model.train.data import StepData
from model.train.metrics import MetricsWindow
from model.train.processes import Ranks
from model.train.trackers import RunFacts, RunTrackers, unigram_entropy

_ENTROPY_SEQUENCES = 1000  # read to know how hard the text is for one who knows frequencies only


class Speed:
    """The seconds of training, validation and saving left out, and the work done in them."""

    def __init__(
        self,
        device: torch.device,
        done: Cost,
        seconds: float = 0.0,
        peak_flops: float = math.nan,
    ) -> None:
        """`done` in `seconds` before this process; `peak_flops` a second, of all devices."""
        self.seconds, self.done = seconds, done
        self._device, self._peak = device, peak_flops
        self._lap = (self.seconds, self.done)
        self.start()

    def start(self) -> None:
        self._since = time.monotonic()

    def pause(self, done: Cost) -> None:
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
        flops = self.done.matmul - before.matmul
        return {
            "tokens_per_second": num_tokens / elapsed,
            "positions_per_second": (self.done.positions - before.positions) / elapsed,
            "mfu": flops / elapsed / self._peak,
            "data_wait_fraction": waited_seconds / elapsed,
            **self.done.figures(),
        }


class RunLog:
    """The records of one run; continues after those of the steps before it was stopped."""

    def __init__(
        self,
        config: RunConfig,
        folder: Path,
        step: int,
        data: StepData,
        device: torch.device,
        ranks: Ranks,
    ) -> None:
        self._config, self._ranks, self._device = config, ranks, device
        self._vocab_size = data.last.vocab_size
        options = config.pretrain
        require_trackers(options, "pretrain")  # every process refuses, or the others would wait
        self._trackers: RunTrackers | None = None
        if ranks.is_first:
            facts = RunFacts(options, _entropy(data), data.num_epochs())
            self._trackers = RunTrackers(folder, step, facts, config)
        self.window = MetricsWindow(data.last.languages, device)  # steps count their figures in it
        number = ranks.num_ranks * num_devices(device)
        peak = number * peak_flops(describe(device), precision_of(options, device))
        self._warned_of_load = False
        before = self._trackers.seconds_before if self._trackers else 0.0
        self._speed = Speed(device, self._work(step), before, peak)

    def _work(self, step: int) -> Cost:
        return run_flops(self._config.pretrain, self._vocab_size, step)

    def start(self) -> None:
        """Count the time from here on as training."""
        self._warn_of_load()
        self._speed.start()

    def pause(self, step: int) -> None:
        """Count no time until `start`."""
        self._speed.pause(self._work(step))

    def train(self, step: int, norm: Tensor, waited_seconds: float) -> str:
        """Write the figures since the last record, in which the loop waited `waited_seconds` for
        data; what to show beside the progress bar.

        All processes must call it; the first one writes.
        """
        self.pause(step)
        self._warn_of_load()
        window = self.window
        record = self._read(window)
        record |= self._speed.lap(window.num_tokens, waited_seconds)
        record |= {
            "learning_rate": learning_rate(step - 1, self._config.pretrain),
            "gradient_norm": float(norm),
        }
        window.reset()
        self._write("train", step, record)
        return ", ".join(_in_words(record)[:2])

    def valid(
        self,
        step: int,
        outputs: Iterable[Outputs],
        languages: Sequence[str],
        others: Mapping[str, float],
    ) -> None:
        """Write the figures of a validation on text in these languages, and other figures."""
        window = MetricsWindow(languages, self._device)
        window.add(outputs)
        record = {**self._read(window), **others}
        self._write("valid", step, record)
        log(f"step {step:,}: valid {', '.join(_in_words(record))}")

    def close(self) -> None:
        if self._trackers:
            self._trackers.close()

    def cost(self) -> dict[str, Any]:
        """Positions read, time and FLOPs so far, for the summary."""
        seconds, done = self._speed.seconds, self._speed.done
        return {
            "tokens": done.positions,
            "seconds": round(seconds, 1),
            "tokens_per_second": round(done.positions / seconds if seconds else 0.0, 1),
            **done.figures(),
        }

    def _warn_of_load(self) -> None:
        if not self._warned_of_load and (loaded := load_warning()):
            self._warned_of_load = True
            warn(loaded)

    def _read(self, window: MetricsWindow) -> dict[str, float]:
        """The figures of all processes together, in the first one."""
        self._ranks.collect(window.tensors())
        if not self._config.pretrain.has_detection_head:
            return window.read()
        own = window.detections()  # a process may have none
        return window.read(self._ranks.gather(torch.empty(4, 0) if own is None else own, dim=1))

    def _write(self, kind: str, step: int, record: Mapping[str, float]) -> None:
        if self._trackers is None:
            return
        seconds = round(self._speed.seconds, 3)
        place = {"step": step, "tokens": self._work(step).positions, "seconds": seconds}
        self._trackers.write(kind, place, record)


def _entropy(data: StepData) -> float:
    """Nats a token of the training text, by frequencies alone."""
    ids = data.last.batch(0, min(_ENTROPY_SEQUENCES, data.last.num_sequences)).input_ids
    special = data.last.special
    return unigram_entropy(ids.numpy(), [special.pad, special.cls, special.sep, special.mask])


_SHOWN = (
    ("generator_loss", "MLM loss {:.3f}"),
    ("language_loss", "main MLM loss {:.3f}"),
    ("rtd_loss", "RTD loss {:.4f}"),
    ("generator_accuracy", "generator accuracy {:.3f}"),
    ("language_accuracy", "main accuracy {:.3f}"),
    ("rtd_accuracy", "RTD accuracy {:.3f}"),
    ("rtd_auc", "AUC {:.3f}"),
    ("replaced_fraction", "replaced {:.3f}"),
    ("mean_state_share", "mean state {:.2f}"),
    ("participation_ratio", "participation {:.1f}"),
)


def _in_words(record: Mapping[str, float]) -> list[str]:
    return [
        words.format(record[key])
        for key, words in _SHOWN
        if key in record and math.isfinite(record[key])
    ]
