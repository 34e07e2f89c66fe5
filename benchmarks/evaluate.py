"""Score an encoder: fine-tune it on every task with every seed, beside its untrained twin.

A job is one task, one model variant, one seed and the hyper-parameters. Its record in
`results.jsonl` carries a key, a digest of all that decides the score: a job whose key is there is
done. So the same command continues where a stopped one left off, other options add records, and
`jobs.json` names those that the last command asked for.
"""

import csv
import io
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import astuple, replace
from pathlib import Path

from benchmarks.encoder import ModelSource, check_place, open_model
from benchmarks.finetune.finetune import Finetuned, choose_device, settle_precision
from benchmarks.finetune.jobs import Job, num_rows, plan_jobs, prepare, run_job, write_lines
from benchmarks.finetune.kept import MODELS, kept_folder
from benchmarks.finetune.parallel import num_workers, run_jobs
from benchmarks.finetune.recipe import recommended_settings, seeds_for
from benchmarks.finetune.search import TRIALS, choose, plan_trials, trial_data
from benchmarks.probes.suites import PROBES, probe_options
from benchmarks.results.predictions import PREDICTIONS, prediction_path
from benchmarks.results.results import (
    JOBS,
    RESULTS,
    Result,
    append_result,
    current_results,
    encoder_label,
    largest_part,
    percent,
    read_results,
)
from benchmarks.results.submission import write_submissions
from benchmarks.statistics.comparison import against_floors, verdict_sentence
from benchmarks.statistics.scores import TaskScore, overall, task_scores
from benchmarks.tasks.data import TaskData, load_tasks
from electrify.config.evaluate import EvaluateConfig
from electrify.config.run import EvaluationRun
from electrify.stage.folder import MANIFEST, check_files, write_json, write_text
from electrify.stage.plan import evaluate_stage, output_dir
from electrify.stage.remote import pull, push_partial
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

SCORES = "scores.csv"  # beside the results
DEFAULT_MODEL = "export/discriminator"
_PROMISE = "finished jobs are kept, a fine-tuning that runs now goes on where it is"
STATES = "unfinished"  # folder of fine-tunings that were stopped


def evaluate(
    config: EvaluationRun,
    model: str | None,
    overwrite: bool,
    weights: Path | None = None,
    step: int | None = None,
    name: str | None = None,
    probe: str | None = None,
) -> None:
    """Fine-tune and score `model` (folder or hub name; None: the run's own discriminator).

    `weights` is a folder that stands for `model` where that is none to be read by `transformers`;
    `step` that of a checkpoint on the way, `name` what the results of `model` are called. Writes
    `evaluate/results.jsonl` and `evaluate/predictions/`; the records of a finished evaluation stay,
    unless `overwrite`. `probe`, a suite of `PROBES`, is scored in a folder of its own. Raises
    `ValueError` for unknown tasks, missing or malformed data and an unreadable model, before any
    training, and `Stopped` when asked to stop: finished jobs are kept.
    """
    if probe is None:
        options = config.evaluate.model_copy(update={"suites": config.evaluate.task_suites})
    else:
        options = probe_options(config.evaluate, probe)
    config = config.model_copy(update={"evaluate": options})
    if model is not None and weights is None:
        check_place(model)  # before data is fetched
    tasks, data = load_tasks(options)
    if probe is not None:
        data = {task.name: PROBES[probe].add_rows(task, data[task.name]) for task in tasks}
    rows = {name: found.sha256 for name, found in data.items()}
    stage = evaluate_stage(config, model, rows, step, name, probe or "evaluate")
    of_weights = {name: digest for name, digest in stage.inputs.items() if name != "data"}
    made_from = {name: (of_weights, digests) for name, digests in rows.items()}
    path = model if model is not None else str(output_dir(config) / DEFAULT_MODEL)

    def work(partial: Path) -> dict[str, int]:
        # of the run's own export its place in the run: predictions are the same wherever that is
        place = model or DEFAULT_MODEL
        try:
            source = open_model(path if weights is None else str(weights), place)
            if model is not None and weights is None:  # else the config is the run's own
                source = replace(source, recommended=recommended_settings(model, options))
            jobs = plan_jobs(options, tasks, source, made_from)
            trials = plan_trials(options, tasks, source, made_from)
            if not overwrite:
                _carry_over(stage.folder, partial)
            write_json(partial / JOBS, [job.key for job in jobs])
            with stop_on_signal(_PROMISE) as stop:
                tried = _run_trials(options, source, trials, data, partial, stop)
                jobs = choose(jobs, trials, tried)
                results = _run_jobs(options, source, jobs, data, partial, RESULTS, stop)
        except ValueError:
            if not _has_news(partial, stage.folder):  # refused: nothing to continue
                shutil.rmtree(partial)
            raise
        shutil.rmtree(partial / STATES, ignore_errors=True)
        _write_scores(results, partial)
        if probe is not None:
            PROBES[probe].write(partial, tasks, data, results, source, options.data_dirs)
        elif any(split in task.unlabelled for task in tasks for split in data[task.name].further):
            write_submissions(partial)
        num_degenerate = sum(result.degenerate is not None for result in results)
        return {"results": len(results), "degenerate": num_degenerate}

    run_stage(stage, work, overwrite)
    results = current_results(stage.folder)
    for line in score_table(results, stage.folder):
        log(line)
    lacking = {
        f"{result.task} {split}": None
        for result in results
        for split in data[result.task].further
        if not prediction_path(stage.folder, result, split).is_file()
    }
    if lacking:
        warn(
            f"no predictions of {', '.join(lacking)}, whose rows came later: to have them, remove "
            f"{stage.folder} and evaluate again"
        )


