"""The report of one run, or of several side by side: a page, and its first screen in Markdown."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from benchmarks.analysis.report import Block, blocks_of, read_figures
from benchmarks.pages.curves import (
    add_curves,
    add_mean_curve,
    add_score_against_flops,
    add_score_cost,
)
from benchmarks.pages.errors import add_errors
from benchmarks.pages.leakage import add_leakage
from benchmarks.pages.probes import add_probes, add_side_by_side, probe_blocks
from benchmarks.pages.references import add_references
from benchmarks.pages.scores import add_comparison, add_scores
from benchmarks.pages.summary import top_of
from benchmarks.pages.training import (
    add_corpus,
    add_model,
    add_pretraining,
    add_stages,
    add_vocabulary,
)
from benchmarks.results.run_folder import RunFolder, has_stages, read_run
from benchmarks.results.table import markdown_text
from benchmarks.statistics.comparison import Against, between, resolve_baseline, within
from electrify.page.page import Page
from electrify.stage.folder import remove_torn, write_text
from electrify.stage.lock import stage_lock
from electrify.system.outcome import UserError

_SUBTITLE = "electrify: an ELECTRA encoder from raw text to scores"


def report(
    folders: Sequence[Path],
    output: Path | None = None,
    data_dirs: Sequence[Path] = (),
    with_texts: bool = True,
    baseline: str | None = None,
) -> Path:
    """Write report.html and report.md of finished or unfinished runs.

    They go into the folder `output`, by default the first run's. Returns the HTML file. The worst
    examples are quoted from `data_dirs`, those of the evaluation, unless `with_texts` is False.
    `baseline` names what scores are compared with
    (`resolve_baseline`). Raises `ValueError` for a folder that is no run, or that is named twice.
    """
    if not folders:
        raise UserError("no run folder given; run: electrify report out/NAME [out/OTHER ...]")
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise UserError(f"a run folder is named twice: {', '.join(map(str, folders))}")
    target = output or folders[0]
    if target.exists() and not target.is_dir():
        raise UserError(f"output {target} is a file; give a folder")
    runs = [read_run(folder) for folder in folders]
    names = _names(runs)
    compared_with = resolve_baseline(baseline, runs, names)
    of_run = {name: within(run, compared_with) for name, run in zip(names, runs, strict=True)}
    one = runs[0] if len(runs) == 1 else None
    top = top_of(runs, names, of_run[names[0]] if one else between(runs, names, compared_with))
    title = ", ".join(names)
    page = Page(title, _SUBTITLE)
    top.add_to(page)
    if one:
        add_mean_curve(page, one)
    else:
        add_score_against_flops(page, runs, names)
        with page.fold("Pretraining side by side", is_section=True):
            add_comparison(page, runs, names)
        add_side_by_side(page, runs, names)
    for run, name in zip(runs, names, strict=True):
        prefix = "" if one else f"{name}: "
        _add_sections(page, run, prefix, of_run[name], data_dirs, with_texts)
    blocks = [f"# {markdown_text(title)}", _SUBTITLE, *top.markdown()]
    if one:
        blocks += probe_blocks(one)
    target.mkdir(parents=True, exist_ok=True)
    with stage_lock(target / "report"):
        remove_torn(target.glob("report.*"))
        write_text(target / "report.md", "\n\n".join(blocks) + "\n")
        page.write(target / "report.html")
    return target / "report.html"


def _add_sections(
    page: Page,
    run: RunFolder,
    prefix: str,
    compared: Sequence[Against],
    data_dirs: Sequence[Path],
    with_texts: bool,
) -> None:
    """Everything behind the first screen, each part folded away."""
    of_scores: dict[str, Callable[[Page, RunFolder], None]] = {
        "Scores in full": partial(add_scores, compared=compared),
        "Published scores": add_references,
        "What the scores cost": add_score_cost,
        "Learning curves": add_curves,
        "What it gets wrong": partial(add_errors, data_dirs=data_dirs, with_texts=with_texts),
        "Probes": add_probes,
        "Leakage": partial(add_leakage, with_texts=with_texts),
    }
    of_network: dict[str, Callable[[Page, RunFolder], None]] = {}
    if run.probe:
        for title, blocks in blocks_of(read_figures(run.probe)).items():
            of_network[title] = partial(_add_blocks, blocks)
    of_stages: dict[str, Callable[[Page, RunFolder], None]] = {
        "The model": add_model,
        "Pretraining": add_pretraining,
        "Vocabulary": add_vocabulary,
        "Corpus": add_corpus,
    }
    sections = of_scores | of_network | (of_stages if has_stages(run) else {})
    for title, add in {**sections, "Cost, versions and config": add_stages}.items():
        with page.fold(f"{prefix}{title}", is_section=True):
            add(page, run)


def _add_blocks(blocks: Sequence[Block], page: Page, run: RunFolder) -> None:
    for block in blocks:
        block.add(page)


def _names(runs: Sequence[RunFolder]) -> list[str]:
    """Folder names, with their paths where two runs share one."""
    names = [run.name for run in runs]
    return [
        run.name if names.count(run.name) == 1 else run.folder.resolve().as_posix() for run in runs
    ]
