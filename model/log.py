"""What a run says about itself: figures of its passes, speed and cost.

They go into `metrics.jsonl` and to TensorBoard and the trackers that `[pretrain]` names. `rtd_auc`
is of all text, `ko/rtd_auc` of one language where there are several. A figure that an objective
does not have, or that counts nothing, is absent.
"""

import json
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from electrify.config.run import RunConfig
from electrify.stage.folder import write_text
from electrify.stage.plan import METRICS
from electrify.stage.trackers import Trackers, require_trackers
from electrify.storage.files import parse_json
from electrify.system.progress import log
from model.data import StepData
from model.devices.device import (
    describe,
    num_devices,
    overwrite,
    peak_flops,
    place,
    precision_of,
    synchronize,
)
from model.devices.processes import Ranks
from model.devices.xla import add_rows, readable
from model.flops import run_flops
from model.networks.batch import Outputs
from model.plan import learning_rate

TERMS = ("generator", "discriminator", "baseline")
# means over chosen positions, and over tokens; the last is the number of tokens
MEANS = (
    "generator_loss",
    "generator_accuracy",
    "language_loss",
    "language_accuracy",
    "replaced_fraction",
    "rtd_loss",
    "rtd_accuracy",
    "rtd_precision",
    "rtd_recall",
    "tokens",
)


def _weighed(output: Outputs) -> dict[str, tuple[Tensor, Tensor]]:
    """The values of each figure and their weights, 0 or 1: (B, slots) or (B, L)."""
    samples, masked = output.samples, output.masked
    corrupted, detected = output.corrupted, output.detected
    weighed = {}
    for name, predicted in (
        ("generator", samples.predicted if samples else None),
        ("language", output.predicted),
    ):
        if predicted is not None:
            weighed[f"{name}_loss"] = predicted.losses, masked.weights
            weighed[f"{name}_accuracy"] = predicted.hits, masked.hidden
    tokens = (masked.tokens if detected is None else detected.counted).float()
    weighed["tokens"] = tokens, tokens
    if corrupted is not None:
        weighed["replaced_fraction"] = corrupted.labels, tokens
    if corrupted is not None and detected is not None:
        called = (detected.logits > 0).float()
        weighed["rtd_loss"] = detected.losses, tokens
        weighed["rtd_accuracy"] = called == corrupted.labels, tokens
        weighed["rtd_precision"] = corrupted.labels, tokens * called
        weighed["rtd_recall"] = called, tokens * corrupted.labels
    return weighed


@torch.no_grad()
def add_sums_of(sums: Tensor, totals: Tensor, output: Outputs) -> None:
    """Add those of a forward pass, in place: `sums` (languages, 2 x `MEANS`) of values and of
    weights, `totals` (2 x `TERMS`) of each term of the loss and of what it counts."""
    weighed, languages = _weighed(output), output.masked.batch.languages
    nothing = torch.zeros_like(languages, dtype=torch.float32)
    values, weights = [nothing] * len(MEANS), [nothing] * len(MEANS)
    for index, name in enumerate(MEANS):
        if name in weighed:
            value, weight = weighed[name]
            # an unused slot may hold anything, inf too
            values[index] = torch.where(weight > 0, value.float(), 0.0).sum(-1)
            weights[index] = weight.float().sum(-1)
    add_rows(sums, languages, torch.stack([*values, *weights], dim=1))
    counts, terms = output.counts, []
    for name in TERMS:
        term = output.terms.get(name)
        terms += [term.total.detach(), term.count(counts)] if term else [counts.new_zeros(())] * 2
    totals += torch.stack(terms).double()


AddSums = Callable[[Tensor, Tensor, Outputs], None]