def _carry_over(finished: Path, partial: Path) -> None:
    """Copy records and predictions of a finished evaluation; `ValueError` if one has changed."""
    if not (finished / MANIFEST).exists() or (partial / RESULTS).exists():
        return
    pull(finished.parent, finished.name)
    check_files(finished, "evaluate")
    shutil.copytree(finished / PREDICTIONS, partial / PREDICTIONS, dirs_exist_ok=True)
    if (finished / MODELS).exists():
        shutil.copytree(finished / MODELS, partial / MODELS, dirs_exist_ok=True)
    for file in (TRIALS, RESULTS):  # results last: a job in them is a job that is whole
        if (finished / file).exists() and not (partial / file).exists():
            copy = partial / f"{file}.copy"
            shutil.copyfile(finished / file, copy)
            copy.rename(partial / file)


def _has_news(partial: Path, finished: Path) -> bool:
    """Whether an unfinished evaluation has records that the finished one has not, or a fine-tuning
    to go on with."""
    if any((partial / STATES).glob("*.pt")):
        return True
    return any(
        {result.key for result in read_results(partial / file)}
        - {result.key for result in read_results(finished / file)}
        for file in (RESULTS, TRIALS)
    )


def _run_trials(
    options: EvaluateConfig,
    source: ModelSource,
    trials: Sequence[Job],
    data: Mapping[str, TaskData],
    partial: Path,
    stop: StopRequest,
) -> dict[str, Result]:
    """The records of all trials of the search by their keys; they stand in `TRIALS`."""
    if not trials or options.search is None:
        return {}
    fraction = options.search.held_out_fraction
    parts = {
        name: trial_data(trial.task, data[name], trial.settings, trial.seed, fraction)
        for name, trial in {trial.task.name: trial for trial in trials}.items()
    }
    finished = _run_jobs(options, source, trials, parts, partial, TRIALS, stop)
    return {result.key: result for result in finished}


def _run_jobs(
    options: EvaluateConfig,
    source: ModelSource,
    jobs: Sequence[Job],
    data: Mapping[str, TaskData],
    partial: Path,
    file: str,
    stop: StopRequest,
) -> list[Result]:
    """Do the jobs that the file of records does not have yet; the results of all in their order."""
    path = partial / file
    results = {result.key: result for result in read_results(path)}
    taken = {result.predictions or result.slot for result in results.values()}
    waiting = [job for job in jobs if job.key not in results]
    what = "trials" if file == TRIALS else "jobs"
    if len(waiting) < len(jobs):
        log(f"evaluate: {len(jobs) - len(waiting)} of {len(jobs)} {what} are done already")
    if waiting:
        done = [results[job.key] for job in jobs if job.key in results]
        before = next((p for r in done if (p := r.hyper_parameters.get("precision"))), None)
        precision = settle_precision(options.precision, options.device, before)
        waiting = [
            replace(job, settings=replace(job.settings, precision=precision)) for job in waiting
        ]
    features = {
        job.task.name: prepare(
            job.task, data[job.task.name], source, job.settings, seeds_for(job.task, options)
        )
        for job in {job.task.name: job for job in waiting}.values()
    }
    total = sum(num_rows(job, features[job.task.name]) for job in waiting)
    states = partial / STATES
    calls = [
        (job, data[job.task.name], features[job.task.name], source, options.device, states)
        for job in waiting
    ]
    del features  # each goes with the last job of its task
    num_saved = len(jobs) - len(waiting)
    workers = num_workers(options.num_processes, choose_device(options.device))
    with Progress("search" if file == TRIALS else "evaluate", total, "examples") as progress:

        def on_step(index: int, num_rows: int) -> None:
            label = waiting[index].label
            progress.update(num_rows, note=label)
            if stop:
                raise Stopped(
                    f"{num_saved} of {len(jobs)} {what} are saved; {label} goes on where it was",
                    stop.signal,
                )

        for index, (result, fitted) in run_jobs(run_job, calls, workers, on_step):
            job = waiting[index]
            if file == RESULTS:
                if result.slot in taken:  # by a job with other hyper-parameters, data or weights
                    result = result.model_copy(update={"predictions": f"{result.slot}-{job.key}"})
                write_lines(partial, result, fitted)
                if job.is_kept:
                    _move(states / job.key, kept_folder(partial, result))
            if result.device == "cpu" and result.peak_memory_mb:
                remember_peak(result.peak_memory_mb)
            append_result(path, result)  # last: a job in the results is a job that is whole
            push_partial(partial)
            results[job.key] = result
            num_saved += 1
            _log_result(job, result, fitted)
    return [results[job.key] for job in jobs]


