"""Tasks of the user's own: a file of texts with a label, a number, tags, spans or answers.

What the user does not say is guessed from the rows; `describe` says what was guessed. A record
(`record_of`) holds all that was settled, so that predictions are scored again without the file.
"""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.metrics.classification import accuracy, macro_f1, mcc
from benchmarks.metrics.regression import pearson, spearman
from benchmarks.metrics.tagging import (
    OUTSIDE,
    entity_macro_f1,
    entity_micro_f1,
    seqeval_micro_f1,
)
from benchmarks.tasks.kinds.classification import Classification, Regression, class_name
from benchmarks.tasks.kinds.spans import OwnReading, own_rows
from benchmarks.tasks.kinds.tagging import OwnEntityTagging, OwnWordTagging, entity_spans
from benchmarks.tasks.rows import Row, nested
from benchmarks.tasks.task import OWN, Example, MetricFunction, Task, listed
from electrify.config.evaluate import OwnTask
from electrify.config.load import toml_value
from electrify.stage.folder import digest_of
from electrify.system.outcome import nearest

# the first metric stands for the task unless another is asked for
_KINDS: Mapping[str, tuple[type[Task], tuple[MetricFunction, ...]]] = {
    "classification": (Classification, (accuracy, macro_f1, mcc)),
    "regression": (Regression, (spearman, pearson)),
    "tagging": (OwnWordTagging, (seqeval_micro_f1, entity_micro_f1, entity_macro_f1)),
    "entities": (OwnEntityTagging, (entity_micro_f1, entity_macro_f1)),
    "reading": (OwnReading, ()),  # the metrics of SQuAD's scripts
}
_SETTLED = (
    *("name", "version", "files", "reported", "also_reported", "text_fields", "label_field"),
    *("labels", "value_range"),
)
_SUFFIXES = (".csv", ".tsv", ".json", ".jsonl", ".parquet")
# names of columns as most files have them, in small letters; the first that is there is taken
_LABELS = (
    *("label", "labels", "ner_tags", "tags", "spans", "entities", "answers", "class", "category"),
    *("target", "score", "rating", "sentiment"),
)
_PAIRS = (
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("text1", "text2"),
    ("text_a", "text_b"),
    ("context", "question"),
)
_TEXTS = (
    *("text", "sentence", "document", "title", "comment", "comments", "review", "content"),
    *("body", "question", "tokens", "words"),
)
_IDS = ("", "id", "guid", "idx", "index", "unnamed: 0")
_MAX_CLASSES = 20  # more different numbers than this are amounts
_TRAIN_FRACTION = 0.8  # of the texts, where there is a training file alone
_TAG = re.compile(rf"{OUTSIDE}|[BI]-.+|.+-[BI]")

Values = Sequence[tuple[str, Any]]  # place and gold value of each row


def files_of(options: OwnTask) -> dict[str, Path]:
    """The files of a task by split."""
    return {
        split: Path(name).expanduser().absolute()
        for split in ("train", "dev", "test")
        if (name := getattr(options, split))
    }


