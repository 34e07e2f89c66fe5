"""Fine-tunings of an evaluation: done one after the other or in processes, the search over their
options."""

import json
import multiprocessing
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from benchmarks.encoder import ModelSource
from benchmarks.results.predictions import score_splits
from benchmarks.results.results import Result, encoder_label, percent
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
from benchmarks.training.network import keep, kept_folder
from benchmarks.training.recipe import HyperParameters, best_of, grid, held_out_data, seeds_for
from electrify.config.evaluate import EvaluateConfig, Role
from electrify.system.machine import git_commit, num_cores, return_freed_memory, versions
from electrify.system.outcome import UserError
from electrify.system.progress import (
    Progress,
    Stopped,
    StopRequest,
    duration,
    handle_stop_signals,
    log,
    setup_logging,
)
from electrify.system.unknown import coverage_of

MIN_SECONDS = 60.0  # of all fine-tunings, below which no forecast is given
_UNNAMED = "models.partial"  # folder of kept networks before their record is written
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
    search: Mapping[str, Any] = field(default_factory=dict)  # what a record says of the search

    def label(self, source: ModelSource) -> str:
        part = "" if self.train_fraction == 1.0 else f" on {100 * self.train_fraction:g} %"
        name = encoder_label(self.role, source.name, source.title)
        return f"{self.task.title}, {name}, seed {self.seed}{part}"


# --- fine-tunings, one after the other or in processes --------------------------------------------


def run_jobs(
    jobs: Sequence[Job],
    features: Mapping[str, TaskFeatures],
    source: ModelSource,
    options: EvaluateConfig,
    stop: StopRequest,
    folder: Path | None = None,
    verb: str = "evaluate",
) -> Iterator[tuple[Job, Result, SplitPredictions]]:
    """Each job with its record and its predictions by split, as they finish.

    `evaluate.num_processes` of them run at a time, one a GPU at least; they share the cores. With
    one they run in this process, in order. With `folder` a network that is kept is written there.
    Raises `Stopped` as soon as `stop` is set, and `UserError` where a process was killed.
    """
    if not jobs:
        return
    device = choose_device(options.device)
    num_processes = min(len(jobs), num_workers(options.num_processes, device.type))
    kept = folder / _UNNAMED if folder is not None and options.keep_models else None
    if kept is not None:
        shutil.rmtree(kept, ignore_errors=True)  # of one that was stopped
    given = source, options.device, kept
    tokens = [num_tokens(job, features[job.task.name]) for job in jobs]
    timed = next((n for n, count in enumerate(tokens) if count), None)  # one that has steps
    work = f"{verb}: {len(jobs)} fine-tunings", sum(tokens) / num_processes
    runs = [
        partial(run_job, job, features[job.task.name], *given, note, work if n == timed else None)
        for n, job in enumerate(jobs)
        for note in [f"{n + 1} of {len(jobs)}"]
    ]
    if num_processes > 1:
        for number, result, predictions in _in_processes(runs, num_processes, device.type, stop):
            yield jobs[number], result, predictions
        return
    for job, run in zip(jobs, runs, strict=True):
        yield job, *run(stop)
        return_freed_memory()
        if stop:  # a bag of words has no steps that look
            raise Stopped(_SAVED, stop.signal)


def num_workers(asked: int, device_type: str) -> int:
    """How many fine-tunings run at once: as many as asked for, and one a GPU where these are
    used."""
    return max(asked, torch.cuda.device_count()) if device_type == "cuda" else asked


def gpu_of(slot: int) -> str | None:
    """The one GPU that a process shall see, as `CUDA_VISIBLE_DEVICES` names it: processes take the
    visible ones in turn. None where there is no GPU."""
    num_gpus = torch.cuda.device_count()
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = given.split(",") if given else list(map(str, range(num_gpus)))
    return names[slot % num_gpus] if num_gpus else None


