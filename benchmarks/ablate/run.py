"""Makes the corpora of a grid, then its runs, several at once, and the report after each.

A run is `electrify run` in a process of its own: it saves, goes on and is refused as if it had been
started by hand, and its memory is given back. What is finished is not done again.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from benchmarks.ablate.figures import RunFigures, read_figures
from benchmarks.ablate.grid import Grid, load_grid, slug
from benchmarks.ablate.plan import (
    CORPUS_STAGES,
    Run,
    base_config,
    corpus_keys,
    grid_folder,
    plan_runs,
)
from benchmarks.ablate.report import write_report
from benchmarks.texts import dump_benchmarks
from electrify.artifacts import MANIFEST, read_manifest, write_json
from electrify.config import RunConfig
from electrify.progress import Stopped, log, stop_on_signal, warn
from electrify.stage_lock import stage_lock
from electrify.stages import KEEPING_OPTIONS, output_dir

_RECORD = "ablation.json"  # in the folder of a finished run: what it was made from
_LOG = "ablation.log"
_POLL_SECONDS = 0.2


def ablate(
    path: Path, overrides: Sequence[str], beam_options: Sequence[str], overwrite: bool
) -> str:
    """Do every run that is not done; the report's table and where the report stands.

    Raises `ValueError` naming the runs that failed, after the others, and `Stopped` when asked to
    stop: what runs saves first.
    """
    grid = load_grid(path)
    base = base_config(grid, overrides)
    folder = grid_folder(grid, base)
    runs = plan_runs(grid, overrides)
    folder.mkdir(parents=True, exist_ok=True)
    with stage_lock(folder / "runs"):
        corpora = _make_corpora(base, runs, folder, beam_options, overwrite)
        waiting = []
        for run in runs:
            _link(corpora[corpus_keys(run.config)["shards"]], output_dir(run.config))
            if not _is_done(run):
                waiting.append(run)
        log(f"{grid.name}: {len(runs)} runs, {len(runs) - len(waiting)} done already")
        finished = {run.label: read_figures(run) for run in runs if run not in waiting}
        text = _report(grid, runs, finished, folder)
        failed = []
        for run, status in _execute(grid, waiting, overwrite):
            if status or not _is_whole(run):
                failed.append(run)
                warn(f"{run.label} failed: see {_log_path(run)}")
                continue
            write_json(output_dir(run.config) / _RECORD, _record(run))
            log(f"{run.label}: finished {run.config.output_dir}")
            finished[run.label] = read_figures(run)
            text = _report(grid, runs, finished, folder)
    if failed:
        raise ValueError(
            f"{len(failed)} of {len(runs)} runs failed: {'; '.join(r.label for r in failed)}. "
            f"Their last words are in {_LOG} of their folders; the same command tries them again"
        )
    return text


def _report(
    grid: Grid, runs: Sequence[Run], finished: Mapping[str, RunFigures], folder: Path
) -> str:
    """Of the runs that are finished, in the order of the plan."""
    figures = [finished[run.label] for run in runs if run.label in finished]
    return write_report(grid, len(runs), figures, folder)


def _make_corpora(
    base: RunConfig,
    runs: Sequence[Run],
    folder: Path,
    beam_options: Sequence[str],
    overwrite: bool,
) -> dict[str, Path]:
    """Every corpus that runs read, by its key; a stage that two of them share is made once."""
    from pipeline.clean import clean
    from vocab.encode import encode
    from vocab.train import train_vocab

    made: dict[str, Path] = {}  # folder of a stage by its key
    corpora: dict[str, Path] = {}
    of_base = corpus_keys(base)["shards"]
    for run in runs:
        keys = corpus_keys(run.config)
        if keys["shards"] in corpora:
            continue
        is_base = keys["shards"] == of_base
        place = output_dir(base) if is_base else folder / slug(run.variant) / "corpus"
        for stage in CORPUS_STAGES:
            if not is_base and keys[stage] in made:
                _link_one(made[keys[stage]], place / stage)
        config = run.config.model_copy(update={"output_dir": str(place)})
        clean(config, beam_options, overwrite, dump_benchmarks(config))
        train_vocab(config, beam_options, overwrite)
        encode(config, beam_options, overwrite)
        corpora[keys["shards"]] = place
        made |= {keys[stage]: place / stage for stage in CORPUS_STAGES}
    return corpora


def _link(corpus: Path, run: Path) -> None:
    """Point a run's corpus folders at those of the corpus."""
    for stage in CORPUS_STAGES:
        _link_one(corpus / stage, run / stage)


