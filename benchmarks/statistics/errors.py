"""Where a model is wrong: by class, by group of examples, and example by example.

All is made of the files of predictions; texts are added where the data files are at hand.
"""

import math
import re
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.results.predictions import prediction_path, read_predictions, score_lines
from benchmarks.results.results import Result
from benchmarks.results.run_folder import RunFolder
from benchmarks.statistics.scores import encoder_name
from benchmarks.statistics.uncertainty import estimate_lines
from benchmarks.tasks.data import SPLIT_EVAL, read_splits, rows_digest, split_by_group
from benchmarks.tasks.kinds.spans_features import QuestionExample
from benchmarks.tasks.mistakes import NOTHING, Failure, Pair
from benchmarks.tasks.registry import TASKS
from benchmarks.tasks.task import Example, Line, Task

Groups = Mapping[str, Mapping[str, Sequence[int]]]  # way of grouping -> group -> positions of lines

_NUM_PARTS = 4  # of examples by length
NUM_WORST = 10
_UNQUOTED = "(not quoted)"
_MAX_TEXT = 600  # characters of a text shown

Runs = Mapping[int, Sequence[Line]]  # the lines of each seed, all of the same examples


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
    texts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class TaskErrors:
    """Everything about one task of one evaluation."""

    label: str
    task: str
    metric: str
    higher_is_better: bool
    num_seeds: int
    num_examples: int
    units: str = ""
    label_names: Mapping[str, str] = field(default_factory=dict)  # where readers know other ones
    classes: tuple[ClassScore, ...] = ()
    # (gold, predicted) of all seeds together; empty where labels are not confused with each other
    confusions: Mapping[tuple[str, str], int] = field(default_factory=dict)
    groups: tuple[GroupScore, ...] = ()
    worst: tuple[Wrong, ...] = ()
    notes: tuple[str, ...] = ()  # what is missing, and why


def errors_of(run: RunFolder, data_dir: Path | None, with_texts: bool = True) -> list[TaskErrors]:
    """The errors of every task of every evaluation of a run.

    Without `data_dir` nothing is known of the texts; without `with_texts` they decide the groups
    but are not quoted. `ValueError` for a damaged file of predictions.
    """
    found = []
    for stage, results in run.evaluations.items():
        for name in dict.fromkeys(result.task for result in results):
            records = [result for result in results if result.task == name]
            found.append(_task_errors(run, stage, records, data_dir, with_texts))
    return found


def _task_errors(
    run: RunFolder,
    stage: str,
    results: Sequence[Result],
    data_dir: Path | None,
    with_texts: bool,
) -> TaskErrors:
    first = results[0]
    encoder = encoder_name(stage)
    label = f"{first.task} ({encoder})" if encoder else first.task
    about = (label, first.task, first.metric, first.higher_is_better)
    if first.task not in TASKS:
        return TaskErrors(*about, 0, 0, notes=("the task is not known to this version",))
    task, notes = TASKS[first.task], list[str]()
    runs = _runs(run.place(stage), [r for r in results if r.model == "pretrained"], notes)
    control = _runs(run.place(stage), [r for r in results if r.model == "random-init"], [])
    if not runs:
        return TaskErrors(*about, 0, 0, notes=(*notes, "no predictions to look into"))
    lines = next(iter(runs.values()))
    examples = _examples(first, lines, data_dir, notes)
    return TaskErrors(
        *about,
        num_seeds=len(runs),
        num_examples=len(lines),
        units=task.units,
        label_names=task.label_names,
        classes=tuple(class_scores(task, runs, control)),
        confusions=confusions(task, runs),
        groups=tuple(group_scores(task, runs, control, examples)),
        worst=tuple(worst(task, runs, examples, with_texts)),
        notes=tuple(notes),
    )


