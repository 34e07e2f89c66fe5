"""The page of a grid: what was run, which claims hold, a table an experiment, every run."""

import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from benchmarks.ablate.grid import UNTRAINED, Experiment, Grid, Run
from benchmarks.ablate.scores import GridScores, RunFigures, Verdict, judge
from benchmarks.results.results import Result, percent
from benchmarks.results.table import Record, markdown_text, record_lines
from benchmarks.statistics.comparison import ALPHA
from benchmarks.statistics.uncertainty import Estimate, p_text
from electrify.page.page import Cell, Page
from electrify.stage.folder import remove_torn, write_text
from electrify.stage.lock import stage_lock
from electrify.system.machine import cpu_name, num_cores

METHOD = (
    "A score is the mean over tasks of their headline metrics, of one pretrained network; what "
    "stands in the tables is the mean over pretraining seeds. Intervals are of 95 %, each of one "
    "difference alone. What a seed does to all variants alike (which examples are learnt from, the "
    "order of pretraining) is taken out, and what is left is pooled over all variants, since each "
    "has few seeds. They say how much other seeds may change, not what another corpus, size, "
    "budget or other test rows would; the sd of the rest is itself an estimate of few seeds. p of "
    "the claims is corrected over all that the grid makes, run or not, by all scores that they are "
    "judged by (Holm); above "
    f"{ALPHA} the two cannot be told apart, which does not say that they are equal."
)
_MEANING = (
    "Mean over seeds, scores in percent; differences in points with half of the 95 % interval. "
    "Losses are of the text held out of each corpus in the pieces of its vocabulary, AUC is over "
    "the positions that the objective judges: they compare where these are the same"
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
    """report.html and report.md of the finished runs; the tables of the questions as text."""
    title = f"Ablation: {grid.name}"
    about = f"{len(runs)} of {len(planned)} runs, all of the same training FLOPs in matrix products"
    page, scores = Page(title, about), GridScores(runs)
    blocks = [f"# {markdown_text(title)}", markdown_text(about)]
    lines: list[str] = []
    if not runs:
        lines.append(f"no run of {grid.name} is finished yet")
        page.verdict("No run is finished yet.")
    else:
        verdicts = []
        if scores.runs:
            verdicts = judge(grid.claims, grid.judged_by or (scores.headline,), scores)
        for column in dict.fromkeys(verdict.column for verdict in verdicts):
            text = _summary([v for v in verdicts if v.column == column])
            page.verdict(f"By {column}: {text}")
            blocks.append(markdown_text(f"By {column}: {text}"))
        if verdicts:
            _add_claims(page, verdicts, scores)
            blocks.append("\n".join(record_lines(_claim_rows(grid, verdicts))))
        for text in _cautions(planned, runs, scores):
            page.paragraph(text)
            blocks.append(markdown_text(text))
        for question, experiment in grid.experiments.items():
            page.heading(question)
            rows = _experiment_rows(experiment, runs, scores)
            if not rows:
                page.paragraph("None of its runs is finished yet.")
                continue
            table = record_lines(rows)
            lines += [question, *table, ""]
            blocks += [f"## {markdown_text(question)}", "\n".join(table)]
            page.records(rows, _MEANING)
            if text := _add_spread(page, experiment, scores):
                blocks.append(markdown_text(text))
        if verdicts:
            with page.fold("How the claims are judged", is_section=True):
                page.records(_claim_rows(grid, verdicts))
                for column in dict.fromkeys(verdict.column for verdict in verdicts):
                    page.paragraph(_spread(scores, column))
                page.paragraph(METHOD)
        with page.fold("What was run", is_section=True):
            _add_setting(page, grid, planned, runs)
        with page.fold("Every run", is_section=True):
            _add_runs(page, runs)
        lines.append(str(folder / "report.html"))
    folder.mkdir(parents=True, exist_ok=True)
    with stage_lock(folder / "report"):
        remove_torn(folder.glob("report.*"))
        write_text(folder / "report.md", "\n\n".join(blocks) + "\n")
        page.write(folder / "report.html")
    return "\n".join(lines)


def _add_setting(
    page: Page,
    grid: Grid,
    planned: Sequence[Run],
    runs: Sequence[RunFigures],
) -> None:
    first = runs[0]
    versions = first.made_by.get("versions") or {}
    named = ("python", "torch", "transformers", "tokenizers", "kiwipiepy")
    papers = [float(run.summary["flops_paper"]) for run in runs]
    page.table(
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
    for note in grid.notes:
        page.paragraph(note)


def _cautions(planned: Sequence[Run], runs: Sequence[RunFigures], scores: GridScores) -> list[str]:
    finished = {(run.variant, run.seed) for run in runs}
    found = []
    if missing := [run.label for run in planned if (run.variant, run.seed) not in finished]:
        found.append(
            f"{len(missing)} runs are not finished, and what they would say is missing here: "
            f"{'; '.join(missing)}."
        )
    if scores.left_out:
        found.append(f"Scores left out: {'; '.join(scores.left_out)}.")
    return found


def _range(values: Sequence[float]) -> str:
    low, high = f"{min(values):.3g}", f"{max(values):.3g}"
    return low if low == high else f"{low} to {high}"


def _examples(record: Result) -> str:
    return (
        f"{record.metric} on {record.num_examples:,} rows of {record.split}, learnt from "
        f"{record.num_train_examples:,}"
    )


def _add_claims(page: Page, verdicts: Sequence[Verdict], scores: GridScores) -> None:
    """Claims by columns: differences in points, coloured where a claim is judged by the column."""
    judged = {(verdict.claim.text, verdict.column): verdict for verdict in verdicts}
    pairs = {v.claim.text: (v.claim.better, v.claim.worse) for v in verdicts}
    if scores.control_of:  # what pretraining adds: no claim, its seeds vary otherwise
        pairs[f"{scores.control_of} > {UNTRAINED}"] = (scores.control_of, UNTRAINED)
    tones: dict[str, Literal["good", "bad"]] = {"holds": "good"}
    rows = []
    for text, pair in pairs.items():
        cells = []
        for column in scores.fits:
            verdict = judged.get((text, column))
            outcome = verdict.outcome if verdict else ""
            tone = tones.get(outcome) or ("bad" if outcome.startswith("does not") else "")
            difference = scores.difference(column, *pair)
            cells.append(Cell(_plus_minus(difference) or "–", tone=tone, is_bold=bool(tone)))
        rows.append((text, cells))
    headers = [(c, "judged" if any(c == of for _, of in judged) else "") for c in scores.fits]
    page.rich_table(
        [("claim", ""), *headers],
        rows,
        caption="Differences in points ± half of the 95 % interval; green: the claim holds, red: "
        "it does not, bold and coloured only where it is decided after the correction",
    )


def _claim_rows(grid: Grid, verdicts: Sequence[Verdict]) -> list[Record]:
    return [
        {
            "claim": verdict.claim.text,
            "of": grid.experiments[verdict.claim.experiment].source or verdict.claim.experiment,
            "by": verdict.column,
            "difference": _plus_minus(verdict.difference),
            "p, corrected": p_text(verdict.p_corrected),
            "at this scale": verdict.outcome,
        }
        for verdict in verdicts
    ]


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
        return f"{column}: too few runs to say how much seeds vary."
    return (
        f"{column}: the rest has a standard deviation of {percent(fit.sd)} points, "
        f"with {fit.degrees} degrees of freedom."
    )


def _add_spread(page: Page, experiment: Experiment, scores: GridScores) -> str:
    """Where each variant lies about the first one, with the same seeds; what is said of the
    headline.

    The seeds of the first one lie about their mean. Marks are means over seeds, bars reach from the
    lowest seed to the highest.
    """
    reference = experiment.variants[0]
    rows: dict[str, dict[str, tuple[float, float, float]]] = {}
    said = ""
    for column in scores.fits:
        values = scores.values(column)
        if reference not in values:
            continue
        own = values[reference]
        centre = statistics.fmean(own.values())
        points = {
            variant: [
                round(100 * (score - (centre if variant == reference else own[seed])), 6)
                for seed, score in values.get(variant, {}).items()
                if seed in own
            ]
            for variant in experiment.variants
        }
        points = {variant: found for variant, found in points.items() if found}
        for variant, found in points.items():
            rows.setdefault(variant, {})[column] = statistics.fmean(found), min(found), max(found)
        if column == scores.headline:
            said = _spread_text(column, reference, points)
    if len(rows) > 1:
        page.forest_plot("Spread", rows, f"points above {reference}")
        page.paragraph(
            f"{said} Variants are compared with {reference} by the same seeds, and its own seeds "
            "with their mean. Bars reach over seeds."
        )
    return said


def _spread_text(column: str, reference: str, points: Mapping[str, Sequence[float]]) -> str:
    """How far other variants lie from the reference, and its own seeds."""
    others = [statistics.fmean(of) for variant, of in points.items() if variant != reference]
    if not others:
        return ""
    text = (
        f"{column}: the other variants lie between {min(others):+.2f} and {max(others):+.2f} "
        f"points of {reference}"
    )
    if len(own := points[reference]) > 1:
        text += f", its own {len(own)} seeds between {min(own):+.2f} and {max(own):+.2f}"
    return f"{text}."


def _plus_minus(difference: Estimate | None) -> str | None:
    """'+1.23 ± 0.45' points: with half of its 95 % interval, where that is known."""
    if difference is None or math.isnan(difference.value):
        return None
    half = "" if math.isnan(difference.low) else f" ± {percent(difference.half_width)}"
    return f"{100 * difference.value:+.2f}{half}"


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
            row[column] = percent(fit.mean(variant)) if variant in fit.variants else None
            if column == scores.headline:
                other = scores.difference(column, variant, reference)
                row[f"to {reference}"] = None if variant == reference else _plus_minus(other)
        rows.append(row)
    return rows


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def _add_runs(page: Page, runs: Sequence[RunFigures]) -> None:
    tasks = list(dict.fromkeys(task for run in runs for task in run.scores))
    page.records(
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
                **{task: percent(run.scores.get(task)) for task in tasks},
            }
            for run in runs
        ]
    )
