"""All fine-tunings of an evaluation: what they learn from, what they will take, and doing them."""

import shutil
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.encoder import ModelSource
from benchmarks.finetune.estimate import Estimator
from benchmarks.finetune.finetune import (
    Finetuned,
    TaskFeatures,
    choose_device,
    choose_precision,
)
from benchmarks.finetune.jobs import (
    Job,
    choose,
    next_round,
    num_rows,
    plan_jobs,
    plan_trials,
    prepare,
    run_job,
)
from benchmarks.finetune.kept import kept_folder
from benchmarks.finetune.parallel import in_processes, num_workers
from benchmarks.finetune.recipe import seeds_for
from benchmarks.results.predictions import write_lines
from benchmarks.results.results import (
    RESULTS,
    TRIALS,
    UNFINISHED,
    Result,
    append_result,
    percent,
    read_results,
)
from benchmarks.tasks.load import TaskData
from benchmarks.tasks.task import Task
from electrify.config.evaluate import QUICK, EvaluateConfig
from electrify.stage.trackers import Trackers
from electrify.system.machine import describe_precision, remember_peak
from electrify.system.progress import Progress, Stopped, StopRequest, duration, log, warn

FEW_EXAMPLES = 5_000  # to train on: timing steps would take as long as a good part of them


class Plan:
    """All fine-tunings of an evaluation: its jobs, and the trials of a search before them."""

    def __init__(
        self,
        options: EvaluateConfig,
        tasks: Sequence[Task],
        source: ModelSource,
        digests: Mapping[str, str],
        data: Mapping[str, TaskData],
    ) -> None:
        self.options, self.source = options, source
        self.workers = num_workers(options.num_processes, choose_device(options.device))
        self.jobs = plan_jobs(options, tasks, source, digests, data)
        self.trials = plan_trials(options, tasks, source, digests, data)
        self._features: dict[tuple[str, bool], TaskFeatures] = {}

    def features(self, job: Job) -> TaskFeatures:
        """The tokenised rows of a job, which all jobs, or all trials, of its task share."""
        rows = job.task.name, bool(job.trial)
        if rows not in self._features:
            seeds = seeds_for(job.task, self.options)
            self._features[rows] = prepare(job.task, job.data, self.source, job.settings, seeds)
        return self._features[rows]

    def cost(self, jobs: Sequence[Job], trials: Sequence[Job]) -> Iterator[str]:
        """Lines on what these jobs take, the trials before them, and a first look in their place.
        Steps of each task are timed. Nothing is said of a few examples."""
        total = sum(num_rows(job, self.features(job)) for job in (*jobs, *trials))
        if total < FEW_EXAMPLES:
            return
        estimate = Estimator(self.source, self.options.device, self.workers, self.features)
        searched, expected = estimate(trials), estimate(jobs)
        if trials:
            yield f"evaluate: trials of the search: {searched.num_jobs}, {searched}"
        if not expected.num_jobs:
            return
        yield f"evaluate: fine-tunings: {expected.num_jobs}, {expected} (from timed steps here)"
        fewer = {name: value for name, value in QUICK.items() if name != "seeds"}
        quick = estimate(
            [
                replace(job, settings=replace(job.settings, **fewer))
                for job in {(job.task.name, job.role): job for job in jobs}.values()
            ]
        )
        if 2 * quick.seconds < expected.seconds + searched.seconds:
            yield f"evaluate: with --quick, without a search: {quick.num_jobs}, {quick}"

    def run(self, partial: Path, stop: StopRequest, trackers: Trackers) -> list[Result]:
        """Say what is left to do and what it costs, and do it in the folder: the trials of a
        search, then the jobs. The results of all jobs, in their order."""
        waiting = _waiting(self.jobs, partial / RESULTS)
        if waiting:
            for line in self.cost(waiting, _waiting(self.trials, partial / TRIALS)):
                log(line)
        trials, tried, results = self.trials, list[Job](), dict[str, Result]()
        while trials:
            results |= {of.key: of for of in self._do(trials, TRIALS, partial, stop)}
            tried += trials
            trials = next_round(trials, results)
        found = self._do(choose(self.jobs, tried, results), RESULTS, partial, stop, trackers)
        trackers.log(len(found), _tracked_means(found))
        return found

    def _do(
        self,
        jobs: Sequence[Job],
        file: str,
        partial: Path,
        stop: StopRequest,
        trackers: Trackers | None = None,
    ) -> list[Result]:
        """Do the jobs that the file of records lacks; the results of all jobs in their order.
        Without `trackers` they are trials, of which the record alone is kept."""
        results = {result.key: result for result in read_results(partial / file)}
        taken = {result.predictions or result.slot for result in results.values()}
        waiting = self._in_one_precision(jobs, results)
        verb, what = ("evaluate", "jobs") if trackers else ("search", "trials")
        num_saved = len(jobs) - len(waiting)
        if num_saved:
            log(f"evaluate: {num_saved} of {len(jobs)} {what} are done already")
        left = [num_rows(job, self.features(job)) for job in waiting]
        total = sum(left)
        if waiting:
            log(f"{verb}: {len(waiting)} {what} to do, {total:,} examples to train on and predict")
        unfinished = partial / UNFINISHED
        given = self.source, self.options.device, unfinished
        calls = [(job, self.features(job), *given) for job in waiting]
        if trackers:
            self._features.clear()  # each goes with the last job of its task
        with Progress(verb, total, "examples") as progress:

            def on_step(index: int, num_examples: int) -> None:
                label = waiting[index].label
                left[index] -= num_examples
                progress.update(num_examples, note=label)
                if stop:
                    raise Stopped(
                        f"{num_saved} of {len(jobs)} {what} are saved; {label} is resumed where it "
                        "was",
                        stop.signal,
                    )

            for index, (result, fitted) in in_processes(run_job, calls, self.workers, on_step):
                job = waiting[index]
                progress.update(max(0, left[index]))  # what an early end has spared
                if trackers:
                    if result.slot in taken:  # by a job with other settings, data or weights
                        name = f"{result.slot}-{job.key}"
                        result = result.model_copy(update={"predictions": name})
                    write_lines(partial, result, fitted.lines)
                    if (made := unfinished / job.key).is_dir():  # none where training failed
                        kept = kept_folder(partial, result)
                        shutil.rmtree(kept, ignore_errors=True)
                        kept.parent.mkdir(parents=True, exist_ok=True)
                        made.rename(kept)
                if result.device == "cpu" and result.peak_memory_mb:
                    remember_peak(result.peak_memory_mb)
                append_result(partial / file, result)  # such a job is whole
                (unfinished / f"{job.key}.pt").unlink(missing_ok=True)
                if trackers:
                    trackers.log(result.seed, _tracked(result))
                results[job.key] = result
                num_saved += 1
                _log_result(job, result, fitted)
                if stop and num_saved < len(jobs):  # TF-IDF has no steps that look
                    raise Stopped(f"{num_saved} of {len(jobs)} {what} are saved", stop.signal)
        return [results[job.key] for job in jobs]

    def _in_one_precision(self, jobs: Sequence[Job], done: Mapping[str, Result]) -> list[Job]:
        """The jobs that are not done, in the precision of those that are: "auto" is settled once,
        on whatever machine the others are done."""
        waiting = [job for job in jobs if job.key not in done]
        if not waiting:
            return []
        known = [done[job.key].hyper_parameters.get("precision") for job in jobs if job.key in done]
        device = choose_device(self.options.device)
        before = next(filter(None, known), None)
        precision = before or choose_precision(self.options.precision, device)
        if device.type == "cpu":
            log(describe_precision("evaluate.precision", precision))
        return [replace(j, settings=replace(j.settings, precision=precision)) for j in waiting]


