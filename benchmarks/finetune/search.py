"""The search over options of fine-tuning: trials on a part of the training rows.

An encoder and its untrained twin may need other rates, epochs and layers. Each has the same trials:
one fine-tuning for every combination of the values of `evaluate.search`, learnt from a part of the
first seed's training rows and scored on the rest of them. The best one's options make the jobs that
are reported. The reported rows decide nothing.
"""

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from benchmarks.encoder import ModelSource, Variant, has_layers
from benchmarks.finetune.finetune import sampled_examples
from benchmarks.finetune.jobs import Job, encoder_variants, settings_for, weights_of
from benchmarks.finetune.recipe import HyperParameters, seeds_for
from benchmarks.results.results import Result
from benchmarks.tasks.data import TaskData, split_by_group
from benchmarks.tasks.kinds.classification import Classification, Regression
from benchmarks.tasks.kinds.tagging import Tagging
from benchmarks.tasks.task import Task
from electrify.config.evaluate import EvaluateConfig, SearchOptions
from electrify.stage.folder import digest_of
from electrify.system.outcome import UserError

TRIALS = "search.jsonl"  # beside the results: a record a trial
_OF_POOLED_HEADS = ("pooling", "pooled_norm")


def combinations(search: SearchOptions, task: Task, source: ModelSource) -> list[dict[str, Any]]:
    """The options of each trial of a task: all combinations that the task's head and the model's
    layers take, or `num_trials` drawn of them."""
    without: tuple[str, ...] = ()
    if not isinstance(task, Classification | Regression):
        without = _OF_POOLED_HEADS
        if not isinstance(task, Tagging):
            without = (*_OF_POOLED_HEADS, "head_initialization")
    values = {
        name: dict.fromkeys(tried) for name, tried in search.values.items() if name not in without
    }
    if "pooling" in values and not task.has_parts:
        values["pooling"].pop("parts", None)
        values["pooling"] = values["pooling"] or {"mean": None}
    every = [
        dict(zip(values, chosen, strict=True)) for chosen in itertools.product(*values.values())
    ]
    every = [
        one
        for one in every
        if has_layers(source, one.get("num_layers"), one.get("reinitialized_layers", 0))
    ]
    if not every:
        raise UserError(
            f"evaluate.search: {source.name} has {source.config.num_hidden_layers} layers, and no "
            "trial fits them; lower num_layers or reinitialized_layers"
        )
    if search.num_trials is None or search.num_trials >= len(every):
        return every if values else []
    drawn = np.random.default_rng(0).choice(len(every), search.num_trials, replace=False)
    return [every[number] for number in sorted(drawn)]


def plan_trials(
    options: EvaluateConfig,
    tasks: Sequence[Task],
    source: ModelSource,
    made_from: Mapping[str, tuple[object, object]],
) -> list[Job]:
    """The trials of every task, of the encoder and of its untrained twin; none without a search.

    `made_from` are digests of weights and data by task.
    """
    search = options.search
    if search is None:
        return []
    jobs = []
    for task in tasks:
        settings, seed = settings_for(task, options, source), seeds_for(task, options)[0]
        tried = combinations(search, task, source)
        weights, data = made_from[task.name]
        for variant in encoder_variants(options):
            made = weights_of(variant, weights, source), data
            for number, changes in enumerate(tried, start=1):
                changed = replace(settings, **changes)
                content = [task.name, task.version, made, asdict(changed)]
                key = digest_of([*content, search.held_out_fraction, variant, seed])[:16]
                words = ", ".join(f"{name} {json.dumps(value)}" for name, value in changes.items())
                note = f"trial {number} of {len(tried)} ({words})"
                jobs.append(Job(task, variant, seed, source.name, changed, 1.0, key, note))
    return jobs


def trial_data(
    task: Task, data: TaskData, settings: HyperParameters, seed: int, fraction: float
) -> TaskData:
    """The seed's training rows in two: what trials learn from, and what they are scored on.

    Raises `ValueError` where one part is empty.
    """
    positions = sampled_examples(len(data.train), settings.max_train_examples, seed)
    rows = tuple(data.train[number] for number in positions)
    learnt, held_out = split_by_group(task, rows, 1 - fraction, salt="search\n")
    if not learnt or not held_out:
        raise UserError(
            f"{task.name}: evaluate.search.held_out_fraction = {fraction} leaves {len(learnt)} "
            f"rows to learn from and {len(held_out)} to score on; change it"
        )
    return TaskData(learnt, held_out, "train-held-out", data.sha256)


def choose(jobs: Sequence[Job], trials: Sequence[Job], results: Mapping[str, Result]) -> list[Job]:
    """The jobs with the settings of the best of their trials; as they are where none were asked
    for. Among equals the earlier trial is taken, and a failed training is the last choice."""
    groups: dict[tuple[str, Variant], list[Job]] = {}
    for trial in trials:
        groups.setdefault((trial.task.name, trial.variant), []).append(trial)
    chosen = []
    for job in jobs:
        if group := groups.get((job.task.name, job.variant)):
            best = max(group, key=lambda trial: _worth(results[trial.key]))
            record = {
                "best": best.note,
                "value": results[best.key].value,
                "num_held_out": results[best.key].num_examples,
            }
            job = replace(job, settings=best.settings, search=record)
        chosen.append(job)
    return chosen


def _worth(result: Result) -> float:
    if result.degenerate or math.isnan(result.value):
        return -math.inf
    return result.value if result.higher_is_better else -result.value
