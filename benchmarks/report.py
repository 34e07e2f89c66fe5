"""The report of one run, or of several side by side: HTML for reading, Markdown, JSON."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from benchmarks.pages.curves import add_curves, add_score_against_flops, add_score_cost
from benchmarks.pages.errors import add_errors
from benchmarks.pages.leakage import add_leakage
from benchmarks.pages.references import add_references
from benchmarks.pages.scores import add_comparison, add_scores
from benchmarks.pages.training import (
    add_corpus,
    add_example,
    add_pretraining,
    add_stages,
    add_vocabulary,
)
from benchmarks.pages.twin_page import TwinPage
from benchmarks.results.run_folder import RunFolder, read_run
from benchmarks.statistics.comparison import resolve_baseline
from electrify.system.progress import log

FORMAT_VERSION = 4


def report(
    folders: Sequence[Path],
    output: Path | None = None,
    data_dir: Path | None = None,
    with_texts: bool = True,
    baseline: str | None = None,
) -> Path:
    """Write report.html, report.md and report.json of finished or unfinished runs.

    They go into the folder `output`, by default the first run's. Returns the HTML file. The worst
    examples are quoted from `data_dir`, that of the evaluation, unless `with_texts` is False: then
    nothing of the data is quoted. `baseline` names what scores are compared with
    (`resolve_baseline`). Raises `ValueError` for a folder that is no run, or that is named twice.
    """
    if not folders:
        raise ValueError("no run folder given; run: electrify report out/NAME [out/OTHER ...]")
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise ValueError(f"a run folder is named twice: {', '.join(map(str, folders))}")
    target = output or folders[0]
    if target.exists() and not target.is_dir():
        raise ValueError(f"output {target} is a file; give a folder")
    runs = [read_run(folder) for folder in folders]
    names = _names(runs)
    compared_with = resolve_baseline(baseline, runs, names)
    document = TwinPage(", ".join(names), "electrify: an ELECTRA encoder from raw text to scores")
    if len(runs) > 1:
        document.heading("Side by side")
        add_comparison(document, runs, names, compared_with)
        add_score_against_flops(document, runs, names)
    for run, name in zip(runs, names, strict=True):
        if len(runs) > 1:
            document.heading(name)
        for title, add in (
            ("Model and scores", partial(add_scores, baseline=compared_with)),
            ("Published scores", add_references),
            ("What the scores cost", add_score_cost),
            ("Learning curves", add_curves),
            ("What it gets wrong", partial(add_errors, data_dir=data_dir, with_texts=with_texts)),
            ("Leakage", partial(add_leakage, with_texts=with_texts)),
            ("One example", add_example),
            ("Pretraining", add_pretraining),
            ("Vocabulary", add_vocabulary),
            ("Corpus", add_corpus),
            ("Cost and how to run it again", add_stages),
        ):
            document.heading(title, 2 if len(runs) == 1 else 3)
            add(document, run)
    # the tables as printed, for programs, and what pretraining summed up of each run
    summaries = [
        {"name": run.name, "unfinished": run.unfinished, "summary": run.summary} for run in runs
    ]
    document.write(
        target, {"format_version": FORMAT_VERSION, "runs": summaries, "tables": document.tables}
    )
    log(f"report: {target / 'report.html'}")
    return target / "report.html"


def _names(runs: Sequence[RunFolder]) -> list[str]:
    """Folder names, with their paths where two runs share one."""
    names = [run.name for run in runs]
    return [
        run.name if names.count(run.name) == 1 else run.folder.resolve().as_posix() for run in runs
    ]
