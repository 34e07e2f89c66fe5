"""The page of a grid: what was run, which claims hold, a table an experiment, curves."""

import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.ablate.grid import UNTRAINED, Claim, Grid
from benchmarks.ablate.scores import (
    LOSSES,
    Difference,
    Fit,
    GridScores,
    RunFigures,
    Verdict,
    judge,
    mean_score,
)
from benchmarks.pages.twin_page import TwinPage, table_lines
from benchmarks.results.results import Result
from benchmarks.statistics.comparison import ALPHA
from benchmarks.statistics.uncertainty import p_text
from electrify.system.machine import cpu_name, num_cores

_Points = Sequence[tuple[float, float]]


def add_curves(
    document: TwinPage, grid: Grid, runs: Sequence[RunFigures], scores: GridScores
) -> None:
    """The first seed of each variant that has a curve, in each column; then every variant's losses.

    ELECTRA (Clark et al. 2020), the shape of Figures 1, 2 and 4.
    """
    document.heading("Against FLOPs")
    scored = {run.variant: run for run in runs if run.on_the_way}
    if scored:
        curves = {column: _curves(scored, scores.groups[column]) for column in scores.fits}
        for column in _drawn(grid, scores):
            _draw(document, column, curves[column], scores)
        rows = [
            (variant, f"{flops:.3g}", *(dict(curves[c][variant]).get(flops) for c in curves))
            for variant, run in scored.items()
            for flops, _ in run.on_the_way
        ]
        document.table(["variant", "FLOPs", *curves], rows, "One seed each")
        document.paragraph(
            "Checkpoints on the way were saved before the learning rate had fallen, the last one "
            "after. Bands are the 95 % interval of one seed."
        )
    first = {run.variant: run for run in reversed(runs)}
    for metric, name in LOSSES.items():
        lines = {v: run.losses[metric] for v, run in first.items() if run.losses[metric]}
        if lines:
            document.line_plot(
                f"Held-out {name}, first seed", lines, "training FLOPs", "nats per token"
            )


def _drawn(grid: Grid, scores: GridScores) -> list[str]:
    """The first column, those of languages, and those that claims are judged by."""
    several = [column for column, tasks in scores.groups.items() if len(tasks) > 1]
    return [
        c for c in dict.fromkeys([scores.headline, *several, *grid.judged_by]) if c in scores.fits
    ]


def _curves(scored: Mapping[str, RunFigures], tasks: Sequence[str]) -> dict[str, _Points]:
    return {
        variant: [
            (flops, mean_score(found, tasks))
            for flops, found in run.on_the_way
            if found.keys() >= set(tasks)
        ]
        for variant, run in scored.items()
    }


def _draw(
    document: TwinPage, column: str, curves: Mapping[str, _Points], scores: GridScores
) -> None:
    half = scores.fits[column].half_width_of_a_run
    bands = {
        variant: [(flops, score - half, score + half) for flops, score in points]
        for variant, points in curves.items()
        if not math.isnan(half)
    }
    lines = dict(curves)
    control = scores.control_fits[column]
    ends = [flops for points in curves.values() for flops, _ in points]
    if UNTRAINED in control.variants and ends:
        level = control.mean(UNTRAINED)
        lines[UNTRAINED] = [(min(ends), level), (max(ends), level)]
    document.line_plot(
        f"Score of checkpoints, {column}", lines, "training FLOPs", "score", bands=bands
    )


METHOD = (
    "A score is the mean over tasks of their headline metrics, of one pretrained network; what "
    "stands in the tables is the mean over pretraining seeds. Intervals are of 95 %. What a seed "
    "does to all variants alike (which examples are learnt from, the order of pretraining) is "
    "taken out, and what is left is pooled over all variants, since each has few seeds. They say "
    "how much other seeds may change, not what another corpus, size, budget or other test rows "
    "would; the sd of the rest is itself an estimate of few seeds. p of the "
    "claims is corrected over all that the grid makes, run or not, by all scores that they are "
    "judged by (Holm); above "
    f"{ALPHA} the two cannot be told apart, which does not say that they are equal."
)


def judge_claims(grid: Grid, scores: GridScores) -> list[Verdict]:
    """Every claim by every column that the grid names; of a grid without scores, none."""
    if not scores.runs:
        return []
    columns = grid.judged_by or (scores.headline,)
    return judge(grid.claims, {column: scores.fits.get(column) for column in columns})


def add_claims(
    document: TwinPage, grid: Grid, verdicts: Sequence[Verdict], scores: GridScores
) -> None:
    """A table for each column that claims are judged by, then the differences in all columns."""
    document.heading("Which claims hold here")
    document.paragraph(METHOD)
    by_column: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        by_column.setdefault(verdict.column, []).append(verdict)
    for column, found in by_column.items():
        document.heading(f"By {column}", level=3)
        document.paragraph(f"{summary_of(found)} {_spread(scores, column)}".rstrip())
        document.table(
            ["claim", "of", "difference", "95 % interval", "p, corrected", "at this scale"],
            [_row(grid, verdict) for verdict in found],
        )
    with document.fold("The same differences by language and task"):
        rows = [_in_columns(claim, scores.fits) for claim in grid.claims]
        if scores.control_of:  # what pretraining adds: no claim, its seeds vary otherwise
            gain = Claim(scores.control_of, UNTRAINED, is_equality=False)
            rows.append(_in_columns(gain, scores.control_fits))
        document.table(
            ["claim", *scores.fits],
            rows,
            "With half of the 95 % interval, not corrected for their number",
        )


