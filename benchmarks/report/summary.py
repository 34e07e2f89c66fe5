"""The top of a report: the verdict, all scores in one table, differences, warnings."""

from collections import Counter
from collections.abc import Sequence
from functools import partial

from benchmarks.report.noise import verdict_lines
from benchmarks.report.published import CUT_FRACTION
from benchmarks.report.scores import (
    Encoder,
    degenerate_text,
    difference_table,
    encoder_table,
    encoders_of,
    labels_of,
    mean_over_tasks,
    notes,
)
from benchmarks.report.stages import open_alarms, unfinished_text
from benchmarks.results.results import BASELINES
from benchmarks.results.run_folder import RunFolder
from benchmarks.results.table import Block, markdown_text
from benchmarks.statistics.comparison import Against
from benchmarks.statistics.scores import TaskScore, scores_of
from electrify.page.page import Page
from electrify.page.plots import tick_text
from electrify.system.progress import duration

_MAX_WARNINGS = 4
_FEW_SEEDS = 3


def verdicts(
    runs: Sequence[RunFolder],
    names: Sequence[str],
    encoders: Sequence[Encoder],
    compared: Sequence[Against],
) -> list[str]:
    """A sentence for each encoder: its mean, and on how many tasks it is better than what; then
    what noise and groups of people change."""
    probed = [
        line for run, name in zip(runs, names, strict=True) for line in verdict_lines(run, name)
    ]
    if encoders or probed:
        return [*(_sentence(encoder, compared) for encoder in encoders), *probed]
    run = runs[0]
    if run.summary:
        return [f"{run.name} is pretrained and not scored yet. Run: electrify evaluate CONFIG"]
    return [f"{run.name} is not pretrained yet. Run: electrify pretrain CONFIG"]


def _sentence(encoder: Encoder, compared: Sequence[Against]) -> str:
    scores, mean = encoder.scores, encoder.mean
    if mean is None:
        text = ", ".join(f"{s.first.title} {s.pretrained.text(1)}" for s in scores.values())
    else:
        text = f"{mean.text(1)} over {len(scores)} tasks"
        if random := mean_over_tasks([score.by_role["random-init"] for score in scores.values()]):
            gain = 100 * (mean.mean - random.mean)
            text += f", {gain:+.1f} over {BASELINES['random-init']}"
    parts = []
    own = _of_encoder(encoder, compared)
    for baseline in dict.fromkeys(a.baseline for a in own):
        better, undecided, worse = _outcomes([a for a in own if a.baseline == baseline])
        rest = [f"worse on {worse}"] * bool(worse) + [f"undecided on {undecided}"] * bool(undecided)
        note = f" ({', '.join(rest)})" if rest else ""
        parts.append(f"than {baseline} on {better} of {better + undecided + worse}{note}")
    return f"{encoder.name}: {text}." + (f" Better {', '.join(parts)}." if parts else "")


def _of_encoder(encoder: Encoder, compared: Sequence[Against]) -> list[Against]:
    return [a for a in compared if any(a.score is score for score in encoder.scores.values())]


def _outcomes(compared: Sequence[Against]) -> tuple[int, int, int]:
    """How many are better, undecided and worse; what cannot be compared is none of them."""
    counts = Counter(a.comparison.outcome for a in compared)
    return counts["better"], counts["cannot tell apart"], counts["worse"]


def key_figures(
    runs: Sequence[RunFolder], encoders: Sequence[Encoder], compared: Sequence[Against]
) -> list[tuple[str, str]]:
    """Tokens, hours, and the tasks on which the first encoder is better, undecided and worse."""
    summary, figures = runs[0].summary, []
    if summary and len(runs) == 1:
        figures += [
            (tick_text(summary["tokens"]), "tokens seen"),
            (duration(summary["seconds"]), f"pretraining on {summary['device']}"),
        ]
    if encoders and compared:
        baseline = compared[0].baseline
        own = _of_encoder(encoders[0], compared)
        outcomes = _outcomes([a for a in own if a.baseline == baseline])
        if any(outcomes):
            label = f"tasks better / undecided / worse, against {baseline}"
            figures.append((" / ".join(map(str, outcomes)), label))
    return figures


