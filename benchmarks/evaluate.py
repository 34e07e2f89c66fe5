"""Score an encoder: fine-tune it on every task with every seed, beside its untrained twin.

A job is one task, one model variant and one seed. Finished jobs stand in `results.jsonl` of the
partial stage folder, so the same command continues where a stopped one left off.
"""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.encoder import ModelSource, open_model
from benchmarks.extend import carry_over, is_extension
from benchmarks.finetune import Finetuned, settle_precision
from benchmarks.hub import data_folder, load_data
from benchmarks.jobs import Job, num_rows, plan_jobs, prepare, run_job, write_lines
from benchmarks.load import TaskData
from benchmarks.parallel import run_jobs
from benchmarks.registry import resolve_tasks
from benchmarks.results import (
    RESULTS,
    Result,
    append_result,
    differences,
    largest_part,
    read_results,
    summarize,
)
from benchmarks.submission import write_submissions
from benchmarks.suite_scores import overall
from benchmarks.task import Task
from electrify.config import RunConfig
from electrify.config_evaluate import EvaluateConfig
from electrify.peak_memory import remember_peak
from electrify.progress import (
    Progress,
    Stopped,
    StopRequest,
    duration,
    log,
    stop_on_signal,
    warn,
)
from electrify.remote_send import send_part
from electrify.run_stage import run_stage
from electrify.stages import evaluate_stage, output_dir

DEFAULT_MODEL = "export/discriminator"
_PROMISE = "finished jobs are kept, a fine-tuning that runs now will start again"


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
    extends = not overwrite and is_extension(stage, plan_jobs(options, tasks), data)

    def work(partial: Path) -> dict[str, int]:
        if extends and not (partial / RESULTS).exists():
            carry_over(stage.folder, partial)
        # of the run's own export its place in the run: predictions are the same wherever that is
        source = open_model(path if weights is None else str(weights), model or DEFAULT_MODEL)
        with stop_on_signal(_PROMISE) as stop:
            results = _run_jobs(options, source, tasks, data, partial, stop)
        for line in score_table(results):
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
    jobs = plan_jobs(options, tasks)
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
    calls = [(job, data[job.task.name], features[job.task.name], source, options)
             for job in waiting]  # fmt: skip
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
            send_part(partial)
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


def score_table(results: Sequence[Result]) -> list[str]:
    """The mean over seeds of each task and model, and what pre-training gained, line by line.

    Of those that learnt from the largest part of the training split.
    """
    results = largest_part(results)
    metrics = {result.task: result.metric for result in results}
    others = {r.task: f"  {r.examples} rows of {r.split}" for r in results if "-" in r.split}
    lines = [f"{'task':<14} {'metric':<10} {'model':<26} {'mean':>7} {'sd':>7} {'seeds':>5}"]
    rows = list(summarize(results).items())
    rows += [((task, "pretrained - random-init"), gain)
             for task, gain in differences(results).items()]  # fmt: skip
    for (task, model), summary in sorted(rows, key=lambda row: list(metrics).index(row[0][0])):
        note = f"  {summary.num_degenerate} degenerate" if summary.num_degenerate else ""
        note += others.get(task, "")  # not those of the official split
        lines.append(
            f"{task:<14} {metrics[task]:<10} {model:<26} {summary.mean:7.4f} {summary.sd:7.4f} "
            f"{summary.num_seeds:5}{note}"
        )
    lines += [f"{name}, {model}: {mean:.4f}" for (name, model), mean in overall(results).items()]
    return lines
