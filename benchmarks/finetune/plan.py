"""All fine-tunings of an evaluation: what they learn from, and what they will take."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from benchmarks.encoder import ModelSource
from benchmarks.finetune.estimate import Estimator
from benchmarks.finetune.finetune import TaskFeatures, choose_device
from benchmarks.finetune.jobs import Job, num_rows, plan_jobs, plan_trials, prepare, trial_data
from benchmarks.finetune.parallel import num_workers
from benchmarks.finetune.recipe import seeds_for
from benchmarks.tasks.data import TaskData
from benchmarks.tasks.task import Task
from electrify.config.evaluate import QUICK, EvaluateConfig

FEW_EXAMPLES = 5_000  # to train on: timing steps would take as long as a good part of them


class Plan:
    """All fine-tunings of an evaluation, and what they learn from."""

    def __init__(
        self,
        options: EvaluateConfig,
        tasks: Sequence[Task],
        source: ModelSource,
        digests: Mapping[str, str],
        data: Mapping[str, TaskData],
    ) -> None:
        self.options, self.source, self.data = options, source, data
        self.workers = num_workers(options.num_processes, choose_device(options.device))
        self.jobs = plan_jobs(options, tasks, source, digests, data)
        self.trials = plan_trials(options, tasks, source, digests, data)
        fraction = options.search.held_out_fraction if options.search else 0.0
        self.parts = {
            trial.task.name: trial_data(
                trial.task, data[trial.task.name], trial.settings, trial.seed, fraction
            )
            for trial in {trial.task.name: trial for trial in self.trials}.values()
        }

    def prepare(
        self,
        jobs: Sequence[Job],
        data: Mapping[str, TaskData],
        features: dict[str, TaskFeatures],
    ) -> None:
        """Add the features of the jobs' tasks that are not among `features` yet."""
        for job in {job.task.name: job for job in jobs}.values():
            name, seeds = job.task.name, seeds_for(job.task, self.options)
            if name not in features:
                given = data[name], self.source, job.settings, seeds
                features[name] = prepare(job.task, *given)

    def cost(
        self,
        jobs: Sequence[Job],
        trials: Sequence[Job],
        features: dict[str, TaskFeatures],
        of_trials: dict[str, TaskFeatures],
    ) -> Iterator[str]:
        """Lines on what these jobs take, the trials before them, and a first look in their place.
        Adds the features that are not there; steps of each kind of rows are timed. Nothing is
        said of a few examples."""
        self.prepare(jobs, self.data, features)
        self.prepare(trials, self.parts, of_trials)
        total = sum(num_rows(job, features[job.task.name]) for job in jobs)
        total += sum(num_rows(trial, of_trials[trial.task.name]) for trial in trials)
        if total < FEW_EXAMPLES:
            return
        estimate = Estimator(self.source, self.options.device, self.workers)
        expected, searched = estimate(jobs, features), estimate(trials, of_trials)
        if trials:
            yield f"evaluate: trials of the search: {searched.num_jobs}, {searched}"
        if not expected.num_jobs:
            return
        yield f"evaluate: fine-tunings: {expected.num_jobs}, {expected} (from timed steps here)"
        fewer = {name: value for name, value in QUICK.items() if name != "seeds"}
        quick_jobs = [
            replace(job, settings=replace(job.settings, **fewer))
            for job in {(job.task.name, job.role): job for job in jobs}.values()
        ]
        quick = estimate(quick_jobs, features)
        if 2 * quick.seconds < expected.seconds + searched.seconds:
            yield f"evaluate: with --quick, without a search: {quick.num_jobs}, {quick}"
