"""Differences between groups of people: in errors on labelled rows, in a task's output where only
the word of a group changes, and in what the pretrained networks give that word.

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
from scipy.special import expit

from benchmarks.analysis.reader import Floats, Reader, open_reader
from benchmarks.encoder import ModelSource, is_discriminator, is_language_model
from benchmarks.noise.effects import Effect, Evaluated
from benchmarks.results.predictions import predictions_of_result
from benchmarks.results.results import Result
from benchmarks.statistics.uncertainty import Interval, of_variances, variance_of_mean
from benchmarks.tasks.labels import Classification
from benchmarks.tasks.load import TaskData, dir_of, read_splits, rows_digest, split_by_group
from benchmarks.tasks.task import GoldExample, Prediction, Task
from electrify.storage.files import read_toml
from electrify.system.outcome import UserError
from electrify.system.progress import warn

DEFAULT_TASKS = ("korean-hate-speech",)
MIN_ROWS = 20  # of a group and an error that can happen: fewer say nothing
TEMPLATES, HELD_OUT = "templates", "held-out"  # splits
SIDES = ("good", "bad")  # of a pair of templates, in this order
_LEARNT_FRACTION = 0.5  # of the training rows; errors are counted on the others, too
_MAX_HELD_OUT = 5000
_TASKS = read_toml(Path(__file__).with_suffix(".toml"))


class Sentence(NamedTuple):
    """A template filled with a word of a group, which stands at [start, end)."""

    id: str  # axis|number of the word|number of the pair|side
    group: str
    text: str
    start: int
    end: int


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
        for side, template in zip(SIDES, sides, strict=True):
            before, after = template.split("{}")
            before += axis.get("prefix", "")
            text = before + word + axis.get("suffix", "") + after
            place = f"{name}|{number}|{pair}|{side}"
            yield Sentence(place, group, text, len(before), len(before + word))


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


def effects(of: Evaluated) -> Iterator[Effect]:
    for task in of.tasks:
        assert isinstance(task, Classification)
        annotated = _annotations(task, of.data_dirs)
        own = [result for result in of.results if result.task == task.name]
        for encoder, records in groupby(own, lambda result: result.role):
            about = {"task": task.name, "encoder": encoder}
            runs = [_predictions_by_id(of.folder, result) for result in records]
            if all(p["probabilities"] is not None for run in runs for p in run.values()):
                yield from _row_gaps(task, runs, of.data[task.name], annotated, about)
                yield from _output_gaps(task, runs, about)
    for language in dict.fromkeys(_TASKS[task.name]["language"] for task in of.tasks):
        yield from _network_gaps(language, of.source)


def _predictions_by_id(folder: Path, result: Result) -> dict[str, Prediction]:
    return {
        str(p["id"]): p
        for split in (result.split, HELD_OUT, TEMPLATES)
        for p in predictions_of_result(folder, result, split) or ()
    }


def _annotations(task: Task, data_dirs: Sequence[Path]) -> dict[str, dict[str, str]]:
    """By further column and row id its label; rows that lack it are left out."""
    columns: Mapping[str, Sequence[str]] = _TASKS[task.name].get("annotated", {})
    annotated: dict[str, dict[str, str]] = {}
    for column, labels in columns.items():
        other = replace(task, label_field=column, labels=tuple(labels))
        splits = read_splits(other, dir_of(other, data_dirs), ("train", task.reported))
        annotated[column] = {
            row.id: labels[row.gold]
            for rows in splits.values()
            for row in rows
            if isinstance(row, GoldExample) and row.gold is not None
        }
    return annotated


def _row_gaps(
    task: Task,
    runs: Sequence[Mapping[str, Prediction]],
    data: TaskData,
    annotated: Mapping[str, Mapping[str, str]],
    about: Mapping[str, str],
) -> Iterator[Effect]:
    """False alarms and misses on rows that name a group against rows that name none, and on rows of
    an annotated label against its other rows."""
    rows = {row.id: row.texts[0] for row in (*data.reported, *data.further[HELD_OUT])}
    bad = set(_TASKS[task.name]["unfavourable"])
    is_bad = np.array([runs[0][i]["gold"] in bad for i in rows])
    wrong = is_bad != np.array([[run[i]["prediction"] in bad for i in rows] for run in runs])
    named = {
        group: np.array([bool(pattern.search(text)) for text in rows.values()])
        for group, pattern in read_templates(_TASKS[task.name]["language"]).named.items()
    }
    none = ~np.any(list(named.values()), axis=0)
    contrasts = [
        ("named in the row", group, "rows that name no group", is_in, none)
        for group, is_in in named.items()
    ]
    for column, labels in annotated.items():
        for label in dict.fromkeys(labels.values()):
            inside = np.array([labels.get(i) == label for i in rows])
            contrasts.append((column, label, "the other rows", inside, ~inside))
    # each on the rows on which this error can happen
    for measure, is_able in (("false alarms", ~is_bad), ("misses", is_bad)):
        for axis, group, against, *sides in contrasts:
            first, other = (wrong[:, side & is_able, None].astype(float) for side in sides)
            if min(first.shape[1], other.shape[1]) >= MIN_ROWS:
                names = {"measure": measure, "axis": axis, "group": group, "against": against}
                yield _gap(first, other, {**about, **names}, first.shape[1])


def _output_gaps(
    task: Classification, runs: Sequence[Mapping[str, Prediction]], about: Mapping[str, str]
) -> Iterator[Effect]:
    """The task's probability of a bad label where only the word of a group changes."""
    bad = [task.labels.index(label) for label in _TASKS[task.name]["unfavourable"]]
    templates = read_templates(_TASKS[task.name]["language"])
    for name, axis in templates.axes.items():
        values = [[sum(run[s.id]["probabilities"][n] for n in bad) for s in axis] for run in runs]
        names = {**about, "axis": name}
        yield from _axis_gaps("P(bad label)", templates, axis, np.array(values), names)