def _runs(folder: Path, results: Sequence[Result], notes: list[str]) -> dict[int, list[Line]]:
    """The lines of each seed that gave numbers."""
    found: dict[int, list[Line]] = {}
    ids: list[str] = []
    for result in sorted(results, key=lambda result: result.seed):
        path = prediction_path(folder, result)
        if not path.is_file():
            notes.append(f"seed {result.seed}: its predictions are not there ({path.name})")
            continue
        _, lines = read_predictions(path)
        if any(line["prediction"] is None for line in lines):
            notes.append(f"seed {result.seed}: its training failed; it is left out")
        elif found and [line["id"] for line in lines] != ids:
            notes.append(f"seed {result.seed}: predictions of other examples; it is left out")
        else:
            found[result.seed], ids = lines, [line["id"] for line in lines]
    return found


def _examples(
    result: Result, lines: Sequence[Line], data_dir: Path | None, notes: list[str]
) -> list[Example] | None:
    if data_dir is None:
        return None
    try:
        return examples_of(result, lines, data_dir)
    except ValueError as error:
        notes.append(f"no texts: {error}")
        return None


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


def confusions(task: Task, runs: Runs) -> dict[tuple[str, str], int]:
    """How often each (gold, predicted) label occurs in all runs together."""
    if not task.labels_are_confused:
        return {}
    pairs = (pair for lines in runs.values() for line in lines for pair in task.pairs(line))
    return dict(Counter((pair.gold, pair.predicted) for pair in pairs))


def group_scores(
    task: Task, runs: Runs, control: Runs, examples: Sequence[Example] | None
) -> list[GroupScore]:
    """The headline over each group of examples."""
    found = []
    for way, parts in groups_of(task, next(iter(runs.values())), examples).items():
        for group, positions in parts.items():
            here, before = (_part(side, positions) for side in (runs, control))
            score, low, high = _estimate(task, here)
            untrained = _mean_score(task, before) if before else None
            found.append(GroupScore(way, group, len(positions), score, low, high, untrained))
    return found


def _part(runs: Runs, positions: Sequence[int]) -> Runs:
    return {seed: [lines[position] for position in positions] for seed, lines in runs.items()}


def _estimate(task: Task, runs: Runs) -> tuple[float | None, float | None, float | None]:
    """Mean and interval, None where undefined."""
    found = estimate_lines(task, runs)
    value, low, high = (_defined(side) for side in (found.value, found.low, found.high))
    return value, low, high


def _mean_score(task: Task, runs: Runs) -> float | None:
    scores = [score_lines(task, lines)[task.headline] for lines in runs.values()]
    return _defined(statistics.fmean(scores))


def _defined(value: float) -> float | None:
    return None if math.isnan(value) else value


def worst(
    task: Task, runs: Runs, examples: Sequence[Example] | None, with_texts: bool
) -> list[Wrong]:
    """The examples that are wrong in most seeds, the most severe first, of equals in file order."""
    failures = []
    for position, lines in enumerate(zip(*runs.values(), strict=True)):
        example = examples[position] if examples and with_texts else None
        failure = task.failure(lines, example)
        if failure is not None:
            failures.append((failure, lines, example))
    failures.sort(key=lambda entry: -entry[0].severity)
    found = []
    for failure, lines, example in failures[:NUM_WORST]:
        wrong = sum(task.failure([line], None) is not None for line in lines)
        texts: Sequence[tuple[str, str]] = ()
        if example is not None:
            texts = task.shown(example, lines[0])
        elif with_texts and isinstance(lines[0].get("text"), str):
            texts = [("text", lines[0]["text"])]
        shown = tuple((name, _cut(text)) for name, text in texts)
        count = wrong if task.units else None
        if task.failures_quote and not with_texts:
            failure = failure._replace(gold=_UNQUOTED, prediction=_UNQUOTED, certainty=_UNQUOTED)
        found.append(Wrong(str(lines[0]["id"]), failure, count, shown))
    return found


def _counts(task: Task, lines: Sequence[Line]) -> dict[str, tuple[int, int, int]]:
    """Gold, predicted and right units of each label."""
    pairs: list[Pair] = [pair for line in lines for pair in task.pairs(line)]
    gold = Counter(pair.gold for pair in pairs)
    predicted = Counter(pair.predicted for pair in pairs)
    right = Counter(pair.gold for pair in pairs if pair.is_right)
    labels = {*gold, *predicted} - {NOTHING}
    return {label: (gold[label], predicted[label], right[label]) for label in labels}


