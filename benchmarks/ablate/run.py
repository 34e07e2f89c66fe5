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

from benchmarks.ablate.grid import (
    CORPUS_STAGES,
    Grid,
    Run,
    base_config,
    corpus_keys,
    grid_folder,
    load_grid,
    plan_runs,
    slug,
)
from benchmarks.ablate.report import write_report
from benchmarks.ablate.scores import RunFigures, read_figures
from benchmarks.pages.twin_page import table_lines
from benchmarks.tasks.texts import dump_benchmarks
from electrify.config.run import RunConfig
from electrify.stage.folder import MANIFEST, canonical, read_manifest, write_json
from electrify.stage.lock import stage_lock
from electrify.stage.plan import (
    KEEPING_OPTIONS,
    checkpoint_step,
    checkpoints,
    output_dir,
    pretrain_options,
)
from electrify.system.machine import num_cores
from electrify.system.outcome import STOPPED
from electrify.system.progress import Stopped, log, stop_on_signal, warn
from pipeline.sources.files import check_inputs
from pipeline.worker_files import check_worker_files

# The corpora of a grid: each is made once, and the runs that read it have links to it.


def make_corpora(
    base: RunConfig,
    runs: Sequence[Run],
    folder: Path,
    beam_options: Sequence[str],
    overwrite: bool,
) -> None:
    """Make what runs read, a stage that two corpora share only once, and link runs to it.

    The base's corpus is made in its own run folder, so that `electrify run` of it finds it there.
    """
    first: dict[str, Run] = {}  # that reads a corpus, by its key
    for run in runs:
        first.setdefault(corpus_keys(run.config)["shards"], run)
    for run in first.values():
        check_worker_files(run.config, beam_options, "ablate")
        check_inputs(run.config.clean)
    of_base = corpus_keys(base)["shards"]
    made: dict[str, Path] = {}  # folder of a stage by its key
    corpora: dict[str, Path] = {}
    for key in sorted(first, key=lambda key: key != of_base):  # the others take from it
        run = first[key]
        place = output_dir(base) if key == of_base else folder / slug(run.variant) / "corpus"
        keys = corpus_keys(run.config)
        for stage in CORPUS_STAGES:
            if keys[stage] in made:
                _link(made[keys[stage]], place / stage)
        config = run.config.model_copy(update={"output_dir": str(place)})
        _make(config, beam_options, overwrite)
        corpora[key] = place
        made |= {keys[stage]: place / stage for stage in CORPUS_STAGES}
    for run in runs:
        corpus = corpora[corpus_keys(run.config)["shards"]]
        for stage in CORPUS_STAGES:
            _link(corpus / stage, output_dir(run.config) / stage)


def _make(config: RunConfig, beam_options: Sequence[str], overwrite: bool) -> None:
    from pipeline.clean import clean
    from vocab.encode import encode
    from vocab.train import train_vocab

    clean(config, beam_options, overwrite, dump_benchmarks(config))
    train_vocab(config, beam_options, overwrite)
    encode(config, beam_options, overwrite)


def _link(target: Path, link: Path) -> None:
    """Point `link` at `target`; a folder that stands there stays, as what was made in place."""
    wanted = os.path.relpath(target, link.parent)
    if link.is_symlink():
        if os.readlink(link) == wanted:
            return
        link.unlink()  # of a corpus that the variant no longer reads, or of a folder that was moved
    if not link.exists():
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(wanted, target_is_directory=True)


# Runs of a grid as processes of their own, several at once.

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
            self.commands.pop(0),
            stdout=self.log,
            stderr=self.log,
            env=self.environment,
            start_new_session=True,  # Ctrl-C is for the grid, which asks its runs to save
        )
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
    from benchmarks.finetune.parallel import gpu_of

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


# Whether a run of a grid is finished, and made from what the grid now says.

_RECORD = "ablation.json"  # in the folder of a finished run: what it was made from


def mark_done(run: Run) -> None:
    """Write down what the finished run was made from."""
    write_json(output_dir(run.config) / _RECORD, _record(run))


def is_done(run: Run) -> bool:
    """Whether the run was finished, and from the present config and shards."""
    try:
        text = (output_dir(run.config) / _RECORD).read_text(encoding="utf-8")
        return is_whole(run) and json.loads(text) == _record(run)
    except (FileNotFoundError, ValueError):
        return False


def is_whole(run: Run) -> bool:
    """Whether every stage stands there, made by this config: with `--overwrite` old folders stay
    until the new ones are whole."""
    folder = output_dir(run.config)
    if not _is_made(folder / "pretrain", pretrain_options(run.config)):
        return False
    stages = ["export", *(["evaluate"] if _is_scored(run.config) else [])]
    if not all((folder / stage / MANIFEST).exists() for stage in stages):
        return False
    return not (run.has_curve and _is_scored(run.config)) or _has_curve(folder)


