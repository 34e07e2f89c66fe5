"""The report of one run, or of several side by side: HTML for reading, Markdown, JSON."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.report_corpus import add_corpus, add_vocabulary
from benchmarks.report_pretraining import add_pretraining, alarms_of
from benchmarks.report_scores import add_comparison, add_scores, scores_of
from benchmarks.report_sections import add_cost, add_example, final_valid
from benchmarks.run_folder import RunFolder, read_run
from benchmarks.scores import Sample, TaskScore
from benchmarks.twin_page import TwinPage
from electrify.progress import log

FORMAT_VERSION = 1
_CORPUS_KEYS = ("totals", "sources", "removed", "malformed", "altered")  # not every file


def report(folders: Sequence[Path], output: Path | None = None) -> Path:
    """Write report.html, report.md and report.json of finished or unfinished runs.

    They go into the folder `output`, by default the first run's. Returns the HTML file. Raises
    `ValueError` for a folder that is no run, or that is named twice.
    """
    if not folders:
        raise ValueError("no run folder given; run: electrify report out/NAME [out/OTHER ...]")
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise ValueError(f"a run folder is named twice: {', '.join(map(str, folders))}")
    target = output or folders[0]
    if target.exists() and not target.is_dir():
        raise ValueError(f"output {target} is a file; give a folder")
    runs = [read_run(folder) for folder in folders]
    document = _document(runs)
    document.write(target, _defined(_numbers(runs)))
    log(f"report: {target / 'report.html'}")
    return target / "report.html"


def _document(runs: Sequence[RunFolder]) -> TwinPage:
    names = _names(runs)
    document = TwinPage(", ".join(names), "electrify: an ELECTRA encoder from raw text to scores")
    if len(runs) > 1:
        document.heading("Side by side")
        add_comparison(document, runs, names)
    for run, name in zip(runs, names, strict=True):
        if len(runs) > 1:
            document.heading(name)
        for title, add in (
            ("Model and scores", add_scores),
            ("One example", add_example),
            ("Pretraining", add_pretraining),
            ("Vocabulary", add_vocabulary),
            ("Corpus", add_corpus),
            ("Cost and how to run it again", add_cost),
        ):
            document.heading(title, 2 if len(runs) == 1 else 3)
            add(document, run)
    return document


def _names(runs: Sequence[RunFolder]) -> list[str]:
    """Folder names, with their paths where two runs share one."""
    names = [run.name for run in runs]
    return [
        run.name if names.count(run.name) == 1 else run.folder.resolve().as_posix() for run in runs
    ]


def _numbers(runs: Sequence[RunFolder]) -> dict[str, Any]:
    """What stands in the report, for programs."""
    return {
        "format_version": FORMAT_VERSION,
        "runs": [
            {
                "name": run.name,
                "unfinished": list(run.unfinished),
                "summary": run.summary,
                "final_valid": final_valid(run),
                "alarms": alarms_of(run),
                "scores": [_score_numbers(score) for score in scores_of(run)],
                "corpus": {k: run.corpus[k] for k in _CORPUS_KEYS if k in run.corpus},
                "vocabulary": run.vocabulary,
                "cost": {
                    stage: {k: made[k] for k in ("seconds", "peak_memory_mb", "git_commit")}
                    for stage, made in run.manifests.items()
                },
            }
            for run in runs
        ],
    }


def _score_numbers(score: TaskScore) -> dict[str, Any]:
    same = ("suite", "task", "task_version", "metric", "higher_is_better", "split",
            "num_examples", "num_train_examples", "selection", "hyper_parameters")  # fmt: skip
    return {
        "stage": score.stage,
        **score.first.model_dump(mode="json", include=set(same)),
        "pretrained": _sample_numbers(score.pretrained),
        "random_init": _sample_numbers(score.untrained),
        **asdict(score.comparison),
        "degenerate": [
            {"model": r.model, "seed": r.seed, "what": r.degenerate}
            for r in score.results
            if r.degenerate
        ],
    }


def _sample_numbers(sample: Sample) -> dict[str, Any]:
    by_seed = {str(seed): value for seed, value in sorted(sample.values.items())}
    return {"mean": sample.summary.mean, "sd": sample.summary.sd, "by_seed": by_seed}


def _defined(value: Any) -> Any:
    """JSON has no nan: null stands for what is undefined."""
    if isinstance(value, dict):
        return {key: _defined(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_defined(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
