"""One job of an evaluation: one task, one model variant, one seed."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.encoder import ModelSource, Variant, fitting_length, with_added_tokens
from benchmarks.finetune.finetune import (
    Finetuned,
    Split,
    TaskFeatures,
    finetune,
    learnt_rows,
    sampled_examples,
)
from benchmarks.finetune.recipe import (
    max_sequence_length,
    options_for,
    resolve_hyper_parameters,
    seeds_for,
)
from benchmarks.finetune.training import OnStep
from benchmarks.results.predictions import prediction_path, score_splits, write_predictions
from benchmarks.results.results import Result, encoder_label
from benchmarks.tasks.data import SPLIT_EVAL, TaskData, split_by_group
from benchmarks.tasks.task import Example, Task
from electrify.config.evaluate import EvaluateConfig
from electrify.stage.provenance import git_commit, versions
from electrify.system.progress import warn


@dataclass(frozen=True)
class Job:
    """One fine-tuning."""

    task: Task
    variant: Variant
    seed: int
    encoder: str  # its name or path
    train_fraction: float = 1.0

    @property
    def key(self) -> tuple[str, str, int, float]:
        """As `Result.job`."""
        return self.task.name, self.variant, self.seed, self.train_fraction

    @property
    def label(self) -> str:
        """As it stands in log lines."""
        part = "" if self.train_fraction == 1.0 else f" on {100 * self.train_fraction:g} %"
        name = encoder_label(self.variant, self.encoder)
        return f"{self.task.name}, {name}, seed {self.seed}{part}"


def plan_jobs(options: EvaluateConfig, tasks: Sequence[Task], encoder: str) -> list[Job]:
    """Every job, task by task, the largest part of the training split first, of each part the
    encoder before its control."""
    variants: list[Variant] = ["pretrained"]
    if options.random_init_control:
        variants.append("random-init")
    fractions = sorted(set(options.train_fractions), reverse=True)
    return [
        Job(task, variant, seed, encoder, fraction)
        for task in tasks
        for fraction in fractions
        for variant in variants
        for seed in seeds_for(task, options)
    ]


def prepare(
    task: Task, data: TaskData, source: ModelSource, options: EvaluateConfig
) -> TaskFeatures:
    """The task's splits in pieces, with a warning for each in which something is cut."""
    length = fitting_length(
        max_sequence_length(task, options, source.config.hidden_size),
        source,
        was_given=options_for(task, options).max_sequence_length is not None,
    )
    tokenizer = with_added_tokens(source.tokenizer, task.added_tokens)

    def prepared(split: str, examples: tuple[Example, ...], train: bool) -> Split:
        features = task.featurize(examples, tokenizer, length, train)
        if not features.input_ids:
            raise ValueError(f"{task.name} {split}: of {len(examples)} rows none can be used")
        if features.num_truncated:
            share = 100 * features.num_truncated / len(examples)
            warn(
                f"{task.name} {split}: {features.num_truncated:,} of {len(examples):,} examples "
                f"({share:.1f} %) are longer than {length} pieces and were cut"
            )
        return Split(examples, features)

    for split, (here, officially) in data.parts.items():
        warn(f"{task.name} {split}: {here:,} rows, the official split has {officially:,}")
    if data.split.endswith(SPLIT_EVAL):
        warn(
            f"{task.name}: no training file; a part of the {task.reported} rows is trained on, and "
            f"the other {len(data.reported):,} are reported as split {data.split!r}"
        )
    train, chosen = _held_out(task, data.train, options)
    held_out = prepared("selection", chosen, train=False) if chosen else None
    predicted = {name: prepared(name, rows, train=False) for name, rows in data.predicted.items()}
    positions = _sampled(task, len(train), options)
    learnt = prepared("train", tuple(train[n] for n in positions), train=True)
    learnt = replace(learnt, positions=positions, num_in_whole=len(train))
    return TaskFeatures(task, learnt, predicted, length, held_out)