def _f1(num_gold: int, num_predicted: int, num_right: int) -> float:
    return 2 * num_right / max(1, num_gold + num_predicted)


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else text[:_MAX_TEXT] + " …"


def groups_of(task: Task, lines: Sequence[Line], examples: Sequence[Example] | None) -> Groups:
    """Every way in which the examples fall into two groups or more; `examples` are by line.

    Ways come from the gold values in lines (`Kind.groups`) and, where the data are at hand, from
    the texts. Groups of one way do not overlap and hold all examples.
    """
    named: dict[str, dict[str, list[int]]] = {}
    for position, line in enumerate(lines):
        for way, group in task.groups(line).items():
            named.setdefault(way, {}).setdefault(group, []).append(position)
    found = {way: dict(sorted(parts.items(), key=_by_number)) for way, parts in named.items()}
    if examples is not None:
        found |= _text_groups(examples)
    return {way: parts for way, parts in found.items() if len(parts) > 1}


def _text_groups(examples: Sequence[Example]) -> dict[str, dict[str, list[int]]]:
    if all(isinstance(example, QuestionExample) for example in examples):
        found = {
            "context, characters": _parts([len(e.texts[0]) for e in examples]),
            "question, characters": _parts([len(e.texts[1]) for e in examples]),
        }
    else:
        found = {"length, characters": _parts([sum(map(len, e.texts)) for e in examples])}
        if all(len(example.texts) == 2 for example in examples):
            overlaps = [word_overlap(*example.texts) for example in examples]
            found["words in common, %"] = _parts([round(100 * share) for share in overlaps])
    return found


def word_overlap(first: str, second: str) -> float:
    """Jaccard coefficient of the two texts' sets of lower-case words; 0 of two without words."""
    a, b = (set(re.findall(r"\w+", text.lower())) for text in (first, second))
    return len(a & b) / max(1, len(a | b))


def _by_number(item: tuple[str, list[int]]) -> tuple[float, str]:
    """By the number that a group's name begins with, others last."""
    number = re.match(r"[\d.]+", item[0])
    return float(number[0]) if number else math.inf, item[0]


def _parts(values: Sequence[float]) -> dict[str, list[int]]:
    """Quarters by value, lowest first, equal values together; each named by its bounds."""
    array = np.asarray(values)
    bounds = np.quantile(array, np.arange(1, _NUM_PARTS) / _NUM_PARTS)
    part = np.searchsorted(bounds, array, side="left")  # a value on a bound is in the part below
    found = {}
    for number in np.unique(part):
        positions = np.flatnonzero(part == number)
        inside = array[positions]
        found[f"{inside.min():g} to {inside.max():g}"] = positions.tolist()
    return found


def examples_of(result: Result, lines: Sequence[Line], data_dir: Path) -> list[Example]:
    """The example of each line, from the files of `data_dir` that the result was made from.

    Raises `ValueError` where these are not there, have changed since, or lack an id.
    """
    examples = _examples_of(result, data_dir)
    if missing := [line["id"] for line in lines if str(line["id"]) not in examples]:
        raise ValueError(
            f"{result.task}: {len(missing)} of {len(lines)} predicted rows, {missing[0]!r} the "
            f"first, are not in the data below {data_dir}"
        )
    return [examples[str(line["id"])] for line in lines]


def _examples_of(result: Result, data_dir: Path) -> Mapping[str, Example]:
    task = TASKS[result.task]
    rows = read_splits(task, data_dir, (task.reported,))[task.reported]
    if rows_digest(rows) != result.data_sha256.get(task.reported):
        raise ValueError(
            f"{result.task}: the {task.reported} rows below {data_dir} are not those that it was "
            "scored on; they have changed since, or another version of electrify scored it"
        )
    if result.split.endswith(SPLIT_EVAL):  # a part of it was learnt from
        rows = split_by_group(task, rows)[1]
    return {example.id: example for example in rows}
