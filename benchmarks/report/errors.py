"""What an encoder gets wrong: by label, by group of examples, and the most certain errors.

Everything is made from the files of predictions; texts are added where the data files are at hand.
"""

import math
import re
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from benchmarks.results.predictions import lines_of_result, score_lines
from benchmarks.results.results import Result, percent, task_of
from benchmarks.results.run_folder import RunFolder
from benchmarks.results.table import Table
from benchmarks.statistics.scores import encoder_name
from benchmarks.statistics.uncertainty import Estimate, estimate_lines
from benchmarks.tasks.data import SPLIT_EVAL, dir_of, read_splits, rows_digest, split_by_group
from benchmarks.tasks.errors import (
    NOTHING,
    Failure,
    failure_of,
    group_names,
    has_confusions,
    parts_of,
    quotes_texts,
    shown,
    units,
)
from benchmarks.tasks.task import Example, Line, Task
from electrify.page.page import Page
from electrify.system.outcome import UserError

Runs = Mapping[int, Sequence[Line]]  # the lines of each seed, all of the same examples
_NUM_WORST = 10
_UNQUOTED = "(not quoted)"
_MAX_TEXT = 600  # characters of a text shown
_MAX_MATRIX = 12  # labels of a matrix that a phone still shows; of more, the largest confusions
_MAX_CONFUSIONS = 20
_MIN_TELLING = 20  # gold units, or examples, from which on a label or group is called the weakest


@dataclass(frozen=True)
class LabelScore:
    """Precision, recall and F1 of a label: medians over seeds, nan where undefined."""

    label: str
    num_gold: int
    num_predicted: float  # mean over seeds
    precision: float
    recall: float
    f1s: Sequence[float]  # by seed
    random_f1: float  # of random initialisation

    @property
    def f1(self) -> float:
        """The median over seeds."""
        return statistics.median(self.f1s)


@dataclass(frozen=True)
class GroupScore:
    """The headline over a group of examples."""

    way: str
    group: str
    num_examples: int
    score: Estimate
    random: float  # that of random initialisation


@dataclass(frozen=True)
class Wrong:
    """An example that most seeds have wrong, with its texts where they are at hand."""

    id: str
    failure: Failure
    num_seeds: int
    texts: Sequence[tuple[str, str]]


@dataclass(frozen=True, eq=False)
class TaskErrors:
    """The lines of one task of one evaluation; `control` is random initialisation."""

    label: str
    task: Task
    runs: Runs
    control: Runs
    examples: Sequence[Example] | None
    notes: Sequence[str]  # what is missing, and why
    with_texts: bool

    @cached_property
    def labels(self) -> list[LabelScore]:
        """By label."""
        return label_scores(self.task, self.runs, self.control)

    @cached_property
    def confusions(self) -> Counter[tuple[str, str]]:
        """By gold and predicted label."""
        return confusions(self.task, self.runs)

    @cached_property
    def groups(self) -> list[GroupScore]:
        """By group of examples."""
        return group_scores(self.task, self.runs, self.control)

    @cached_property
    def worst(self) -> list[Wrong]:
        """The most certain errors."""
        return worst(self.task, self.runs, self.examples, self.with_texts)

    @property
    def several(self) -> bool:
        """Whether there are several seeds."""
        return len(self.runs) > 1

    def name(self, label: str) -> str:
        """A label for a reader."""
        return self.task.label_names.get(label, label) if label != NOTHING else "(none)"

    def largest_confusions(self) -> list[tuple[str, str, int, float]]:
        """Gold, predicted, how often, and percent of the gold label; the most frequent first."""
        totals = Counter[str]()
        for (gold, _), count in self.confusions.items():
            totals[gold] += count
        wrong = [(pair, n) for pair, n in self.confusions.items() if pair[0] != pair[1]]
        wrong.sort(key=lambda item: (-item[1], item[0]))
        return [(self.name(a), self.name(b), n, 100 * n / totals[a]) for (a, b), n in wrong]


