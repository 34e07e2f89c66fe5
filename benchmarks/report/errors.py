"""What an encoder gets wrong: by label, and the most certain errors.

Everything is made from the files of predictions; texts are added where the data files are at hand.
"""

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from benchmarks.report.published import TEXTS
from benchmarks.results.predictions import lines_of_result
from benchmarks.results.results import Result, percent, task_of
from benchmarks.results.run_folder import RunFolder
from benchmarks.results.table import Record
from benchmarks.statistics.scores import scores_of
from benchmarks.tasks import errors
from benchmarks.tasks.errors import NOTHING, Failure, failure_of, parts_of
from benchmarks.tasks.load import (
    SPLIT_EVAL,
    dir_of,
    drawn,
    read_splits,
    rows_digest,
    split_by_group,
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
_MIN_TELLING = 20  # gold units, from which on a label is called the weakest


@dataclass(frozen=True)
class LabelScore:
    """A label, how many gold units have it, its F1, and its row of the table."""

    name: str
    count: int
    value: float
    row: Record


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
    control: Runs = field(default_factory=dict)
    examples: Sequence[Example] | None = None
    notes: Sequence[str] = ()  # what is missing, and why
    with_texts: bool = True

    def name(self, label: str) -> str:
        return self.task.label_names.get(label, label) if label != NOTHING else "(none)"

    @cached_property
    def labels(self) -> list[LabelScore]:
        """By label that occurs, in the order of the task's labels: medians over seeds."""
        counted = [_counts(self.task, lines) for lines in self.runs.values()]
        random = [_counts(self.task, lines) for lines in self.control.values()]
        order = {label: number for number, label in enumerate(self.task.labels)}
        seen = {label for counts in counted for label in counts}
        scored = []
        for label in sorted(seen, key=lambda label: (order.get(label, len(order)), label)):
            counts = [of.get(label, (0, 0, 0)) for of in counted]
            f1s = [_f1(*of_seed) for of_seed in counts]
            row = {
                "label": self.name(label),
                "gold": counts[0][0],
                "predicted": round(statistics.fmean(said for _, said, _ in counts), 1),
                "precision": _median([right / said for _, said, right in counts if said]),
                "recall": _median([right / gold for gold, _, right in counts if gold]),
                "F1": _median(f1s),
                "F1, lowest to highest seed": _range(min(f1s), max(f1s)),
                "F1, random initialisation": _median(
                    [_f1(*of.get(label, (0, 0, 0))) for of in random]
                ),
            }
            scored.append(LabelScore(label, counts[0][0], statistics.median(f1s), row))
        return scored

    @cached_property
    def confusions(self) -> Counter[tuple[str, str]]:
        """How often each (gold, predicted) label occurs; empty where labels are not confused."""
        if not errors.has_confusions(self.task):
            return Counter()
        lines = [line for of_seed in self.runs.values() for line in of_seed]
        return Counter((p.gold, p.predicted) for line in lines for p in parts_of(self.task, line))

    def largest_confusions(self) -> list[tuple[str, str, int, float]]:
        """Gold, predicted, how often, and percent of the gold label; the most frequent first."""
        totals = Counter[str]()
        for (gold, _), count in self.confusions.items():
            totals[gold] += count
        wrong = [(pair, n) for pair, n in self.confusions.items() if pair[0] != pair[1]]
        wrong.sort(key=lambda item: (-item[1], item[0]))
        return [(self.name(a), self.name(b), n, 100 * n / totals[a]) for (a, b), n in wrong]

    @cached_property
    def worst(self) -> list[Wrong]:
        """What is wrong in most seeds, the most severe first, of equals in file order."""
        failures = []
        for position, lines in enumerate(zip(*self.runs.values(), strict=True)):
            example = self.examples[position] if self.examples else None
            if failure := failure_of(self.task, lines, example):
                failures.append((failure, lines, example))
        failures.sort(key=lambda entry: -entry[0].severity)
        return [self._wrong(*entry) for entry in failures[:_NUM_WORST]]

    def _wrong(self, failure: Failure, lines: Sequence[Line], example: Example | None) -> Wrong:
        texts: Sequence[tuple[str, str]] = ()
        if example is not None:
            texts = errors.shown(self.task, example, lines[0])
        elif self.with_texts and isinstance(lines[0].get("text"), str):
            texts = [("text", lines[0]["text"])]
        texts = [(n, t if len(t) <= _MAX_TEXT else t[:_MAX_TEXT] + " …") for n, t in texts]
        if errors.quotes_texts(self.task) and not self.with_texts:
            failure = replace(failure, gold=_UNQUOTED, prediction=_UNQUOTED, certainty=_UNQUOTED)
        num_seeds = sum(failure_of(self.task, [line], None) is not None for line in lines)
        return Wrong(str(lines[0]["id"]), failure, num_seeds, texts)


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


def _median(values: Sequence[float]) -> str:
    return _percent(statistics.median(values) if values else math.nan)


def _percent(value: float) -> str:
    return percent(None if math.isnan(value) else value, 1)


def _range(lowest: float, highest: float) -> str | None:
    return None if math.isnan(lowest) else f"{_percent(lowest)} to {_percent(highest)}"


def errors_of(
    run: RunFolder, data_dirs: Sequence[Path], with_texts: bool = True
) -> list[TaskErrors]:
    """Every task of every evaluation of a run.

    Texts are read from the files of `data_dirs`, unless `with_texts` is False. `ValueError` for a
    damaged file of predictions.
    """
    summaries = []
    for score in scores_of(run):
        if (task := task_of(score.first)) is None:
            continue
        place, notes = run.place(score.stage), list[str]()
        examples: list[Example] | None = None
        runs = _runs(place, [r for r in score.results if r.role == "pretrained"], notes)
        control = _runs(place, [r for r in score.results if r.role == "random-init"], [])
        if not runs:
            notes.append("no predictions to look into")
        elif data_dirs and with_texts:
            try:
                examples = _examples(task, score.first, data_dirs)
            except ValueError as error:
                notes.append(f"no texts: {error}")
        summaries.append(TaskErrors(score.label, task, runs, control, examples, notes, with_texts))
    return summaries


def _runs(folder: Path, results: Sequence[Result], notes: list[str]) -> dict[int, list[Line]]:
    """The lines of each seed that gave numbers."""
    runs: dict[int, list[Line]] = {}
    for result in sorted(results, key=lambda result: result.seed):
        lines = lines_of_result(folder, result)
        if lines is None:
            notes.append(f"seed {result.seed}: its predictions are not there")
        elif any(line["prediction"] is None for line in lines):
            notes.append(f"seed {result.seed}: its training failed; it is left out")
        else:
            runs[result.seed] = lines
    return runs


def _examples(task: Task, result: Result, data_dirs: Sequence[Path]) -> list[Example]:
    """The example of each line, by their order (ids may be lost on the hub), from the files of
    `data_dirs` that the result was made from; `ValueError` where these are not there or have
    changed since."""
    data_dir = dir_of(task, data_dirs)
    rows = read_splits(task, data_dir, (task.reported,))[task.reported]
    digest = rows_digest(rows)
    if SPLIT_EVAL in result.split:  # a part of it was learnt from
        rows = split_by_group(task, rows)[1]
    if len(rows) > result.num_examples:  # of `evaluate.limit`
        rows = drawn(rows, result.num_examples)
        digest = rows_digest(rows)
    if digest != result.data_sha256.get(task.reported) or len(rows) != result.num_examples:
        raise UserError(
            f"{result.task}: the {task.reported} rows below {data_dir} are not those that it was "
            "scored on; they have changed since, or another version of electrify scored it"
        )
    return list(rows)


def add_errors(
    page: Page, run: RunFolder, data_dirs: Sequence[Path] = (), with_texts: bool = True
) -> None:
    """A table of the weak places, and all about each task folded away; as `errors_of`."""
    entries = errors_of(run, data_dirs, with_texts)
    with_runs = [entry for entry in entries if entry.runs]
    if not with_runs:
        page.paragraph("No predictions to look into yet. Run: electrify evaluate CONFIG")
    title = f"Where each model is weak; classes of {_MIN_TELLING} or more"
    page.records([_weakest(entry) for entry in with_runs], title)
    if with_runs and not any(wrong.texts for entry in with_runs for wrong in entry.worst):
        page.paragraph(TEXTS["unquoted"])
    for entry in entries:
        if entry.notes:
            page.paragraph(f"{entry.label}: {'; '.join(entry.notes)}.")
    for entry in with_runs:
        num_examples, num_seeds = len(next(iter(entry.runs.values()))), len(entry.runs)
        seeds = f"{num_seeds} {'seed' if num_seeds == 1 else 'seeds'}"
        with page.fold(f"{entry.label}: {num_examples:,} examples, {seeds}"):
            _add_tables(page, entry)
            _add_worst(page, entry)


def _weakest(entry: TaskErrors) -> Record:
    labels = [score for score in entry.labels if score.count >= _MIN_TELLING]
    weakest = confusion = None
    if len(labels) > 1:
        label = min(labels, key=lambda of: of.value)
        weakest = f"{entry.name(label.name)}: {_percent(label.value)} (n {label.count:,})"
    for gold, predicted, _, fraction in entry.largest_confusions()[:1]:
        confusion = f"{gold} as {predicted}: {fraction:.0f} %"
    return {
        "task": entry.label,
        "weakest class (F1)": weakest,
        "most frequent confusion": confusion,
    }


def _add_tables(page: Page, entry: TaskErrors) -> None:
    units = errors.units(entry.task)
    caption = f"By label, of {units}: medians over seeds; predicted is the mean"
    page.records([label.row for label in entry.labels], caption)
    occurring = {label for pair in entry.confusions for label in pair}
    labels = [score.name for score in entry.labels if score.name in occurring]
    labels += [NOTHING] * (NOTHING in occurring)
    largest = entry.largest_confusions()
    if largest and len(labels) <= _MAX_MATRIX:
        counts = [[entry.confusions[a, b] for b in labels] for a in labels]
        names = [entry.name(label) for label in labels]
        caption = f"Confusions ({units}, all seeds together); shaded by the fraction of the row"
        page.matrix(names, names, counts, "gold, predicted", caption)
    elif largest:
        caption = f"The largest of {len(largest)} confusions ({units}, all seeds together)"
        rows = [(*names, f"{fraction:.1f} %") for *names, fraction in largest[:_MAX_CONFUSIONS]]
        page.table(["gold", "predicted", "count", "of the gold label"], rows, caption)


def _add_worst(page: Page, entry: TaskErrors) -> None:
    if not entry.worst:
        page.paragraph("No example is wrong in most seeds.")
        return
    with page.fold(f"The worst {len(entry.worst)}"):
        page.paragraph(TEXTS["worst"])
        for wrong in entry.worst:
            title = f"{wrong.id}, wrong in {wrong.num_seeds} of {len(entry.runs)} seeds"
            said = [("gold", wrong.failure.gold), ("predicted", wrong.failure.prediction)]
            said.append(("sure of", wrong.failure.certainty))
            page.text_samples(title, [*wrong.texts, *said], compact=True)