def _move(folder: Path, target: Path) -> None:
    """In place of what stands there."""
    shutil.rmtree(target, ignore_errors=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    folder.rename(target)


def _log_result(job: Job, result: Result, fitted: Finetuned) -> None:
    settings, speed = fitted.hyper_parameters, ""
    if "num_steps" in settings:
        rate = settings["num_steps"] * settings["batch_size"] / max(fitted.train_seconds, 1e-9)
        speed = f", {rate:,.0f} examples/s in training"
    log(
        f"{job.label}: {result.metric} {percent(result.value)} on {result.examples} rows of "
        f"{result.split}, {duration(result.seconds)}{speed}"
    )
    if job.note:  # a trial: what is wrong with it does not stand in the results
        return
    if result.degenerate:
        warn(f"{job.label} is degenerate: {result.degenerate}")
    for note in result.notes:
        warn(f"{job.label}: {note}")


def score_table(results: Sequence[Result], place: Path) -> list[str]:
    """The mean over seeds of each task and encoder, line by line, then for each task a sentence:
    better or worse than its floors, or cannot tell, and why.

    Of those that learnt from the largest part of the training split. `place` holds their
    predictions.
    """
    results = largest_part(results)
    scores = task_scores(place.name, results, place)
    rows = _score_rows(scores)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        " ".join(
            cell.ljust(width) if number in (0, 1, 2, 6) else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    for score in scores:
        notes = (note for result in score.results for note in result.notes)
        lines += [f"warning: {score.first.task}: {note}" for note in dict.fromkeys(notes)]
    compared = against_floors(scores)
    lines += [f"{a.score.first.title}: {verdict_sentence(a)}" for a in compared]
    if weak := [score.first.title for score in scores if _is_weak(score)]:
        lines.append(
            f"{', '.join(weak)}: degenerate, or below TF-IDF. Another learning rate may suit this "
            "encoder: the same command with --search tries four on held-out training rows"
        )
    if not compared:
        lines.append("nothing to compare with: the same network with random weights is not scored")
    for (name, model), mean in overall(results).items():
        lines.append(f"{name}, {encoder_label(model, results[0].model_path)}: {percent(mean)}")
    return lines


def _is_weak(score: TaskScore) -> bool:
    """Whether a search may help: the encoder has a degenerate seed or a lower mean than TF-IDF, and
    there was no search."""
    own, floor = score.pretrained, score.arms["bag-of-words"]
    if not own.values or score.first.search:
        return False
    gain = own.summary.mean - floor.summary.mean if floor.values else 0.0
    return own.summary.num_degenerate > 0 or (gain if score.first.higher_is_better else -gain) < 0


def _score_rows(scores: Sequence[TaskScore]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("task", "metric", "encoder", "mean", "sd", "seeds", "")]
    for score in scores:
        for name, sample in score.samples.items():
            mean, sd, num_seeds, num_degenerate = astuple(sample.summary)
            first, notes = score.first, [f"{num_degenerate} degenerate"] * bool(num_degenerate)
            if "-" in first.split:  # not the rows of the official split
                notes.append(f"{first.examples} rows of {first.split}")
            of_sample = percent(mean), percent(sd), str(num_seeds), ", ".join(notes)
            rows.append((first.title, first.metric, name, *of_sample))
    return rows


def _write_scores(results: Sequence[Result], place: Path) -> None:
    """scores.csv: a row a task, encoder and part of the training rows; means over seeds in full."""
    file = io.StringIO()
    table = csv.writer(file, lineterminator="\n")
    about = ("task", "metric", "encoder", "train_fraction", "split", "examples")
    table.writerow((*about, "mean", "sd", "seeds", "degenerate"))
    for fraction in dict.fromkeys(result.train_fraction for result in results):
        part = [result for result in results if result.train_fraction == fraction]
        for score in task_scores(place.name, part):
            task, rows = score.first.task, (score.first.split, score.first.num_examples)
            for name, sample in score.samples.items():
                cells = (task, sample.metric, name, fraction, *rows)
                table.writerow((*cells, *astuple(sample.summary)))
    write_text(place / SCORES, file.getvalue())
