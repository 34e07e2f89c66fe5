"""The top of a report: the verdict, all scores in one table, differences, warnings."""

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.pages.probes import probe_sentences
from benchmarks.pages.references import (
    CUT_FRACTION,
    PublishedScore,
    differences_to,
    published_tables,
)
from benchmarks.pages.training import open_alarms, words
from benchmarks.results.results import BASELINES, percent, summary_of
from benchmarks.results.run_folder import RunFolder
from benchmarks.results.table import markdown_text, table_lines
from benchmarks.statistics.comparison import Against
from benchmarks.statistics.scores import Sample, TaskScore, scores_of
from benchmarks.statistics.uncertainty import p_text
from electrify.page.page import Cell, Page
from electrify.page.plots import tick_text
from electrify.stage.plan import VERBS
from electrify.system.progress import duration

_MAX_WARNINGS = 4
_NUM_PUBLISHED = 2  # models of each published table, those nearest to ours
_FEW_SEEDS = 3
_DAGGER = "†"


@dataclass(frozen=True)
class Encoder:
    """One encoder's scores by task, by the name that it has on the page."""

    name: str
    run: RunFolder
    scores: Mapping[str, TaskScore]

    @property
    def mean(self) -> Sample | None:
        """Over its tasks."""
        return mean_over_tasks([score.pretrained for score in self.scores.values()])


def encoders_of(runs: Sequence[RunFolder], names: Sequence[str]) -> list[Encoder]:
    """Every scored encoder: each run's own under the run's name, then the others of the run."""
    found = []
    for run, name in zip(runs, names, strict=True):
        by_stage: dict[str, dict[str, TaskScore]] = {}
        for score in scores_of(run):
            if score.pretrained.values:
                by_stage.setdefault(score.stage, {})[score.first.task] = score
        for scores in by_stage.values():
            other = next(iter(scores.values())).encoder
            is_alone = not other or len(by_stage) == 1
            label = name if is_alone else other if len(runs) == 1 else f"{name}, {other}"
            found.append(Encoder(label, run, scores))
    return found


def mean_over_tasks(samples: Sequence[Sample]) -> Sample | None:
    """The mean over tasks, seed by seed where all have the same seeds; None of fewer than two tasks
    or where one has no score."""
    if len(samples) < 2 or not all(sample.values for sample in samples):
        return None
    seeds = samples[0].values.keys()
    if any(sample.values.keys() != seeds for sample in samples):
        mean = statistics.fmean(sample.summary.mean for sample in samples)
        return Sample({0: mean}, summary_of([mean]))
    values = {seed: statistics.fmean(s.values[seed] for s in samples) for seed in seeds}
    return Sample(values, summary_of(list(values.values())))


def verdicts(
    runs: Sequence[RunFolder],
    names: Sequence[str],
    encoders: Sequence[Encoder],
    compared: Sequence[Against],
) -> list[str]:
    """A sentence for each encoder: its mean, and on how many tasks it is better than what; then
    what the probes found."""
    probed = [
        line for run, name in zip(runs, names, strict=True) for line in probe_sentences(run, name)
    ]
    if not encoders:
        run = runs[0]
        if probed:
            return probed
        if run.summary:
            return [f"{run.name} is pretrained and not scored yet. Run: electrify evaluate CONFIG"]
        return [f"{run.name} is not pretrained yet. Run: electrify pretrain CONFIG"]
    return [*(_sentence(encoder, compared) for encoder in encoders), *probed]


def _sentence(encoder: Encoder, compared: Sequence[Against]) -> str:
    scores, mean = encoder.scores, encoder.mean
    if mean is None:
        text = ", ".join(f"{s.first.title} {s.pretrained.text(1)}" for s in scores.values())
    else:
        text = f"{mean.text(1)} over {len(scores)} tasks"
        if twin := mean_over_tasks([score.by_role["random-init"] for score in scores.values()]):
            gain = mean.summary.mean - twin.summary.mean
            side = "above" if gain >= 0 else "below"
            text += f", {percent(abs(gain), 1)} {side} {BASELINES['random-init']}"
    own = [a for a in compared if any(a.score is score for score in scores.values())]
    parts = []
    for baseline in dict.fromkeys(a.baseline for a in own):
        better, undecided, worse = _outcomes([a for a in own if a.baseline == baseline])
        rest = [f"worse on {worse}"] * bool(worse) + [f"undecided on {undecided}"] * bool(undecided)
        note = f" ({', '.join(rest)})" if rest else ""
        parts.append(f"than {baseline} on {better} of {better + undecided + worse}{note}")
    return f"{encoder.name}: {text}." + (f" Better {', '.join(parts)}." if parts else "")