def _in_processes(
    runs: Sequence[Run], num_processes: int, device_type: str, stop: StopRequest
) -> Iterator[tuple[int, Result, SplitPredictions]]:
    from joblib import Parallel, delayed
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    gpus = [gpu_of(slot) if device_type == "cuda" else None for slot in range(num_processes)]
    threads = max(1, num_cores() // num_processes)
    calls = (delayed(_work)(number, run, gpus, threads) for number, run in enumerate(runs))
    finished = Parallel(num_processes, return_as="generator_unordered")(calls)

    def leave(number: int, frame: FrameType | None) -> None:
        raise Stopped(_SAVED, signal.Signals(number))

    try:
        for _ in runs:
            with handle_stop_signals(leave):
                number, result, predictions = next(finished)
            yield number, result, predictions
            if stop:
                raise Stopped(_SAVED, stop.signal)
    except TerminatedWorkerError as error:
        raise UserError(
            "a fine-tuning process was killed, probably because memory ran out: lower "
            f"evaluate.num_processes (now {num_processes}); finished fine-tunings are kept"
        ) from error
    finally:
        finished.close()


def _work(
    number: int, run: Run, gpus: Sequence[str | None], threads: int
) -> tuple[int, Result, SplitPredictions]:
    """One job in a worker process, which sees one GPU; the parent process answers signals."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    setup_logging()
    slot = int("0" + "".join(filter(str.isdigit, multiprocessing.current_process().name)))
    if (gpu := gpus[slot % len(gpus)]) is not None:  # torch reads it at its first use of CUDA
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu
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
    work: tuple[str, float] | None,
    stop: StopRequest,
) -> tuple[Result, SplitPredictions]:
    """Fine-tune, predict and score: the record, and the predictions by split.

    A trained encoder is written to the folder `kept`/`job.key`, where one is given. With `work`,
    the name and the number of tokens of all that is to do in a row, a line says after the first
    steps how long that takes.
    """
    start, task, data, settings = time.monotonic(), job.task, job.data, job.settings
    if job.role == "bag-of-words":
        fitted = fit_bag_of_words(
            features, settings, seed=job.seed, train_fraction=job.train_fraction
        )
    else:
        # a GPU is waited for every 50 steps
        num_timed = 101 if choose_device(device).type == "cuda" else 11
        step_tokens = settings.batch_size * features.train.features.lengths.mean()
        ends = list[float]()
        with Progress(f"{note}: {job.label(source)}", num_rows(job, features), "examples") as bar:

            def on_step(count: int) -> None:
                bar.update(count)
                ends.append(time.monotonic())
                if work and len(ends) == num_timed:
                    seconds = work[1] * (ends[-1] - ends[0]) / (num_timed - 1) / step_tokens
                    if seconds >= MIN_SECONDS:
                        log(f"{work[0]}, about {duration(seconds)} (from the first steps)")
                if stop:
                    raise Stopped(_SAVED, stop.signal)

            fitted = finetune(
                features,
                source,
                settings,
                seed=job.seed,
                role=job.role,
                train_fraction=job.train_fraction,
                device_name=device,
                on_step=on_step,
            )
        is_kept = kept is not None and job.role == "pretrained" and task.has_auto_head
        if kept is not None and is_kept and fitted.network is not None:
            keep(kept / job.key, fitted.network, task, source, settings)
    metrics = score_splits(task, data.split, fitted.predictions)
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
        model_name=source.title,
        seed=job.seed,
        metric=task.headline,
        value=metrics[task.headline],
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
    return result, fitted.predictions


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
    batch_size = job.settings.batch_size
    at_once = fitted.hyper_parameters["micro_batch_size"]
    if at_once < min(job.settings.micro_batch_size or batch_size, batch_size):
        doubts.append(f"out of memory: batches of {at_once} rows at once")
    return doubts


def num_rows(job: Job, features: TaskFeatures) -> int:
    """Rows that a fine-tuning trains on, each pass counted."""
    most = job.settings.max_train_examples
    rows = training_rows(job.task, features.train, most, job.seed, job.train_fraction)
    return job.settings.num_steps(len(rows)) * job.settings.batch_size


def num_tokens(job: Job, features: TaskFeatures) -> float:
    """Tokens that a job trains on; one that is only predicted counts as a third. 0 for a bag of
    words."""
    if job.role == "bag-of-words":
        return 0.0
    trained = num_rows(job, features) * features.train.features.lengths.mean()
    predicted = sum(split.features.lengths.sum() for split in features.predicted.values())
    return float(trained + predicted / 3)


def take_model(folder: Path, job: Job, result: Result) -> None:
    """Give the network that a job kept, if any, the name of its record's predictions."""
    if (made := folder / _UNNAMED / job.key).is_dir():
        kept = kept_folder(folder, result)
        shutil.rmtree(kept, ignore_errors=True)
        kept.parent.mkdir(parents=True, exist_ok=True)
        made.rename(kept)
        with suppress(OSError):  # others are still in it
            made.parent.rmdir()


# --- before the first fine-tuning -----------------------------------------------------------------


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
    search = options.search
    if search is None:
        return list(jobs)
    found = {result.key.rpartition("-")[0]: result.search for result in done}
    chosen = {(j.task.name, j.role): found.get(j.key.rpartition("-")[0], {}) for j in jobs}
    trials, features = list[Job](), dict[str, TaskFeatures]()
    for job in {(job.task.name, job.role): job for job in jobs}.values():
        tried, seed = grid(search, job.task), seeds_for(job.task, options)[0]
        if job.role == "bag-of-words" or not tried or chosen[job.task.name, job.role]:
            continue
        rows = sampled_examples(len(job.data.train), job.settings.max_train_examples, seed)
        part = held_out_data(job.task, job.data, rows.tolist(), search.held_out_fraction)
        features[job.task.name] = tokenize(job.task, part, source, job.settings, [seed])
        for number, changes in enumerate(tried):
            trial = replace(job, data=part, seed=seed, key=str(number), search=changes)
            trials.append(replace(trial, settings=replace(job.settings, **changes)))
    results: dict[tuple[str, Role], list[Result]] = {}
    unkept = options.model_copy(update={"keep_models": False})
    for trial, result, _ in run_jobs(trials, features, source, unkept, stop, verb="search"):
        results.setdefault((trial.task.name, trial.role), []).append(result)
        log(f"search: {trial.label(source)}, {_words(trial.search)}: {percent(result.value)}")
    for key, tried_results in results.items():
        in_order = sorted(tried_results, key=lambda result: int(result.key))
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
