"""What an evaluation does: one job for each task, role, seed and part of the training rows.

A job fine-tunes, predicts and scores. With `evaluate.search` trials come first, the same for the
encoder and for random initialisation. They learn from a part of the first seed's training rows and
are scored on the rest of them, in the rounds of `search`. The best one makes the jobs that are
reported. The reported rows decide nothing.
"""

import json
import math
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.encoder import ModelSource, fitting_length, with_added_tokens
from benchmarks.finetune.bag_of_words import CHOICES
from benchmarks.finetune.finetune import (
    Finetuned,
    Split,
    TaskFeatures,
    finetune,
    sampled_examples,
    score_bag_of_words,
    training_rows,
)
from benchmarks.finetune.kept import keep
from benchmarks.finetune.recipe import HyperParameters, hyper_parameters, options_for, seeds_for
from benchmarks.finetune.search import FIRST, LAST, combinations, num_kept, rounds
from benchmarks.finetune.training import OnStep
from benchmarks.results.predictions import score_splits
from benchmarks.results.results import Result, encoder_label
from benchmarks.tasks.heads.linear import EncoderWithHead
from benchmarks.tasks.labels import Classification
from benchmarks.tasks.load import SPLIT_EVAL, TaskData, split_by_group
from benchmarks.tasks.own import record_of
from benchmarks.tasks.task import OWN, Example, Task
from electrify.config.evaluate import EvaluateConfig, Role
from electrify.stage.folder import digest_of
from electrify.system.machine import git_commit, versions
from electrify.system.outcome import UserError
from electrify.system.progress import warn
from electrify.system.unknown import coverage_of, warn_of_unknown

Weights = Mapping[str, str]  # digests of what the encoder's weights come from


@dataclass(frozen=True)
class Job:
    """One fine-tuning."""

    task: Task
    role: Role
    seed: int
    encoder: str  # its name or path
    settings: HyperParameters
    train_fraction: float
    key: str  # digest of all of this, the weights and the data: `Result.key`
    data: TaskData = field(repr=False)
    trial: str = ""  # which one of a search it is
    share: float = 1.0  # of the steps that the settings ask for
    search: Mapping[str, Any] = field(default_factory=dict)  # what a record says of the search
    is_kept: bool = False  # the fine-tuned network is written to a folder

    @property
    def label(self) -> str:
        part = "" if self.train_fraction == 1.0 else f" on {100 * self.train_fraction:g} %"
        name = encoder_label(self.role, self.encoder)
        trial = f", {self.trial}, {self.share:g} of the steps" if self.trial else ""
        return f"{self.task.title}, {name}, seed {self.seed}{part}{trial}"


def plan_jobs(
    options: EvaluateConfig,
    tasks: Sequence[Task],
    source: ModelSource,
    weights: Weights,
    data: Mapping[str, TaskData],
) -> list[Job]:
    """Every job, task by task, the largest part of the training split first, of each part the
    encoder before its baselines. The settings are those before a search; the key has the search in
    place of what it chooses."""
    fractions = sorted(set(options.train_fractions), reverse=True)
    jobs = []
    for task in tasks:
        settings, seeds = settings_for(task, options, source), seeds_for(task, options)
        for fraction, role, seed in product(fractions, _roles(options, task), seeds):
            decides: list[object] = [_weights_of(role, weights, source), _deciding(settings)]
            if options.search:
                decides.append([options.search.model_dump(mode="json"), seeds[0], "halving"])
            if role == "bag-of-words":
                decides = [settings.max_train_examples, settings.selection_fraction, CHOICES]
            is_kept = options.keep_models and role == "pretrained"
            decides += ["kept"] * is_kept  # one that was done before, and not kept, is done again
            content = [task.name, task.version, data[task.name].sha256, decides, fraction]
            key = digest_of([*content, role, seed])[:16]
            of_job = task, role, seed, source.name, settings, fraction, key, data[task.name]
            jobs.append(Job(*of_job, is_kept=is_kept))
    return jobs


