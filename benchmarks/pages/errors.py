"""What a model gets wrong: by class, by group of examples, and example by example.

Everything is made from the files of predictions; texts are added where the data files are at hand.
"""

import math
import re
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.results.predictions import lines_of_result, score_lines
from benchmarks.results.results import Result, percent, task_of
from benchmarks.results.run_folder import RunFolder
from benchmarks.results.table import defined
from benchmarks.statistics.scores import encoder_name
from benchmarks.statistics.uncertainty import estimate_lines
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
Groups = Mapping[str, Mapping[str, Sequence[int]]]  # way of grouping -> group -> positions of lines

_NUM_WORST = 10
_UNQUOTED = "(not quoted)"
_MAX_TEXT = 600  # characters of a text shown
_MAX_MATRIX = 12  # labels of a matrix that a phone still shows; of more, the largest confusions
_MAX_CONFUSIONS = 20
_MIN_TELLING = 20  # gold units, or examples, from which on a class or group is called the weakest


@dataclass(frozen=True)
class ClassScore:
    """Precision, recall and F1 of a label: the median over seeds; None where undefined."""

    label: str
    num_gold: int
    num_predicted: float  # mean over seeds
    precision: float | None
    recall: float | None
    f1: float
    lowest_f1: float
    highest_f1: float
    untrained_f1: float | None


@dataclass(frozen=True)
class GroupScore:
    """The headline over a group of examples: the mean over seeds with its 95 % interval.

    None where it is undefined.
    """

    way: str
    group: str
    num_examples: int
    score: float | None
    low: float | None
    high: float | None
    untrained: float | None


@dataclass(frozen=True)
class Wrong:
    """An example that the model has wrong, with its texts where they are at hand."""

    id: str
    failure: Failure
    num_seeds: int | None  # that have it wrong; None for numbers, which are never quite right
    texts: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class TaskErrors:
    """Everything about one task of one evaluation; without runs only the notes."""

    label: str
    task: Task
    runs: Runs
    notes: Sequence[str]  # what is missing, and why
    classes: Sequence[ClassScore] = ()
    # how often each (gold, predicted) label occurs in all runs together; empty where labels are not
    # confused with each other
    confusions: Mapping[tuple[str, str], int] = field(default_factory=dict)
    groups: Sequence[GroupScore] = ()
    worst: Sequence[Wrong] = ()


def errors_of(
    run: RunFolder, data_dirs: Sequence[Path], with_texts: bool = True
) -> list[TaskErrors]:
    """The errors of every task of every evaluation of a run.

    Texts are quoted from the files of `data_dirs`, unless `with_texts` is False. `ValueError` for a
    damaged file of predictions.
    """
    found = []
    for stage, results in run.evaluations.items():
        encoder = encoder_name(stage)
        for name, task in {r.task: task for r in results if (task := task_of(r))}.items():
            label = f"{task.title} ({encoder})" if encoder else task.title
            records = [result for result in results if result.task == name]
            found.append(
                _task_errors(label, task, records, run.place(stage), data_dirs, with_texts)
            )
    return found


def _task_errors(
    label: str,
    task: Task,
    results: Sequence[Result],
    place: Path,
    data_dirs: Sequence[Path],
    with_texts: bool,
) -> TaskErrors:
    notes = list[str]()
    runs = _runs(place, [r for r in results if r.role == "pretrained"], notes)
    control = _runs(place, [r for r in results if r.role == "random-init"], [])
    if not runs:
        return TaskErrors(label, task, {}, [*notes, "no predictions to look into"])
    examples = None
    if data_dirs and with_texts:
        try:
            examples = examples_of(task, results[0], next(iter(runs.values())), data_dirs)
        except ValueError as error:
            notes.append(f"no texts: {error}")
    return TaskErrors(
        label,
        task,
        runs,
        notes,
        class_scores(task, runs, control),
        confusions(task, runs),
        group_scores(task, runs, control),
        worst(task, runs, examples, with_texts),
    )


