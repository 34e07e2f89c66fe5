"""The page of a grid: what was run, which claims hold, a table an experiment, curves."""

import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.ablate.claims import METHOD, add_claims, defined, judge_claims, plus_minus
from benchmarks.ablate.curves import add_curves
from benchmarks.ablate.figures import RunFigures
from benchmarks.ablate.grid import UNTRAINED, Grid
from benchmarks.ablate.intervals import Difference, Fit
from benchmarks.ablate.numbers import report_numbers
from benchmarks.ablate.scores import GridScores
from benchmarks.results import Result
from benchmarks.throughput.figures import machine
from benchmarks.twin_page import TwinPage, table_lines

_VALID = (
    ("generator_loss", "MLM loss"), ("language_loss", "main MLM loss"), ("rtd_auc", "RTD AUC"),
    ("replaced_fraction", "replaced"),
)  # fmt: skip


def write_report(
    grid: Grid, planned: Sequence[str], runs: Sequence[RunFigures], folder: Path
) -> str:
    """report.html, report.md and report.json of the finished runs; the main table as text.

    `planned` are the labels of all runs.
    """
    document = TwinPage(
        f"Ablation: {grid.name}",
        f"{len(runs)} of {len(planned)} runs, all of the same training FLOPs in matrix products",
    )
    if not runs:
        document.paragraph("No run is finished yet.")
        document.write(folder, {"name": grid.name, "runs": []})
        return f"no run of {grid.name} is finished yet"
    scores = GridScores(runs)
    _add_setting(document, grid, planned, runs, scores)
    verdicts = judge_claims(grid, scores)
    if verdicts:
        add_claims(document, grid, verdicts, scores)
    lines: list[str] = []
    for question, experiment in grid.experiments.items():
        headers, rows = _experiment_rows(experiment.variants, runs, scores)
        lines += [question, *table_lines(headers, rows), ""] if rows else []
        _add_experiment(document, question, headers, rows, scores)
    add_curves(document, grid, runs, scores)
    _add_runs(document, runs)
    document.write(folder, report_numbers(grid, runs, scores, verdicts, METHOD))
    return "\n".join([*lines, str(folder / "report.html")])


def _add_setting(
    document: TwinPage,
    grid: Grid,
    planned: Sequence[str],
    runs: Sequence[RunFigures],
    scores: GridScores,
) -> None:
    first = runs[0]
    used = sum(run.hours for run in runs)
    budget = "" if grid.budget_hours is None else f" of {grid.budget_hours:g} planned"
    seeds = sorted({run.seed for run in runs})
    versions = first.made_by.get("versions") or {}
    named = ("python", "torch", "transformers", "tokenizers", "kiwipiepy")
    here = machine(())
    document.heading("What was run")
    document.table(
        ["", "value"],
        [
            ("base config", grid.base.name),
            ("runs finished", f"{len(runs)} of {len(planned)}"),
            ("seeds of pretraining", ", ".join(map(str, seeds))),
            ("FLOPs of a run, in matrix products", _range([run.flops for run in runs])),
            (
                "FLOPs of a run, by the paper's count",
                _range([float(run.summary["flops_paper"]) for run in runs]),
            ),
            *((f"task {task}", _examples(record)) for task, record in first.records.items()),
            ("device", ", ".join(sorted({str(run.summary.get("device")) for run in runs}))),
            ("machine that wrote this page", f"{here['cores']} cores of {here['processor']}"),
            ("hours, as if one run followed the other", f"{used:.1f}{budget}"),
            (
                "versions",
                ", ".join(f"{name} {versions[name]}" for name in named if name in versions),
            ),
            ("commits", ", ".join(sorted({str(run.made_by.get("git_commit")) for run in runs}))),
        ],
    )
    finished = {run.label for run in runs}
    if missing := [label for label in planned if label not in finished]:
        document.paragraph(
            f"{len(missing)} runs are not finished, and what they would say is missing here: "
            f"{'; '.join(missing)}."
        )
    if scores.left_out:
        document.paragraph(f"Scores left out: {'; '.join(scores.left_out)}.")
    for note in grid.notes:
        document.paragraph(note)