def errors_of(
    run: RunFolder, data_dirs: Sequence[Path], with_texts: bool = True
) -> list[TaskErrors]:
    """Every task of every evaluation of a run.

    Texts are read from the files of `data_dirs`, unless `with_texts` is False. `ValueError` for a
    damaged file of predictions.
    """
    found = []
    for stage, results in run.evaluations.items():
        encoder = encoder_name(stage)
        for name, task in {r.task: task for r in results if (task := task_of(r))}.items():
            own = [result for result in results if result.task == name]
            label = f"{task.title} ({encoder})" if encoder else task.title
            notes: list[str] = []
            runs = _runs(run.place(stage), [r for r in own if r.role == "pretrained"], notes)
            control = _runs(run.place(stage), [r for r in own if r.role == "random-init"], [])
            examples = None
            if not runs:
                notes.append("no predictions to look into")
            elif data_dirs and with_texts:
                try:
                    examples = examples_of(task, own[0], next(iter(runs.values())), data_dirs)
                except ValueError as error:
                    notes.append(f"no texts: {error}")
            found.append(TaskErrors(label, task, runs, control, examples, notes, with_texts))
    return found


def _runs(folder: Path, results: Sequence[Result], notes: list[str]) -> dict[int, list[Line]]:
    """The lines of each seed that gave numbers."""
    runs: dict[int, list[Line]] = {}
    ids: list[str] = []
    for result in sorted(results, key=lambda result: result.seed):
        lines = lines_of_result(folder, result)
        if lines is None:
            notes.append(f"seed {result.seed}: its predictions are not there")
        elif any(line["prediction"] is None for line in lines):
            notes.append(f"seed {result.seed}: its training failed; it is left out")
        elif runs and [line["id"] for line in lines] != ids:
            notes.append(f"seed {result.seed}: predictions of other examples; it is left out")
        else:
            runs[result.seed], ids = lines, [line["id"] for line in lines]
    return runs


def examples_of(
    task: Task, result: Result, lines: Sequence[Line], data_dirs: Sequence[Path]
) -> list[Example]:
    """The example of each line, from the files of `data_dirs` that the result was made from.

    Raises `ValueError` where these are not there or have changed since.
    """
    data_dir = dir_of(task, data_dirs)
    rows = read_splits(task, data_dir, (task.reported,))[task.reported]
    if rows_digest(rows) != result.data_sha256.get(task.reported):
        raise UserError(
            f"{result.task}: the {task.reported} rows below {data_dir} are not those that it was "
            "scored on; they have changed since, or another version of electrify scored it"
        )
    if result.split.endswith(SPLIT_EVAL):  # a part of it was learnt from
        rows = split_by_group(task, rows)[1]
    # by their order, which the digest tells: ids may be lost on the hub
    if len(rows) != len(lines):
        raise UserError(
            f"{result.task}: {len(lines)} rows are predicted, the data below {data_dir} have "
            f"{len(rows)}"
        )
    return list(rows)


def label_scores(task: Task, runs: Runs, control: Runs) -> list[LabelScore]:
    """Precision, recall and F1 of each label that occurs, in the order of the task's labels."""
    counted = [_counts(task, lines) for lines in runs.values()]
    random = [_counts(task, lines) for lines in control.values()]
    seen = {label for counts in counted for label in counts}
    order = {label: number for number, label in enumerate(task.labels)}
    scores = []
    for label in sorted(seen, key=lambda label: (order.get(label, len(order)), label)):
        counts = [of.get(label, (0, 0, 0)) for of in counted]
        scores.append(
            LabelScore(
                label,
                num_gold=counts[0][0],
                num_predicted=statistics.fmean(said for _, said, _ in counts),
                precision=_median([right / said for _, said, right in counts if said]),
                recall=_median([right / gold for gold, _, right in counts if gold]),
                f1s=[_f1(*of_seed) for of_seed in counts],
                random_f1=_median([_f1(*of.get(label, (0, 0, 0))) for of in random]),
            )
        )
    return scores


def _counts(task: Task, lines: Sequence[Line]) -> dict[str, tuple[int, int, int]]:
    """Gold, predicted and right units of each label."""
    parts = [part for line in lines for part in parts_of(task, line)]
    gold = Counter(part.gold for part in parts)
    predicted = Counter(part.predicted for part in parts)
    right = Counter(part.gold for part in parts if part.is_right)
    labels = {*gold, *predicted} - {NOTHING}
    return {label: (gold[label], predicted[label], right[label]) for label in labels}


def _f1(num_gold: int, num_predicted: int, num_right: int) -> float:
    return 2 * num_right / max(1, num_gold + num_predicted)


def _median(values: Sequence[float]) -> float:
    return statistics.median(values) if values else math.nan