def _outcomes(compared: Sequence[Against]) -> tuple[int, int, int]:
    """How many are better, undecided and worse; what cannot be compared is none of them."""
    found = Counter(a.comparison.outcome for a in compared)
    return found["better"], found["cannot tell apart"], found["worse"]


def key_figures(
    runs: Sequence[RunFolder], encoders: Sequence[Encoder], compared: Sequence[Against]
) -> list[tuple[str, str]]:
    """Tokens, hours, and the tasks on which the first encoder is better, undecided and worse."""
    summary, found = runs[0].summary, []
    if summary and len(runs) == 1:
        found += [
            (tick_text(summary["tokens"]), "tokens seen"),
            (duration(summary["seconds"]), f"pretraining on {summary['device']}"),
        ]
    if encoders and compared:
        baseline = compared[0].baseline
        own = [a for a in compared if any(a.score is s for s in encoders[0].scores.values())]
        outcomes = _outcomes([a for a in own if a.baseline == baseline])
        if any(outcomes):
            figure = " / ".join(map(str, outcomes))
            found.append((figure, f"tasks better / undecided / worse, against {baseline}"))
    return found


# All scores in one table.


@dataclass(frozen=True)
class Matrix:
    """Encoders by tasks: headers with a small second line, rows of cells, and the grey rows."""

    headers: list[tuple[str, str]]
    rows: list[tuple[str, list[Cell]]]
    published: list[str]
    note: str


def score_matrix(encoders: Sequence[Encoder], compared: Sequence[Against]) -> Matrix:
    """Ours, their floors and published models; percent, one decimal."""
    first = {task: score for e in reversed(encoders) for task, score in e.scores.items()}
    tasks = [task for e in encoders for task in e.scores]
    tasks = list(dict.fromkeys(tasks))
    rows: list[tuple[str, dict[str, Sample]]]
    rows = [(e.name, {t: s.pretrained for t, s in e.scores.items()}) for e in encoders]
    for variant, name in BASELINES.items():
        for encoder in encoders:
            arms = {
                t: s.by_role[variant]
                for t, s in encoder.scores.items()
                if s.by_role[variant].values
            }
            is_alone = len(encoders) == 1 or variant == "bag-of-words"
            label = name if is_alone else f"{encoder.name}, {name}"
            if arms and label not in dict(rows):
                rows.append((label, arms))
    decided = _decided(encoders, compared)
    with_mean = len(tasks) > 1
    cells = []
    for name, samples in rows:
        row = [_cell(samples.get(task), (name, task) in decided) for task in tasks]
        if with_mean:
            whole = [samples[task] for task in tasks if task in samples]
            row.append(_cell(mean_over_tasks(whole) if len(whole) == len(tasks) else None))
        cells.append((name, row))
    published = _published_rows(first, tasks, with_mean)
    seeds = sorted({s.summary.num_seeds for _, samples in rows for s in samples.values()})
    headers = [("", ""), *((first[task].first.title, _about(first[task])) for task in tasks)]
    if with_mean:
        headers.append(("mean", f"{len(tasks)} tasks"))
    note = (
        f"Percent, mean of {' to '.join(map(str, dict.fromkeys([seeds[0], seeds[-1]])))} seeds ± "
        "their standard deviation. Bold: an encoder that is better than all it is compared with, "
        "or a floor that is better than the encoder (corrected for all differences). "
        f"{BASELINES['random-init'].capitalize()}: the same network without pretraining. "
        f"{BASELINES['bag-of-words']}: with logistic regression."
    )
    if published:
        note += (
            f" Published scores are grey; {_DAGGER}: of other rows, learnt from others, or of "
            "another setting (Published scores)."
        )
    return Matrix(headers, cells + published, [name for name, _ in published], note)


def _about(score: TaskScore) -> str:
    return f"{words(score.first.metric)}, {score.first.num_examples:,} rows"


def _cell(sample: Sample | None, is_bold: bool = False) -> Cell:
    if sample is None or not sample.values:
        return Cell("–")
    sd = sample.summary.sd
    return Cell(
        percent(sample.summary.mean, 1), "" if sd is None else f"± {percent(sd, 1)}", is_bold
    )


