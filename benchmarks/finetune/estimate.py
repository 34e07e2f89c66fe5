"""What fine-tunings will take, from timed steps: seconds and memory, before the first of them.

The steps are those of a real training, on real rows of a few lengths, for every kind of rows (what
is predicted, batch size, longest row) instead of every task. Other lengths are interpolated.
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.encoder import ModelSource
from benchmarks.finetune.cost import Cost, fitted, peak_memory, probe_rows, start_memory
from benchmarks.finetune.finetune import (
    TaskFeatures,
    build_network,
    choose_device,
    choose_precision,
    seeded,
)
from benchmarks.finetune.jobs import Job, later_rounds
from benchmarks.finetune.recipe import HyperParameters
from benchmarks.finetune.training import PREDICTION_BATCH_FACTOR, Trainer
from benchmarks.tasks.heads import collate
from electrify.system.machine import num_cores, return_freed_memory
from electrify.system.progress import duration

_PROBE_SECONDS = 0.2  # of steps of one length, after the first
_MOST_STEPS = 6


class _EnoughError(Exception):
    """Ends a training that is only timed."""


@dataclass(frozen=True)
class Pace:
    """How fast one kind of rows is on this device."""

    step: Cost  # seconds of a training step by the padded length
    prediction: Cost  # seconds of a row
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
    """Estimates jobs that run `num_workers` at a time; each kind of rows is timed once."""

    def __init__(self, source: ModelSource, device_name: str, num_workers: int) -> None:
        self._source, self._device = source, choose_device(device_name)
        self._num_workers = num_workers
        self._paces: dict[tuple[object, ...], Pace] = {}

    def __call__(self, jobs: Sequence[Job], features: Mapping[str, TaskFeatures]) -> Estimate:
        """Of jobs, or of a search with these trials in its first round."""
        jobs = [job for job in jobs if job.role != "bag-of-words"]
        later = later_rounds(jobs)
        weights = [(job, 1.0) for job in jobs]
        weights += [(trial, number / len(own)) for own, number in later for trial in own]
        seconds, memory = 0.0, 0
        for job, weight in weights:
            of_task = features[job.task.name]
            pace = self._pace(of_task, job.settings)
            seconds += weight * job_seconds(of_task, job, pace)
            memory = max(memory, pace.memory_mb)
        num_jobs = len(jobs) + sum(number for _, number in later)
        at_once = min(self._num_workers, num_jobs) or 1
        return Estimate(num_jobs, seconds / at_once, memory * at_once)

    def _pace(self, features: TaskFeatures, settings: HyperParameters) -> Pace:
        sizes = settings.batch_size, settings.micro_batch_size, settings.max_sequence_length
        kind = type(features.task), *sizes, settings.freeze
        if kind not in self._paces:
            threads = torch.get_num_threads()
            if self._num_workers > 1 and self._device.type == "cpu":
                torch.set_num_threads(max(1, num_cores() // self._num_workers))
            self._paces[kind] = measure(features, self._source, settings, self._device)
            torch.set_num_threads(threads)
            return_freed_memory()
        return self._paces[kind]


def job_seconds(features: TaskFeatures, job: Job, pace: Pace) -> float:
    """Of one fine-tuning, at a pace; rows count by the lengths of all of the task's."""
    settings, train = job.settings.shortened(job.share), features.train.features.lengths
    num_rows = len(train) * job.train_fraction
    if settings.max_train_examples is not None:
        most = settings.max_train_examples * job.train_fraction
        num_rows = min(num_rows, most * len(train) / len(features.train.examples))
    num_steps = settings.num_steps(round(num_rows))
    steps = [pace.step(length) for length in padded(train, settings.batch_size)]
    predicted = [split.features.lengths for split in features.predicted.values()]
    if features.selection is not None and settings.evaluations_per_epoch:
        times = settings.num_epochs * settings.evaluations_per_epoch
        predicted += [features.selection.features.lengths] * round(times)
    if settings.freeze == "encoder":  # its hidden states are computed once
        predicted.append(train)
    batch_size = PREDICTION_BATCH_FACTOR * settings.batch_size
    rows = (
        len(lengths) * float(np.mean([pace.prediction(n) for n in padded(lengths, batch_size)]))
        for lengths in predicted
    )
    return pace.start + num_steps * float(np.mean(steps)) + sum(rows)


