"""One job of an evaluation: one task, one model variant, one seed."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.encoder import ModelSource, Variant, fitting_length, with_added_tokens
from benchmarks.finetune.bag_of_words import CHOICES
from benchmarks.finetune.finetune import (
    Finetuned,
    Split,
    TaskFeatures,
    finetune,
    learnt_rows,
    sampled_examples,
    score_bag_of_words,
)
from benchmarks.finetune.kept import keep
from benchmarks.finetune.recipe import HyperParameters, hyper_parameters, options_for, seeds_for
from benchmarks.finetune.training import OnStep, StateFile
from benchmarks.results.predictions import prediction_path, score_splits, write_predictions
from benchmarks.results.results import Result, encoder_label
from benchmarks.tasks.data import SPLIT_EVAL, TaskData, split_by_group
from benchmarks.tasks.heads.linear import EncoderWithHead
from benchmarks.tasks.kinds.classification import Classification
from benchmarks.tasks.own import record_of
from benchmarks.tasks.task import OWN, Example, Task
from electrify.config.evaluate import EvaluateConfig
from electrify.stage.folder import digest_of
from electrify.stage.provenance import git_commit, versions
from electrify.system.outcome import UserError
from electrify.system.progress import warn
from electrify.system.unknown import coverage_of, warn_of_unknown


@dataclass(frozen=True)
class Job:
    """One fine-tuning."""

    task: Task
    variant: Variant
    seed: int
    encoder: str  # its name or path
    settings: HyperParameters
    train_fraction: float
    key: str  # digest of all of this, the weights and the data: `Result.key`
    note: str = ""  # which trial of a search it is
    search: Mapping[str, Any] = field(default_factory=dict)  # what a record says of the search
    is_kept: bool = False  # the fine-tuned network is written to a folder

    @property
    def label(self) -> str:
        """As it stands in log lines."""
        part = "" if self.train_fraction == 1.0 else f" on {100 * self.train_fraction:g} %"
        name = encoder_label(self.variant, self.encoder)
        note = f", {self.note}" if self.note else ""
        return f"{self.task.title}, {name}, seed {self.seed}{part}{note}"


def plan_jobs(
    options: EvaluateConfig,
    tasks: Sequence[Task],
    source: ModelSource,
    made_from: Mapping[str, tuple[object, object]],
) -> list[Job]:
    """Every job, task by task, the largest part of the training split first, of each part the
    encoder before its floors. `made_from` are digests of weights and data by task. The settings
    are those before a search; the key has the search in place of what it finds."""
    fractions = sorted(set(options.train_fractions), reverse=True)
    jobs = []
    for task in tasks:
        settings = settings_for(task, options, source)
        weights, data = made_from[task.name]
        for fraction, variant, seed in product(
            fractions, _variants(task, options), seeds_for(task, options)
        ):
            decides: list[object] = [weights_of(variant, weights, source), asdict(settings)]
            if options.search:
                searched = [options.search.model_dump(mode="json"), seeds_for(task, options)[0]]
                decides.append(searched)
            if variant == "bag-of-words":
                decides = [settings.max_train_examples, settings.selection_fraction, CHOICES]
            is_kept = options.keep_models and variant == "pretrained"
            decides += ["kept"] * is_kept  # one that was done before, and not kept, is done again
            key = digest_of([task.name, task.version, data, decides, fraction, variant, seed])[:16]
            of_job = task, variant, seed, source.name, settings, fraction, key
            jobs.append(Job(*of_job, is_kept=is_kept))
    return jobs


def encoder_variants(options: EvaluateConfig) -> tuple[Variant, ...]:
    """What is fine-tuned: the encoder, and the same network with random weights."""
    return ("pretrained", "random-init") if options.random_init_control else ("pretrained",)


def weights_of(variant: Variant, weights: object, source: ModelSource) -> object:
    """What a job's weights come from: other weights of the same shape have the same twin."""
    return source.shape if variant == "random-init" else weights


def _variants(task: Task, options: EvaluateConfig) -> tuple[Variant, ...]:
    variants = encoder_variants(options)
    wanted = options.random_init_control if options.bag_of_words is None else options.bag_of_words
    return (*variants, "bag-of-words") if wanted and isinstance(task, Classification) else variants


def settings_for(task: Task, options: EvaluateConfig, source: ModelSource) -> HyperParameters:
    """`hyper_parameters`, with rows as long as the model takes."""
    settings = hyper_parameters(task, options, source.config.hidden_size, source.recommended)
    was_given = "max_sequence_length" in options_for(task, options)
    length = fitting_length(settings.max_sequence_length, source, was_given)
    return replace(settings, max_sequence_length=length)