def _deciding(settings: HyperParameters) -> dict[str, Any]:
    """The settings but for how many rows are in memory at once, which changes no score."""
    of_sample = settings.max_train_examples and settings.selection_fraction
    more = {"selection": "of the sample"} if of_sample else {}
    return asdict(settings) | {"micro_batch_size": None} | more


def _roles(options: EvaluateConfig, task: Task | None = None) -> list[Role]:
    """What is scored of a task: the encoder and its baselines; without a task, what has trials."""
    roles: list[Role] = ["pretrained"]
    if options.random_init_control:
        roles.append("random-init")
    wanted = options.random_init_control if options.bag_of_words is None else options.bag_of_words
    if wanted and isinstance(task, Classification):
        roles.append("bag-of-words")
    return roles


def _weights_of(role: Role, weights: Weights, source: ModelSource) -> object:
    """What a job's weights come from: random initialisation depends on the shape alone."""
    return source.shape if role == "random-init" else weights


def settings_for(task: Task, options: EvaluateConfig, source: ModelSource) -> HyperParameters:
    """`hyper_parameters`, with rows as long as the model takes."""
    settings = hyper_parameters(task, options, source.config.hidden_size, source.recommended)
    was_given = "max_sequence_length" in options_for(task, options)
    length = fitting_length(settings.max_sequence_length, source, was_given)
    return replace(settings, max_sequence_length=length)


def plan_trials(
    options: EvaluateConfig,
    tasks: Sequence[Task],
    source: ModelSource,
    weights: Weights,
    data: Mapping[str, TaskData],
) -> list[Job]:
    """The first round of trials of every task, of the encoder and of random initialisation; none
    without a search."""
    jobs: list[Job] = []
    if (search := options.search) is None:
        return jobs
    for task in tasks:
        settings, seed = settings_for(task, options, source), seeds_for(task, options)[0]
        if not (tried := combinations(search, task)):
            continue
        part = trial_data(task, data[task.name], settings, seed, search.held_out_fraction)
        learnt = min(len(data[task.name].train), settings.max_train_examples or sys.maxsize)
        num_learnt = round(learnt * (1 - search.held_out_fraction))
        share = rounds(tried, settings, num_learnt)[0][1]
        for role, (number, changes) in product(_roles(options), enumerate(tried, start=1)):
            changed = replace(settings, **changes)
            comes_from = _weights_of(role, weights, source), data[task.name].sha256
            content = [task.name, task.version, comes_from, _deciding(changed)]
            key = digest_of([*content, search.held_out_fraction, role, seed])[:16]
            words = ", ".join(f"{name} {json.dumps(value)}" for name, value in changes.items())
            trial = f"trial {number} of {len(tried)} ({words})"
            job = Job(task, role, seed, source.name, changed, 1.0, key, part, trial)
            jobs.append(_with_share(job, share))
    return jobs


def next_round(trials: Sequence[Job], results: Mapping[str, Result]) -> list[Job]:
    """The best quarter of the trials of each task and role, if these were in the first of two
    rounds."""
    return [
        _with_share(trial, LAST)
        for own in _groups(trials)
        if own[0].share == FIRST
        for trial in sorted(_by_worth(own, results)[: num_kept(len(own))], key=own.index)
    ]


def later_rounds(trials: Sequence[Job]) -> list[tuple[list[Job], int]]:
    """Of each task and role with a second round candidates for it, and how many of them it has."""
    return [
        ([_with_share(trial, LAST) for trial in own], num_kept(len(own)))
        for own in _groups(trials)
        if own[0].share == FIRST
    ]


def _with_share(trial: Job, share: float) -> Job:
    key = trial.key.partition("-")[0]
    return replace(trial, share=share, key=key if share == 1.0 else f"{key}-{share:g}")


def _groups(trials: Sequence[Job]) -> list[list[Job]]:
    """By task and role."""
    groups: dict[tuple[str, Role], list[Job]] = {}
    for trial in trials:
        groups.setdefault((trial.task.name, trial.role), []).append(trial)
    return list(groups.values())