def _is_scored(config: RunConfig) -> bool:
    return bool(config.evaluate.suites or config.evaluate.tasks)


def _is_made(stage: Path, options: dict[str, object]) -> bool:
    if not (stage / MANIFEST).exists():
        return False
    made: dict[str, object] = read_manifest(stage)["config"]
    wanted: dict[str, object] = canonical(options)
    return made == wanted


def _has_curve(folder: Path) -> bool:
    """Whether each checkpoint but the last one, which is the export, is scored."""
    *on_the_way, _ = checkpoints(folder / "pretrain")
    steps = [checkpoint_step(path) for path in on_the_way]
    return all((folder / f"evaluate-checkpoint-{step}" / MANIFEST).exists() for step in steps)


def _record(run: Run) -> dict[str, object]:
    shards = read_manifest(output_dir(run.config) / "shards")["digest"]
    config = run.config.model_dump(mode="json")
    del config["evaluate"]["data_dir"]  # where data lie is no difference, nor what is kept
    for option in KEEPING_OPTIONS:
        del config["pretrain"][option]
    return {"config": config, "shards": shards, "has_curve": run.has_curve}


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
        make_corpora(base, runs, folder, beam_options, overwrite)
        done = [run for run in runs if is_done(run)]
        finished = _figures(done)
        labels = {run.label for run in done}
        failed = [run.label for run in done if run.label not in finished]
        waiting = [run for run in runs if run.label not in labels]
        log(f"{grid.name}: {len(runs)} runs, {len(done)} done already")
        text = _report(grid, runs, finished, folder)
        for run, status in execute(grid, waiting, overwrite):
            if status or not is_whole(run):
                where = "above" if grid.num_processes == 1 else str(log_path(run))
                how = "was stopped" if status in STOPPED else "failed"
                warn(f"{run.label} {how}: see {where}")
            else:
                mark_done(run)
                log(f"{run.label}: finished {run.config.output_dir}")
                finished |= _figures([run])
            if run.label in finished:
                text = _report(grid, runs, finished, folder)
            else:
                failed.append(run.label)
    if failed:
        raise ValueError(
            f"{len(failed)} of {len(runs)} runs failed: {'; '.join(failed)}. The same command "
            "tries them again"
        )
    return text


def report_of(path: Path, overrides: Sequence[str]) -> str:
    """Write the report of the runs that are finished, and start none."""
    grid = load_grid(path)
    runs = plan_runs(grid, overrides)
    done = _figures([run for run in runs if is_done(run)])
    return _report(grid, runs, done, grid_folder(grid, base_config(grid, overrides)))


def plan_of(path: Path, overrides: Sequence[str]) -> str:
    """The runs in their order with their cost, and how many hours those took that are finished."""
    grid = load_grid(path)
    runs = plan_runs(grid, overrides)
    done = _figures([run for run in runs if is_done(run)])
    headers = ["variant", "seed", "steps", "tokens", "FLOPs, matrix products", "FLOPs, paper", ""]
    rows = [(*_cost(run), "finished" if run.label in done else "to do") for run in runs]
    hours = sum(figures.hours for figures in done.values())
    text = f"{len(done)} of {len(runs)} runs are finished and took {hours:.1f} hours"
    if 0 < len(done) < len(runs):
        left = hours / len(done) * (len(runs) - len(done)) / grid.num_processes
        text += f"; at this rate the others take {left:.1f}, {grid.num_processes} at once"
    return "\n".join([*table_lines(headers, rows), text])


def _cost(run: Run) -> tuple[object, ...]:
    from model.schedule import phases_of, tokens_until
    from model.watch.flops import run_flops

    options, length = run.config.pretrain, run.config.encode.sequence_length
    flops = run_flops(options, run.config.vocab.size, length)
    tokens = tokens_until(phases_of(options, length), options.num_steps)
    cost = f"{flops.matmul:.3g}", f"{flops.paper:.3g}"
    return run.variant, run.seed, options.num_steps, tokens, *cost


def _figures(runs: Sequence[Run]) -> dict[str, RunFigures]:
    """By label; a run with a damaged file is none, and stops no other."""
    found = {}
    for run in runs:
        try:
            found[run.label] = read_figures(run)
        except ValueError as error:
            warn(f"{run.label} cannot be read: {error}")
    return found


def _report(
    grid: Grid, runs: Sequence[Run], finished: Mapping[str, RunFigures], folder: Path
) -> str:
    """Of the runs that are finished, in the order of the plan."""
    labels = [run.label for run in runs]
    figures = [finished[label] for label in labels if label in finished]
    return write_report(grid, labels, figures, folder)