def own_task(options: OwnTask) -> Task:
    """The task of a file of the user's.

    Raises `ValueError` for a file that cannot be read or has no rows, a column that is not there or
    cannot be guessed, and gold values that are none of the kind.
    """
    paths = files_of(options)
    rows = [(f"{path} row {n}", row) for path in paths.values() for n, row in _rows(options, path)]
    texts, label = _columns(options, [row for _, row in rows])
    values = [(place, nested(row, label)) for place, row in rows]
    if empty := [place for place, value in values if _is_empty(value)]:
        others = f" and {len(empty) - 1:,} more" if len(empty) > 1 else ""
        raise ValueError(
            f"{empty[0]}{others}: no value in column {label!r}; fill it in or remove the row"
        )
    kind = options.kind or _kind(values)
    metrics = [metric.__name__ for metric in _KINDS[kind][1]] or ["f1"]
    if options.metric not in (None, *metrics):
        raise ValueError(
            f"{options.task_name}: unknown metric {options.metric!r}"
            f"{nearest(str(options.metric), metrics)} ({kind} has {', '.join(metrics)})"
        )
    reported = next(split for split in ("test", "dev", "train") if split in paths)
    settled: dict[str, Any] = {
        "kind": kind,
        "name": options.task_name,
        "reported": reported,
        "also_reported": ["dev"] if reported == "test" and "dev" in paths else [],
        "text_fields": list(texts),
        "label_field": label,
        "labels": _labels(kind, label, values, [row for _, row in rows]),
        "value_range": _range(label, values) if kind == "regression" else [0.0, 1.0],
        "headline": options.metric or metrics[0],
    }
    if kind == "reading":
        if label != "answers" or len(texts) < 2:
            raise ValueError(
                f"{options.train}: reading has the columns context, question and answers, as SQuAD "
                f"on the hub; here are {', '.join((*texts, label))}"
            )
        settled["scorer"] = _scorer([row for _, row in rows])
    files = {split: [str(path)] for split, path in paths.items()}
    further = {"version": digest_of(settled)[:8], "files": files, "note": options.note or ""}
    return task_of_record(settled | further)


def record_of(task: Task) -> dict[str, Any] | None:
    """What `task_of_record` makes a task of the user's own from; None for other tasks."""
    if task.suite != OWN:
        return None
    of_reading = {"scorer": task.scorer} if isinstance(task, OwnReading) else {}
    settled = {name: getattr(task, name) for name in (*_SETTLED, "note")}
    return {"kind": _kind_of(task), "headline": task.headline} | settled | of_reading


def _kind_of(task: Task) -> str:
    return next(kind for kind, (made_by, _) in _KINDS.items() if type(task) is made_by)


def task_of_record(record: Mapping[str, Any]) -> Task:
    """The task that a record describes; `ValueError` if it describes none."""
    try:
        made_by, metrics = _KINDS[record["kind"]]
        named = {metric.__name__: metric for metric in metrics}
        first = [named.pop(record["headline"])] if named else []
        settled = {name: record[name] for name in _SETTLED}
        settled["files"] = {split: tuple(names) for split, names in record["files"].items()}
        for name in ("also_reported", "text_fields", "labels", "value_range"):
            settled[name] = tuple(record[name])
        if made_by is OwnReading:
            settled |= {"scorer": record["scorer"], "head": "joint"}
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{record!r:.200} describes no task ({error!r})") from None
    return made_by(
        **settled,
        suite=OWN,
        id_field="",  # a column of the user's may be named so and hold anything
        unlabelled=(),
        metrics=(*first, *named.values()),
        skip_empty=True,
        train_fraction=_TRAIN_FRACTION,
        note=str(record.get("note", "")),  # older records have none
    )


def without_texts_of(train: Sequence[Example], reported: Sequence[Example]) -> tuple[Example, ...]:
    """The training rows whose texts are not those of a reported row, in either order."""
    seen = {frozenset(example.texts) for example in reported}
    return tuple(example for example in train if frozenset(example.texts) not in seen)


def describe(
    task: Task, train: Sequence[Example], reported: Sequence[Example], num_dropped: int
) -> str:
    """What was guessed, and how many rows there are on each side."""
    kind = _kind_of(task)
    if kind == "regression":
        what = "{:g} to {:g}".format(*task.value_range)
    elif kind == "reading":
        answers = [getattr(example, "answers", ()) for example in (*train, *reported)]
        what = f"{answers.count(()):,} questions without one"
    elif kind in ("tagging", "entities"):
        types = {re.sub("^[BI]-|-[BI]$", "", label) for label in task.labels} - {OUTSIDE}
        what = f"{len(types)} types of entities: {listed(sorted(types), ', ')}"
    else:
        what = f"{len(task.labels)} labels: {listed(task.labels, ', ')}"
    columns = " and ".join(map(repr, task.text_fields))
    text = (
        f"{task.name}: {kind} of column {task.label_field!r} ({what}), text in {columns}, "
        f"{len(train) + len(reported) + num_dropped:,} rows"
    )
    if task.reported == "train":
        text += f"; no dev file: {100 * (1 - _TRAIN_FRACTION):.0f} % of the texts are held out"
        groups = {example.texts[0] for example in (*train, *reported)}
        if num_equal := len(train) + len(reported) - len(groups):
            text += f" ({num_equal:,} rows of a text that stood before are on its side)"
    text += f"; {len(train):,} rows to learn from, {len(reported):,} of {task.reported} reported"
    if num_dropped:
        text += f"; {num_dropped:,} training rows are left out: their texts are reported too"
    said = {"train": task.files[next(iter(task.files))][0], "text": "COLUMN", "label": "COLUMN"}
    return f"{text}\nfor other columns: --set 'evaluate.own_tasks=[{toml_value(said)}]'"