def _held_out(
    task: Task, train: tuple[Example, ...], options: EvaluateConfig
) -> tuple[tuple[Example, ...], tuple[Example, ...]]:
    """What is learnt from, and what chooses the model: nothing where the last one is taken."""
    if options.selection == "last":
        return train, ()
    learnt, chosen = split_by_group(task, train, 1 - options.selection_fraction, salt="selection\n")
    if not learnt or not chosen:
        raise ValueError(
            f"{task.name}: evaluate.selection_fraction = {options.selection_fraction} leaves "
            f"{len(learnt)} rows to learn from and {len(chosen)} to choose the model by"
        )
    return learnt, chosen


def _sampled(task: Task, num_examples: int, options: EvaluateConfig) -> NDArray[np.int64]:
    """Positions of the examples that some seed learns from: no others are worth tokenising."""
    most = options_for(task, options).max_train_examples
    seeds = seeds_for(task, options)
    return np.unique(np.concatenate([sampled_examples(num_examples, most, n) for n in seeds]))


def num_rows(job: Job, features: TaskFeatures, source: ModelSource, options: EvaluateConfig) -> int:
    """Rows a job trains on, over all epochs."""
    given = options_for(job.task, options)
    rows = learnt_rows(features, given.max_train_examples, job.seed, job.train_fraction)
    hidden_size = source.config.hidden_size
    settings = resolve_hyper_parameters(job.task, options, hidden_size, len(rows), 0.0, "fp32")
    return settings.num_steps * settings.batch_size


def run_job(
    job: Job,
    data: TaskData,
    features: TaskFeatures,
    source: ModelSource,
    options: EvaluateConfig,
    on_step: OnStep,
) -> tuple[Result, Finetuned]:
    """Fine-tune, predict and score."""
    start = time.monotonic()
    task, reported = job.task, features.predicted[data.split]
    fitted = finetune(features, source, job.variant, job.seed, options, on_step, job.train_fraction)
    metrics = score_splits(task, data.split, fitted.lines)
    lines = fitted.lines[data.split]
    doubts = [] if fitted.degenerate else task.doubts(data.train, lines)
    settings = fitted.hyper_parameters
    planned = options_for(task, options).micro_batch_size or settings.batch_size
    if fitted.micro_batch_size < min(planned, settings.batch_size):
        doubts.append(f"out of memory: batches of {fitted.micro_batch_size} rows at once")
    result = Result(
        suite=task.suite,
        task=task.name,
        task_version=task.version,
        model=job.variant,
        model_path=source.name,
        seed=job.seed,
        metric=task.headline,
        value=metrics[task.headline],
        higher_is_better=task.higher_is_better,
        metrics=metrics,
        split=data.split,
        num_examples=len(data.reported),
        num_train_examples=fitted.num_train_examples,
        parts=dict(data.parts),
        truncated_fraction=reported.features.num_truncated / len(data.reported),
        selection=options.selection,
        selected=dict(fitted.selected),
        degenerate=fitted.degenerate,
        notes=doubts,
        hyper_parameters={**asdict(settings), "micro_batch_size": fitted.micro_batch_size},
        versions=versions(),
        data_sha256=data.sha256,
        git_commit=git_commit(),
        seconds=round(time.monotonic() - start, 3),
        train_fraction=job.train_fraction,
        train_seconds=round(fitted.train_seconds, 3),
        train_flops=fitted.train_flops,
        inference_flops=fitted.inference_flops,
        peak_memory_mb=fitted.peak_memory_mb,
        device=fitted.device,
    )
    return result, fitted


def write_lines(folder: Path, result: Result, fitted: Finetuned) -> None:
    """A file of predictions for each split."""
    about = {
        "suite": result.suite,
        "task": result.task,
        "task_version": result.task_version,
        "variant": result.model,
        "seed": result.seed,
        "model_path": result.model_path,
        "data_sha256": result.data_sha256,
        "train_fraction": result.train_fraction,
    }
    for split, lines in fitted.lines.items():
        further = "" if split == result.split else split
        path = prediction_path(
            folder, result.task, result.model, result.seed, further, result.train_fraction
        )
        write_predictions(path, {**about, "split": split}, lines)