def warnings_of(
    runs: Sequence[RunFolder], encoders: Sequence[Encoder], compared: Sequence[Against]
) -> list[str]:
    """At most four, the gravest first."""
    scores = [score for encoder in encoders for score in encoder.scores.values()]
    warnings = [unfinished_text(stage) for run in runs for stage in run.unfinished]
    if degenerate := [f"{s.label}, {text}" for s in scores if (text := degenerate_text(s))]:
        warnings.append(f"Degenerate fine-tunings: {'; '.join(degenerate)}.")
    if doubts := [f"{s.label}: {note}" for s in scores for note in notes(s)]:
        warnings.append(f"{'; '.join(doubts)}.")
    if lost := " ".join(_lost_sentences(compared)):
        warnings.append(lost)
    if alarms := [text for run in runs for text in open_alarms(run)]:
        warnings.append(f"Alarms of the pretraining: {'; '.join(alarms)}.")
    if touched := [s.label for s in scores if _is_touched(s, runs)]:
        tasks = ", ".join(touched)
        warnings.append(f"Texts of these tasks stand in the corpus (Leakage): {tasks}.")
    if cut := [s.label for s in scores if s.first.truncated_fraction > CUT_FRACTION]:
        warnings.append(
            f"More than {100 * CUT_FRACTION:g} % of the reported rows are longer than the model "
            f"takes: {', '.join(cut)}."
        )
    if scores and min(s.pretrained.num_seeds for s in scores) < _FEW_SEEDS:
        warnings.append("Fewer than three seeds hardly show how much a seed changes a score.")
    return warnings[:_MAX_WARNINGS]


def _is_touched(score: TaskScore, runs: Sequence[RunFolder]) -> bool:
    """Whether a row of the task stands in the corpus of the run's own encoder."""
    return any(
        split.touched
        for run in runs
        if run.leakage and score in scores_of(run) and not score.encoder
        for task in run.leakage.tasks
        if task.task == score.first.task
        for split in task.splits
    )


def _lost_sentences(compared: Sequence[Against]) -> list[str]:
    """The tasks on which an encoder is worse than a baseline, and where this is not decided."""
    of_baselines = [a for a in compared if a.baseline in BASELINES.values()]
    sentences = []
    for outcome, text in (
        ("worse", "Worse than a baseline"),
        ("cannot tell apart", "Better or worse than a baseline: not decided"),
    ):
        lost: dict[str, list[str]] = {}
        for a, label in zip(of_baselines, labels_of(of_baselines), strict=True):
            if a.comparison.outcome == outcome:
                lost.setdefault(a.baseline, []).append(label)
        if lost:
            parts = (f"{', '.join(tasks)} (against {name})" for name, tasks in lost.items())
            sentences.append(f"{text} on {'; '.join(parts)}.")
    return sentences


def summary_blocks(
    runs: Sequence[RunFolder], names: Sequence[str], compared: Sequence[Against]
) -> list[Block]:
    """Verdict, figures, scores, differences and warnings of one run, or of several side by side."""
    encoders = encoders_of(runs, names)
    blocks = [
        Block(partial(Page.verdict, text=text), markdown_text(text))
        for text in verdicts(runs, names, encoders, compared)
    ]
    if figures := key_figures(runs, encoders, compared):
        line = " · ".join(markdown_text(f"{a} {b}") for a, b in figures)
        blocks.append(Block(partial(Page.key_figures, items=figures), line))
    if encoders:
        table, note = encoder_table(encoders, compared)
        blocks += [Block.of_table(table), Block.of_text(note)]
    if compared:
        table = difference_table(compared)
        blocks.append(Block(partial(_plot_differences, compared), "\n".join(table.markdown())))
    return blocks + [
        Block(partial(Page.paragraph, text=f"⚠ {text}"), markdown_text(f"Beware: {text}"))
        for text in warnings_of(runs, encoders, compared)
    ]


def _plot_differences(compared: Sequence[Against], page: Page) -> None:
    rows: dict[str, dict[str, tuple[float, float, float]]] = {}
    for a, task in zip(compared, labels_of(compared), strict=True):
        if gain := a.comparison.difference:
            label = f"{task}, {a.run}" if a.run else task
            mark = 100 * gain.value, 100 * gain.low, 100 * gain.high
            rows.setdefault(label, {})[f"against {a.baseline}"] = mark
    if rows:
        label = "points better (right) or worse (left)"
        page.forest_plot("Differences, each with its own 95 % interval", rows, label)
