"""What a run says about itself: figures of training and validation, its speed, its cost."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from electrify.config import RunConfig
from electrify.progress import log
from model.batch import Outputs
from model.flops import run_flops
from model.metrics import MetricsWindow, batch_metrics
from model.schedule import learning_rate, phases_of, tokens_until
from model.watch import MetricsFile, Speed


class RunLog:
    """The records of one run; continues those of the steps before it was stopped."""

    def __init__(
        self,
        config: RunConfig,
        folder: Path,
        step: int,
        vocab_size: int,
        languages: Sequence[str],
        device: torch.device,
    ) -> None:
        self._config, self._device, self._vocab_size = config, device, vocab_size
        self._languages = languages
        self._phases = phases_of(config.pretrain, config.encode.sequence_length)
        self._file = MetricsFile(folder, step)
        self.window = MetricsWindow(languages, device)
        self.speed = Speed(self._file.last_seconds, self.tokens(step))
        self._counted = step  # steps whose time is in `speed`

    def tokens(self, step: int) -> int:
        """Places read in so many steps."""
        return tokens_until(self._phases, step)

    def start(self) -> None:
        """Begin or go on with counting time."""
        self.speed.start()

    def pause(self, step: int) -> None:
        """Count the time of the steps since the last pause."""
        done = self.tokens(step) - self.tokens(self._counted)
        self.speed.add(done, self._device)
        self._counted = step

    def train(self, step: int, norm: Tensor) -> str:
        """Write the figures since the last record; what to show beside the progress bar."""
        self.pause(step)
        record = self.window.read() | {
            "learning_rate": learning_rate(step - 1, self._config.pretrain),
            "gradient_norm": float(norm),
            "tokens_per_second": round(self.speed.tokens_per_second, 1),
        }
        self.window.reset()
        self._write("train", step, record)
        return ", ".join(_in_words(record)[:2])

    def valid(self, step: int, outputs: Sequence[Outputs]) -> None:
        """Write the figures of a validation."""
        record = batch_metrics(outputs, self._languages)
        self._write("valid", step, record)
        log(f"step {step:,}: valid {', '.join(_in_words(record))}")

    def close(self) -> None:
        """Write out what is held back."""
        self._file.close()

    def cost(self, step: int) -> dict[str, Any]:
        """Tokens, time and FLOPs so far, for the summary."""
        config = self._config
        flops = run_flops(config.pretrain, self._vocab_size, config.encode.sequence_length, step)
        return {
            "tokens": self.tokens(step),
            "seconds": round(self.speed.seconds, 1),
            "tokens_per_second": round(self.speed.tokens_per_second, 1),
            "flops_matmul": flops.matmul,
            "flops_paper": flops.paper,
            "flops_6nd": flops.six_nd,
        }

    def _write(self, kind: str, step: int, record: dict[str, float]) -> None:
        place = {
            "step": step,
            "tokens": self.tokens(step),
            "seconds": round(self.speed.seconds, 3),
        }
        self._file.write(kind, place, record)


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


def _in_words(record: dict[str, float]) -> list[str]:
    return [
        words.format(record[key])
        for key, words in _SHOWN
        if key in record and math.isfinite(record[key])
    ]
