"""Score an encoder: fine-tune it on every task with every seed, beside its untrained twin.

A job is one task, one model variant and one seed. Finished jobs stand in `results.jsonl` of the
partial stage folder, so the same command continues where a stopped one left off.
"""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.features import tokenize
from benchmarks.finetune import (
    SELECTION,
    Finetuned,
    OnStep,
    TaskFeatures,
    finetune,
    training_rows,
)
from benchmarks.heads import ModelSource, Variant, open_model
from benchmarks.load import TaskData, load_task
from benchmarks.optim import num_training_steps
from benchmarks.parallel import run_jobs
from benchmarks.predictions import score, scored_labels, write_predictions
from benchmarks.registry import resolve_tasks
from benchmarks.results import Result, append_result, differences, read_results, summarize
from benchmarks.task import Task
from electrify.artifacts import git_commit, run_stage, versions
from electrify.config import EvaluateConfig, RunConfig
from electrify.progress import (
    Progress,
    Stopped,
    StopRequest,
    duration,
    log,
    stop_on_signal,
    warn,
)
from electrify.stages import evaluate_stage, output_dir

RESULTS = "results.jsonl"
DEFAULT_MODEL = "export/discriminator"


@dataclass(frozen=True)
class Job:
    """One fine-tuning."""

    task: Task
    variant: Variant
    seed: int

    @property
    def key(self) -> tuple[str, str, int]:
        """As `Result.job`."""
        return self.task.name, self.variant, self.seed

    @property
    def label(self) -> str:
        """As it stands in log lines."""
        return f"{self.task.name} {self.variant} seed {self.seed}"


def evaluate(config: RunConfig, model: str | None, overwrite: bool) -> None:
    """Fine-tune and score `model` (folder or hub name; None: the run's own discriminator).

    Writes `evaluate/results.jsonl` and `evaluate/predictions/`. Raises `ValueError` for unknown
    tasks, missing or malformed data and an unreadable model, before any training, and `Stopped`
    when asked to stop: finished jobs are kept.
    """
    options = config.evaluate
    tasks = resolve_tasks(options.suites, options.tasks)
    data_dir = _data_dir(options, tasks)
    data = {task.name: load_task(task, data_dir) for task in tasks}
    files = [path for found in data.values() for path in found.files]
    stage = evaluate_stage(config, model, files)
    path = model if model is not None else str(output_dir(config) / DEFAULT_MODEL)

    def work(partial: Path) -> dict[str, int]:
        source = open_model(path, options.max_sequence_length)
        with stop_on_signal() as stop:
            results = _run_jobs(options, source, tasks, data, partial, stop)
        for line in score_table(results):
            log(line)
        num_degenerate = sum(result.degenerate is not None for result in results)
        return {"results": len(results), "degenerate": num_degenerate}

    run_stage(stage, work, overwrite)


def _data_dir(options: EvaluateConfig, tasks: Sequence[Task]) -> Path:
    if options.data_dir is None:
        names = [" or ".join(task.files["dev"]) for task in tasks]
        raise ValueError(
            "no data folder: give --data-dir FOLDER (or set evaluate.data_dir) with the official "
            f"files of {', '.join(task.name for task in tasks)}: {', '.join(names)}, and the "
            "training files beside them"
        )
    return Path(options.data_dir).expanduser()


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
    features = {
        task.name: _tokenize_task(task, data[task.name], source, options)
        for task in tasks
        if any(job.task is task for job in waiting)
    }
    total = sum(_num_rows(job, features[job.task.name], options) for job in waiting)
    calls = [(job, data[job.task.name], features[job.task.name], source, options)
             for job in waiting]  # fmt: skip
    with Progress("evaluate", total, "examples") as progress:

        def on_step(index: int, num_rows: int) -> None:
            label = waiting[index].label
            progress.update(num_rows, note=label)
            if stop:
                raise Stopped(f"in {label}, {len(results)} of {len(jobs)} jobs are saved")

        for index, (result, fitted) in run_jobs(_run_job, calls, options.num_processes, on_step):
            job = waiting[index]
            reported = features[job.task.name].reported
            file = partial / "predictions" / job.task.name / f"{job.variant}-{job.seed}.jsonl"
            write_predictions(file, job.task, data[job.task.name].reported, reported, fitted)
            append_result(path, result)  # last: a job in the results is a job that is whole
            results[job.key] = result
            _log_result(job, result, fitted)
    return [results[job.key] for job in jobs]