def _by_worth(trials: Sequence[Job], results: Mapping[str, Result]) -> list[Job]:
    """The best first, the earlier one of equals, and failed trainings last."""

    def worth(trial: Job) -> tuple[bool, float]:
        result = results[trial.key]
        if math.isnan(result.value):
            return False, -math.inf
        is_sound = result.degenerate is None
        return is_sound, result.value if result.higher_is_better else -result.value

    return sorted(trials, key=worth, reverse=True)


def trial_data(
    task: Task, data: TaskData, settings: HyperParameters, seed: int, fraction: float
) -> TaskData:
    """The seed's training rows in two: what trials learn from, and what they are scored on."""
    positions = sampled_examples(len(data.train), settings.max_train_examples, seed)
    rows = tuple(data.train[number] for number in positions)
    learnt, scored = split_by_group(task, rows, 1 - fraction, salt="search\n")
    if not learnt or not scored:
        raise UserError(
            f"{task.name}: evaluate.search.held_out_fraction = {fraction} leaves {len(learnt)} "
            f"rows to learn from and {len(scored)} to score on; change it"
        )
    return TaskData(learnt, scored, "train-held-out", data.sha256)


def choose(jobs: Sequence[Job], trials: Sequence[Job], results: Mapping[str, Result]) -> list[Job]:
    """The jobs with the settings of the best of their trials of the last round; as they are where
    none were asked for."""
    best = {}
    for own in _groups(trials):
        last = [trial for trial in own if trial.share == max(of.share for of in own)]
        best[own[0].task.name, own[0].role] = _by_worth(last, results)[0]
    chosen = []
    for job in jobs:
        if (trial := best.get((job.task.name, job.role))) is not None:
            value, count = results[trial.key].value, results[trial.key].num_examples
            search = {"best": trial.trial, "value": value, "num_held_out": count}
            search |= {"fraction_of_steps": trial.share}  # in the last round
            job = replace(job, settings=trial.settings, search=search)
        chosen.append(job)
    return chosen


def prepare(
    task: Task,
    data: TaskData,
    source: ModelSource,
    settings: HyperParameters,
    seeds: Sequence[int],
) -> TaskFeatures:
    """The task's splits in pieces, with a warning for each in which something is cut. Of the
    training split the examples that one of `seeds` learns from."""
    length = settings.max_sequence_length
    tokenizer = with_added_tokens(source.tokenizer, task.added_tokens)

    def prepared(split: str, examples: tuple[Example, ...], train: bool = False) -> Split:
        features = task.featurize(examples, tokenizer, length, train)
        if not features.input_ids:
            raise UserError(f"{task.name} {split}: none of {len(examples)} rows can be used")
        if (cut := features.num_truncated) > 0:
            warn(
                f"{task.name} {split}: {cut:,} of {len(examples):,} examples "
                f"({100 * cut / len(examples):.1f} %) are longer than {length} pieces and were cut"
            )
        return Split(examples, features)

    for split, (here, officially) in data.parts.items():
        warn(f"{task.name} {split}: {here:,} rows, the official split has {officially:,}")
    if SPLIT_EVAL in data.split and task.suite != OWN:
        warn(
            f"{task.name}: no training file; a part of the {task.reported} rows is trained on, and "
            f"the other {len(data.reported):,} are reported as split {data.split!r}"
        )
    train, chosen, selection = data.train, tuple[Example, ...](), settings.selection_fraction
    if selection is not None:
        train, chosen = split_by_group(task, train, 1 - selection, salt="selection\n")
        if not train or not chosen:
            raise UserError(
                f"{task.name}: evaluate.selection_fraction = {selection} leaves "
                f"{len(train)} rows to learn from and {len(chosen)} to choose the model by"
            )
    most = settings.max_train_examples
    if selection is not None and most is not None:  # few rows are chosen by few rows
        num_chosen = max(1, round(most * selection / (1 - selection)))
        chosen = tuple(chosen[n] for n in sampled_examples(len(chosen), num_chosen, seeds[0]))
    chooses = prepared("selection", chosen) if chosen else None
    predicted = {name: prepared(name, rows) for name, rows in data.predicted.items()}
    positions = np.unique(np.concatenate([sampled_examples(len(train), most, n) for n in seeds]))
    learnt = prepared("train", tuple(train[n] for n in positions), train=True)
    learnt = replace(learnt, positions=positions, num_in_whole=len(train))
    rows = chain.from_iterable(s.features.input_ids for s in (learnt, *predicted.values()))
    what = f"{task.name} as {source.name} reads it"
    warn_of_unknown(coverage_of(rows, tokenizer), what)
    return TaskFeatures(task, learnt, predicted, chooses)


