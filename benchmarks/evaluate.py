"""Score an encoder: fine-tune it on every task with every seed, beside its untrained twin.

A job is one task, one model variant and one seed. Finished jobs stand in `results.jsonl` of the
partial stage folder, so the same command continues where a stopped one left off. Of a finished
evaluation that lacks jobs, those it has are kept.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

from benchmarks.encoder import ModelSource, open_model
from benchmarks.finetune.finetune import Finetuned, settle_precision
from benchmarks.finetune.jobs import Job, num_rows, plan_jobs, prepare, run_job, write_lines
from benchmarks.finetune.parallel import run_jobs
from benchmarks.results.predictions import PREDICTIONS
from benchmarks.results.results import (
    RESULTS,
    Result,
    append_result,
    encoder_label,
    largest_part,
    read_results,
)
from benchmarks.results.submission import write_submissions
from benchmarks.statistics.comparison import against_twins, verdict_sentence
from benchmarks.statistics.scores import overall, task_scores
from benchmarks.tasks.data import TaskData, data_folder, load_data
from benchmarks.tasks.registry import resolve_tasks
from benchmarks.tasks.task import Task
from electrify.config.evaluate import EvaluateConfig
from electrify.config.run import RunConfig
from electrify.stage.folder import MANIFEST, SPARSE, Stage, canonical, check_files, read_manifest
from electrify.stage.plan import evaluate_stage, output_dir
from electrify.stage.push import push_partial
from electrify.stage.run import run_stage
from electrify.system.memory import remember_peak
from electrify.system.progress import (
    Progress,
    Stopped,
    StopRequest,
    duration,
    log,
    stop_on_signal,
    warn,
)

DEFAULT_MODEL = "export/discriminator"
_PROMISE = "finished jobs are kept, a fine-tuning that runs now will start again"
# options that say which jobs there are; the others say how each is done
_WHICH = ("suites", "tasks", "seeds", "train_fractions", "random_init_control", "tasks_options")
Config = Mapping[str, Any]


def evaluate(
    config: RunConfig,
    model: str | None,
    overwrite: bool,
    weights: Path | None = None,
    step: int | None = None,
) -> None:
    """Fine-tune and score `model` (folder or hub name; None: the run's own discriminator).

    What a finished evaluation has is kept where tasks, seeds or parts were added to it.
    `weights` is a folder that stands for `model` where that is none to be read by `transformers`;
    `step` that of a checkpoint on the way. Writes `evaluate/results.jsonl` and
    `evaluate/predictions/`. Raises `ValueError` for unknown tasks, missing or malformed data and an
    unreadable model, before any training, and `Stopped` when asked to stop: finished jobs are kept.
    """
    options = config.evaluate
    tasks = resolve_tasks(options.suites, options.tasks)
    data = {task.name: load_data(task, data_folder(options, tasks)) for task in tasks}
    rows = {name: found.sha256 for name, found in data.items()}
    stage = evaluate_stage(config, model, rows, step)
    path = model if model is not None else str(output_dir(config) / DEFAULT_MODEL)
    name = model or DEFAULT_MODEL  # of the run's own export its place in the run
    extends = not overwrite and is_extension(stage, plan_jobs(options, tasks, name), data)

    def work(partial: Path) -> dict[str, int]:
        if extends and not (partial / RESULTS).exists():
            carry_over(stage.folder, partial)
        # of the run's own export its place in the run: predictions are the same wherever that is
        source = open_model(path if weights is None else str(weights), name)
        with stop_on_signal(_PROMISE) as stop:
            results = _run_jobs(options, source, tasks, data, partial, stop)
        for line in score_table(results, partial):
            log(line)
        if any(split in task.unlabelled for task in tasks for split in data[task.name].further):
            write_submissions(partial)
        num_degenerate = sum(result.degenerate is not None for result in results)
        return {"results": len(results), "degenerate": num_degenerate}

    run_stage(stage, work, overwrite or extends)


def _run_jobs(
    options: EvaluateConfig,
    source: ModelSource,
    tasks: Sequence[Task],
    data: dict[str, TaskData],
    partial: Path,
    stop: StopRequest,
) -> list[Result]:
    """Do the jobs that `results.jsonl` does not have yet; all results in the order of the jobs."""
    path = partial / RESULTS
    results = {result.job: result for result in read_results(path)}
    jobs = plan_jobs(options, tasks, source.name)
    waiting = [job for job in jobs if job.key not in results]
    if len(waiting) < len(jobs):
        log(f"evaluate: {len(jobs) - len(waiting)} of {len(jobs)} jobs are done already")
    if waiting:
        done = [result.hyper_parameters.get("precision") for result in results.values()]
        options = settle_precision(options, next(iter(done), None))
    features = {
        task.name: prepare(task, data[task.name], source, options)
        for task in tasks
        if any(job.task is task for job in waiting)
    }
    total = sum(num_rows(job, features[job.task.name], source, options) for job in waiting)
    calls = [
        (job, data[job.task.name], features[job.task.name], source, options) for job in waiting
    ]
    del features  # each goes with the last job of its task
    with Progress("evaluate", total, "examples") as progress:

        def on_step(index: int, num_rows: int) -> None:
            label = waiting[index].label
            progress.update(num_rows, note=label)
            if stop:
                raise Stopped(
                    f"{len(results)} of {len(jobs)} jobs are saved; {label} starts again",
                    stop.signal,
                )

        for index, (result, fitted) in run_jobs(run_job, calls, options.num_processes, on_step):
            job = waiting[index]
            write_lines(partial, result, fitted)
            if result.device == "cpu" and result.peak_memory_mb:
                remember_peak(result.peak_memory_mb)
            append_result(path, result)  # last: a job in the results is a job that is whole
            push_partial(partial)
            results[job.key] = result
            _log_result(job, result, fitted)
    return [results[job.key] for job in jobs]


def _log_result(job: Job, result: Result, fitted: Finetuned) -> None:
    settings = fitted.hyper_parameters
    rate = settings.num_steps * settings.batch_size / max(fitted.train_seconds, 1e-9)
    log(
        f"{job.label}: {result.metric} {result.value:.4f} on {result.examples} rows of "
        f"{result.split}, {duration(result.seconds)}, {rate:,.0f} examples/s in training"
    )
    if result.degenerate:
        warn(f"{job.label} is degenerate: {result.degenerate}")
    for note in result.notes:
        warn(f"{job.label}: {note}")


def score_table(results: Sequence[Result], place: Path) -> list[str]:
    """The mean over seeds of each task and encoder, line by line, then for each task a sentence:
    better or worse than the same network with random weights, or cannot tell, and why.

    Of those that learnt from the largest part of the training split. `place` holds their
    predictions.
    """
    results = largest_part(results)
    scores = task_scores(place.name, results, place)
    rows = [("task", "metric", "encoder", "mean", "sd", "seeds", "")]
    for score in scores:
        for name, sample in score.samples.items():
            mean, sd, num_seeds, num_degenerate = astuple(sample.summary)
            first, notes = score.first, [f"{num_degenerate} degenerate"] * bool(num_degenerate)
            if "-" in first.split:  # not the rows of the official split
                notes.append(f"{first.examples} rows of {first.split}")
            spread = "–" if sd is None else f"{sd:.4f}"
            of_sample = f"{mean:.4f}", spread, str(num_seeds), ", ".join(notes)
            rows.append((first.task, first.metric, name, *of_sample))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        " ".join(
            cell.ljust(width) if number in (0, 1, 2, 6) else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    compared = against_twins(scores)
    lines += [f"{a.score.first.task}: {verdict_sentence(a)}" for a in compared]
    if not compared:
        lines.append("nothing to compare with: the same network with random weights is not scored")
    for (name, model), mean in overall(results).items():
        lines.append(f"{name}, {encoder_label(model, results[0].model_path)}: {mean:.4f}")
    return lines


def is_extension(stage: Stage, jobs: Sequence[Job], data: Mapping[str, TaskData]) -> bool:
    """Whether the stage's finished folder holds some of its jobs and no others, done alike: from
    the same model, files and options."""
    if not (stage.folder / MANIFEST).exists() or (stage.folder / SPARSE).exists():
        return False
    made = read_manifest(stage.folder)
    config: Config = canonical(dict(stage.config))
    if _how(made["config"]) != _how(config) or _model(made["inputs"]) != _model(stage.inputs):
        return False
    planned = {job.key for job in jobs}
    results = read_results(stage.folder / RESULTS)
    return len(results) < len(planned) and all(
        result.job in planned
        and result.data_sha256 == data[result.task].sha256
        and _own(made["config"], result) == _own(config, result)
        for result in results
    )


def carry_over(finished: Path, partial: Path) -> None:
    """Copy records and predictions of a finished evaluation; `ValueError` if one has changed."""
    check_files(finished, "evaluate")
    predictions = finished / PREDICTIONS
    shutil.copytree(predictions, partial / PREDICTIONS, dirs_exist_ok=True)
    copy = partial / f"{RESULTS}.copy"
    shutil.copyfile(finished / RESULTS, copy)
    copy.rename(partial / RESULTS)  # last: a job in the results is a job that is whole


def _how(config: Config) -> dict[str, Any]:
    return {name: value for name, value in config.items() if name not in _WHICH}


def _model(inputs: Mapping[str, str]) -> dict[str, str]:
    return {name: digest for name, digest in inputs.items() if name != "data"}


def _own(config: Config, result: Result) -> dict[str, Any]:
    """The task's own options, but for its seeds."""
    own = config["tasks_options"].get(result.task, {})
    return {name: value for name, value in own.items() if name != "seeds" and value is not None}
