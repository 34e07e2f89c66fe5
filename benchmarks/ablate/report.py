"""The page of a grid: what was run, which claims hold, a table an experiment, curves."""

import math
import statistics
from collections.abc import Sequence
from pathlib import Path

from benchmarks.ablate.claims import METHOD, add_claims, judge_claims, plus_minus
from benchmarks.ablate.figures import LOSSES, RunFigures
from benchmarks.ablate.grid import Grid
from benchmarks.ablate.numbers import report_numbers
from benchmarks.ablate.scores import UNTRAINED, GridScores, mean_score
from benchmarks.throughput.figures import machine
from benchmarks.twin_page import TwinPage, table_lines

_VALID = (
    ("generator_loss", "MLM loss"), ("language_loss", "main MLM loss"), ("rtd_auc", "RTD AUC"),
    ("replaced_fraction", "replaced"),
)  # fmt: skip


def write_report(grid: Grid, num_runs: int, runs: Sequence[RunFigures], folder: Path) -> str:
    """report.html, report.md and report.json of the finished runs; the main table as text."""
    document = TwinPage(
        f"Ablation: {grid.name}", f"{len(runs)} of {num_runs} runs, all at the same training FLOPs"
    )
    if not runs:
        document.paragraph("No run is finished yet.")
        document.write(folder, {"name": grid.name, "runs": []})
        return f"no run of {grid.name} is finished yet"
    scores = GridScores(runs)
    _add_setting(document, grid, num_runs, runs)
    verdicts = judge_claims(grid, scores)
    if verdicts:
        add_claims(document, grid, verdicts, scores)
    lines: list[str] = []
    for question, experiment in grid.experiments.items():
        headers, rows = _experiment_rows(experiment.variants, runs, scores)
        lines += [question, *table_lines(headers, rows), ""] if rows else []
        _add_experiment(document, question, headers, rows, scores)
    _add_curves(document, grid, runs, scores)
    _add_runs(document, runs)
    document.write(folder, report_numbers(grid, runs, scores, verdicts, METHOD))
    return "\n".join([*lines, str(folder / "report.html")])


def _add_setting(document: TwinPage, grid: Grid, num_runs: int, runs: Sequence[RunFigures]) -> None:
    first = runs[0]
    used = sum(run.hours for run in runs)
    planned = "" if grid.budget_hours is None else f" of {grid.budget_hours:g} planned"
    seeds = sorted({run.seed for run in runs})
    versions = first.made_by.get("versions") or {}
    named = ("python", "torch", "transformers", "tokenizers", "kiwipiepy")
    here = machine(())
    document.heading("What was run")
    document.table(
        ["", "value"],
        [
            ("base config", grid.base.name),
            ("runs finished", f"{len(runs)} of {num_runs}"),
            ("seeds of pretraining", ", ".join(map(str, seeds))),
            ("FLOPs of a run, in matrix products", f"{first.flops:.3g}"),
            ("tasks", ", ".join(f"{task} ({metric})" for task, metric in first.metrics.items())),
            ("device", ", ".join(sorted({str(run.summary.get("device")) for run in runs}))),
            ("machine of this report", f"{here['cores']} cores of {here['processor']}"),
            ("hours, as if one run followed the other", f"{used:.1f}{planned}"),
            (
                "versions",
                ", ".join(f"{name} {versions[name]}" for name in named if name in versions),
            ),
            ("commits", ", ".join(sorted({str(run.made_by.get("git_commit")) for run in runs}))),
        ],
    )
    if len(runs) < num_runs:
        document.paragraph(
            f"{num_runs - len(runs)} runs are not finished: what they would say is missing here."
        )
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
            cells = _cells(scores, variant, reference)
            rows.append((variant, len(of_variant), *cost, *figures, *cells))
    if found and any(run.untrained for run in runs):
        num_seeds = sum(bool(run.untrained) for run in runs)
        cells = _cells(scores, UNTRAINED, reference)
        rows.append((UNTRAINED, num_seeds, 0, 0, *(None for _ in valid), *cells))
    return headers, rows


def _cells(scores: GridScores, variant: str, reference: str) -> list[object]:
    cells: list[object] = []
    for column, fit in scores.fits.items():
        is_known = variant in fit.variants
        cells.append(fit.mean(variant) if is_known else None)
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
    document.table(headers, rows, "Mean over seeds; differences with half of the 95 % interval")
    columns = [column for column in scores.fits if column != scores.headline][:3]
    for column in [scores.headline, *columns] if scores.fits else ():
        fit = scores.fits[column]
        reference, *others = [str(row[0]) for row in rows if row[0] in fit.variants] or [""]
        if others:
            found = [fit.difference(other, reference) for other in others]
            document.bar_plot(
                f"{question}: {column}, difference to {reference}",
                others,
                {column: [difference.value for difference in found]},
                "score",
                {column: [difference.half_width for difference in found]},
            )


def _add_curves(
    document: TwinPage, grid: Grid, runs: Sequence[RunFigures], scores: GridScores
) -> None:
    document.heading("Against FLOPs")
    scored = {run.variant: run for run in runs if run.on_the_way}
    if scored:
        tasks = scores.groups[scores.headline]
        fit = scores.fits[scores.headline]
        curves = {
            variant: [(flops, mean_score(found, tasks)) for flops, found in run.on_the_way]
            for variant, run in scored.items()
        }
        bands = {
            variant: [(flops, score - half, score + half) for flops, score in points]
            for variant, points in curves.items()
            if not math.isnan(half := fit.half_width(variant) * math.sqrt(fit.counts[variant]))
        }  # of one seed
        document.line_plot(
            f"Score of checkpoints, {scores.headline}", curves, "training FLOPs", "score",
            bands=bands,
        )  # fmt: skip
        rows = [
            (variant, f"{flops:.3g}", score)
            for variant, points in curves.items()
            for flops, score in points
        ]
        document.table(["variant", "FLOPs", scores.headline], rows, "One seed each")
        document.paragraph(
            "Checkpoints on the way were saved before the learning rate had fallen, the last one "
            "after: the last rise is in part that of the schedule."
        )
    first = {run.variant: run for run in reversed(runs)}
    for metric, name in LOSSES.items():
        lines = {v: run.losses[metric] for v, run in first.items() if run.losses[metric]}
        if lines:
            document.line_plot(
                f"Held-out {name}, first seed", lines, "training FLOPs", "nats per token"
            )


def _add_runs(document: TwinPage, runs: Sequence[RunFigures]) -> None:
    tasks = list(dict.fromkeys(task for run in runs for task in run.scores))
    with document.fold("Every run"):
        document.table(
            ["variant", "seed", "steps", "tokens a second", "hours", *tasks],
            [
                (
                    run.variant, run.seed, run.summary["num_steps"],
                    run.summary.get("tokens_per_second"), run.hours,
                    *(run.scores.get(task) for task in tasks),
                )
                for run in runs
            ],
        )  # fmt: skip


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None