class MetricsWindow:
    """Sums over all forward passes since the last `reset`, a row a language.

    `count` waits for nothing; `read` copies the sums to the host. The area under the ROC curve
    needs every token's score, so it is of the last `keep` or `add` alone.
    """

    def __init__(self, languages: Sequence[str], device: torch.device | str = "cpu") -> None:
        device, self.languages = torch.device(device), tuple(languages)
        # fp64: fp32 stops counting at 16.8 M tokens
        shapes = (len(languages), 2 * len(MEANS)), (2 * len(TERMS),)
        self._sums, self._totals = (
            place(torch.zeros(shape, dtype=torch.float64), device) for shape in shapes
        )
        self._weights: dict[str, float] = {}
        self._last: list[list[Tensor]] = []

    def add(self, outputs: Iterable[Outputs]) -> None:
        """Count the forward passes of one step, or of all validation batches, as they come."""
        self.keep(self.count([output])[0] for output in outputs)

    def count(
        self, outputs: Sequence[Outputs], add_sums: AddSums = add_sums_of
    ) -> Sequence[Outputs]:
        """The device's part of `add`, which may be recorded; `add_sums` may be compiled."""
        for output in outputs:
            add_sums(self._sums, self._totals, output)
        return outputs

    def keep(self, outputs: Iterable[Outputs]) -> None:
        """The host's part: what the next `read` needs of the last step alone."""
        self._last = []
        for output in outputs:
            self._weights |= {name: term.weight for name, term in output.terms.items()}
            if output.detected is not None and output.corrupted is not None:
                labels = output.corrupted.labels
                languages = output.masked.batch.languages[:, None].expand_as(labels)
                scored = (output.detected.logits, labels, output.detected.counted, languages)
                self._last.append([readable(part) for part in scored])

    def tensors(self) -> list[Tensor]:
        """The sums themselves: with several processes, add each up over them before `read`."""
        return [self._sums, self._totals]

    def detections(self) -> Tensor:
        """(4, tokens) fp32 of the last `add`: logit, label, whether it counts, language.

        With several processes, concatenate those of all along the tokens and hand them to `read`.
        """
        # copied first: on XLA each operator here would have to be compiled
        parts = [
            torch.stack([part.cpu().float().flatten() for part in parts]) for parts in self._last
        ]
        return torch.cat([torch.empty(4, 0), *parts], dim=1)

    def reset(self) -> None:
        self._last = []
        for tensor in self.tensors():
            overwrite(tensor, 0.0)

    def read(self, detections: Tensor | None = None) -> dict[str, float]:
        """All figures of the passes, each token and chosen position counting once.

        * `loss`, `discriminator_loss`, `baseline_loss`: as trained, each term a mean over its unit;
        * `generator_loss`: -log p(original) of the generator at the chosen positions;
          `generator_accuracy`: its first guesses that are right, where the token was hidden.
          `language_loss`, `language_accuracy`: those of the main network. A tie for the first guess
          counts as right; in bf16, which has eight bits for a logit, there are more of them;
        * `replaced_fraction`: of the tokens whose detection counts, as is `tokens` of a language;
        * `rtd_*`: detection over the same tokens, with threshold 0.5. `rtd_loss` is the mean binary
          cross-entropy; `rtd_auc` is nan where all or none are replaced.

        `detections` are by default those of this process.
        """
        scored = (self.detections() if detections is None else detections).cpu().numpy()
        rows = self._sums.cpu().numpy()
        figures = self._losses() | _figures(rows.sum(0), scored)
        figures.pop("tokens", None)
        if len(self.languages) > 1:
            for number, language in enumerate(self.languages):
                own = {"tokens": 0.0} | _figures(rows[number], scored[:, scored[3] == number])
                figures |= {f"{language}/{name}": value for name, value in own.items()}
        return figures

    def _losses(self) -> dict[str, float]:
        """The loss, and the terms that no other figure is the mean of, as they are trained."""
        totals = self._totals.cpu().numpy().reshape(-1, 2)
        means = {
            name: float(total / count)
            for name, (total, count) in zip(TERMS, totals, strict=True)
            if name in self._weights and count
        }
        if not means:
            return {}
        terms = {f"{name}_loss": mean for name, mean in means.items() if name != "generator"}
        return {"loss": sum(self._weights[name] * mean for name, mean in means.items())} | terms


def _figures(row: NDArray[np.float64], scored: NDArray[np.float32]) -> dict[str, float]:
    """The figures of one row of sums, absent where they count nothing."""
    sums, counts = row.reshape(2, -1).tolist()
    weighed = zip(MEANS, sums, counts, strict=True)
    figures = {name: total / count for name, total, count in weighed if count}
    if "tokens" in figures:
        figures["tokens"] = sums[-1]
    if "rtd_loss" in figures and scored.size:
        logits, labels = scored[0, scored[2] > 0], scored[1, scored[2] > 0] > 0
        figures["rtd_auc"] = area_under_roc(logits, labels)
    return figures


def area_under_roc(scores: NDArray[np.float32], positive: NDArray[np.bool_]) -> float:
    """Fraction of (positive, negative) pairs in the right order, ties half (Mann-Whitney); nan if
    one side is empty."""
    num_positive = int(positive.sum())
    num_negative = len(positive) - num_positive
    if not num_positive or not num_negative:
        return float("nan")
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (counts.cumsum() - (counts - 1) / 2)[inverse]  # mean rank of each tie group, from 1
    pairs = ranks[positive].sum() - num_positive * (num_positive + 1) / 2
    return float(pairs / (num_positive * num_negative))


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
        require_trackers(self._config)
        self._path, self._seconds = folder / METRICS, 0.0
        if ranks.is_first:
            self._seconds = _cut_off(self._path, step)
            options = config.model_dump(mode="json")
            self._boards = Trackers(folder, self._config, options, step)
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
        return window.read(self._ranks.gather(window.detections()))


def _cut_off(path: Path, step: int) -> float:
    """Leave the records up to a step in a file, and not one cut off by a kill; the seconds until
    then. Of step 0 none: the run begins anew."""
    lines, seconds = [], 0.0
    # as bytes: text would also be cut at U+2028 inside of a string
    for line in path.read_bytes().splitlines() if path.exists() else []:
        with suppress(ValueError, KeyError, TypeError, OverflowError):
            record = parse_json(line, path)
            if step and float(record["step"]) <= step:
                seconds = max(seconds, float(record["seconds"]))
                lines.append(f"{line.decode()}\n")
    write_text(path, "".join(lines))
    return seconds


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
