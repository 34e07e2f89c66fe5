"""Score an encoder: fine-tune it on every task with every seed, beside its baselines.

A job is one task, one role (the encoder or a baseline), one seed and the hyper-parameters. Its
record in `results.jsonl` carries a key, a digest of all that decides the score: a job whose key is
there is done. So the same command resumes a stopped one, other options add records, and `jobs.json`
names those that the last command asked for.
"""

import shutil
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.embed import retrieval
from benchmarks.encoder import open_model, pinned
from benchmarks.finetune.finetune import Finetuned, TaskFeatures, settle_precision
from benchmarks.finetune.jobs import Job, choose, next_round, num_rows, run_job
from benchmarks.finetune.kept import MODELS, kept_folder
from benchmarks.finetune.parallel import run_jobs
from benchmarks.finetune.plan import Plan
from benchmarks.finetune.recipe import recommended_settings
from benchmarks.noise.suites import PROBES, probe_options
from benchmarks.report.scores import score_lines, write_scores
from benchmarks.results.predictions import PREDICTIONS, prediction_path, write_lines
from benchmarks.results.results import (
    JOBS,
    RESULTS,
    Result,
    append_result,
    current_results,
    percent,
    read_results,
)
from benchmarks.results.submission import write_submissions
from benchmarks.tasks.data import TaskData, load_tasks
from electrify.config.run import EvaluationRun, RunConfig
from electrify.stage.folder import MANIFEST, check_files, read_manifest, write_json
from electrify.stage.plan import (
    DEFAULT_MODEL,
    checkpoint_step,
    checkpoints,
    evaluate_stage,
    output_dir,
)
from electrify.stage.run import run_stage
from electrify.stage.trackers import TRACKER_FILES, Trackers, require_trackers
from electrify.system.machine import remember_peak
from electrify.system.outcome import UserError
from electrify.system.progress import (
    Progress,
    Stopped,
    StopRequest,
    duration,
    log,
    stop_on_signal,
    warn,
)

TRIALS = "search.jsonl"  # beside the results: a record a trial of a search
_PROMISE = "finished jobs are kept, a fine-tuning that runs now is resumed where it is"
UNFINISHED = "unfinished"  # folder of fine-tunings that were stopped


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
    if probe == retrieval.SUITE:  # nothing is fine-tuned
        return retrieval.score_retrieval(config, model, overwrite, weights, name)
    if probe is None:
        options = config.evaluate.model_copy(update={"suites": config.evaluate.task_suites})
    else:
        options = probe_options(config.evaluate, probe)
    config = config.model_copy(update={"evaluate": options})
    at, commit = pinned(model) if model is not None and weights is None else (model, None)
    if commit:
        name = name or model
        log(f"{model} is read at its commit {commit}")
    require_trackers(options, "evaluate")
    tasks, data = load_tasks(options)
    if probe is not None:
        data = {task.name: PROBES[probe].add_rows(task, data[task.name]) for task in tasks}
    rows = {name: of_task.sha256 for name, of_task in data.items()}
    stage = evaluate_stage(config, at, rows, step, name, probe or "evaluate")
    digests = {name: digest for name, digest in stage.inputs.items() if name != "data"}
    path = model if model is not None else str(output_dir(config) / DEFAULT_MODEL)

    def work(partial: Path) -> dict[str, int]:
        # of the run's own export its place in the run: predictions are the same wherever that is
        place = model or DEFAULT_MODEL
        try:
            source = open_model(path if weights is None else str(weights), place, commit)
            if model is not None and weights is None:  # else the config is the run's own
                source = replace(source, recommended=recommended_settings(model, options, commit))
            plan = Plan(options, tasks, source, digests, data)
            if not overwrite:
                _carry_over(stage.folder, partial)
            write_json(partial / JOBS, [job.key for job in plan.jobs])
            about = options.model_dump(mode="json") | {"model": source.name}
            about["name"] = f"{output_dir(config).name}/{stage.folder.name}"
            trackers = Trackers(partial, options, "evaluate", about)
            with closing(trackers), stop_on_signal(_PROMISE) as stop:
                results = _Evaluation(plan, partial, stop, trackers).do_all()
                trackers.log(len(results), _tracked_means(results))
        except ValueError:
            if not _has_news(partial, stage.folder):  # refused: nothing to resume
                shutil.rmtree(partial)
            raise
        shutil.rmtree(partial / UNFINISHED, ignore_errors=True)
        write_scores(results, partial)
        if probe is not None:
            PROBES[probe].write_table(partial, tasks, data, results, source, options.data_dirs)
        elif any(split in task.unlabelled for task in tasks for split in data[task.name].further):
            write_submissions(partial)
        num_degenerate = sum(result.degenerate is not None for result in results)
        return {"results": len(results), "degenerate": num_degenerate}

    run_stage(stage, work, overwrite)
    results = current_results(stage.folder)
    for line in score_lines(results, stage.folder):
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
    check_files(finished, "evaluate")
    for folder in (PREDICTIONS, MODELS):
        if (finished / folder).exists():
            shutil.copytree(finished / folder, partial / folder, dirs_exist_ok=True)
    # results last: a job in them is a job that is whole
    for file in (*TRACKER_FILES, TRIALS, RESULTS):
        if (finished / file).exists() and not (partial / file).exists():
            copy = partial / f"{file}.copy"
            shutil.copyfile(finished / file, copy)
            copy.rename(partial / file)


