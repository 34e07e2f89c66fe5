"""Differences between groups of people: in errors on labelled rows, in a task's output where only
the word of a group changes, and in what the pretrained networks say of that word.

Each figure is a gap: the mean of a group less the mean of what it stands against. `fairness.toml`
has the tasks, `templates/` the templates and the words, `measures.toml` what each measure shows and
does not show.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.analysis.reader import Reader, open_reader
from benchmarks.encoder import ModelSource, is_discriminator, is_language_model
from benchmarks.probes.tables import Tested, corrected, write_csv
from benchmarks.probes.templates.read import SIDES, Axis, Sentence, Templates, read_templates
from benchmarks.results.predictions import lines_of_result
from benchmarks.results.results import Result
from benchmarks.statistics.uncertainty import Estimate, of_variances, variance_of_mean
from benchmarks.tasks.data import TaskData, dir_of, read_splits, rows_digest, split_by_group
from benchmarks.tasks.kinds.classification import Classification, LabelExample
from benchmarks.tasks.task import Line, Task
from electrify.storage.files import read_toml

TABLE = "fairness.csv"
BAD_LESS_GOOD = ", bad less good"
MIN_ROWS = 20  # of a group and an error that can happen: fewer say nothing
NAMED = "named in the row"  # the axis of labelled rows by the groups in their text
TEMPLATES, HELD_OUT = "templates", "held-out"  # splits
_LEARNT_FRACTION = 0.5  # of the training rows; errors are counted on the others, too
_MAX_HELD_OUT = 5000
_TASKS = read_toml(Path(__file__).with_suffix(".toml"))
Floats = NDArray[np.float64]


class Gap(Tested):
    """The mean of a group less the mean of what it stands against; intervals over words, templates
    and seeds, or over rows and seeds."""

    measure: str
    task: str  # of the pretrained networks the language of the templates, or empty
    encoder: str  # "pretrained", "random-init" or "bag-of-words"
    axis: str
    group: str
    against: str
    num_items: int  # of the group: rows, pairs of templates, or pairs of sentences
    num_words: int  # of the group; 0 of rows
    seeds: int
    value: float
    other: float
    gap: float
    low: float
    high: float


def accepts(task: Task) -> bool:
    """Whether it is known which labels of the task are bad for whom a text is about."""
    return task.name in _TASKS


def add_templates(task: Task, data: TaskData) -> TaskData:
    """The data with half of the training rows held out, to count errors on, and the templates."""
    templates = read_templates(_TASKS[task.name]["language"])
    rows = [
        LabelExample(_identity(axis, word, pair, side), (sentence.text,))
        for axis in templates.axes
        for word, pair, side, sentence in templates.sentences(axis)
    ]
    learnt, held_out = split_by_group(task, data.train, _LEARNT_FRACTION, salt="fairness\n")
    further = {HELD_OUT: held_out[:_MAX_HELD_OUT], TEMPLATES: tuple(rows)}
    digests = {name: rows_digest(of) for name, of in further.items()}
    return replace(data, train=learnt, further=further, sha256=data.sha256 | digests)


def _identity(axis: Axis, word: int, pair: int, side: int) -> str:
    return f"{axis.name}|{word}|{pair}|{SIDES[side]}"


def write_gaps(
    place: Path,
    tasks: Sequence[Task],
    data: Mapping[str, TaskData],
    results: Sequence[Result],
    source: ModelSource,
    data_dirs: Sequence[Path] = (),
) -> None:
    """`TABLE` in the folder of the results."""
    found: dict[str, list[tuple[Gap, float]]] = {}
    for task in tasks:
        assert isinstance(task, Classification)
        annotated = _annotations(task, data_dirs)
        of_task = [result for result in results if result.task == task.name]
        for encoder, runs in groupby(of_task, lambda result: result.role):
            records, of_encoder = list(runs), found.setdefault(encoder, [])
            of_encoder += _row_gaps(place, task, data[task.name], records, annotated)
            of_encoder += _output_gaps(place, task, records)
    for language in dict.fromkeys(_TASKS[task.name]["language"] for task in tasks):
        found["pretrained"] += _network_gaps(read_templates(language), source)
    write_csv(place / TABLE, [line for lines in found.values() for line in corrected(lines)])


# Errors on labelled rows.


def _annotations(task: Task, data_dirs: Sequence[Path]) -> dict[str, dict[str, str]]:
    """By further column and row id its label; rows that lack it are left out."""
    columns: Mapping[str, Sequence[str]] = _TASKS[task.name].get("annotated", {})
    found: dict[str, dict[str, str]] = {}
    for column, labels in columns.items():
        other = replace(task, label_field=column, labels=tuple(labels))
        splits = read_splits(other, dir_of(other, data_dirs), ("train", task.reported))
        found[column] = {
            row.id: labels[row.label]
            for rows in splits.values()
            for row in rows
            if isinstance(row, LabelExample) and row.label is not None
        }
    return found


def _row_gaps(
    place: Path,
    task: Task,
    data: TaskData,
    results: Sequence[Result],
    annotated: Mapping[str, Mapping[str, str]],
) -> list[tuple[Gap, float]]:
    """False alarms and misses on rows that name a group against rows that name none, and on rows of
    an annotated label against its other rows."""
    rows = {row.id: row.texts[0] for row in (*data.reported, *data.further[HELD_OUT])}
    runs = [_by_id(place, result, (result.split, HELD_OUT)) for result in results]
    if any(line["prediction"] is None for run in runs for line in run.values()):
        return []  # a training that failed
    bad = set(_TASKS[task.name]["unfavourable"])
    named = {
        group: {identity for identity, text in rows.items() if pattern.search(text)}
        for group, pattern in _named(task).items()
    }
    none = rows.keys() - set().union(*named.values())
    sides = [
        (NAMED, group, "rows that name no group", inside, none) for group, inside in named.items()
    ]
    for column, labels in annotated.items():
        for label in dict.fromkeys(labels.values()):
            inside = {i for i in rows if labels.get(i) == label}
            sides.append((column, label, "the other rows", inside, rows.keys() - inside))
    found = []
    for measure, is_bad in (("false alarms", False), ("misses", True)):
        # the rows on which this error can happen
        able = {i for i in rows if (runs[0][i]["gold"] in bad) == is_bad}
        for axis, group, against, inside, others in sides:
            first, second = sorted(inside & able), sorted(others & able)
            if min(len(first), len(second)) < MIN_ROWS:
                continue
            wrong = [
                np.array([[(run[i]["prediction"] in bad) != is_bad for i in side] for run in runs])
                for side in (first, second)
            ]
            gap = _gap([side[:, :, None].astype(float) for side in wrong], False)
            about = {"measure": measure, "task": task.name, "encoder": results[0].role}
            about |= {"axis": axis, "group": group, "against": against}
            sizes = {"num_items": len(first), "num_words": 0, "seeds": len(runs)}
            found.append(_line(wrong, gap, **about, **sizes))
    return found


def _named(task: Task) -> dict[str, re.Pattern[str]]:
    named = read_templates(_TASKS[task.name]["language"]).named
    return {group: re.compile(pattern, re.IGNORECASE) for group, pattern in named.items()}


def _by_id(place: Path, result: Result, splits: Sequence[str]) -> dict[str, Line]:
    return {
        str(line["id"]): line
        for split in splits
        for line in lines_of_result(place, result, split) or ()
    }


# Templates.


def _output_gaps(
    place: Path, task: Classification, results: Sequence[Result]
) -> list[tuple[Gap, float]]:
    """The task's probability of a bad label, which only the word of a group can change."""
    bad = [task.labels.index(label) for label in _TASKS[task.name]["unfavourable"]]
    templates = read_templates(_TASKS[task.name]["language"])
    runs = [_by_id(place, result, (TEMPLATES,)) for result in results]
    if any(line["probabilities"] is None for run in runs for line in run.values()):
        return []  # a training that failed
    found = []
    for axis in templates.axes:
        values = np.empty((len(runs), len(axis.words), len(templates.pairs), len(SIDES)))
        for seed, run in enumerate(runs):
            for word, pair, side, _ in templates.sentences(axis):
                line = run[_identity(axis, word, pair, side)]
                values[seed, word, pair, side] = sum(line["probabilities"][i] for i in bad)
        about = {"measure": "P(bad label)", "task": task.name, "encoder": results[0].role}
        found += _axis_gaps(about, axis, values)
    return found