def confusions(task: Task, runs: Runs) -> Counter[tuple[str, str]]:
    """How often each (gold, predicted) label occurs; empty where labels are not confused."""
    if not has_confusions(task):
        return Counter()
    parts = (part for lines in runs.values() for line in lines for part in parts_of(task, line))
    return Counter((part.gold, part.predicted) for part in parts)


def group_scores(task: Task, runs: Runs, control: Runs) -> list[GroupScore]:
    """The headline over each group of examples, where a way of grouping makes two or more."""
    positions: dict[tuple[str, str], list[int]] = {}
    for position, line in enumerate(next(iter(runs.values()))):
        for key in group_names(task, line).items():
            positions.setdefault(key, []).append(position)
    num_groups = Counter(way for way, _ in positions)
    ways = list(num_groups)
    scores = []
    for way, group in sorted(positions, key=lambda key: (ways.index(key[0]), _number(key[1]))):
        own, random = (
            {seed: [lines[p] for p in positions[way, group]] for seed, lines in side.items()}
            for side in (runs, control)
        )
        if num_groups[way] > 1:
            others = [score_lines(task, lines)[task.headline] for lines in random.values()]
            mean = statistics.fmean(others or [math.nan])
            size = len(positions[way, group])
            scores.append(GroupScore(way, group, size, estimate_lines(task, own), mean))
    return scores


def _number(group: str) -> tuple[float, str]:
    """By the number that a group's name begins with, others last."""
    match = re.match(r"[\d.]+", group)
    return float(match[0]) if match else math.inf, group


def worst(
    task: Task, runs: Runs, examples: Sequence[Example] | None, with_texts: bool
) -> list[Wrong]:
    """The examples that are wrong in most seeds, the most severe first, of equals in file order."""
    failures = []
    for position, lines in enumerate(zip(*runs.values(), strict=True)):
        example = examples[position] if examples else None
        if failure := failure_of(task, lines, example):
            failures.append((failure, lines, example))
    failures.sort(key=lambda entry: -entry[0].severity)
    found = []
    for failure, lines, example in failures[:_NUM_WORST]:
        texts: Sequence[tuple[str, str]] = ()
        if example is not None:
            texts = shown(task, example, lines[0])
        elif with_texts and isinstance(lines[0].get("text"), str):
            texts = [("text", lines[0]["text"])]
        texts = [(n, t if len(t) <= _MAX_TEXT else t[:_MAX_TEXT] + " …") for n, t in texts]
        if quotes_texts(task) and not with_texts:
            failure = replace(failure, gold=_UNQUOTED, prediction=_UNQUOTED, certainty=_UNQUOTED)
        num_seeds = sum(failure_of(task, [line], None) is not None for line in lines)
        found.append(Wrong(str(lines[0]["id"]), failure, num_seeds, texts))
    return found


# The section of the report.


def add_errors(
    page: Page, run: RunFolder, data_dirs: Sequence[Path] = (), with_texts: bool = True
) -> None:
    """A table of the weak places, and all about each task folded away; as `errors_of`."""
    errors = errors_of(run, data_dirs, with_texts)
    with_runs = [entry for entry in errors if entry.runs]
    if not with_runs:
        page.paragraph("No predictions to look into yet. Run: electrify evaluate CONFIG")
    headers = ["task", "weakest class (F1)", "most frequent confusion", "weakest group (score)"]
    title = f"Where each model is weak; classes and groups of {_MIN_TELLING} or more"
    Table(headers, [_weakest(entry) for entry in with_runs], title).add_to(page)
    if with_runs and not any(wrong.texts for entry in with_runs for wrong in entry.worst):
        page.paragraph(
            "Texts are not quoted unless --data-dir names the data: "
            "electrify report RUN --data-dir DATA"
        )
    for entry in errors:
        if entry.notes:
            page.paragraph(f"{entry.label}: {'; '.join(entry.notes)}.")
    for entry in with_runs:
        num_seeds, num_examples = len(entry.runs), len(next(iter(entry.runs.values())))
        seeds = f"{num_seeds} {'seed' if num_seeds == 1 else 'seeds'}"
        with page.fold(f"{entry.label}: {num_examples:,} examples, {seeds}"):
            _label_table(entry).add_to(page)
            _add_confusions(page, entry)
            _group_table(entry).add_to(page)
            _add_worst(page, entry)


