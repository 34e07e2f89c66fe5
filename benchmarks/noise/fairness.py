"""Differences between groups of people: in errors on labelled rows, and in the output of a task
where only the word of a group changes.

Each figure is a gap: the mean of a group less the mean of what it stands against. `fairness.toml`
has the tasks, `templates/` the templates and the words, `measures.toml` what each measure shows and
does not show.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import groupby, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.noise.effects import Effect
from benchmarks.results.predictions import predictions_of_result
from benchmarks.results.results import Result
from benchmarks.statistics.uncertainty import Interval, of_variances, variance_of_mean
from benchmarks.tasks.load import TaskData, rows_digest, split_by_group
from benchmarks.tasks.registry import TASKS
from benchmarks.tasks.task import GoldExample, Prediction, Task
from electrify.storage.files import read_toml

DEFAULT_TASKS = ("korean-hate-speech",)
MIN_ROWS = 20  # of a group and an error that can happen: fewer say nothing
TEMPLATES, HELD_OUT = "templates", "held-out"  # splits
SIDES = ("good", "bad")  # of a pair of templates, in this order
_LEARNT_FRACTION = 0.5  # of the training rows; errors are counted on the others, too
_MAX_HELD_OUT = 5000
_TASKS = read_toml(Path(__file__).with_suffix(".toml"))

Floats = NDArray[np.float64]
Run = Mapping[str, Prediction]  # the predictions of a seed by id


class Sentence(NamedTuple):
    """A template filled with a word of a group."""

    id: str  # axis|number of the word|number of the pair|side
    group: str
    text: str


class Templates(NamedTuple):
    """Sentences of a language in which only the word of a group changes."""

    num_pairs: int
    axes: Mapping[str, Sequence[Sentence]]  # word by word, pair by pair, good before bad
    named: Mapping[str, re.Pattern[str]]  # by group what names it in a row


@cache
def read_templates(language: str) -> Templates:
    content = read_toml(Path(__file__).parent / "templates" / f"{language}.toml")
    pairs = content["pairs"]
    axes = {name: list(_filled(name, axis, pairs)) for name, axis in content["axes"].items()}
    named = {group: re.compile(p, re.IGNORECASE) for group, p in content["named"].items()}
    return Templates(len(pairs), axes, named)


def _filled(
    name: str, axis: Mapping[str, Any], pairs: Sequence[Sequence[str]]
) -> Iterator[Sentence]:
    words = [(group, word) for group, words in axis["groups"].items() for word in words]
    for (number, (group, word)), (pair, sides) in product(enumerate(words), enumerate(pairs)):
        filling = axis.get("prefix", "") + word + axis.get("suffix", "")
        for side, template in zip(SIDES, sides, strict=True):
            yield Sentence(f"{name}|{number}|{pair}|{side}", group, template.format(filling))


def accepts(task: Task) -> bool:
    """Whether it is known which labels of the task are bad for whom a text is about."""
    return task.name in _TASKS


def add_rows(task: Task, data: TaskData) -> TaskData:
    """The data with half of the training rows held out, to count errors on, and the templates."""
    templates = read_templates(_TASKS[task.name]["language"])
    rows = [GoldExample(s.id, (s.text,)) for axis in templates.axes.values() for s in axis]
    learnt, held_out = split_by_group(task, data.train, _LEARNT_FRACTION, salt="fairness\n")
    further = {HELD_OUT: held_out[:_MAX_HELD_OUT], TEMPLATES: tuple(rows)}
    digests = {name: rows_digest(split) for name, split in further.items()}
    return replace(data, train=learnt, further=further, sha256=data.sha256 | digests)


def effects(
    folder: Path, results: Sequence[Result], data: Mapping[str, TaskData]
) -> Iterator[Effect]:
    results = [result for result in results if result.task in data]
    for (name, encoder), own in groupby(results, lambda result: (result.task, result.role)):
        runs = [
            {
                str(p["id"]): p
                for split in (result.split, HELD_OUT, TEMPLATES)
                for p in predictions_of_result(folder, result, split) or ()
            }
            for result in own
        ]
        if all(p["probabilities"] is not None for run in runs for p in run.values()):
            about = {"task": name, "encoder": encoder}
            yield from _row_gaps(TASKS[name], runs, data[name], about)
            yield from _output_gaps(TASKS[name], runs, about)


def _row_gaps(
    task: Task, runs: Sequence[Run], data: TaskData, about: Mapping[str, str]
) -> Iterator[Effect]:
    """False alarms and misses on rows that name a group against rows that name none."""
    rows = {row.id: row.texts[0] for row in (*data.reported, *data.further[HELD_OUT])}
    bad = set(_TASKS[task.name]["unfavourable"])
    is_bad = np.array([runs[0][i]["gold"] in bad for i in rows])
    wrong = is_bad != np.array([[run[i]["prediction"] in bad for i in rows] for run in runs])
    named = {
        group: np.array([bool(pattern.search(text)) for text in rows.values()])
        for group, pattern in read_templates(_TASKS[task.name]["language"]).named.items()
    }
    none = ~np.any(list(named.values()), axis=0)
    # each on the rows on which this error can happen
    for measure, is_able in (("false alarms", ~is_bad), ("misses", is_bad)):
        for group, is_in in named.items():
            first, other = (wrong[:, is_able & side, None].astype(float) for side in (is_in, none))
            if min(first.shape[1], other.shape[1]) >= MIN_ROWS:
                names = {"measure": measure, "axis": "named in the row", "group": group}
                names |= {"against": "rows that name no group", **about}
                yield _gap(first, other, names, first.shape[1])


def _output_gaps(task: Task, runs: Sequence[Run], about: Mapping[str, str]) -> Iterator[Effect]:
    """The task's probability of a bad label where only the word of a group changes: of each group
    against the others of its axis (of two groups once), the mean of both sides of a pair, and the
    bad side less the good one."""
    bad = [task.labels.index(label) for label in _TASKS[task.name]["unfavourable"]]
    templates = read_templates(_TASKS[task.name]["language"])
    for name, axis in templates.axes.items():
        values = [[sum(run[s.id]["probabilities"][n] for n in bad) for s in axis] for run in runs]
        by_side = np.reshape(values, (len(runs), -1, templates.num_pairs, len(SIDES)))  # by word
        group_of = np.array([sentence.group for sentence in axis[:: by_side[0, 0].size]])
        first, second, *more = groups = list(dict.fromkeys(group_of.tolist()))
        measures = {
            "P(bad label)": by_side.mean(axis=3),
            "P(bad label), bad less good": by_side[..., 1] - by_side[..., 0],
        }
        for (measure, pairs), group in product(measures.items(), groups if more else [first]):
            inside, against = group_of == group, "the others" if more else second
            names = {"measure": measure, "axis": name, "group": group, "against": against, **about}
            sides = pairs[:, inside], pairs[:, ~inside]
            yield _gap(*sides, names, templates.num_pairs, int(inside.sum()))


def _gap(
    first: Floats, second: Floats, names: Mapping[str, Any], items: int, words: int = 0
) -> Effect:
    """The gap of two tables (seeds, words or rows, templates), before the correction.

    The variance is the sum of those over the words or rows of either side, over seeds and, of
    words, over templates.
    """
    value = float(first.mean() - second.mean())
    variances = [variance_of_mean(side.mean(axis=(0, 2))) for side in (first, second)]
    mean = Interval(value)
    if all(degrees for _, degrees in variances):
        axes = [(1, 2), (0, 1)] if words else [(1, 2)]
        variances += [variance_of_mean(first.mean(axis=a) - second.mean(axis=a)) for a in axes]
        mean = of_variances(value, variances, "words, templates, seeds")
    means = float(first.mean()), float(second.mean())
    return Effect.from_interval(mean, *means, **names, items=items, words=words, seeds=len(first))
