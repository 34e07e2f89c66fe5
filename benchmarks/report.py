"""The report of one run, or of several side by side: HTML for reading, Markdown, JSON."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.pages.compare import add_comparison
from benchmarks.pages.corpus import add_corpus, add_vocabulary
from benchmarks.pages.cost import add_score_against_flops, add_score_cost
from benchmarks.pages.curves import add_curves
from benchmarks.pages.errors import add_errors
from benchmarks.pages.leakage import add_leakage
from benchmarks.pages.pretraining import add_pretraining
from benchmarks.pages.references import add_references
from benchmarks.pages.scores import add_scores
from benchmarks.pages.sections import add_cost, add_example
from benchmarks.pages.twin_page import TwinPage
from benchmarks.results.run_folder import RunFolder, read_run
from benchmarks.statistics.comparison import Baseline, resolve_baseline
from benchmarks.statistics.errors import TaskErrors, errors_of
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

    They go into the folder `output`, by default the first run's. Returns the HTML file. `data_dir`
    is that of the evaluation: with it examples are grouped by their texts, and the worst ones
    quoted unless `with_texts` is False: then nothing of the data or the corpus is. `baseline`
    names what scores are compared with (`resolve_baseline`). Raises `ValueError` for a folder that
    is no run, or that is named twice.
    """
    if not folders:
        raise ValueError("no run folder given; run: electrify report out/NAME [out/OTHER ...]")
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise ValueError(f"a run folder is named twice: {', '.join(map(str, folders))}")
    target = output or folders[0]
    if target.exists() and not target.is_dir():
        raise ValueError(f"output {target} is a file; give a folder")
    runs = [read_run(folder) for folder in folders]
    if not with_texts:
        runs = [_quoting_nothing(run) for run in runs]
    errors = [errors_of(run, data_dir, with_texts) for run in runs]
    chosen = resolve_baseline(baseline, runs, _names(runs))
    document = _document(runs, errors, chosen, with_texts)
    document.write(target, _defined(_numbers(runs, document)))
    log(f"report: {target / 'report.html'}")
    return target / "report.html"


def _document(
    runs: Sequence[RunFolder],
    errors: Sequence[Sequence[TaskErrors]],
    baseline: Baseline,
    with_texts: bool,
) -> TwinPage:
    names = _names(runs)
    document = TwinPage(", ".join(names), "electrify: an ELECTRA encoder from raw text to scores")
    if len(runs) > 1:
        document.heading("Side by side")
        add_comparison(document, runs, names, baseline)
        add_score_against_flops(document, runs, names)
    for run, name, wrong in zip(runs, names, errors, strict=True):
        if len(runs) > 1:
            document.heading(name)
        for title, add in (
            ("Model and scores", partial(add_scores, baseline=baseline)),
            ("Published scores", add_references),
            ("What the scores cost", add_score_cost),
            ("Learning curves", add_curves),
            ("What it gets wrong", _errors_section(wrong)),
            ("Leakage", partial(add_leakage, with_texts=with_texts)),
            ("One example", add_example),
            ("Pretraining", add_pretraining),
            ("Vocabulary", add_vocabulary),
            ("Corpus", add_corpus),
            ("Cost and how to run it again", add_cost),
        ):
            document.heading(title, 2 if len(runs) == 1 else 3)
            add(document, run)
    return document


def _quoting_nothing(run: RunFolder) -> RunFolder:
    """The run without sentences of its corpus."""
    vocabulary = {key: value for key, value in run.vocabulary.items() if key != "samples"}
    return replace(run, vocabulary=vocabulary)


def _errors_section(errors: Sequence[TaskErrors]) -> Callable[[TwinPage, RunFolder], None]:
    return lambda document, _: add_errors(document, errors)


def _names(runs: Sequence[RunFolder]) -> list[str]:
    """Folder names, with their paths where two runs share one."""
    names = [run.name for run in runs]
    return [
        run.name if names.count(run.name) == 1 else run.folder.resolve().as_posix() for run in runs
    ]


def _numbers(runs: Sequence[RunFolder], document: TwinPage) -> dict[str, Any]:
    """The tables as printed, for programs, and what pretraining summed up of each run."""
    return {
        "format_version": FORMAT_VERSION,
        "runs": [
            {"name": run.name, "unfinished": list(run.unfinished), "summary": run.summary}
            for run in runs
        ],
        "tables": document.tables,
    }


def _defined(value: Any) -> Any:
    """JSON has no nan: null stands for what is undefined."""
    if isinstance(value, dict):
        return {key: _defined(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_defined(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