def _network_gaps(language: str, source: ModelSource) -> Iterator[Effect]:
    """The discriminator's P(replaced) of the word and the generator's log P of it."""
    if not is_discriminator(source) and not is_language_model(source):
        return
    try:
        reader = open_reader(source.path, device="auto")
    except UserError as error:  # the task was learnt; a tokenizer may lack what this needs
        warn(f"fairness: the pretrained networks are left out: {error}")
        return
    templates = read_templates(language)
    measures = (
        ("P(replaced)", reader.discriminator, replaced_probabilities),
        ("log P(word)", reader.generator, word_log_probabilities),
    )
    for measure, network, score in measures:
        for name, axis in templates.axes.items() if network is not None else ():
            about = {"task": language, "encoder": "pretrained", "axis": name}
            yield from _axis_gaps(measure, templates, axis, score(reader, axis)[None], about)


def replaced_probabilities(reader: Reader, sentences: Sequence[Sentence]) -> Floats:
    """(sentences,) the discriminator's mean P(replaced) over the pieces of each word."""
    texts = reader.cut([sentence.text for sentence in sentences])
    logits = reader.replaced_logits([text.ids for text in texts])
    rows = zip(logits, texts, sentences, strict=True)
    return np.array([expit(row[text.pieces_in(s.start, s.end)]).mean() for row, text, s in rows])


def word_log_probabilities(reader: Reader, sentences: Sequence[Sentence]) -> Floats:
    """(sentences,) the generator's log P of each word, all of its pieces masked at once."""
    texts = reader.cut([sentence.text for sentence in sentences])
    rows = enumerate(zip(texts, sentences, strict=True))
    masks = [(number, text.pieces_in(s.start, s.end)) for number, (text, s) in rows]
    return -reader.surprisals([text.ids for text in texts], masks)


def _axis_gaps(
    measure: str,
    templates: Templates,
    axis: Sequence[Sentence],
    values: Floats,
    about: Mapping[str, str],
) -> Iterator[Effect]:
    """Of each group against the others of its axis (of two groups once), from values (seeds,
    sentences): the mean of both sides of a pair, and the bad side less the good one."""
    by_side = values.reshape(len(values), -1, templates.num_pairs, len(SIDES))  # words, pairs
    group_of = np.array([sentence.group for sentence in axis[:: by_side[0, 0].size]])
    first, second, *more = groups = list(dict.fromkeys(group_of.tolist()))
    of_pairs = {
        measure: by_side.mean(axis=3),
        f"{measure}, bad less good": by_side[..., 1] - by_side[..., 0],
    }
    for name, pairs in of_pairs.items():
        for group in groups if more else [first]:
            inside, against = group_of == group, "the others" if more else second
            names = {**about, "measure": name, "group": group, "against": against}
            sides = pairs[:, inside], pairs[:, ~inside]
            yield _gap(*sides, names, pairs.shape[2], int(inside.sum()))


def _gap(
    first: Floats, second: Floats, names: Mapping[str, Any], num_items: int, num_words: int = 0
) -> Effect:
    """The gap of two tables (seeds, words or rows, templates), before the correction.

    The variance is the sum of those over the words or rows of either side, over seeds and, of
    words, over templates.
    """
    value = float(first.mean() - second.mean())
    variances = [variance_of_mean(side.mean(axis=(0, 2))) for side in (first, second)]
    mean = Interval(value)
    if all(degrees for _, degrees in variances):
        axes = [(1, 2), (0, 1)] if num_words else [(1, 2)]
        variances += [variance_of_mean(first.mean(axis=a) - second.mean(axis=a)) for a in axes]
        mean = of_variances(value, variances, "words, templates, seeds")
    means = float(first.mean()), float(second.mean())
    return Effect.of(mean, *means, **names, items=num_items, words=num_words, seeds=len(first))
