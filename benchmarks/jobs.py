"""Fine-tunings of an evaluation: done one after the other or in processes, the search over their
options."""

import json
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from benchmarks.encoder import ModelSource
from benchmarks.results.predictions import score_splits, with_groups
from benchmarks.results.results import MODELS, Result, encoder_label, percent
from benchmarks.tasks.load import TaskData
from benchmarks.tasks.own import record_of
from benchmarks.tasks.task import Prediction, Task
from benchmarks.training.finetune import (
    Finetuned,
    TaskFeatures,
    choose_device,
    finetune,
    fit_bag_of_words,
    sampled_examples,
    tokenize,
    training_rows,
)
from benchmarks.training.network import keep
from benchmarks.training.recipe import HyperParameters, best_of, held_out_data, seeds_for
from electrify.config.evaluate import EvaluateConfig, Role
from electrify.system.machine import git_commit, num_cores, return_freed_memory, versions
from electrify.system.outcome import UserError
from electrify.system.progress import (
    Progress,
    Stopped,
    StopRequest,
    handle_stop_signals,
    log,
    setup_logging,
)
from electrify.system.unknown import coverage_of

_SAVED = "finished fine-tunings are saved"
SplitPredictions = Mapping[str, list[Prediction]]  # by split
Run = Callable[[StopRequest], tuple[Result, SplitPredictions]]


@dataclass(frozen=True)
class Job:
    """One fine-tuning."""

    task: Task
    data: TaskData = field(repr=False)
    settings: HyperParameters
    role: Role
    seed: int
    train_fraction: float = 1.0
    key: str = ""  # `Result.key`
    predictions: str = ""  # as in `Result`
    search: Mapping[str, Any] = field(default_factory=dict)  # what a record says of the search

    def label(self, source: ModelSource) -> str:
        part = "" if self.train_fraction == 1.0 else f" on {100 * self.train_fraction:g} %"
        name = encoder_label(self.role, source.name, source.title)
        return f"{self.task.title}, {name}, seed {self.seed}{part}"


def run_jobs(
    jobs: Sequence[Job],
    features: Mapping[str, TaskFeatures],
    source: ModelSource,
    options: EvaluateConfig,
    stop: StopRequest,
    folder: Path | None = None,
) -> Iterator[tuple[Job, Result, SplitPredictions]]:
    """Each job with its record and its predictions by split, as they finish.

    `evaluate.num_processes` of them run at a time, one a GPU at least; they share the cores. With
    one they run in this process, in order. With `folder` a network that is kept is written to
    `MODELS`/`job.predictions` there. Raises `Stopped` as soon as `stop` is set, and `UserError`
    where a process was killed.
    """
    if not jobs:
        return
    device = choose_device(options.device).type
    num_processes = max(options.num_processes, torch.cuda.device_count() if device == "cuda" else 1)
    num_processes = min(len(jobs), num_processes)
    kept = folder / MODELS if folder is not None and options.keep_models else None
    runs = [
        partial(run_job, job, features[job.task.name], source, options.device, kept, note)
        for n, job in enumerate(jobs, start=1)
        for note in [f"{n} of {len(jobs)}"]
    ]
    finished: Any = ((number, *run(stop)) for number, run in enumerate(runs))
    if num_processes > 1:
        finished = _in_processes(runs, num_processes, device)
    with closing(finished):
        for number, result, predictions in finished:
            yield jobs[number], result, predictions
            return_freed_memory()
            if stop:  # a bag of words has no steps that look
                raise Stopped(_SAVED, stop.signal)