def _rows(options: OwnTask, path: Path) -> list[tuple[int, Row]]:
    if path.suffix not in _SUFFIXES:
        raise ValueError(f"{path}: a task is read from {', '.join(_SUFFIXES)}; save it as one")
    if not path.is_file():
        raise ValueError(f"{options.task_name}: no file {path}; give one that is there")
    rows = list(own_rows(path))
    for number, row in rows:
        if not isinstance(row, Mapping):
            raise ValueError(f"{path} row {number}: {row!r:.80} is not an object")
    if not rows:
        raise ValueError(f"{path} has no rows")
    return rows


def _is_empty(value: Any) -> bool:
    return value is None or value != value or (isinstance(value, str) and not value.strip())


def _columns(options: OwnTask, rows: Sequence[Row]) -> tuple[tuple[str, ...], str]:
    """The columns of the texts, and that of the gold values."""
    columns = list(dict.fromkeys(str(column) for row in rows for column in row))
    for given in (options.text, options.second_text, options.label):
        if given is not None and given not in columns and nested(rows[0], given) is None:
            raise ValueError(
                f"{options.train}: no column {given!r}{nearest(given, columns)} (there are: "
                f"{', '.join(columns)})"
            )
    known = {column.lower(): column for column in reversed(columns)}
    label = options.label or next((known[name] for name in _LABELS if name in known), None)
    texts = [name for name in (options.text, options.second_text) if name]
    if not texts:
        free = [column for column in columns if column != label]
        texts = _text_columns({column.lower(): column for column in reversed(free)}, rows)
    if label is None:
        left = [c for c in columns if c not in texts and c.lower() not in _IDS]
        if not left:
            raise ValueError(
                f"{options.train}: no column is left for the label beside {', '.join(columns)}; "
                'add one, or name the text\'s: text = "COLUMN"'
            )
        if len(left) != 1:
            raise _which(options, "label", columns)
        label = left[0]
    if not texts:
        raise _which(options, "text", columns)
    return tuple(texts), label


def _text_columns(known: Mapping[str, str], rows: Sequence[Row]) -> list[str]:
    """A pair or a text by its usual name, else the column of the longest texts."""
    for pair in _PAIRS:
        if all(name in known for name in pair):
            return [known[name] for name in pair]
    for name in _TEXTS:
        if name in known:
            return [known[name]]
    lengths = {
        column: sum(len(v) for row in rows if isinstance(v := row.get(column), str | list))
        for name, column in known.items()
        if name not in _IDS
    }
    longest = max(lengths, key=lengths.__getitem__, default=None)
    return [longest] if longest is not None and lengths[longest] else []


def _which(options: OwnTask, what: str, columns: Sequence[str]) -> ValueError:
    said = options.model_dump(exclude_none=True) | {what: "COLUMN"}
    return ValueError(
        f"{options.train}: which column is the {what}? There are {', '.join(columns)}. Name it: "
        f"--set 'evaluate.own_tasks=[{toml_value(said)}]'"
    )