def plan_jobs(options: EvaluateConfig, tasks: Sequence[Task]) -> list[Job]:
    """Every job, task by task, the pretrained model before its control."""
    variants: list[Variant] = ["pretrained"]
    if options.random_init_control:
        variants.append("random-init")
    seeds = dict.fromkeys(options.seeds)
    return [Job(task, variant, seed) for task in tasks for variant in variants for seed in seeds]


def _tokenize_task(
    task: Task, data: TaskData, source: ModelSource, options: EvaluateConfig
) -> TaskFeatures:
    length = options.max_sequence_length
    train = tokenize(task, data.train, source.tokenizer, length, task.train_both_orders)
    reported = tokenize(task, data.reported, source.tokenizer, length)
    if data.split != "dev":
        warn(f"{task.name}: no training file; a part of the dev rows is trained on, and the other "
             f"{len(data.reported):,} are reported as split {data.split!r}")  # fmt: skip
    return TaskFeatures(task, train, reported)


def _num_rows(job: Job, features: TaskFeatures, options: EvaluateConfig) -> int:
    """Rows a job trains on, over all epochs."""
    rows = training_rows(features.train, options.max_train_examples, job.seed)
    return num_training_steps(job.task, options, len(rows)) * options.batch_size


def _run_job(
    job: Job,
    data: TaskData,
    features: TaskFeatures,
    source: ModelSource,
    options: EvaluateConfig,
    on_step: OnStep,
) -> tuple[Result, Finetuned]:
    start = time.monotonic()
    fitted = finetune(features, source, job.variant, job.seed, options, on_step)
    metrics = score(job.task, *scored_labels(job.task, data.reported, features.reported, fitted))
    result = Result(
        suite=job.task.suite,
        task=job.task.name,
        task_version=job.task.version,
        model=job.variant,
        model_path=source.path,
        seed=job.seed,
        metric=job.task.headline,
        value=metrics[job.task.headline],
        higher_is_better=job.task.higher_is_better,
        metrics=metrics,
        split=data.split,
        num_examples=len(data.reported),
        num_train_examples=fitted.num_train_examples,
        truncated_fraction=features.reported.num_truncated / len(data.reported),
        selection=SELECTION,
        degenerate=fitted.degenerate,
        hyper_parameters=asdict(fitted.hyper_parameters),
        versions=versions(),
        data_sha256=data.sha256,
        git_commit=git_commit(),
        seconds=round(time.monotonic() - start, 3),
    )
    return result, fitted


def _log_result(job: Job, result: Result, fitted: Finetuned) -> None:
    settings = fitted.hyper_parameters
    rate = settings.num_steps * settings.batch_size / max(fitted.train_seconds, 1e-9)
    log(
        f"{job.label}: {result.metric} {result.value:.4f} on {result.num_examples:,} rows, "
        f"{duration(result.seconds)}, {rate:,.0f} examples/s in training"
    )
    if result.degenerate:
        warn(f"{job.label} is degenerate: {result.degenerate}")


def score_table(results: Sequence[Result]) -> list[str]:
    """The mean over seeds of each task and model, and what pre-training gained, line by line."""
    metrics = {result.task: result.metric for result in results}
    lines = [f"{'task':<14} {'metric':<10} {'model':<26} {'mean':>7} {'sd':>7} {'seeds':>5}"]
    rows = list(summarize(results).items())
    rows += [((task, "pretrained - random-init"), gain)
             for task, gain in differences(results).items()]  # fmt: skip
    for (task, model), summary in sorted(rows, key=lambda row: list(metrics).index(row[0][0])):
        note = f"  {summary.num_degenerate} degenerate" if summary.num_degenerate else ""
        lines.append(
            f"{task:<14} {metrics[task]:<10} {model:<26} {summary.mean:7.4f} {summary.sd:7.4f} "
            f"{summary.num_seeds:5}{note}"
        )
    return lines
