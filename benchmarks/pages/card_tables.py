"""What a model card tells of an encoder's scores: tables in Markdown, by their headings."""

from pathlib import Path

from benchmarks.pages.cost import cost_lines
from benchmarks.pages.curves import low_shot_lines
from benchmarks.pages.leakage import leakage_table
from benchmarks.pages.references import references_lines
from benchmarks.pages.twin_page import table_lines
from benchmarks.results.run_folder import RunFolder, read_run
from benchmarks.statistics.comparison import Baseline, within
from benchmarks.statistics.scores import scores_of


def card_sections(folder: Path) -> dict[str, list[str]]:
    """Of a run's folder: headings and lines, of what is known of its own export."""
    run = read_run(folder)
    sections = {
        "Scores of the encoder": _score_lines(run),
        "Published scores": references_lines(run),
        "Scores with fewer examples to learn from": low_shot_lines(run),
        "Cost of fine-tuning": cost_lines(run),
        "Scores without rows that stand in the training text": _leakage_lines(run),
    }
    return {heading: lines for heading, lines in sections.items() if lines}


def _leakage_lines(run: RunFolder) -> list[str]:
    headers, rows = leakage_table(run)
    return table_lines(headers, rows) if rows else []


def _score_lines(run: RunFolder) -> list[str]:
    """Scores with their intervals, and the difference to the untrained network."""
    against = {a.score.first.task: a for a in within(run, Baseline()) if not a.score.encoder}
    rows: list[tuple[object, ...]] = []
    for score in scores_of(run):
        if score.encoder:
            continue
        found = against.get(score.first.task)
        difference = found and found.comparison.difference
        rows.append(
            (
                score.first.task,
                score.first.split,
                score.first.metric,
                score.pretrained.text(),
                score.pretrained.estimate.text(),
                score.pretrained.summary.num_seeds,
                score.untrained.text(),
                difference and difference.estimate.text(),
                found and found.comparison.outcome,
            )
        )
    if not rows:
        return []
    headers = [
        "task",
        "rows",
        "metric",
        "score",
        "95 % interval",
        "seeds",
        "untrained",
        "difference to it, 95 %",
        "outcome",
    ]
    return [
        *table_lines(headers, rows),
        "",
        "Scores: mean ± sd over seeds; intervals over examples and seeds, those of differences "
        "before a correction for several tasks. Untrained: the same network with random weights.",
    ]