def _decided(encoders: Sequence[Encoder], compared: Sequence[Against]) -> set[tuple[str, str]]:
    """(row, task) where an encoder is better than all it is compared with, or is worse than a
    floor, which then is the better one."""
    found = set()
    for encoder in encoders:
        for task, score in encoder.scores.items():
            of_task = [a for a in compared if a.score is score]
            outcomes = {a.comparison.outcome for a in of_task}
            if outcomes == {"better"}:
                found.add((encoder.name, task))
            worse = [a for a in of_task if a.comparison.outcome == "worse"]
            worse = [a for a in worse if a.baseline in BASELINES.values()]
            if worse and len(encoders) == 1:
                gains = {a.comparison.gain or 0.0: a.baseline for a in worse}
                found.add((gains[min(gains)], task))
    return found


def _published_rows(
    first: Mapping[str, TaskScore], tasks: Sequence[str], with_mean: bool
) -> list[tuple[str, list[Cell]]]:
    """The models of each published table whose mean over the shared tasks is nearest to ours."""
    rows: list[tuple[str, list[Cell]]] = []
    for models in published_tables():
        ranked: list[tuple[int, float, str, dict[str, PublishedScore]]] = []
        for model, scores in models.items():
            shared = {s.task: s for s in scores if _is_of(s, first)}
            if shared and all(model != name for name, _ in rows):
                gaps = [s.value - first[t].pretrained.summary.mean for t, s in shared.items()]
                ranked.append((-len(shared), abs(statistics.fmean(gaps)), model, shared))
        for _, _, model, shared in sorted(ranked, key=lambda r: r[:3])[:_NUM_PUBLISHED]:
            cells = [
                Cell(percent(s.value, 1) + _DAGGER * bool(differences_to(first[task].first, s)))
                if (s := shared.get(task))
                else Cell("–")
                for task in tasks
            ]
            rows.append((model, cells + [Cell("–")] * with_mean))
    return rows


def _is_of(published: PublishedScore, first: Mapping[str, TaskScore]) -> bool:
    score = first.get(published.task)
    return score is not None and published.metric == score.first.metric


# What to beware of.


def warnings_of(
    runs: Sequence[RunFolder], encoders: Sequence[Encoder], compared: Sequence[Against]
) -> list[str]:
    """At most four, the gravest first."""
    scores = [score for encoder in encoders for score in encoder.scores.values()]
    found = [
        f"The stage {stage} is not finished; figures are those so far. "
        f"Go on with: electrify {VERBS.get(stage, 'evaluate')} CONFIG"
        for run in runs
        for stage in run.unfinished
    ]
    degenerate = [f"{s.label}, {text}" for s in scores if (text := degenerate_text(s))]
    if degenerate:
        found.append(f"Degenerate fine-tunings: {'; '.join(degenerate)}.")
    if lost := " ".join(_lost_sentences(compared)):
        found.append(lost)
    if alarms := [text for run in runs for text in open_alarms(run)]:
        found.append(f"Alarms of the pretraining: {'; '.join(alarms)}.")
    touched = [s.label for s in scores if _num_touched(s, runs)]
    if touched:
        found.append(f"Texts of these tasks stand in the corpus (Leakage): {', '.join(touched)}.")
    cut = [s.label for s in scores if s.first.truncated_fraction > CUT_FRACTION]
    if cut:
        found.append(
            f"More than {100 * CUT_FRACTION:g} % of the reported rows are longer than the model "
            f"takes: {', '.join(cut)}."
        )
    if scores and min(s.pretrained.summary.num_seeds for s in scores) < _FEW_SEEDS:
        found.append("Fewer than three seeds: they hardly tell how much a seed changes a score.")
    return found[:_MAX_WARNINGS]


def _num_touched(score: TaskScore, runs: Sequence[RunFolder]) -> int:
    return sum(
        split.touched
        for run in runs
        if run.leakage and score in scores_of(run) and not score.encoder
        for task in run.leakage.tasks
        if task.task == score.first.task
        for split in task.splits
    )


