"""What a model card tells of an encoder's scores: tables in Markdown, by their headings."""

from pathlib import Path

from benchmarks.pages.curves import cost_lines, low_shot_lines
from benchmarks.pages.leakage import leakage_rows
from benchmarks.pages.probes import card_lines
from benchmarks.pages.references import references_lines
from benchmarks.results.results import BASELINES
from benchmarks.results.run_folder import RunFolder, read_run
from benchmarks.results.table import Record, record_lines
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
        "Robustness and differences between groups": card_lines(run),
        "Scores without rows that stand in the training text": record_lines(leakage_rows(run)),
    }
    return {heading: lines for heading, lines in sections.items() if lines}


def _score_lines(run: RunFolder) -> list[str]:
    """Scores with their intervals, and the differences to the floors."""
    compared = [a for a in within(run, Baseline()) if not a.score.encoder]
    rows: list[Record] = []
    for score in scores_of(run):
        if score.encoder:
            continue
        floors: dict[str, object] = {}
        for variant, name in BASELINES.items():
            found = next((a for a in compared if a.score is score and a.baseline == name), None)
            difference = found and found.comparison.difference
            floors[name] = score.by_role[variant].text()
            floors[f"difference to {name}, 95 %"] = difference and difference.text()
            floors[f"than {name}"] = found and found.comparison.outcome
        rows.append(
            {
                "task": score.first.title,
                "rows": score.first.split,
                "metric": score.first.metric,
                "score": score.pretrained.text(),
                "95 % interval": score.pretrained.estimate.text(),
                "seeds": score.pretrained.summary.num_seeds,
                **floors,
            }
        )
    if not rows:
        return []
    return [
        *record_lines(rows),
        "",
        "Scores: mean ± sd over seeds; intervals over examples and seeds. The interval of a "
        "difference is not corrected for several differences; the outcome is (Holm). Random "
        "initialisation: the same network without pretraining. TF-IDF: with logistic regression.",
    ]