def _experiment_rows(
    variants: Sequence[str], runs: Sequence[RunFigures], scores: GridScores
) -> tuple[list[str], list[tuple[object, ...]]]:
    """A row a variant that has a finished run, and one of the control; beside the mean of all tasks
    its difference to the first of them."""
    by_variant = {v: [run for run in runs if run.variant == v] for v in variants}
    found = [run for of_variant in by_variant.values() for run in of_variant]
    valid = [(key, name) for key, name in _VALID if any(run.valid.get(key) for run in found)]
    reference = next((v for v in variants if by_variant[v]), "")
    headers = ["variant", "seeds", "steps", "tokens", *(name for _, name in valid)]
    for column in scores.fits:
        headers += [column, f"to {reference}"] if column == scores.headline else [column]
    rows: list[tuple[object, ...]] = []
    for variant, of_variant in by_variant.items():
        if of_variant:
            summary = of_variant[0].summary
            figures = (_mean([run.valid.get(key) for run in of_variant]) for key, _ in valid)
            cost = summary["num_steps"], summary["tokens"]
            cells = _cells(scores, scores.fits, variant, reference)
            rows.append((variant, len(of_variant), *cost, *figures, *cells))
    if found and scores.control_of:
        num_seeds = len({run.seed for run in runs if run.untrained})
        cells = _cells(scores, scores.control_fits, UNTRAINED, reference)
        rows.append((UNTRAINED, num_seeds, 0, 0, *(None for _ in valid), *cells))
    return headers, rows


def _cells(
    scores: GridScores, fits: Mapping[str, Fit], variant: str, reference: str
) -> list[object]:
    cells: list[object] = []
    for column, fit in fits.items():
        is_known = variant in fit.variants
        cells.append(defined(fit.mean(variant)) if is_known else None)
        if column == scores.headline:
            both = is_known and reference in fit.variants and variant != reference
            cells.append(plus_minus(fit.difference(variant, reference)) if both else None)
    return cells


def _add_experiment(
    document: TwinPage,
    question: str,
    headers: Sequence[str],
    rows: Sequence[tuple[object, ...]],
    scores: GridScores,
) -> None:
    document.heading(question)
    if not rows:
        document.paragraph("None of its runs is finished yet.")
        return
    document.table(
        headers, rows,
        "Mean over seeds; differences with half of the 95 % interval. Losses are of the text held "
        "out of each corpus in the pieces of its vocabulary, AUC is over the positions that the "
        "objective judges: they compare where these are the same",
    )  # fmt: skip
    columns = [column for column in scores.fits if column != scores.headline][:3]
    for column in [scores.headline, *columns] if scores.fits else ():
        fit = scores.control_fits[column]
        reference, *others = [str(row[0]) for row in rows if row[0] in fit.variants] or [""]
        found = {other: _difference(scores, column, other, reference) for other in others}
        known = {other: d for other, d in found.items() if not math.isnan(d.value)}
        if known:
            document.bar_plot(
                f"{question}: {column}, difference to {reference}",
                list(known),
                {column: [difference.value for difference in known.values()]},
                "score",
                {column: [difference.half_width for difference in known.values()]},
            )


def _difference(scores: GridScores, column: str, variant: str, reference: str) -> Difference:
    fits = scores.control_fits if variant == UNTRAINED else scores.fits
    return fits[column].difference(variant, reference)


def _add_runs(document: TwinPage, runs: Sequence[RunFigures]) -> None:
    tasks = list(dict.fromkeys(task for run in runs for task in run.scores))
    with document.fold("Every run"):
        document.table(
            [
                "variant", "seed", "steps", "tokens", "FLOPs, matrix products", "FLOPs, paper",
                "tokens a second", "hours", "learnt nothing", *tasks,
            ],
            [
                (
                    run.variant, run.seed, run.summary["num_steps"], run.summary["tokens"],
                    f"{run.flops:.3g}", f"{run.summary['flops_paper']:.3g}",
                    run.summary.get("tokens_per_second"), run.hours, run.num_degenerate,
                    *(run.scores.get(task) for task in tasks),
                )
                for run in runs
            ],
        )  # fmt: skip


def _range(values: Sequence[float]) -> str:
    low, high = f"{min(values):.3g}", f"{max(values):.3g}"
    return low if low == high else f"{low} to {high}"


def _examples(record: Result) -> str:
    return (
        f"{record.metric} on {record.num_examples:,} rows of {record.split}, learnt from "
        f"{record.num_train_examples:,}"
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None