def _in_processes(
    runs: Sequence[Run], num_processes: int, device: str
) -> Iterator[tuple[int, Result, SplitPredictions]]:
    from joblib import Parallel, delayed
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    gpus = [*map(str, range(torch.cuda.device_count()))] if device == "cuda" else []
    if gpus and (visible := os.environ.get("CUDA_VISIBLE_DEVICES")):
        gpus = visible.split(",")
    threads = max(1, num_cores() // num_processes)
    calls = (delayed(_work)(number, run, gpus, threads) for number, run in enumerate(runs))
    finished = Parallel(num_processes, return_as="generator_unordered")(calls)

    def leave(number: int, frame: FrameType | None) -> None:
        raise Stopped(_SAVED, signal.Signals(number))

    try:
        for _ in runs:
            with handle_stop_signals(leave):
                one = next(finished)
            yield one
    except TerminatedWorkerError as error:
        raise UserError(
            "a fine-tuning process was killed, probably because memory ran out: lower "
            f"evaluate.num_processes (now {num_processes}); finished fine-tunings are kept"
        ) from error
    finally:
        finished.close()


def _work(
    number: int, run: Run, gpus: Sequence[str], threads: int
) -> tuple[int, Result, SplitPredictions]:
    """One job in a worker process, which sees one of the GPUs; the parent answers signals."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    setup_logging()
    if gpus:  # torch reads it at its first use of CUDA
        slot = int("0" + "".join(filter(str.isdigit, multiprocessing.current_process().name)))
        os.environ["CUDA_VISIBLE_DEVICES"] = gpus[slot % len(gpus)]
    torch.set_num_threads(threads)
    result, predictions = run(StopRequest())
    return_freed_memory()
    return number, result, predictions


def run_job(
    job: Job,
    features: TaskFeatures,
    source: ModelSource,
    device: str,
    kept: Path | None,
    note: str,
    stop: StopRequest,
) -> tuple[Result, SplitPredictions]:
    """Fine-tune, predict and score: the record, and the predictions by split. A trained encoder is
    written to the folder `kept`/`job.predictions`, where one is given."""
    start, task, data, settings = time.monotonic(), job.task, job.data, job.settings
    part: dict[str, Any] = {"seed": job.seed, "train_fraction": job.train_fraction}
    if job.role == "bag-of-words":
        fitted = fit_bag_of_words(features, settings, **part)
    else:
        rows = training_rows(
            task, features.train, settings.max_train_examples, job.seed, job.train_fraction
        )
        num_rows = settings.num_steps(len(rows)) * settings.batch_size
        with Progress(f"{note}: {job.label(source)}", num_rows, "examples") as bar:

            def on_step(count: int) -> None:
                bar.update(count)
                if stop:
                    raise Stopped(_SAVED, stop.signal)

            part |= {"role": job.role, "device_name": device, "on_step": on_step}
            fitted = finetune(features, source, settings, **part)
        is_kept = kept is not None and job.role == "pretrained" and task.has_auto_head
        if kept is not None and is_kept and fitted.network is not None:
            keep(kept / job.predictions, fitted.network, task, source, settings)
    predictions = dict(fitted.predictions)
    predictions[data.split] = with_groups(data.reported, predictions[data.split])
    metrics = score_splits(task, data.split, predictions)
    reported = features.predicted[data.split].features
    used = fitted.hyper_parameters
    result = Result(
        key=job.key,
        predictions=job.predictions,
        suite=task.suite,
        task=task.name,
        task_version=task.version,
        own_task=record_of(task),
        role=job.role,
        model_path=source.name,
        model_name=source.title,
        seed=job.seed,
        metric=task.headline,
        value=metrics[task.headline],
        metrics=metrics,
        split=data.split,
        num_examples=len(data.reported),
        parts=dict(data.parts),
        truncated_fraction=reported.num_truncated / len(data.reported),
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
    return result, predictions


def _doubts(job: Job, features: TaskFeatures, source: ModelSource, fitted: Finetuned) -> list[str]:
    """What looks wrong with a record although nothing failed."""
    doubts = list[str]()
    if not fitted.degenerate:
        doubts += job.task.doubts(job.data.train, fitted.predictions[job.data.split])
    if job.role == "bag-of-words":
        return doubts
    rows = features.predicted[job.data.split].features.input_ids
    if (coverage := coverage_of(rows, source.tokenizer)).is_unfit:
        doubts.append(str(coverage))
    if (at_once := fitted.hyper_parameters["micro_batch_size"]) < job.settings.batch_size:
        doubts.append(f"out of memory: batches of {at_once} rows at once")
    return doubts


def search_settings(
    jobs: Sequence[Job],
    done: Sequence[Result],
    source: ModelSource,
    options: EvaluateConfig,
    stop: StopRequest,
) -> list[Job]:
    """The jobs with the best settings of `evaluate.search` for their task and role; as they are
    without a search.

    Every combination learns once from a part of the first seed's training rows and is scored on
    the rest of them. A record of the same search says what was best, so that it is not done again.
    """
    if options.search is None:
        return list(jobs)
    known = {result.settings_digest: result.search for result in done}
    chosen = {(j.task.name, j.role): known.get(j.key.rpartition("-")[0], {}) for j in jobs}
    trials, features = list[Job](), dict[str, TaskFeatures]()
    for job in {(job.task.name, job.role): job for job in jobs}.values():
        if job.role == "bag-of-words" or chosen[job.task.name, job.role]:
            continue
        seed = seeds_for(job.task, options)[0]
        rows = sampled_examples(len(job.data.train), job.settings.max_train_examples, seed)
        part = held_out_data(job.task, job.data, rows.tolist())
        features[job.task.name] = tokenize(job.task, part, source, job.settings, [seed])
        for number, changes in enumerate(options.search.trials):
            settings = replace(job.settings, **changes)
            trial = replace(job, data=part, seed=seed, key=str(number), search=changes)
            trials.append(replace(trial, settings=settings))
    results: dict[tuple[str, Role], list[Result]] = {}
    for trial, result, _ in run_jobs(trials, features, source, options, stop):
        results.setdefault((trial.task.name, trial.role), []).append(result)
        log(f"search: {trial.label(source)}, {_words(trial.search)}: {percent(result.value)}")
    for key, tried in results.items():
        in_order = sorted(tried, key=lambda result: int(result.key))
        best = in_order[best_of([vars(result) for result in in_order])]
        chosen[key] = {
            "chosen": dict(best.search),
            "best": _words(best.search),
            "value": best.value,
            "num_held_out": best.num_examples,
            "num_trials": len(in_order),
        }
    return [_with_search(job, chosen[job.task.name, job.role]) for job in jobs]


def _with_search(job: Job, search: Mapping[str, Any]) -> Job:
    settings = replace(job.settings, **search.get("chosen", {}))
    return replace(job, settings=settings, search=search)


def _words(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {json.dumps(value)}" for name, value in options.items())
