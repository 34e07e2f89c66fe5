"""Runs of a grid as processes of their own, several at once."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from benchmarks.ablate.grid import Grid
from benchmarks.ablate.plan import Run
from electrify.machine import num_cores
from electrify.progress import Stopped, log, stop_on_signal
from electrify.stages import output_dir

_POLL_SECONDS = 0.2


@dataclass
class Job:
    """A run's commands, one after the other."""

    run: Run
    commands: list[list[str]]  # those to come
    environment: dict[str, str]
    log: IO[bytes] | None  # None: what it prints is shown
    process: subprocess.Popen[bytes] | None = None

    def is_running(self) -> bool:
        """Start the next command if the one before ended well; whether one runs."""
        status = None if self.process is None else self.process.poll()
        if self.process is not None and status is None:
            return True
        if status or not self.commands:
            return False
        self.process = subprocess.Popen(
            self.commands.pop(0), stdout=self.log, stderr=self.log, env=self.environment,
            start_new_session=True,  # Ctrl-C is for the grid, which asks its runs to save
        )  # fmt: skip
        return True

    def stop(self) -> None:
        """Ask what runs to save and leave."""
        self.commands.clear()
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)

    def end(self) -> int:
        """Wait; the exit status."""
        status = 0 if self.process is None else self.process.wait()
        if self.log:
            self.log.close()
        return status


def execute(grid: Grid, waiting: Sequence[Run], overwrite: bool) -> Iterator[tuple[Run, int]]:
    """Each run with its exit status as it ends, `num_processes` at once; `Stopped` on request."""
    todo, jobs = list(waiting), dict[int, Job]()  # by slot
    with stop_on_signal("runs save first") as stop:
        try:
            while (todo or jobs) and not stop:
                for slot in range(grid.num_processes):
                    if todo and slot not in jobs:
                        jobs[slot] = job_of(grid, todo.pop(0), slot, overwrite)
                time.sleep(_POLL_SECONDS)
                for slot in [slot for slot, job in jobs.items() if not job.is_running()]:
                    job = jobs.pop(slot)
                    yield job.run, job.end()
        finally:  # no process outlives the grid, whatever ends it
            for job in jobs.values():
                job.stop()
            for job in jobs.values():
                job.end()
        if stop:
            left = len(todo) + len(jobs)
            raise Stopped(f"{left} runs are not finished; what ran has saved", stop.signal)


def job_of(grid: Grid, run: Run, slot: int, overwrite: bool) -> Job:
    """Of one run at a time the progress is shown; several write it to their logs, and each has its
    share of the cores and, where there are several GPUs, one of these."""
    from benchmarks.parallel import gpu_of

    log(f"{run.label}: {run.config.pretrain.num_steps:,} steps, {run.config.output_dir}")
    words = [str(grid.base), *(f"--set={word}" for word in run.overrides)]
    words += ["--overwrite"] if overwrite else []
    module = [sys.executable, "-m", "electrify"]
    commands = [[*module, "run", *words]]
    if run.has_curve:
        commands.append([*module, "evaluate", *words, "--checkpoints"])
    environment = dict(os.environ)
    if grid.num_processes == 1:
        return Job(run, commands, environment, None)
    cores = num_cores()
    if environment.get("OMP_NUM_THREADS") in (None, str(cores)):  # `prepare_threads`, not the user
        environment["OMP_NUM_THREADS"] = str(max(1, cores // grid.num_processes))
    if (gpu := gpu_of(slot)) is not None:
        environment["CUDA_VISIBLE_DEVICES"] = gpu
    return Job(run, commands, environment, log_path(run).open("ab"))


def log_path(run: Run) -> Path:
    """Where a run writes what it prints, if several run at once."""
    return output_dir(run.config) / "ablation.log"