def _network_gaps(templates: Templates, source: ModelSource) -> list[tuple[Gap, float]]:
    """The discriminator's P(replaced) of the word and the generator's log P of it."""
    found: list[tuple[Gap, float]] = []
    if not is_discriminator(source) and not is_language_model(source):
        return found
    reader = open_reader(source.path, device="auto")
    measures = (
        ("P(replaced)", reader.discriminator, replaced_probabilities),
        ("log P(word)", reader.generator, word_log_probabilities),
    )
    for measure, network, score in measures:
        for axis in templates.axes if network is not None else ():
            values = score(reader, [sentence for *_, sentence in templates.sentences(axis)])
            shape = (1, len(axis.words), len(templates.pairs), len(SIDES))
            about = {"measure": measure, "task": templates.language, "encoder": "pretrained"}
            found += _axis_gaps(about, axis, values.reshape(shape))
    return found


def replaced_probabilities(reader: Reader, sentences: Sequence[Sentence]) -> Floats:
    """(sentences,) the discriminator's mean P(replaced) over the pieces of each word."""
    texts = reader.cut([sentence.text for sentence in sentences])
    logits = reader.replaced_logits([text.ids for text in texts])
    return np.array(
        [
            (1 / (1 + np.exp(-of[text.pieces_in(sentence.start, sentence.end)]))).mean()
            for of, text, sentence in zip(logits, texts, sentences, strict=True)
        ]
    )