def _waiting(jobs: Sequence[Job], file: Path) -> list[Job]:
    """The jobs that a file of records lacks."""
    done = {result.key for result in read_results(file)}
    return [job for job in jobs if job.key not in done]


def _tracked(result: Result) -> dict[str, float]:
    """By name: klue-nli/accuracy of the encoder, random-init/klue-nli/accuracy of a baseline."""
    role = "" if result.role == "pretrained" else f"{result.role}/"
    part = "" if result.train_fraction == 1.0 else f"train-{result.train_fraction:g}/"
    return {f"{role}{part}{result.task}/{name}": value for name, value in result.metrics.items()}


def _tracked_means(results: Sequence[Result]) -> dict[str, float]:
    """The same over seeds: mean/klue-nli/accuracy."""
    values: dict[str, list[float]] = {}
    for result in results:
        for name, value in _tracked(result).items():
            values.setdefault(f"mean/{name}", []).append(value)
    return {name: statistics.fmean(of) for name, of in values.items()}


def _log_result(job: Job, result: Result, fitted: Finetuned) -> None:
    settings, speed = fitted.hyper_parameters, ""
    if "num_steps" in settings:
        rate = settings["num_steps"] * settings["batch_size"] / max(fitted.train_seconds, 1e-9)
        speed = f", {rate:,.0f} examples/s in training"
    log(
        f"{job.label}: {result.metric} {percent(result.value)} on {result.examples} rows of "
        f"{result.split}, {duration(result.seconds)}{speed}"
    )
    if job.trial:  # what is wrong with it does not stand in the results
        return
    if result.degenerate:
        warn(f"{job.label} is degenerate: {result.degenerate}")
    for note in result.notes:
        warn(f"{job.label}: {note}")
