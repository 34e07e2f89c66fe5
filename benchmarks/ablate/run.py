"""Makes the corpora of a grid, then its runs, several at once, and the report after each.

A run is `electrify run` in a process of its own: it saves, goes on and is refused as if it had been
started by hand, and its memory is given back. What is finished is not done again.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.ablate.corpora import make_corpora
from benchmarks.ablate.done import is_done, is_whole, mark_done
from benchmarks.ablate.figures import RunFigures, read_figures
from benchmarks.ablate.grid import Grid, load_grid
from benchmarks.ablate.jobs import execute, log_path
from benchmarks.ablate.plan import Run, base_config, grid_folder, plan_runs
from benchmarks.ablate.report import write_report
from benchmarks.twin_page import table_lines
from electrify.outcome import STOPPED
from electrify.progress import log, warn
from electrify.stage_lock import stage_lock


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
    from model.flops import run_flops
    from model.schedule import phases_of, tokens_until

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
