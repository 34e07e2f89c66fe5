"""The page of a grid: what was run, which claims hold, a table an experiment, every run."""

import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.ablate.grid import UNTRAINED, Experiment, Grid, Run
from benchmarks.ablate.scores import GridScores, RunFigures, Verdict, judge
from benchmarks.pages.twin_page import Record, TwinPage, defined, record_lines
from benchmarks.results.results import Result
from benchmarks.statistics.comparison import ALPHA
from benchmarks.statistics.uncertainty import Estimate, p_text
from electrify.system.machine import cpu_name, num_cores

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
_VALID = {
    "generator_loss": "MLM loss",
    "language_loss": "main MLM loss",
    "rtd_auc": "RTD AUC",
    "replaced_fraction": "replaced",
}


def write_report(
    grid: Grid, planned: Sequence[Run], runs: Sequence[RunFigures], folder: Path
) -> str:
    """report.html, report.md and report.json of the finished runs; the main table as text."""
    document = TwinPage(
        f"Ablation: {grid.name}",
        f"{len(runs)} of {len(planned)} runs, all of the same training FLOPs in matrix products",
    )
    if not runs:
        document.paragraph("No run is finished yet.")
        document.write(folder, {"name": grid.name, "claims": [], "tables": []})
        return f"no run of {grid.name} is finished yet"
    scores = GridScores(runs)
    _add_setting(document, grid, planned, runs, scores)
    verdicts = []
    if scores.runs:
        verdicts = judge(grid.claims, grid.judged_by or (scores.headline,), scores)
    if verdicts:
        _add_claims(document, grid, verdicts, scores)
    lines: list[str] = []
    for question, experiment in grid.experiments.items():
        document.heading(question)
        rows = _experiment_rows(experiment, runs, scores)
        if not rows:
            document.paragraph("None of its runs is finished yet.")
            continue
        lines += [question, *record_lines(rows), ""]
        document.records(
            rows,
            "Mean over seeds; differences with half of the 95 % interval. Losses are of the text "
            "held out of each corpus in the pieces of its vocabulary, AUC is over the positions "
            "that the objective judges: they compare where these are the same",
        )
    _add_runs(document, runs)
    record = {
        "name": grid.name,
        "claims": [_claim_numbers(verdict) for verdict in verdicts],
        "left_out": scores.left_out,
        "tables": document.tables,
    }
    document.write(folder, record)
    return "\n".join([*lines, str(folder / "report.html")])


def _add_setting(
    document: TwinPage,
    grid: Grid,
    planned: Sequence[Run],
    runs: Sequence[RunFigures],
    scores: GridScores,
) -> None:
    first = runs[0]
    versions = first.made_by.get("versions") or {}
    named = ("python", "torch", "transformers", "tokenizers", "kiwipiepy")
    papers = [float(run.summary["flops_paper"]) for run in runs]
    document.heading("What was run")
    document.table(
        ["", "value"],
        [
            ("base config", grid.base.name),
            ("runs finished", f"{len(runs)} of {len(planned)}"),
            ("seeds of pretraining", ", ".join(map(str, sorted({run.seed for run in runs})))),
            (
                "FLOPs of a run, in matrix products",
                _range([float(run.summary["flops_matmul"]) for run in runs]),
            ),
            ("FLOPs of a run, by the paper's count", _range(papers)),
            *((f"task {task}", _examples(record)) for task, record in first.records.items()),
            ("device", ", ".join(sorted({str(run.summary.get("device")) for run in runs}))),
            ("machine that wrote this page", f"{num_cores()} cores of {cpu_name()}"),
            ("hours, as if one run followed the other", f"{sum(run.hours for run in runs):.1f}"),
            ("versions", ", ".join(f"{n} {versions[n]}" for n in named if n in versions)),
            ("commits", ", ".join(sorted({str(run.made_by.get("git_commit")) for run in runs}))),
        ],
    )
    finished = {(run.variant, run.seed) for run in runs}
    if missing := [run.label for run in planned if (run.variant, run.seed) not in finished]:
        document.paragraph(
            f"{len(missing)} runs are not finished, and what they would say is missing here: "
            f"{'; '.join(missing)}."
        )
    if scores.left_out:
        document.paragraph(f"Scores left out: {'; '.join(scores.left_out)}.")
    for note in grid.notes:
        document.paragraph(note)


def _range(values: Sequence[float]) -> str:
    low, high = f"{min(values):.3g}", f"{max(values):.3g}"
    return low if low == high else f"{low} to {high}"


def _examples(record: Result) -> str:
    return (
        f"{record.metric} on {record.num_examples:,} rows of {record.split}, learnt from "
        f"{record.num_train_examples:,}"
    )