def summary_of(verdicts: Sequence[Verdict]) -> str:
    """How many claims came out how, which are decided: 'Of 9 claims 1 hold (a > b), 8 ...'."""
    groups = {
        "hold": "holds",
        "do not hold": "does not hold",
        "cannot be told apart": "cannot",
        "have too few seeds to tell": "too few",
        "were not run": "not run",
    }
    parts = []
    for words, start in groups.items():
        found = [v.claim.text for v in verdicts if v.outcome.startswith(start)]
        names = f" ({'; '.join(found)})" if "hold" in words else ""
        parts += [f"{len(found)} {words}{names}"] if found else []
    return f"Of {len(verdicts)} claims {', '.join(parts)}."


def _spread(scores: GridScores, column: str) -> str:
    fit = scores.fits.get(column)
    if fit is None or math.isnan(fit.sd):
        return ""
    return f"The rest has an sd of {fit.sd:.4f}, with {fit.degrees} degrees of freedom."


def _row(grid: Grid, verdict: Verdict) -> tuple[object, ...]:
    difference, experiment = verdict.difference, verdict.claim.experiment
    return (
        verdict.claim.text,
        grid.experiments[experiment].source or experiment,
        None if difference is None else defined(difference.value),
        _interval(difference),
        p_text(verdict.p_corrected),
        verdict.outcome,
    )


def _in_columns(claim: Claim, fits: Mapping[str, Fit]) -> tuple[str | None, ...]:
    return claim.text, *(_in_column(fit, claim) for fit in fits.values())


def _in_column(fit: Fit, claim: Claim) -> str | None:
    if not {claim.better, claim.worse} <= set(fit.variants):
        return None
    return plus_minus(fit.difference(claim.better, claim.worse))


def _interval(difference: Difference | None) -> str | None:
    if difference is None or math.isnan(difference.half_width):
        return None
    low, high = (difference.value + sign * difference.half_width for sign in (-1, 1))
    return f"{low:.4f} to {high:.4f}"


def defined(value: float) -> float | None:
    """None for nan, as tables and JSON have it."""
    return None if math.isnan(value) else value


def plus_minus(difference: Difference) -> str | None:
    """'+0.0123 ± 0.0045': with half of its 95 % interval, where that is known."""
    if math.isnan(difference.value):
        return None
    half = "" if math.isnan(difference.half_width) else f" ± {difference.half_width:.4f}"
    return f"{difference.value:+.4f}{half}"


def report_numbers(
    grid: Grid,
    runs: Sequence[RunFigures],
    scores: GridScores,
    verdicts: Sequence[Verdict],
    method: str,
) -> dict[str, Any]:
    """Everything in the page and the figures of every run."""
    return {
        "name": grid.name,
        "method": method,
        "spread": {
            column: {"sd": defined(fit.sd), "degrees": fit.degrees}
            for column, fit in scores.fits.items()
        },
        "means": {
            column: {variant: defined(fit.mean(variant)) for variant in fit.variants}
            for column, fit in scores.control_fits.items()
        },
        "claims": [
            {
                "claim": v.claim.text,
                "experiment": v.claim.experiment,
                "judged_by": v.column,
                "difference": defined(v.difference.value) if v.difference else None,
                "half_width": defined(v.difference.half_width) if v.difference else None,
                "p": defined(v.difference.p) if v.difference else None,
                "p_corrected": defined(v.p_corrected),
                "outcome": v.outcome,
            }
            for v in verdicts
        ],
        "left_out": scores.left_out,
        "experiments": {q: e.model_dump(mode="json") for q, e in grid.experiments.items()},
        "runs": [run.as_json() for run in runs],
    }


_VALID = (
    ("generator_loss", "MLM loss"),
    ("language_loss", "main MLM loss"),
    ("rtd_auc", "RTD AUC"),
    ("replaced_fraction", "replaced"),
)


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
            ("machine that wrote this page", f"{num_cores()} cores of {cpu_name()}"),
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
        headers,
        rows,
        "Mean over seeds; differences with half of the 95 % interval. Losses are of the text held "
        "out of each corpus in the pieces of its vocabulary, AUC is over the positions that the "
        "objective judges: they compare where these are the same",
    )
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
        document.records(
            [
                {
                    "variant": run.variant,
                    "seed": run.seed,
                    "steps": run.summary["num_steps"],
                    "tokens": run.summary["tokens"],
                    "FLOPs, matrix products": f"{run.flops:.3g}",
                    "FLOPs, paper": f"{run.summary['flops_paper']:.3g}",
                    "tokens a second": run.summary.get("tokens_per_second"),
                    "hours": run.hours,
                    "learnt nothing": run.num_degenerate,
                    **{task: run.scores.get(task) for task in tasks},
                }
                for run in runs
            ]
        )


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