def _runs(folder: Path, results: Sequence[Result], notes: list[str]) -> dict[int, list[Line]]:
    """The lines of each seed that gave numbers."""
    found: dict[int, list[Line]] = {}
    ids: list[str] = []
    for result in sorted(results, key=lambda result: result.seed):
        lines = lines_of_result(folder, result)
        if lines is None:
            notes.append(f"seed {result.seed}: its predictions are not there")
        elif any(line["prediction"] is None for line in lines):
            notes.append(f"seed {result.seed}: its training failed; it is left out")
        elif found and [line["id"] for line in lines] != ids:
            notes.append(f"seed {result.seed}: predictions of other examples; it is left out")
        else:
            found[result.seed], ids = lines, [line["id"] for line in lines]
    return found


def class_scores(task: Task, runs: Runs, control: Runs) -> list[ClassScore]:
    """Precision, recall and F1 of each label that occurs, in the order of the task's labels."""
    counted = [_counts(task, lines) for lines in runs.values()]
    untrained = [_counts(task, lines) for lines in control.values()]
    seen = {label for counts in counted for label in counts}
    order = {label: number for number, label in enumerate(task.labels)}
    scores = []
    for label in sorted(seen, key=lambda label: (order.get(label, len(order)), label)):
        found = [counts.get(label, (0, 0, 0)) for counts in counted]
        f1s = [_f1(*counts) for counts in found]
        before = [_f1(*counts.get(label, (0, 0, 0))) for counts in untrained]
        scores.append(
            ClassScore(
                label,
                num_gold=found[0][0],
                num_predicted=statistics.fmean(predicted for _, predicted, _ in found),
                precision=_median([right / said for _, said, right in found if said]),
                recall=_median([right / asked for asked, _, right in found if asked]),
                f1=statistics.median(f1s),
                lowest_f1=min(f1s),
                highest_f1=max(f1s),
                untrained_f1=_median(before),
            )
        )
    return scores


def _counts(task: Task, lines: Sequence[Line]) -> dict[str, tuple[int, int, int]]:
    """Gold, predicted and right units of each label."""
    pairs = [pair for line in lines for pair in parts_of(task, line)]
    gold = Counter(pair.gold for pair in pairs)
    predicted = Counter(pair.predicted for pair in pairs)
    right = Counter(pair.gold for pair in pairs if pair.is_right)
    labels = {*gold, *predicted} - {NOTHING}
    return {label: (gold[label], predicted[label], right[label]) for label in labels}


def _f1(num_gold: int, num_predicted: int, num_right: int) -> float:
    return 2 * num_right / max(1, num_gold + num_predicted)


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def confusions(task: Task, runs: Runs) -> Counter[tuple[str, str]]:
    """How often each (gold, predicted) label occurs in all runs together."""
    if not has_confusions(task):
        return Counter()
    pairs = (pair for lines in runs.values() for line in lines for pair in parts_of(task, line))
    return Counter((pair.gold, pair.predicted) for pair in pairs)


def group_scores(task: Task, runs: Runs, control: Runs) -> list[GroupScore]:
    """The headline over each group of examples."""
    found = []
    for way, parts in groups_of(task, next(iter(runs.values()))).items():
        for group, positions in parts.items():
            here, before = (
                {seed: [lines[position] for position in positions] for seed, lines in side.items()}
                for side in (runs, control)
            )
            own = estimate_lines(task, here)
            untrained = [score_lines(task, lines)[task.headline] for lines in before.values()]
            bounds = defined(own.value), defined(own.low), defined(own.high)
            mean = defined(statistics.fmean(untrained)) if untrained else None
            found.append(GroupScore(way, group, len(positions), *bounds, mean))
    return found


def groups_of(task: Task, lines: Sequence[Line]) -> Groups:
    """Every way in which the gold values put the examples into two groups or more.

    Groups of one way do not overlap and hold all examples.
    """
    named: dict[str, dict[str, list[int]]] = {}
    for position, line in enumerate(lines):
        for way, group in group_names(task, line).items():
            named.setdefault(way, {}).setdefault(group, []).append(position)
    return {
        way: dict(sorted(parts.items(), key=_by_number))
        for way, parts in named.items()
        if len(parts) > 1
    }


def _by_number(item: tuple[str, Sequence[int]]) -> tuple[float, str]:
    """By the number that a group's name begins with, others last."""
    number = re.match(r"[\d.]+", item[0])
    return float(number[0]) if number else math.inf, item[0]