def _link_one(target: Path, link: Path) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.exists():
        link.unlink(missing_ok=True)  # of a folder that was moved
        link.symlink_to(os.path.relpath(target, link.parent), target_is_directory=True)


def _record(run: Run) -> dict[str, object]:
    """What a finished run was made from."""
    shards = read_manifest(output_dir(run.config) / "shards")["digest"]
    config = run.config.model_dump(mode="json")
    del config["evaluate"]["data_dir"]  # where data lie is no difference, nor what is kept
    for option in KEEPING_OPTIONS:
        del config["pretrain"][option]
    return {"config": config, "shards": shards, "has_curve": run.has_curve}


def _is_done(run: Run) -> bool:
    try:
        text = (output_dir(run.config) / _RECORD).read_text(encoding="utf-8")
        return _is_whole(run) and json.loads(text) == _record(run)
    except (FileNotFoundError, ValueError):
        return False


def _is_whole(run: Run) -> bool:
    """Whether every stage stands there; a run that was stopped ends with status 0, too."""
    folder = output_dir(run.config)
    is_scored = bool(run.config.evaluate.suites or run.config.evaluate.tasks)
    stages = ["pretrain", "export", *(["evaluate"] if is_scored else [])]
    return all((folder / stage / MANIFEST).exists() for stage in stages) and (
        not (run.has_curve and is_scored) or bool(list(folder.glob("evaluate-checkpoint-*")))
    )


@dataclass
class _Job:
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


def _execute(grid: Grid, waiting: Sequence[Run], overwrite: bool) -> Iterator[tuple[Run, int]]:
    """Each run with its exit status as it ends, `num_processes` at once; `Stopped` on request."""
    todo, jobs = list(waiting), list[_Job]()
    with stop_on_signal() as stop:
        try:
            while (todo or jobs) and not stop:
                while todo and len(jobs) < grid.num_processes:
                    jobs.append(_job(grid, todo.pop(0), overwrite))
                time.sleep(_POLL_SECONDS)
                for job in [job for job in jobs if not job.is_running()]:
                    jobs.remove(job)
                    yield job.run, job.end()
        finally:  # no process outlives the grid, whatever ends it
            for job in jobs:
                job.stop()
            for job in jobs:
                job.end()
        if stop:
            raise Stopped(f"{len(todo) + len(jobs)} runs are not finished; what ran has saved")


def _job(grid: Grid, run: Run, overwrite: bool) -> _Job:
    """Of one run at a time the progress is shown; several write it to their logs."""
    log(f"{run.label}: {run.config.pretrain.num_steps:,} steps, {run.config.output_dir}")
    words = [str(grid.base), *(f"--set={word}" for word in run.overrides)]
    words += ["--overwrite"] if overwrite else []
    module = [sys.executable, "-m", "electrify"]
    commands = [[*module, "run", *words]]
    if run.has_curve:
        commands.append([*module, "evaluate", *words, "--checkpoints"])
    environment = dict(os.environ)
    if grid.num_processes == 1:
        return _Job(run, commands, environment, None)
    threads = max(1, (os.cpu_count() or 1) // grid.num_processes)
    environment.setdefault("OMP_NUM_THREADS", str(threads))
    return _Job(run, commands, environment, _log_path(run).open("ab"))


def _log_path(run: Run) -> Path:
    return output_dir(run.config) / _LOG