def word_log_probabilities(reader: Reader, sentences: Sequence[Sentence]) -> Floats:
    """(sentences,) the generator's log P of each word, all of its pieces masked at once."""
    texts = reader.cut([sentence.text for sentence in sentences])
    masks = [
        (number, text.pieces_in(sentence.start, sentence.end))
        for number, (text, sentence) in enumerate(zip(texts, sentences, strict=True))
    ]
    return -reader.surprisals([text.ids for text in texts], masks)


def _axis_gaps(about: Mapping[str, str], axis: Axis, values: Floats) -> list[tuple[Gap, float]]:
    """Of each group against the others of its axis (of two groups once), from values (seeds, words,
    pairs, sides): the mean of both sides, and the bad side less the good one."""
    group_of = np.array([group for group, _ in axis.words])
    groups = axis.groups if len(axis.groups) > 2 else axis.groups[:1]
    found = []
    for ending, of_pairs in (
        ("", values.mean(axis=3)),
        (BAD_LESS_GOOD, values[..., 1] - values[..., 0]),
    ):
        for group in groups:
            inside = group_of == group
            sides = [of_pairs[:, inside], of_pairs[:, ~inside]]
            line = _line(
                sides,
                _gap(sides, True),
                **{**about, "measure": about["measure"] + ending},
                axis=axis.name,
                group=group,
                against="the others" if len(axis.groups) > 2 else axis.groups[1],
                num_items=of_pairs.shape[2],
                num_words=int(inside.sum()),
                seeds=len(values),
            )
            found.append(line)
    return found


def _gap(sides: Sequence[Floats], are_paired: bool) -> Estimate:
    """The difference of the means of two tables (seeds, words or rows, templates).

    Its variance is the sum of those over the words of either side, over seeds and, if both have the
    same templates, over templates.
    """
    first, second = sides
    variances = [variance_of_mean(side.mean(axis=(0, 2))) for side in sides]
    if not all(degrees for _, degrees in variances):
        return Estimate(float(first.mean() - second.mean()))
    variances.append(variance_of_mean(first.mean(axis=(1, 2)) - second.mean(axis=(1, 2))))
    if are_paired:
        variances.append(variance_of_mean(first.mean(axis=(0, 1)) - second.mean(axis=(0, 1))))
    return of_variances(float(first.mean() - second.mean()), variances, "words, templates, seeds")


def _line(sides: Sequence[NDArray[Any]], gap: Estimate, **about: Any) -> tuple[Gap, float]:
    """The gap, and its p before the correction; `about` are the other fields of `Gap`."""
    value, other = (float(side.mean()) for side in sides)
    line = Gap(value=value, other=other, gap=gap.value, low=gap.low, high=gap.high, **about)
    return line, gap.p