def worst(
    task: Task, runs: Runs, examples: Sequence[Example] | None, with_texts: bool
) -> list[Wrong]:
    """The examples that are wrong in most seeds, the most severe first, of equals in file order."""
    failures = []
    for position, lines in enumerate(zip(*runs.values(), strict=True)):
        example = examples[position] if examples else None
        failure = failure_of(task, lines, example)
        if failure is not None:
            failures.append((failure, lines, example))
    failures.sort(key=lambda entry: -entry[0].severity)
    found = []
    for failure, lines, example in failures[:_NUM_WORST]:
        wrong = sum(failure_of(task, [line], None) is not None for line in lines)
        texts: Sequence[tuple[str, str]] = ()
        if example is not None:
            texts = shown(task, example, lines[0])
        elif with_texts and isinstance(lines[0].get("text"), str):
            texts = [("text", lines[0]["text"])]
        texts = [(name, _cut(text)) for name, text in texts]
        if quotes_texts(task) and not with_texts:
            failure = Failure(failure.severity, _UNQUOTED, _UNQUOTED, _UNQUOTED)
        found.append(Wrong(str(lines[0]["id"]), failure, wrong if units(task) else None, texts))
    return found


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else text[:_MAX_TEXT] + " …"


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


# The section of the report.


def add_errors(
    document: Page, run: RunFolder, data_dirs: Sequence[Path] = (), with_texts: bool = True
) -> None:
    """A table of the weak places, and all about each task folded away; as `errors_of`."""
    errors = errors_of(run, data_dirs, with_texts)
    with_runs = [entry for entry in errors if entry.runs]
    if not with_runs:
        document.paragraph("No predictions to look into yet. Run: electrify evaluate CONFIG")
    else:
        document.table(
            ["task", "weakest class (F1)", "most frequent confusion", "weakest group (score)"],
            [
                (entry.label, _weakest_class(entry), _main_confusion(entry), _weakest_group(entry))
                for entry in with_runs
            ],
            f"Where each model is weak; classes and groups of {_MIN_TELLING} or more",
        )
    if with_runs and not any(wrong.texts for entry in with_runs for wrong in entry.worst):
        document.paragraph(
            "Texts are not quoted unless --data-dir names the data: "
            "electrify report RUN --data-dir DATA"
        )
    for entry in errors:
        if entry.notes:
            document.paragraph(f"{entry.label}: {'; '.join(entry.notes)}.")
    for entry in with_runs:
        num_seeds = len(entry.runs)
        seeds = f"{num_seeds} {'seed' if num_seeds == 1 else 'seeds'}"
        num_examples = len(next(iter(entry.runs.values())))
        with document.fold(f"{entry.label}: {num_examples:,} examples, {seeds}"):
            _add_task(document, entry)


def _add_task(document: Page, entry: TaskErrors) -> None:
    if entry.classes:
        _add_classes(document, entry)
    if _largest(entry):
        _add_confusions(document, entry)
    if entry.groups:
        _add_groups(document, entry)
    if not entry.worst:
        document.paragraph("No example is wrong in most seeds.")
        return
    with document.fold(f"The worst {len(entry.worst)}"):
        document.paragraph(
            "Examples that most seeds have wrong, the surest first; of what has no probability, "
            "those with most parts wrong. Each is shown as the middle seed has it."
        )
        for wrong in entry.worst:
            failure, title = wrong.failure, wrong.id
            if wrong.num_seeds is not None and len(entry.runs) > 1:
                title += f", wrong in {wrong.num_seeds} of {len(entry.runs)} seeds"
            said = [("gold", failure.gold), ("predicted", failure.prediction)]
            said.append(("sure of", failure.certainty))
            document.text_samples(title, [*wrong.texts, *said], compact=True)