def _weakest(entry: TaskErrors) -> list[object]:
    """Cells: the task, its weakest label, most frequent confusion and weakest group."""
    label = confusion = group = None
    labels = [score for score in entry.labels if score.num_gold >= _MIN_TELLING]
    if len(labels) > 1:
        low = min(labels, key=lambda score: score.f1)
        label = f"{entry.name(low.label)}: {_percent(low.f1)} (n {low.num_gold:,})"
    for gold, predicted, _, fraction in entry.largest_confusions()[:1]:
        confusion = f"{gold} as {predicted}: {fraction:.0f} %"
    groups = [g for g in entry.groups if g.num_examples >= _MIN_TELLING]
    if groups := [g for g in groups if not math.isnan(g.score.value)]:
        sign = 1 if entry.task.higher_is_better else -1
        of = min(groups, key=lambda g: sign * g.score.value)
        group = f"{of.way} {of.group}: {_percent(of.score.value)} (n {of.num_examples:,})"
    return [entry.label, label, confusion, group]


def _add_worst(page: Page, entry: TaskErrors) -> None:
    if not entry.worst:
        page.paragraph("No example is wrong in most seeds.")
        return
    with page.fold(f"The worst {len(entry.worst)}"):
        page.paragraph(
            "Examples that most seeds have wrong, the surest first; of what has no probability, "
            "those with most parts wrong. Each is shown as the middle seed has it."
        )
        for wrong in entry.worst:
            failure, title = wrong.failure, wrong.id
            if units(entry.task) and entry.several:
                title += f", wrong in {wrong.num_seeds} of {len(entry.runs)} seeds"
            said = [("gold", failure.gold), ("predicted", failure.prediction)]
            said.append(("sure of", failure.certainty))
            page.text_samples(title, [*wrong.texts, *said], compact=True)


def _label_table(entry: TaskErrors) -> Table:
    headers = ["label", "gold", "predicted", "precision", "recall", "F1"]
    headers += ["F1, lowest to highest seed"] * entry.several + ["F1, random initialisation"]
    rows = [
        [
            entry.name(score.label),
            score.num_gold,
            round(score.num_predicted, 1),
            *map(_percent, (score.precision, score.recall, score.f1)),
            *[_range(min(score.f1s), max(score.f1s))] * entry.several,
            _percent(score.random_f1),
        ]
        for score in entry.labels
    ]
    what = "medians over seeds; predicted is the mean" if entry.several else "one seed"
    return Table(headers, rows, f"By label, of {units(entry.task)}: {what}")


def _add_confusions(page: Page, entry: TaskErrors) -> None:
    """A matrix, or of many labels the largest confusions; nothing where none is confused."""
    largest = entry.largest_confusions()
    if not largest:
        return
    occurring = {label for pair in entry.confusions for label in pair}
    labels = [name for score in entry.labels if (name := score.label) in occurring]
    labels += [NOTHING] * (NOTHING in occurring)
    what = f"{units(entry.task)}, all seeds together" if entry.several else units(entry.task)
    if len(labels) <= _MAX_MATRIX:
        counts = [[entry.confusions[a, b] for b in labels] for a in labels]
        names = [entry.name(label) for label in labels]
        caption = f"Confusions ({what}); shaded by the fraction of the row"
        page.matrix(names, names, counts, "gold, predicted", caption)
    else:
        headers = ["gold", "predicted", "count", "of the gold label"]
        caption = f"The largest of {len(largest)} confusions ({what})"
        rows = [(*names, f"{fraction:.1f} %") for *names, fraction in largest[:_MAX_CONFUSIONS]]
        page.table(headers, rows, caption)


def _group_table(entry: TaskErrors) -> Table:
    has_intervals = any(not math.isnan(group.score.low) for group in entry.groups)
    headers = ["by", "group", "examples", entry.task.headline]
    headers += ["95 % interval"] * has_intervals + ["random initialisation"]
    rows = [
        [
            "" if place and entry.groups[place - 1].way == group.way else group.way,
            group.group,
            group.num_examples,
            _percent(group.score.value),
            *[_range(group.score.low, group.score.high)] * has_intervals,
            _percent(group.random),
        ]
        for place, group in enumerate(entry.groups)
    ]
    what = "mean over seeds" if entry.several else "one seed"
    return Table(headers, rows, f"By group of examples: {what}")


def _percent(value: float) -> str:
    return percent(None if math.isnan(value) else value, 1)


def _range(lowest: float, highest: float) -> str | None:
    return None if math.isnan(lowest) else f"{_percent(lowest)} to {_percent(highest)}"