def prepare(
    task: Task,
    data: TaskData,
    source: ModelSource,
    settings: HyperParameters,
    seeds: Sequence[int],
) -> TaskFeatures:
    """The task's splits in pieces, with a warning for each in which something is cut.

    Of the training split the examples that one of `seeds` learns from.
    """
    length = settings.max_sequence_length
    tokenizer = with_added_tokens(source.tokenizer, task.added_tokens)

    def prepared(split: str, examples: tuple[Example, ...], train: bool) -> Split:
        features = task.featurize(examples, tokenizer, length, train)
        if not features.input_ids:
            raise UserError(f"{task.name} {split}: none of {len(examples)} rows can be used")
        if features.num_truncated:
            share = 100 * features.num_truncated / len(examples)
            warn(
                f"{task.name} {split}: {features.num_truncated:,} of {len(examples):,} examples "
                f"({share:.1f} %) are longer than {length} pieces and were cut"
            )
        return Split(examples, features)

    for split, (here, officially) in data.parts.items():
        warn(f"{task.name} {split}: {here:,} rows, the official split has {officially:,}")
    if data.split.endswith(SPLIT_EVAL) and task.suite != OWN:
        warn(
            f"{task.name}: no training file; a part of the {task.reported} rows is trained on, and "
            f"the other {len(data.reported):,} are reported as split {data.split!r}"
        )
    train, chosen = _held_out(task, data.train, settings)
    held_out = prepared("selection", chosen, train=False) if chosen else None
    predicted = {name: prepared(name, rows, train=False) for name, rows in data.predicted.items()}
    most = settings.max_train_examples
    positions = np.unique(np.concatenate([sampled_examples(len(train), most, n) for n in seeds]))
    learnt = prepared("train", tuple(train[n] for n in positions), train=True)
    learnt = replace(learnt, positions=positions, num_in_whole=len(train))
    rows = chain.from_iterable(s.features.input_ids for s in (learnt, *predicted.values()))
    what = f"{task.name} as {source.name} reads it"
    warn_of_unknown(coverage_of(rows, tokenizer), what, tokenizer)
    return TaskFeatures(task, learnt, predicted, held_out)


def _held_out(
    task: Task, train: tuple[Example, ...], settings: HyperParameters
) -> tuple[tuple[Example, ...], tuple[Example, ...]]:
    """What is learnt from, and what chooses the model: nothing where the last one is taken."""
    fraction = settings.selection_fraction
    if fraction is None:
        return train, ()
    learnt, chosen = split_by_group(task, train, 1 - fraction, salt="selection\n")
    if not learnt or not chosen:
        raise UserError(
            f"{task.name}: evaluate.selection_fraction = {fraction} leaves "
            f"{len(learnt)} rows to learn from and {len(chosen)} to choose the model by"
        )
    return learnt, chosen


def num_rows(job: Job, features: TaskFeatures) -> int:
    """Rows a job trains on, over all epochs."""
    rows = learnt_rows(features, job.settings.max_train_examples, job.seed, job.train_fraction)
    if job.variant == "bag-of-words":
        return len(rows)
    return job.settings.num_steps(len(rows)) * job.settings.batch_size


def run_job(
    job: Job,
    data: TaskData,
    features: TaskFeatures,
    source: ModelSource,
    device: str,
    states: Path,
    on_step: OnStep,
) -> tuple[Result, Finetuned]:
    """Fine-tune, predict and score; the record lacks but where its predictions stand.

    In the folder `states` an unfinished fine-tuning keeps where it stands. A network that is kept
    is written there, into a folder that is named as the job's key.
    """
    start = time.monotonic()
    task, reported = job.task, features.predicted[data.split]
    settings = job.settings
    if job.variant == "bag-of-words":
        fitted = score_bag_of_words(features, job.seed, settings, on_step, job.train_fraction)
    else:
        state = StateFile(states / f"{job.key}.pt")
        how = job.variant, job.seed, settings, on_step, job.train_fraction, device, state

        def on_trained(network: EncoderWithHead) -> None:
            if job.is_kept:
                keep(states / job.key, network, task, source, settings)

        fitted = finetune(features, source, *how, on_trained)
        state.remove()
    metrics = score_splits(task, data.split, fitted.lines)
    lines = fitted.lines[data.split]
    doubts = [] if fitted.degenerate else task.doubts(data.train, lines)
    coverage = coverage_of(reported.features.input_ids, source.tokenizer)
    if coverage.is_unfit and job.variant != "bag-of-words":
        doubts.append(str(coverage))
    at_once = fitted.hyper_parameters.get("micro_batch_size", math.inf)
    if at_once < min(settings.micro_batch_size or settings.batch_size, settings.batch_size):
        doubts.append(f"out of memory: batches of {at_once} rows at once")
    result = Result(
        key=job.key,
        suite=task.suite,
        task=task.name,
        task_version=task.version,
        own_task=record_of(task),
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
        selection=settings.selection,
        selected=dict(fitted.selected),
        search=dict(job.search),
        degenerate=fitted.degenerate,
        notes=doubts,
        hyper_parameters=dict(fitted.hyper_parameters),
        recommended={
            name: value
            for name, value in source.recommended.items()
            if fitted.hyper_parameters.get(name) == value
        },
        versions=versions(),
        data_sha256=data.sha256,
        data_commits=dict(data.commits),
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
        path = prediction_path(folder, result, further)
        write_predictions(path, {**about, "split": split}, lines)