def num_rows(job: Job, features: TaskFeatures) -> int:
    most = job.settings.max_train_examples
    rows = training_rows(job.task, features.train, most, job.seed, job.train_fraction)
    if job.role == "bag-of-words":
        return len(rows)
    settings = job.settings.shortened(job.share)
    return settings.num_steps(len(rows)) * settings.batch_size


def run_job(
    job: Job,
    features: TaskFeatures,
    source: ModelSource,
    device: str,
    unfinished: Path,
    on_step: OnStep,
) -> tuple[Result, Finetuned]:
    """Fine-tune, predict and score; the record lacks but where its predictions stand.

    In the folder `unfinished` a fine-tuning keeps where it stands. A network that is kept is
    written there, into a folder that is named as the job's key.
    """
    start = time.monotonic()
    task, data, settings = job.task, job.data, job.settings.shortened(job.share)
    if job.role == "bag-of-words":
        fitted = score_bag_of_words(features, job.seed, settings, job.train_fraction)
    else:
        state = unfinished / f"{job.key}.pt"
        how = job.role, job.seed, settings, on_step, job.train_fraction, device, state

        def on_trained(network: EncoderWithHead) -> None:
            if job.is_kept:
                keep(unfinished / job.key, network, task, source, settings)

        fitted = finetune(features, source, *how, on_trained)
    metrics = score_splits(task, data.split, fitted.lines)
    reported = features.predicted[data.split].features
    used = fitted.hyper_parameters
    result = Result(
        key=job.key,
        suite=task.suite,
        task=task.name,
        task_version=task.version,
        own_task=record_of(task),
        role=job.role,
        model_path=source.name,
        seed=job.seed,
        metric=task.headline,
        value=metrics[task.headline],
        higher_is_better=task.higher_is_better,
        metrics=metrics,
        split=data.split,
        num_examples=len(data.reported),
        parts=dict(data.parts),
        truncated_fraction=reported.num_truncated / len(data.reported),
        selection=settings.selection,
        search=dict(job.search),
        notes=_doubts(job, features, source, fitted),
        recommended={n: v for n, v in source.recommended.items() if used.get(n) == v},
        versions=versions(),
        data_sha256=data.sha256,
        data_commits=dict(data.commits),
        git_commit=git_commit(),
        seconds=round(time.monotonic() - start, 3),
        train_fraction=job.train_fraction,
        **fitted.record,
    )
    return result, fitted


def _doubts(job: Job, features: TaskFeatures, source: ModelSource, fitted: Finetuned) -> list[str]:
    doubts, data = list[str](), job.data
    if not fitted.degenerate:
        doubts += job.task.doubts(data.train, fitted.lines[data.split])
    if job.role == "bag-of-words":
        return doubts
    rows = features.predicted[data.split].features.input_ids
    if (coverage := coverage_of(rows, source.tokenizer)).is_unfit:
        doubts.append(str(coverage))
    batch_size = job.settings.batch_size
    at_once = fitted.hyper_parameters["micro_batch_size"]
    if at_once < min(job.settings.micro_batch_size or batch_size, batch_size):
        doubts.append(f"out of memory: batches of {at_once} rows at once")
    return doubts