def _has_news(partial: Path, finished: Path) -> bool:
    """Whether an unfinished evaluation has records that the finished one has not, or a fine-tuning
    to resume."""
    if any((partial / UNFINISHED).glob("*.pt")):
        return True
    return any(
        {result.key for result in read_results(partial / file)}
        - {result.key for result in read_results(finished / file)}
        for file in (RESULTS, TRIALS)
    )


@dataclass(frozen=True)
class _Evaluation:
    """How the jobs of one evaluation are done, in its folder."""

    plan: Plan
    partial: Path
    stop: StopRequest
    trackers: Trackers

    def do_all(self) -> list[Result]:
        """Say what is left to do and what it costs, and do it: the trials of a search, then the
        jobs."""
        plan = self.plan
        features: dict[str, TaskFeatures] = {}
        of_trials: dict[str, TaskFeatures] = {}
        waiting = self._waiting(plan.jobs, RESULTS)
        if waiting:
            first = self._waiting(plan.trials, TRIALS)
            for line in plan.cost(waiting, first, features, of_trials):
                log(line)
        trials, tried = plan.trials, list[Job]()
        results: dict[str, Result] = {}
        while trials:
            results |= {of.key: of for of in self._do(trials, plan.parts, of_trials, TRIALS)}
            tried += trials
            trials = next_round(trials, results)
        return self._do(choose(plan.jobs, tried, results), plan.data, features, RESULTS)

    def _do(
        self,
        jobs: Sequence[Job],
        data: Mapping[str, TaskData],
        features: dict[str, TaskFeatures],
        file: str,
    ) -> list[Result]:
        """Do the jobs that the file of records lacks; the results of all jobs in their order."""
        path = self.partial / file
        verb, what = ("search", "trials") if file == TRIALS else ("evaluate", "jobs")
        results = {result.key: result for result in read_results(path)}
        taken = {result.predictions or result.slot for result in results.values()}
        waiting = self._with_precision(jobs, results)
        num_saved = len(jobs) - len(waiting)
        if num_saved:
            log(f"evaluate: {num_saved} of {len(jobs)} {what} are done already")
        self.plan.prepare(waiting, data, features)
        total = sum(num_rows(job, features[job.task.name]) for job in waiting)
        if waiting:
            log(f"{verb}: {len(waiting)} {what} to do, {total:,} examples to train on and predict")
        unfinished = self.partial / UNFINISHED
        source, device = self.plan.source, self.plan.options.device
        calls = [
            (job, data[job.task.name], features[job.task.name], source, device, unfinished)
            for job in waiting
        ]
        if file == RESULTS:
            features.clear()  # each goes with the last job of its task
        workers = self.plan.workers
        with Progress(verb, total, "examples") as progress:

            def on_step(index: int, num_rows: int) -> None:
                label = waiting[index].label
                progress.update(num_rows, note=label)
                if self.stop:
                    raise Stopped(
                        f"{num_saved} of {len(jobs)} {what} are saved; {label} is resumed where it "
                        "was",
                        self.stop.signal,
                    )

            for index, (result, fitted) in run_jobs(run_job, calls, workers, on_step):
                job = waiting[index]
                if file == RESULTS:
                    if result.slot in taken:  # by a job with other settings, data or weights
                        name = f"{result.slot}-{job.key}"
                        result = result.model_copy(update={"predictions": name})
                    write_lines(self.partial, result, fitted.lines)
                    if job.is_kept:
                        kept = kept_folder(self.partial, result)
                        shutil.rmtree(kept, ignore_errors=True)
                        kept.parent.mkdir(parents=True, exist_ok=True)
                        (unfinished / job.key).rename(kept)
                if result.device == "cpu" and result.peak_memory_mb:
                    remember_peak(result.peak_memory_mb)
                append_result(path, result)  # last: a job in the results is a job that is whole
                if file == RESULTS:
                    self.trackers.log(result.seed, _tracked(result))
                results[job.key] = result
                num_saved += 1
                _log_result(job, result, fitted)
        return [results[job.key] for job in jobs]

    def _waiting(self, jobs: Sequence[Job], file: str) -> list[Job]:
        """The jobs that the file of records lacks."""
        done = {result.key for result in read_results(self.partial / file)}
        return [job for job in jobs if job.key not in done]

    def _with_precision(self, jobs: Sequence[Job], done: Mapping[str, Result]) -> list[Job]:
        """The jobs that are not done, in the precision of those that are."""
        waiting = [job for job in jobs if job.key not in done]
        if not waiting:
            return []
        known = [done[job.key].hyper_parameters.get("precision") for job in jobs if job.key in done]
        before, options = next(filter(None, known), None), self.plan.options
        precision = settle_precision(options.precision, options.device, before)
        return [replace(j, settings=replace(j.settings, precision=precision)) for j in waiting]


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


