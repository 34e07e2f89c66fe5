"""What fine-tunings will take, from timed steps: seconds and memory, before the first of them.

The steps are those of a real training, on the longest rows of each task and on batches that stand
for the shorter and for the longer half of them.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.encoder import ModelSource
from benchmarks.finetune.cost import peak_memory, start_memory
from benchmarks.finetune.finetune import (
    TaskFeatures,
    build_network,
    choose_device,
    choose_precision,
    seeded,
)
from benchmarks.finetune.jobs import Job, later_rounds, num_rows
from benchmarks.finetune.recipe import HyperParameters
from benchmarks.finetune.training import Trainer
from benchmarks.tasks.heads import collate
from benchmarks.tasks.task import Features
from electrify.system.machine import num_cores, return_freed_memory
from electrify.system.progress import duration

_STEPS = 2  # on a batch: the last one is timed, and finds the moments of Adam in memory


@dataclass(frozen=True)
class Pace:
    """How fast fine-tunings of one task are on this device."""

    step: float  # seconds of a training step
    prediction: float  # seconds of a row
    start: float  # seconds before the first step
    memory_mb: int  # with a batch of the longest rows


@dataclass(frozen=True)
class Estimate:
    """Of fine-tunings of encoders; TF-IDF is not counted."""

    num_jobs: int
    seconds: float
    memory_mb: int  # of all processes

    def __str__(self) -> str:
        return f"about {duration(self.seconds)} and {self.memory_mb / 1000:.1f} GB of memory"


class Estimator:
    """Estimates jobs that run `num_workers` at a time; each task is timed once."""

    def __init__(
        self,
        source: ModelSource,
        device_name: str,
        num_workers: int,
        features: Callable[[Job], TaskFeatures],
    ) -> None:
        self._source, self._device = source, choose_device(device_name)
        self._num_workers, self._features = num_workers, features
        self._paces: dict[tuple[object, ...], Pace] = {}

    def __call__(self, jobs: Sequence[Job]) -> Estimate:
        """Of jobs, or of a search with these trials in its first round."""
        jobs = [job for job in jobs if job.role != "bag-of-words"]
        later = later_rounds(jobs)
        weights = [(job, 1.0) for job in jobs]
        weights += [(trial, number / len(own)) for own, number in later for trial in own]
        seconds, memory = 0.0, 0
        for job, weight in weights:
            pace = self._pace(job)
            seconds += weight * job_seconds(self._features(job), job, pace)
            memory = max(memory, pace.memory_mb)
        num_jobs = len(jobs) + sum(number for _, number in later)
        at_once = min(self._num_workers, num_jobs) or 1
        return Estimate(num_jobs, seconds / at_once, memory * at_once)

    def _pace(self, job: Job) -> Pace:
        of = job.settings
        key = job.task.name, of.batch_size, of.micro_batch_size, of.max_sequence_length, of.freeze
        if key not in self._paces:
            threads = torch.get_num_threads()
            if self._num_workers > 1 and self._device.type == "cpu":
                torch.set_num_threads(max(1, num_cores() // self._num_workers))
            self._paces[key] = measure(self._features(job), self._source, of, self._device)
            torch.set_num_threads(threads)
            return_freed_memory()
        return self._paces[key]


def job_seconds(features: TaskFeatures, job: Job, pace: Pace) -> float:
    """Of one fine-tuning, at a pace."""
    settings = job.settings.shortened(job.share)
    num_steps = num_rows(job, features) // settings.batch_size
    predicted = sum(len(split.features.input_ids) for split in features.predicted.values())
    if features.selection is not None and settings.evaluations_per_epoch:
        times = round(settings.num_epochs * settings.evaluations_per_epoch)
        predicted += times * len(features.selection.features.input_ids)
    return pace.start + num_steps * pace.step + predicted * pace.prediction


def measure(
    features: TaskFeatures, source: ModelSource, settings: HyperParameters, device: torch.device
) -> Pace:
    """Time steps and predictions, those of the longest rows first, which decide the memory."""
    settings = replace(settings, precision=choose_precision(settings.precision, device))
    train, reported = features.train, next(iter(features.predicted.values()))
    start_memory(device)
    with seeded(0, device):
        start = time.monotonic()
        network = build_network(features.task, source, "pretrained", 0, settings, device)
        started = time.monotonic() - start
        timed = replace(settings, num_epochs=1e-9, min_steps=_STEPS, learning_rate=0.0)
        pad_id, label = source.tokenizer.pad_token_id, f"a timed step of {features.task.name}"
        trainer = Trainer(network, features.task, pad_id, timed, label)
        longest, *others = batches_by_length(train.features.lengths, settings.batch_size)
        _step_seconds(trainer, train.features, longest)
        steps = [_step_seconds(trainer, train.features, rows) for rows in others]
        predictions = [
            _prediction_seconds(trainer, reported.features, rows)
            for rows in batches_by_length(reported.features.lengths, trainer.prediction_batch_size)
        ]
        memory = peak_memory(device)
    if features.selection is not None and device.type == "cpu":  # which keeps the best weights
        memory += sum(of.nbytes for of in network.state_dict().values()) // 10**6
    return Pace(float(np.mean(steps)), float(np.mean(predictions[1:])), started, memory)


def batches_by_length(lengths: NDArray[np.int64], batch_size: int) -> list[NDArray[np.int64]]:
    """The longest rows, and then the batches in the middle of the longer and the shorter half: the
    mean cost of these two is about that of all batches of rows of similar length."""
    order = np.argsort(lengths, kind="stable")
    last = max(0, len(order) - batch_size)
    firsts = (last, 3 * last // 4, last // 4)
    return [order[first : first + batch_size] for first in firsts]


def _step_seconds(trainer: Trainer, features: Features, rows: NDArray[np.int64]) -> float:
    """Of the last step on these rows; 0 where a loss that is not a number ended the first one."""
    ends = [time.monotonic()]

    def on_step(_: int) -> None:
        _synchronize(trainer.network.device)
        ends.append(time.monotonic())

    trainer.train(features, rows, 0, on_step)
    return ends[-1] - ends[-2] if len(ends) > 1 else 0.0


@torch.inference_mode()
def _prediction_seconds(trainer: Trainer, features: Features, rows: NDArray[np.int64]) -> float:
    """Of one of the rows."""
    network, start = trainer.network.eval(), time.monotonic()
    with trainer.autocast():
        network(collate(trainer.task, features, rows, trainer.pad_id, network.device))
    _synchronize(network.device)
    return (time.monotonic() - start) / len(rows)


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
