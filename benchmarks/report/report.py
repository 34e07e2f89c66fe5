"""The report of one run, or of several side by side: a page, its top in Markdown, cards."""

from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.analysis.probe import read_figures, sections_of
from benchmarks.leakage.report import add_leakage, leakage_rows
from benchmarks.report.curves import (
    add_curves,
    add_mean_curve,
    add_score_against_flops,
    add_score_cost,
    cost_lines,
    low_shot_lines,
)
from benchmarks.report.errors import add_errors
from benchmarks.report.noise import (
    add_noise,
    add_noise_side_by_side,
    noise_blocks,
    noise_card_lines,
)
from benchmarks.report.published import add_published, published_lines
from benchmarks.report.scores import add_scores, card_lines
from benchmarks.report.stages import (
    add_corpus,
    add_model,
    add_pretraining,
    add_side_by_side,
    add_stages,
    add_vocabulary,
    missing,
)
from benchmarks.report.summary import summary_of
from benchmarks.results.run_folder import RunFolder, has_stages, read_run
from benchmarks.results.table import Part, add_parts, markdown_text, record_lines
from benchmarks.statistics.comparison import Against, Baseline, between, resolve_baseline, within
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
    `baseline` names what scores are compared with (`resolve_baseline`). Raises `ValueError` for a
    folder that is no run, or that is named twice.
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
    one = runs[0] if len(runs) == 1 else None
    compared = within(one, compared_with) if one else between(runs, names, compared_with)
    summary = summary_of(runs, names, compared)
    title = ", ".join(names)
    page = Page(title, _SUBTITLE)
    summary.add_to(page)
    if one:
        add_mean_curve(page, one)
    else:
        add_score_against_flops(page, runs, names)
        with page.fold("Pretraining side by side", is_section=True):
            add_side_by_side(page, runs, names)
        add_noise_side_by_side(page, runs, names)
    for run, name in zip(runs, names, strict=True):
        sections = _sections(run, within(run, compared_with), data_dirs, with_texts)
        for heading, add in sections.items():
            with page.fold(heading if one else f"{name}: {heading}", is_section=True):
                add(page, run)
    blocks = [f"# {markdown_text(title)}", _SUBTITLE, *summary.markdown()]
    blocks += noise_blocks(one) if one else []
    target.mkdir(parents=True, exist_ok=True)
    with stage_lock(target / "report"):
        remove_torn(target.glob("report.*"))
        write_text(target / "report.md", "\n\n".join(blocks) + "\n")
        page.write(target / "report.html")
    return target / "report.html"


def _sections(
    run: RunFolder, compared: Sequence[Against], data_dirs: Sequence[Path], with_texts: bool
) -> dict[str, Callable[[Page, RunFolder], None]]:
    """Everything behind the first screen, by heading."""

    def scores(page: Page, run: RunFolder) -> None:
        if has_stages(run):
            missing(page, run, "evaluate", "Scores")
        add_scores(page, run, compared)

    def probed(parts: Sequence[Part]) -> Callable[[Page, RunFolder], None]:
        return lambda page, _: add_parts(page, parts)

    sections: dict[str, Callable[[Page, RunFolder], None]] = {
        "Scores in full": scores,
        "Published scores": add_published,
        "What the scores cost": add_score_cost,
        "Learning curves": add_curves,
        "Common errors": lambda page, run: add_errors(page, run, data_dirs, with_texts),
        "Probes": add_noise,
        "Leakage": lambda page, run: add_leakage(page, run, with_texts),
    }
    if run.probe:
        figures = sections_of(read_figures(run.probe))
        sections |= {title: probed(parts) for title, parts in figures.items()}
    if has_stages(run):
        sections |= {
            "The model": add_model,
            "Pretraining": add_pretraining,
            "Vocabulary": add_vocabulary,
            "Corpus": add_corpus,
        }
    return sections | {"Cost, versions and config": add_stages}


def _names(runs: Sequence[RunFolder]) -> list[str]:
    """Folder names, with their paths where two runs share one."""
    names = [run.name for run in runs]
    return [
        run.name if names.count(run.name) == 1 else run.folder.resolve().as_posix() for run in runs
    ]


def card_sections(folder: Path) -> dict[str, list[str]]:
    """For a model card: headings and lines of Markdown, of what is known of a run's own export."""
    run = read_run(folder)
    sections = {
        "Scores of the encoder": card_lines(run, within(run, Baseline())),
        "Published scores": published_lines(run),
        "Scores with fewer examples to learn from": low_shot_lines(run),
        "Cost of fine-tuning": cost_lines(run),
        "Robustness and differences between groups": noise_card_lines(run),
        "Scores without rows that stand in the training text": record_lines(leakage_rows(run)),
    }
    return {heading: lines for heading, lines in sections.items() if lines}