def _kind(values: Values) -> str:
    """Lists are tags, or spans where they hold more than names; fractions and many different
    numbers are amounts; all else are classes."""
    given = [value for _, value in values]
    if any(_is_of_squad(value) for value in given):
        return "reading"
    if lists := [value for value in given if isinstance(value, list)]:
        holds_spans = any(isinstance(entry, dict | list) for value in lists for entry in value)
        return "entities" if holds_spans else "tagging"
    numbers = {_number(value) for value in given}
    are_ids = len(numbers) <= _MAX_CLASSES and all(number.is_integer() for number in numbers)
    return "classification" if are_ids or any(map(math.isnan, numbers)) else "regression"


def _is_of_squad(value: Any) -> bool:
    """Whether a gold value holds answers of a context."""
    if isinstance(value, dict):
        return "answer_start" in value
    return isinstance(value, list) and any(map(_is_of_squad, value))


def _scorer(rows: Sequence[Row]) -> str:
    """SQuAD 2.0's where questions are without an answer."""
    answers = [() if row.get("is_impossible") else row["answers"] for row in rows]
    texts = [found.get("text") if isinstance(found, dict) else found for found in answers]
    return "squad-1.1" if all(texts) else "squad-2.0"


def _number(value: Any) -> float:
    """nan of what is no finite number."""
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan
    return number if math.isfinite(number) else math.nan


def _range(label: str, values: Values) -> list[float]:
    for place, value in values:
        if math.isnan(_number(value)):
            raise ValueError(f"{place}: {value!r:.80} in column {label!r} is no number")
    numbers = [_number(value) for _, value in values]
    if min(numbers) == max(numbers):
        raise ValueError(f"column {label!r} is {numbers[0]:g} in every row: nothing to learn")
    return [min(numbers), max(numbers)]


def _labels(kind: str, label: str, values: Values, rows: Sequence[Row]) -> list[str]:
    match kind:
        case "regression" | "reading":
            return []
        case "tagging":
            return _tags(label, values)
        case "entities":
            return _types(label, values, rows)
    return _classes(label, values)


def _types(label: str, values: Values, rows: Sequence[Row]) -> list[str]:
    """B- and I- of each type in the order of letters, then O."""
    spans = [entity_spans(row, label, p) for (p, _), row in zip(values, rows, strict=True)]
    kinds = sorted({kind for of_row in spans for *_, kind in of_row})
    if not kinds:
        raise ValueError(f"column {label!r} has no span in any row: nothing to learn")
    return [*(f"{mark}-{kind}" for kind in kinds for mark in "BI"), OUTSIDE]


def _classes(label: str, values: Values) -> list[str]:
    """In the order of numbers, or of letters."""
    names = set[str]()
    for place, value in values:
        if not isinstance(value, str | int | float):
            raise ValueError(f"{place}: {value!r:.80} in column {label!r} is no label")
        names.add(class_name(value))
    if len(names) == 1:
        raise ValueError(f"column {label!r} is {names.pop()!r} in every row: nothing to learn")
    if len(names) > max(_MAX_CLASSES, len(values) / 2):
        raise ValueError(
            f"column {label!r} has {len(names):,} different values in {len(values):,} rows: it is "
            'no label; name the column (label = "..."), or say kind = "regression"'
        )
    are_numbers = not any(math.isnan(_number(name)) for name in names)
    return sorted(names, key=lambda name: (_number(name) if are_numbers else 0.0, name))


def _tags(label: str, values: Values) -> list[str]:
    """O, then the others in the order of letters."""
    names = set[str]()
    for place, value in values:
        for tag in value if isinstance(value, list) else [value]:
            if not isinstance(value, list) or not isinstance(tag, str) or not _TAG.fullmatch(tag):
                raise ValueError(
                    f"{place}: {tag!r:.80} in column {label!r} is no tag: it has to be a list with "
                    "B-TYPE, I-TYPE or O for each word (other tags are not read)"
                )
            names.add(tag)
    if names <= {OUTSIDE}:
        raise ValueError(f"column {label!r} has no entity in any row: nothing to learn")
    return [OUTSIDE, *sorted(names - {OUTSIDE})]