def _add_classes(document: Page, entry: TaskErrors) -> None:
    several = len(entry.runs) > 1
    headers = ["label", "gold", "predicted", "precision", "recall", "F1"]
    headers += ["F1, lowest to highest seed"] * several + ["F1 untrained"]
    rows = [
        (
            _name(score.label, entry),
            score.num_gold,
            round(score.num_predicted, 1),
            percent(score.precision, 1),
            percent(score.recall, 1),
            percent(score.f1, 1),
            *([_range(score.lowest_f1, score.highest_f1)] * several),
            percent(score.untrained_f1, 1),
        )
        for score in entry.classes
    ]
    what = "medians over seeds; predicted is the mean" if several else "one seed"
    document.table(headers, rows, f"By label, of {units(entry.task)}: {what}")


def _add_confusions(document: Page, entry: TaskErrors) -> None:
    occurring = {label for pair in entry.confusions for label in pair}
    order = [score.label for score in entry.classes]
    labels = [label for label in [*order, NOTHING] if label in occurring]
    what = f"{units(entry.task)}, all seeds together" if len(entry.runs) > 1 else units(entry.task)
    if len(labels) <= _MAX_MATRIX:
        counts = [[entry.confusions.get((a, b), 0) for b in labels] for a in labels]
        names = [_name(label, entry) for label in labels]
        caption = f"Confusions ({what}); shaded by the share of the row"
        document.matrix(names, names, counts, "gold, predicted", caption)
        return
    largest = _largest(entry)
    document.table(
        ["gold", "predicted", "count", "of the gold label"],
        [
            (
                _name(gold, entry),
                _name(predicted, entry),
                n,
                f"{100 * n / _total(entry, gold):.1f} %",
            )
            for (gold, predicted), n in largest[:_MAX_CONFUSIONS]
        ],
        f"The largest of {len(largest)} confusions ({what})",
    )


def _add_groups(document: Page, entry: TaskErrors) -> None:
    has_intervals = any(group.low is not None for group in entry.groups)
    headers = ["by", "group", "examples", entry.task.headline]
    headers += ["95 % interval"] * has_intervals + ["untrained"]
    rows = [
        (
            "" if place and entry.groups[place - 1].way == group.way else group.way,
            group.group,
            group.num_examples,
            percent(group.score, 1),
            *([_range(group.low, group.high)] * has_intervals),
            percent(group.untrained, 1),
        )
        for place, group in enumerate(entry.groups)
    ]
    what = "mean over seeds" if len(entry.runs) > 1 else "one seed"
    document.table(headers, rows, f"By group of examples: {what}")


def _weakest_class(entry: TaskErrors) -> str | None:
    found = [score for score in entry.classes if score.num_gold >= _MIN_TELLING]
    if len(found) < 2:
        return None
    weakest = min(found, key=lambda score: score.f1)
    return f"{_name(weakest.label, entry)}: {percent(weakest.f1, 1)} (n {weakest.num_gold:,})"


def _main_confusion(entry: TaskErrors) -> str | None:
    for (gold, predicted), count in _largest(entry)[:1]:
        share = 100 * count / _total(entry, gold)
        return f"{_name(gold, entry)} as {_name(predicted, entry)}: {share:.0f} %"
    return None


def _weakest_group(entry: TaskErrors) -> str | None:
    found = [
        (g.score, g) for g in entry.groups if g.num_examples >= _MIN_TELLING and g.score is not None
    ]
    if not found:
        return None
    pick: Callable[..., tuple[float, GroupScore]] = min if entry.task.higher_is_better else max
    score, weakest = pick(found, key=lambda pair: pair[0])
    return f"{weakest.way} {weakest.group}: {percent(score, 1)} (n {weakest.num_examples:,})"


def _largest(entry: TaskErrors) -> list[tuple[tuple[str, str], int]]:
    """(gold, predicted) that differ, the most frequent first."""
    wrong = [item for item in entry.confusions.items() if item[0][0] != item[0][1]]
    return sorted(wrong, key=lambda item: (-item[1], item[0]))


def _total(entry: TaskErrors, gold: str) -> int:
    return sum(n for pair, n in entry.confusions.items() if pair[0] == gold)


def _name(label: str, entry: TaskErrors) -> str:
    return entry.task.label_names.get(label, label) if label != NOTHING else "(none)"


def _range(lowest: float | None, highest: float | None) -> str | None:
    return (
        None
        if lowest is None or highest is None
        else f"{percent(lowest, 1)} to {percent(highest, 1)}"
    )
