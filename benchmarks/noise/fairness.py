"""Differences between groups of people: what a task says where only the word of a group changes.

Each figure is a gap: the mean of a group less the mean of what it stands against. `fairness.toml`
has the tasks, `templates/` the templates and the words, `texts.toml` what a gap shows and does not.
"""

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
from benchmarks.tasks.load import TaskData, rows_digest
from benchmarks.tasks.registry import TASKS
from benchmarks.tasks.task import GoldExample, Task
from electrify.storage.files import read_toml
from electrify.system.progress import warn

DEFAULT_TASKS = ("korean-hate-speech",)
SPLIT = "templates"
SIDES = ("good", "bad")  # of a pair of templates, in this order
_TASKS = read_toml(Path(__file__).with_suffix(".toml"))

Floats = NDArray[np.float64]


class Sentence(NamedTuple):
    """A template filled with a word of a group."""

    id: str  # axis|number of the word|number of the pair|side
    group: str
    text: str


@cache
def read_templates(language: str) -> Mapping[str, Sequence[Sentence]]:
    """Of each axis the sentences, word by word, pair by pair, good before bad."""
    content = read_toml(Path(__file__).parent / "templates" / f"{language}.toml")
    return {
        name: list(_filled(name, axis, content["pairs"])) for name, axis in content["axes"].items()
    }


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
    """The data with the templates as a further split."""
    axes = read_templates(_TASKS[task.name]["language"]).values()
    rows = tuple(GoldExample(s.id, (s.text,)) for axis in axes for s in axis)
    return replace(data, further={SPLIT: rows}, sha256=data.sha256 | {SPLIT: rows_digest(rows)})


def effects(folder: Path, results: Sequence[Result]) -> Iterator[Effect]:
    results = [result for result in results if result.task in _TASKS]
    for (name, encoder), own in groupby(results, lambda result: (result.task, result.role)):
        axes, rows = read_templates(_TASKS[name]["language"]), []
        for result in own:
            run = predictions_of_result(folder, result, SPLIT) or ()
            is_whole = {p["id"] for p in run} == {s.id for axis in axes.values() for s in axis}
            if is_whole and all(p["probabilities"] is not None for p in run):
                rows.append(run)
            else:
                label = f"{name}, {result.encoder}, seed {result.seed}"
                warn(f"fairness: {label} failed or read other templates, and is left out")
        if rows:
            bad = [TASKS[name].labels.index(label) for label in _TASKS[name]["unfavourable"]]
            p_bad = [{p["id"]: sum(p["probabilities"][n] for n in bad) for p in r} for r in rows]
            yield from _gaps(axes, p_bad, {"task": name, "encoder": encoder})


def _gaps(
    axes: Mapping[str, Sequence[Sentence]],
    p_bad: Sequence[Mapping[str, float]],
    about: Mapping[str, str],
) -> Iterator[Effect]:
    """Of the task's probability of a bad label, by seed and sentence: of each group against the
    others of its axis (of two groups once), the mean of both sides of a pair, and the bad side less
    the good one."""
    for name, axis in axes.items():
        values = np.array([[run[sentence.id] for sentence in axis] for run in p_bad])
        words = dict.fromkeys(sentence.id.rsplit("|", 2)[0] for sentence in axis)
        by_side = values.reshape(len(p_bad), len(words), -1, len(SIDES))
        group_of = np.array([sentence.group for sentence in axis[:: by_side[0, 0].size]])
        first, second, *more = groups = list(dict.fromkeys(group_of.tolist()))
        measures = {
            "P(bad label)": by_side.mean(axis=3),
            "P(bad label), bad less good": by_side[..., 1] - by_side[..., 0],
        }
        for (measure, pairs), group in product(measures.items(), groups if more else [first]):
            sides = pairs[:, group_of == group], pairs[:, group_of != group]
            yield Effect.from_interval(
                _gap(*sides),
                float(sides[0].mean()),
                float(sides[1].mean()),
                **about,
                measure=measure,
                axis=name,
                group=group,
                against="the others" if more else second,
                items=pairs.shape[2],
                seeds=len(p_bad),
            )


def _gap(first: Floats, second: Floats) -> Interval:
    """Of two tables (seeds, words, templates). Its variance is the sum of those over the words of
    either side, over seeds and over templates."""
    means = [side.mean(axis=(0, 2)) for side in (first, second)]
    means += [first.mean(axis=axes) - second.mean(axis=axes) for axes in ((1, 2), (0, 1))]
    value = float(first.mean() - second.mean())
    return of_variances(value, list(map(variance_of_mean, means)), "words, templates, seeds")
