"""Makes the corpora of a grid, then its runs, several at once, and the report after each.

A run is `electrify run` in a process of its own: it saves, goes on and is refused as if it had been
started by hand, and its memory is given back. What is finished is not done again.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.ablate.grid import (
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
from benchmarks.results.table import record_lines
from benchmarks.tasks.texts import check_benchmarks, dump_benchmarks
from electrify.config.run import RunConfig
from electrify.stage.folder import MANIFEST, canonical, read_manifest, write_json
from electrify.stage.lock import stage_lock
from electrify.stage.plan import KEEPING_OPTIONS, output_dir, pretrain_options
from electrify.system.machine import num_cores
from electrify.system.outcome import STOPPED, UserError
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
        check_benchmarks(run.config)
    of_base = corpus_keys(base)["shards"]
    made: dict[str, Path] = {}  # folder of a stage by its key
    for corpus in sorted(first, key=lambda key: key != of_base):  # the others take from it
        run = first[corpus]
        place = output_dir(base) if corpus == of_base else folder / slug(run.variant) / "corpus"
        keys = corpus_keys(run.config)
        for stage, key in keys.items():
            if key in made:
                _link(made[key], place / stage)
        _make(run.config.model_copy(update={"output_dir": str(place)}), beam_options, overwrite)
        made = {key: place / stage for stage, key in keys.items()} | made
    for run in runs:
        for stage, key in corpus_keys(run.config).items():
            _link(made[key], output_dir(run.config) / stage)


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


def execute(grid: Grid, waiting: Sequence[Run], overwrite: bool) -> Iterator[tuple[Run, int]]:
    """Each run with its exit status as it ends, `num_processes` at once; `Stopped` on request."""
    todo, running = list(waiting), dict[int, tuple[Run, subprocess.Popen[bytes]]]()  # by slot
    with stop_on_signal("runs save first") as stop:
        try:
            while (todo or running) and not stop:
                for slot in range(grid.num_processes):
                    if todo and slot not in running:
                        running[slot] = todo[0], start(grid, todo.pop(0), slot, overwrite)
                time.sleep(_POLL_SECONDS)
                for slot, (run, process) in list(running.items()):
                    if (status := process.poll()) is not None:
                        del running[slot]
                        yield run, status
        finally:  # no process outlives the grid, whatever ends it
            for _, process in running.values():
                process.terminate()  # it saves, then leaves
            for _, process in running.values():
                process.wait()
        if stop:
            left = len(todo) + len(running)
            raise Stopped(f"{left} runs are not finished; what ran has saved", stop.signal)


def start(grid: Grid, run: Run, slot: int, overwrite: bool) -> subprocess.Popen[bytes]:
    """One run at a time shows its progress; several write it to their logs, and each has its share
    of the cores and, where there are several GPUs, one of these."""
    from benchmarks.finetune.parallel import gpu_of

    log(f"{run.label}: {run.config.pretrain.num_steps:,} steps, {run.config.output_dir}")
    command = [sys.executable, "-m", "electrify", "run", str(grid.base)]
    command += [f"--set={word}" for word in run.overrides]
    command += ["--overwrite"] if overwrite else []
    environment = dict(os.environ)
    # in a session of its own: Ctrl-C is for the grid, which asks its runs to save
    if grid.num_processes == 1:
        return subprocess.Popen(command, env=environment, start_new_session=True)
    cores = num_cores()
    if environment.get("OMP_NUM_THREADS") in (None, str(cores)):  # `prepare_threads`, not the user
        environment["OMP_NUM_THREADS"] = str(max(1, cores // grid.num_processes))
    if (gpu := gpu_of(slot)) is not None:
        environment["CUDA_VISIBLE_DEVICES"] = gpu
    with log_path(run).open("ab") as file:
        return subprocess.Popen(
            command, stdout=file, stderr=file, env=environment, start_new_session=True
        )


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
        return is_whole(run) and _record(run).items() <= json.loads(text).items()
    except (FileNotFoundError, ValueError, AttributeError):  # not there, or damaged
        return False


def is_whole(run: Run) -> bool:
    """Whether every stage stands there, made by this config: with `--overwrite` old folders stay
    until the new ones are whole."""
    folder, config = output_dir(run.config), run.config
    is_scored = config.evaluate.has_tasks
    stages = ["pretrain", "export", *(["evaluate"] if is_scored else [])]
    if not all((folder / stage / MANIFEST).exists() for stage in stages):
        return False
    wanted: dict[str, object] = canonical(pretrain_options(config))
    return bool(read_manifest(folder / "pretrain")["config"] == wanted)


def _record(run: Run) -> dict[str, object]:
    shards = read_manifest(output_dir(run.config) / "shards")["digest"]
    config = run.config.model_dump(mode="json")
    del config["evaluate"]["data_dir"]  # where data lie is no difference, nor what is kept
    for option in KEEPING_OPTIONS:
        del config["pretrain"][option]
    return {"config": config, "shards": shards}


def ablate(
    path: Path, overrides: Sequence[str], beam_options: Sequence[str], overwrite: bool
) -> str:
    """Do every run that is not done; the report's table and where the report stands.

    Raises `ValueError` naming the runs that failed, after the others, and `Stopped` when asked to
    stop: what runs saves first.
    """
    grid = load_grid(path)
    base = base_config(grid, overrides)
    runs, folder = plan_runs(grid, overrides), grid_folder(grid, base)
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
        raise UserError(
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
    from model.watch.flops import run_flops

    grid = load_grid(path)
    runs = plan_runs(grid, overrides)
    done = _figures([run for run in runs if is_done(run)])
    rows = []
    for run in runs:
        options, length = run.config.pretrain, run.config.pretrain.sequence_length
        flops = run_flops(options, run.config.vocab.size, length)
        rows.append(
            {
                "variant": run.variant,
                "seed": run.seed,
                "steps": options.num_steps,
                "tokens": flops.positions,
                "FLOPs, matrix products": f"{flops.matmul:.3g}",
                "FLOPs, paper": f"{flops.paper:.3g}",
                "": "finished" if run.label in done else "to do",
            }
        )
    hours = sum(figures.hours for figures in done.values())
    text = f"{len(done)} of {len(runs)} runs are finished and took {hours:.1f} hours"
    if 0 < len(done) < len(runs):
        left = hours / len(done) * (len(runs) - len(done)) / grid.num_processes
        text += f"; at this rate the others take {left:.1f}, {grid.num_processes} at once"
    return "\n".join([*record_lines(rows), text])


def _figures(runs: Sequence[Run]) -> dict[str, RunFigures]:
    """By label; a run with a damaged file is left out, and stops no other."""
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
    """The report of the runs that are finished, in the order of the plan."""
    figures = [finished[run.label] for run in runs if run.label in finished]
    return write_report(grid, runs, figures, folder)