def _add_claims(
    document: TwinPage, grid: Grid, verdicts: Sequence[Verdict], scores: GridScores
) -> None:
    """A table for each column that claims are judged by, then the differences in all columns."""
    document.heading("Which claims hold here")
    document.paragraph(METHOD)
    for column in dict.fromkeys(verdict.column for verdict in verdicts):
        found = [verdict for verdict in verdicts if verdict.column == column]
        document.heading(f"By {column}", level=3)
        document.paragraph(f"{_summary(found)} {_spread(scores, column)}".rstrip())
        rows = []
        for verdict in found:
            difference, experiment = verdict.difference, verdict.claim.experiment
            known = difference is not None and not math.isnan(difference.low)
            rows.append(
                {
                    "claim": verdict.claim.text,
                    "of": grid.experiments[experiment].source or experiment,
                    "difference": difference and defined(difference.value),
                    "95 % interval": f"{difference.low:.4f} to {difference.high:.4f}"
                    if difference and known
                    else None,
                    "p, corrected": p_text(verdict.p_corrected),
                    "at this scale": verdict.outcome,
                }
            )
        document.records(rows)
    pairs = [(claim.text, claim.better, claim.worse) for claim in grid.claims]
    if scores.control_of:  # what pretraining adds: no claim, its seeds vary otherwise
        gain = f"{scores.control_of} > {UNTRAINED}"
        pairs.append((gain, scores.control_of, UNTRAINED))
    with document.fold("The same differences by language and task"):
        document.table(
            ["claim", *scores.fits],
            [
                (text, *(_plus_minus(scores.difference(c, better, worse)) for c in scores.fits))
                for text, better, worse in pairs
            ],
            "With half of the 95 % interval, not corrected for their number",
        )


def _summary(verdicts: Sequence[Verdict]) -> str:
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


def _plus_minus(difference: Estimate | None) -> str | None:
    """'+0.0123 ± 0.0045': with half of its 95 % interval, where that is known."""
    if difference is None or math.isnan(difference.value):
        return None
    half = "" if math.isnan(difference.low) else f" ± {difference.half_width:.4f}"
    return f"{difference.value:+.4f}{half}"


def _experiment_rows(
    experiment: Experiment, runs: Sequence[RunFigures], scores: GridScores
) -> list[Record]:
    """A row a variant that has a finished run, and one of the control; beside the mean of all tasks
    its difference to the first of them."""
    by_variant = {v: [run for run in runs if run.variant == v] for v in experiment.variants}
    by_variant = {variant: found for variant, found in by_variant.items() if found}
    if not by_variant:
        return []
    reference = next(iter(by_variant))
    found = [run for of_variant in by_variant.values() for run in of_variant]
    valid = [key for key in _VALID if any(run.valid.get(key) for run in found)]
    if scores.control_of:
        by_variant[UNTRAINED] = []
    rows: list[Record] = []
    for variant, of_variant in by_variant.items():
        is_control = variant == UNTRAINED
        summary = {} if is_control else of_variant[0].summary
        num_control = len({run.seed for run in runs if run.untrained})
        row: dict[str, object] = {
            "variant": variant,
            "seeds": num_control if is_control else len(of_variant),
            "steps": summary.get("num_steps", 0),
            "tokens": summary.get("tokens", 0),
            **{_VALID[key]: _mean([run.valid.get(key) for run in of_variant]) for key in valid},
        }
        fits = scores.control_fits if is_control else scores.fits
        for column, fit in fits.items():
            row[column] = defined(fit.mean(variant)) if variant in fit.variants else None
            if column == scores.headline:
                other = scores.difference(column, variant, reference)
                row[f"to {reference}"] = None if variant == reference else _plus_minus(other)
        rows.append(row)
    return rows


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


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
                    "FLOPs, matrix products": f"{run.summary['flops_matmul']:.3g}",
                    "FLOPs, paper": f"{run.summary['flops_paper']:.3g}",
                    "tokens a second": run.summary.get("tokens_per_second"),
                    "hours": run.hours,
                    "learnt nothing": run.num_degenerate,
                    **{task: run.scores.get(task) for task in tasks},
                }
                for run in runs
            ]
        )


def _claim_numbers(verdict: Verdict) -> dict[str, Any]:
    found = verdict.difference
    return {
        "claim": verdict.claim.text,
        "experiment": verdict.claim.experiment,
        "judged_by": verdict.column,
        "difference": found and found.value,
        "half_width": found and found.half_width,
        "p": found and found.p,
        "p_corrected": verdict.p_corrected,
        "outcome": verdict.outcome,
    }