# Checkpoints of a pretraining.


def evaluate_checkpoints(
    config: RunConfig, steps: Sequence[int], overwrite: bool, export: Callable[[Path, Path], None]
) -> None:
    """Score checkpoints, the oldest first, each into `evaluate-checkpoint-<step>/`.

    Without `steps` all that are there are scored, except the one that `evaluate/` has scored as the
    run's export. Baselines are left to `evaluate/`: they are the same for all. Of
    `evaluate.train_fractions` only the largest is scored. `export` writes a checkpoint as a
    `transformers` folder. Raises `UserError` for a step without a checkpoint, and what `evaluate`
    raises.
    """
    run = output_dir(config)
    paths = checkpoints(run / "pretrain") or checkpoints(run / "pretrain.partial")
    by_step = {checkpoint_step(path): path for path in paths}
    if not by_step:
        raise UserError(f"no checkpoint in {run}; run first: electrify pretrain CONFIG")
    if unknown := [step for step in steps if step not in by_step]:
        raise UserError(
            f"no checkpoint-{unknown[0]} in {run}; there are those of steps "
            f"{', '.join(map(str, by_step))} (pretrain.keep_every_steps keeps more of them)"
        )
    exported = _exported_step(run)
    if not steps and exported in by_step:
        log(f"evaluate: checkpoint-{exported} is the export's; its scores are those of evaluate/")
        del by_step[exported]
    changes = {
        "random_init_control": False,
        "bag_of_words": False,
        "train_fractions": (max(config.evaluate.train_fractions),),
    }
    config = config.model_copy(update={"evaluate": config.evaluate.model_copy(update=changes)})
    for step in sorted(set(steps) or by_step):
        with tempfile.TemporaryDirectory() as scratch:
            export(by_step[step], Path(scratch))
            evaluate(config, str(by_step[step]), overwrite, Path(scratch), step)


def _exported_step(run: Path) -> int | None:
    """The step of the export, if `evaluate/` has scored that very export."""
    try:
        export, scores = read_manifest(run / "export"), read_manifest(run / "evaluate")
    except ValueError:
        return None
    is_scored = scores["inputs"].get("export") == export["digest"]
    return checkpoint_step(Path(export["counts"]["checkpoint"])) if is_scored else None