def _lost_sentences(compared: Sequence[Against]) -> list[str]:
    """The tasks on which an encoder is worse than a floor, and where this is not decided."""
    of_floors = [a for a in compared if a.baseline in BASELINES.values()]
    found = []
    for outcome, text in (
        ("worse", "Worse than a floor"),
        ("cannot tell apart", "Better or worse than a floor: not decided"),
    ):
        lost: dict[str, list[str]] = {}
        for a, label in zip(of_floors, _labels(of_floors), strict=True):
            if a.comparison.outcome == outcome:
                lost.setdefault(a.baseline, []).append(label)
        if lost:
            parts = (f"{', '.join(tasks)} (against {floor})" for floor, tasks in lost.items())
            found.append(f"{text} on {'; '.join(parts)}.")
    return found


def degenerate_text(score: TaskScore) -> str:
    """'2 of 3 runs of bert degenerate'; empty if none is."""
    return ", ".join(
        f"{summary.num_degenerate} of {summary.num_seeds} runs of {name} degenerate"
        for name, sample in score.samples.items()
        if (summary := sample.summary).num_degenerate
    )


# The page and its short form.


@dataclass(frozen=True)
class Top:
    """What stands at the top of a report."""

    verdicts: list[str]
    figures: list[tuple[str, str]]
    matrix: Matrix | None
    compared: Sequence[Against]
    warnings: list[str]

    def add_to(self, page: Page) -> None:
        """Verdict, figures, table, forest plot and warnings."""
        for text in self.verdicts:
            page.verdict(text)
        if self.figures:
            page.key_figures(self.figures)
        if self.matrix:
            page.rich_table(self.matrix.headers, self.matrix.rows, self.matrix.published)
            page.paragraph(self.matrix.note)
        if rows := _forest(self.compared):
            page.forest_plot(
                "Differences, each with its own 95 % interval",
                rows,
                "points better (right) or worse (left)",
            )
        for text in self.warnings:
            page.paragraph(f"⚠ {text}")

    def markdown(self) -> list[str]:
        """Blocks of the same in Markdown, with the differences as a table."""
        blocks = [markdown_text(text) for text in self.verdicts]
        if self.figures:
            blocks.append(" · ".join(markdown_text(f"{a} {b}") for a, b in self.figures))
        if self.matrix:
            headers = [name for name, _ in self.matrix.headers]
            rows = [
                [name, *(f"{cell.text} {cell.small}".strip() for cell in cells)]
                for name, cells in self.matrix.rows
            ]
            blocks += ["\n".join(table_lines(headers, rows)), markdown_text(self.matrix.note)]
        if self.compared:
            blocks.append("\n".join(table_lines(*difference_table(self.compared))))
        return blocks + [markdown_text(f"Beware: {text}") for text in self.warnings]


def top_of(runs: Sequence[RunFolder], names: Sequence[str], compared: Sequence[Against]) -> Top:
    """Of one run, or of several side by side; `compared` are the differences to show."""
    encoders = encoders_of(runs, names)
    return Top(
        verdicts(runs, names, encoders, compared),
        key_figures(runs, encoders, compared),
        score_matrix(encoders, compared) if encoders else None,
        compared,
        warnings_of(runs, encoders, compared),
    )


def _forest(compared: Sequence[Against]) -> dict[str, dict[str, tuple[float, float, float]]]:
    rows: dict[str, dict[str, tuple[float, float, float]]] = {}
    for a, task in zip(compared, _labels(compared), strict=True):
        if found := a.comparison.difference:
            label = f"{task}, {a.run}" if a.run else task
            mark = 100 * found.value, 100 * found.low, 100 * found.high
            rows.setdefault(label, {})[f"against {a.baseline}"] = mark
    return rows


def _labels(compared: Sequence[Against]) -> list[str]:
    """The task of each, and its encoder where there are several."""
    several = len({a.score.stage for a in compared}) > 1
    return [a.score.label if several else a.score.first.title for a in compared]


def difference_table(compared: Sequence[Against]) -> tuple[list[str], list[list[object]]]:
    """Headers and rows: each difference with its own interval, the corrected p and the outcome."""
    several = any(a.run for a in compared)
    headers = ["task", *["run"] * several, "to", "difference", "95 % interval, each alone"]
    headers += ["p, corrected", "outcome"]
    rows: list[list[object]] = []
    for a, label in zip(compared, _labels(compared), strict=True):
        found = a.comparison
        gain = "–" if found.gain is None or math.isnan(found.gain) else f"{100 * found.gain:+.2f}"
        rows.append(
            [
                label,
                *[a.run] * several,
                a.baseline,
                gain,
                found.difference.text() if found.difference else "–",
                p_text(found.p_corrected),
                found.verdict,
            ]
        )
    return headers, rows
