"""Makes the corpora of a grid, then its runs one by one, and the report after each.

A run is `electrify run` in a process of its own: it saves, resumes and is refused as if it had been
started by hand, and its memory is given back. What is finished is not done again.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
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
from benchmarks.ablate.report import RunFigures, read_figures, write_report
from benchmarks.results.table import Table
from benchmarks.tasks.texts import dump_benchmarks
from electrify.config.run import RunConfig
from electrify.stage.folder import outdated, read_manifest, stage_lock
from electrify.stage.plan import evaluate_stage, export_stage, output_dir, pretrain_stage
from electrify.system.outcome import STOPPED, UserError
from electrify.system.progress import Stopped, log, stop_on_signal, warn

_POLL_SECONDS = 0.2


def ablate(
    path: Path,
    overrides: Sequence[str],
    beam_options: Sequence[str],
    overwrite: bool,
    check: Callable[[RunConfig], object],
) -> str:
    """Do every run that is not done; the report's table and where the report stands.

    A run that fails stops no other. What `check` raises of a variant is raised before any work.
    """
    grid = load_grid(path)
    base = base_config(grid, overrides)
    runs, folder = plan_runs(grid, overrides), grid_folder(grid, base)
    folder.mkdir(parents=True, exist_ok=True)
    with stage_lock(folder / "runs"):
        for run in {run.variant: run for run in runs if not is_done(run)}.values():
            check(run.config)
        make_corpora(base, runs, folder, beam_options, overwrite)
        figures = finished(runs)
        log(f"{grid.name}: {len(runs)} runs, {len(figures)} done already")
        text = write_report(grid, runs, figures, folder)
        waiting = [run for run in runs if run.label not in figures]
        for run, exit_status in execute(grid, waiting, overwrite):
            figures |= finished([run])
            if run.label in figures:
                log(f"{run.label}: finished {run.folder}")
                text = write_report(grid, runs, figures, folder)
            else:
                how = "was stopped" if exit_status in STOPPED else "failed"
                warn(f"{run.label} {how}: see above")
    if failed := [run.label for run in runs if run.label not in figures]:
        raise UserError(
            f"{len(failed)} of {len(runs)} runs failed: {'; '.join(failed)}. The same command "
            "tries them again"
        )
    return text


def dry_run(path: Path, overrides: Sequence[str]) -> str:
    """The runs in their order with their cost, and how many hours those took that are finished."""
    from model.flops import run_flops

    grid = load_grid(path)
    runs = plan_runs(grid, overrides)
    figures = finished(runs)
    rows = [
        {
            "variant": run.variant,
            "seed": run.seed,
            "steps": run.config.pretrain.num_steps,
            "tokens": flops.positions,
            "FLOPs, matrix products": f"{flops.matmul:.3g}",
            "": "finished" if run.label in figures else "to do",
        }
        for run in runs
        for flops in [run_flops(run.config.pretrain, run.config.vocab.num_pieces)]
    ]
    text = f"{len(figures)} of {len(runs)} runs are finished and took "
    text += f"{sum(run.hours for run in figures.values()):.1f} hours"
    return "\n".join([*Table.of(rows).terminal(), text])


def finished(runs: Sequence[Run]) -> dict[str, RunFigures]:
    """The figures of those that are done, by label; `ValueError` for a damaged file."""
    return {run.label: read_figures(run) for run in filter(is_done, runs)}


def make_corpora(
    base: RunConfig, runs: Sequence[Run], folder: Path, beam_options: Sequence[str], overwrite: bool
) -> None:
    """Make what runs read, a stage that two corpora share only once, and link runs to it.

    The base's corpus is made in its own run folder, so that `electrify run` of it finds it there.
    """
    from pipeline.clean import clean
    from vocab.encode import encode
    from vocab.train import train_vocab

    first: dict[str, Run] = {}  # that reads a corpus, by its key
    for run in runs:
        first.setdefault(corpus_keys(run.config)["shards"], run)
    base_key = corpus_keys(base)["shards"]
    folders: dict[str, Path] = {}  # folder of a stage by its key
    for corpus in sorted(first, key=lambda key: key != base_key):  # the others take from it
        run = first[corpus]
        own_folder = folder / slug(run.variant) / "corpus"
        corpus_folder = output_dir(base) if corpus == base_key else own_folder
        keys = corpus_keys(run.config)
        for stage, key in keys.items():
            if key in folders:
                _link(folders[key], corpus_folder / stage)
        config = run.config.model_copy(update={"output_dir": str(corpus_folder)})
        clean(config, beam_options, overwrite, dump_benchmarks(config, overwrite))
        train_vocab(config, beam_options, overwrite)
        encode(config, beam_options, overwrite)
        folders = {key: corpus_folder / stage for stage, key in keys.items()} | folders
    for run in runs:
        for stage, key in corpus_keys(run.config).items():
            _link(folders[key], run.folder / stage)


def _link(target: Path, link: Path) -> None:
    """Point `link` at `target`; a folder that stands there stays, as what was made in place."""
    wanted = os.path.relpath(target, link.parent)
    if link.is_symlink() and os.readlink(link) != wanted:
        link.unlink()  # of a corpus that the variant no longer reads, or of a folder that was moved
    if not link.exists():
        link.unlink(missing_ok=True)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(wanted, target_is_directory=True)


def execute(grid: Grid, waiting: Sequence[Run], overwrite: bool) -> Iterator[tuple[Run, int]]:
    """Each run with its exit status as it ends, one after the other; `Stopped` on request."""
    with stop_on_signal("the run saves first") as stop:
        for number, run in enumerate(waiting):
            process = start(grid, run, overwrite)
            try:
                while process.poll() is None and not stop:
                    time.sleep(_POLL_SECONDS)
            finally:  # no process outlives the grid, whatever ends it
                process.terminate()  # it saves, then leaves
                status = process.wait()
            if stop:
                left = len(waiting) - number
                raise Stopped(f"{left} runs are not finished; what ran has saved", stop.signal)
            yield run, status


def start(grid: Grid, run: Run, overwrite: bool) -> subprocess.Popen[bytes]:
    """In a session of its own: Ctrl-C is for the grid, which asks its run to save."""
    log(f"{run.label}: {run.config.pretrain.num_steps:,} steps, {run.config.output_dir}")
    command = [sys.executable, "-m", "electrify", "run", str(grid.base)]
    command += [f"--set={word}" for word in run.overrides]
    command += ["--overwrite"] if overwrite else []
    return subprocess.Popen(command, start_new_session=True)


def is_done(run: Run) -> bool:
    """Whether every stage stands there, made by this config from the present shards."""
    options = run.config.evaluate
    options = options.model_copy(update={"suites": options.task_suites})  # as `evaluate` has them
    config = run.config.model_copy(update={"evaluate": options})
    try:
        stages = [pretrain_stage(config), export_stage(config)]
        if options.has_tasks:
            scored = evaluate_stage(config, None, {})
            data = read_manifest(scored.folder)["inputs"]["data"]  # is not read again
            stages.append(replace(scored, inputs={**scored.inputs, "data": data}))
        return all(outdated(stage) is None for stage in stages)
    except ValueError:  # one that is not there, or damaged
        return False
