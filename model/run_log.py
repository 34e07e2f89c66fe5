"""What a run says about itself: figures of training and validation, its speed, its cost."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from electrify.config import RunConfig
from electrify.machine import load_warning
from electrify.progress import log, warn
from model.alarm_causes import RunFacts
from model.alarms import unigram_entropy
from model.batch import Outputs
from model.data import StepData
from model.device import describe, num_devices, precision_of
from model.metrics import MetricsWindow
from model.mfu import peak_flops
from model.parallel import Ranks
from model.schedule import learning_rate, sequences_until
from model.watch import MetricsFile, Speed, Work

_ENTROPY_SEQUENCES = 1000  # read to know how hard the text is for one who knows frequencies only


class RunLog:
    """The records of one run; goes on after those of the steps before it was stopped."""

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
        self._file = MetricsFile(
            folder,
            step,
            RunFacts.of(
                options,
                [phase.first_step for phase in data.phases],
                _entropy(data),
                sequences_until(data.phases, options.num_steps) / data.last.num_sequences,
            ),
            options.wandb_project,
            config.model_dump(mode="json"),
        )
        self.window = MetricsWindow(data.last.languages, device)  # steps count their figures in it
        number = ranks.num_ranks * num_devices(device)
        peak = number * peak_flops(describe(device), precision_of(options, device))
        self._knows_load = False  # the user is told once
        self._speed = Speed(device, self._work(step), self._file.last_seconds, peak)

    def _work(self, step: int) -> Work:
        return Work.until(self._config, self._vocab_size, step)

    def start(self) -> None:
        """Begin or go on with counting time."""
        self._warn_of_load()
        self._speed.start()

    def pause(self, step: int) -> None:
        """Count the time of the steps since the last pause."""
        self._speed.pause(self._work(step))

    def train(self, step: int, norm: Tensor, data_fingerprint: int, waited_seconds: float) -> str:
        """Write the figures since the last record, in which the loop waited `waited_seconds` for
        data; what to show beside the progress bar.

        All processes must call it; the first one writes.
        """
        self.pause(step)
        self._warn_of_load()
        window = self.window
        record = self._read(window) | self._speed.lap(window.num_tokens, waited_seconds)
        record |= {
            "learning_rate": learning_rate(step - 1, self._config.pretrain),
            "gradient_norm": float(norm),
            "data_fingerprint": data_fingerprint,
        }
        window.reset()
        self._write("train", step, record)
        return ", ".join(_in_words(record)[:2])

    def valid(self, step: int, outputs: Iterable[Outputs], languages: Sequence[str]) -> None:
        """Write the figures of a validation on text in these languages."""
        window = MetricsWindow(languages, self._device)
        window.add(outputs)
        record = self._read(window)
        self._write("valid", step, record)
        log(f"step {step:,}: valid {', '.join(_in_words(record))}")

    def _warn_of_load(self) -> None:
        if not self._knows_load and (loaded := load_warning()):
            self._knows_load = True
            warn(loaded)

    def close(self) -> None:
        """Write out what is held back."""
        self._file.close()

    def state(self) -> dict[str, Tensor]:
        """Figures of the steps since the last record, for a checkpoint; of all processes."""
        self._ranks.collect(self.window.tensors())
        return self.window.state()

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Go on from `state`."""
        if self._ranks.is_first and state:
            self.window.load_state(state)

    def cost(self) -> dict[str, Any]:
        """Places read, time and FLOPs so far, for the summary."""
        done, speed = self._speed.done, self._speed
        return {
            "tokens": done.positions,
            "seconds": round(speed.seconds, 1),
            "tokens_per_second": round(speed.positions_per_second, 1),
            "flops_matmul": done.flops.matmul,
            "flops_paper": done.flops.paper,
            "flops_6nd": done.flops.six_nd,
        }

    def _read(self, window: MetricsWindow) -> dict[str, float]:
        """The figures of all processes together, in the first one."""
        self._ranks.collect(window.tensors())
        if not self._config.pretrain.has_detection_head:
            return window.read()
        found = window.detections()  # a process may have none
        return window.read(self._ranks.gather(torch.empty(4, 0) if found is None else found, dim=1))

    def _write(self, kind: str, step: int, record: Mapping[str, float]) -> None:
        place = {
            "step": step,
            "tokens": self._work(step).positions,
            "seconds": round(self._speed.seconds, 3),
        }
        self._file.write(kind, place, record)


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
)


def _in_words(record: Mapping[str, float]) -> list[str]:
    return [
        words.format(record[key])
        for key, words in _SHOWN
        if key in record and math.isfinite(record[key])
    ]