def padded(lengths: NDArray[np.int64], batch_size: int) -> list[int]:
    """The longest row of each batch of rows that are sorted by length."""
    longest_first: list[int] = np.sort(lengths)[::-1][::batch_size].tolist()
    return longest_first


def measure(
    features: TaskFeatures, source: ModelSource, settings: HyperParameters, device: torch.device
) -> Pace:
    """Time steps and predictions on rows of up to three lengths, the longest first."""
    settings = replace(settings, precision=choose_precision(settings.precision, device))
    rows = features.train.features
    start_memory(device)
    with seeded(0, device):
        start = time.monotonic()
        network = build_network(features.task, source, "pretrained", 0, settings, device)
        started = time.monotonic() - start
        timed = replace(settings, num_epochs=1e-9, min_steps=_MOST_STEPS, learning_rate=0.0)
        pad_id, label = source.tokenizer.pad_token_id, f"a timed step of {features.task.name}"
        trainer = Trainer(network, features.task, pad_id, timed, label)
        lengths, steps, predictions = [], [], []
        for probe in probe_rows(rows.lengths)[::-1]:
            nearest = np.argsort(np.abs(rows.lengths - rows.lengths[probe]), kind="stable")
            batch = nearest[: settings.batch_size]
            lengths.append(int(rows.lengths[batch].max()))
            steps.append(_step_seconds(trainer, features, batch))
            batch = nearest[: PREDICTION_BATCH_FACTOR * settings.batch_size]
            predictions.append(_prediction_seconds(trainer, features, batch))
        memory = peak_memory(device)
    at = np.array(lengths)
    return Pace(_curve(at, steps), _curve(at, predictions), started, memory)


def _curve(lengths: NDArray[np.int64], seconds: Sequence[float]) -> Cost:
    """Through the means of equal lengths; time that falls with the length is noise."""
    distinct = np.unique(lengths)
    means = np.array([np.array(seconds)[lengths == n].mean() for n in distinct])
    return fitted(distinct, np.maximum.accumulate(means))


def _step_seconds(trainer: Trainer, features: TaskFeatures, rows: NDArray[np.int64]) -> float:
    """The median of steps after the first, or of the first if it takes long."""
    device, ends = trainer.network.device, [time.monotonic()]

    def on_step(_: int) -> None:
        _synchronize(device)
        ends.append(time.monotonic())
        took = ends[-1] - ends[1]
        if took > _PROBE_SECONDS or ends[1] - ends[0] > 3 * _PROBE_SECONDS:
            raise _EnoughError

    with suppress(_EnoughError):
        trainer.train(features.train.features, rows, 0, on_step)
    if len(ends) == 1:  # a loss that is not a number ended the first step
        ends.append(time.monotonic())
    return float(np.median(np.diff(ends)[1 if len(ends) > 2 else 0 :]))


def _prediction_seconds(trainer: Trainer, features: TaskFeatures, rows: NDArray[np.int64]) -> float:
    """Of one of the rows."""
    network = trainer.network.eval()
    of_train, seconds = features.train.features, list[float]()
    with torch.inference_mode(), trainer.autocast():
        while not seconds or (len(seconds) == 1 and seconds[0] < _PROBE_SECONDS):
            start = time.monotonic()
            network(collate(trainer.task, of_train, rows, trainer.pad_id, network.device))
            _synchronize(network.device)
            seconds.append(time.monotonic() - start)
    return min(seconds) / len(rows)


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
