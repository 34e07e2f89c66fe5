"""Tasks of the user's own: a file of texts with a label, a number, tags, spans or answers.

What the user does not say is guessed from the rows; `describe` says what was guessed. Values are
read by the rules of `labels` and of the kinds, or refused with their rows. A record (`record_of`)
holds all that was settled, so that predictions are scored again without the file.
"""

import math
import re
from collections import Counter
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
from benchmarks.tasks.kinds.classification import Classification, Regression
from benchmarks.tasks.kinds.spans import OwnReading, placed_answers
from benchmarks.tasks.kinds.tagging import OwnEntityTagging, OwnWordTagging, entity_spans
from benchmarks.tasks.labels import (
    alike,
    class_name,
    folded,
    iob2,
    is_missing,
    mark_and_type,
    number_of,
)
from benchmarks.tasks.own_files import read_own
from benchmarks.tasks.rows import Row, nested
from benchmarks.tasks.task import OWN, Example, MetricFunction, Task, listed
from electrify.config.evaluate import OwnTask
from electrify.config.load import toml_value
from electrify.stage.folder import digest_of
from electrify.system.outcome import UserError, nearest
from electrify.system.progress import log, warn

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
# names of columns as most files have them, in small letters; the first that is there is taken
_LABELS = (
    *("label", "labels", "ner_tags", "tags", "tag", "spans", "entities", "answers", "class"),
    *("category", "target", "score", "rating", "sentiment"),
    *("라벨", "레이블", "정답", "분류", "감정", "점수"),
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
    *("body", "question", "tokens", "words", "word"),
    *("본문", "내용", "문장", "제목", "댓글", "리뷰"),
)
_IDS = ("", "id", "guid", "idx", "index", "unnamed: 0")
_MAX_CLASSES = 20  # more different numbers than this are amounts
_LIKE_NONE = ("None", "null", "NULL", "NA", "N/A", "-")  # as programs write that there is no value
_LIKE_NUMBER = re.compile(r"\s*[-+]?\d[\d.,\s]*%?\s*")  # with commas, as of dates and of percent
_TRAIN_FRACTION = 0.8  # of the texts, where there is a training file alone

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
    columns = list(dict.fromkeys(str(column) for _, row in rows for column in row))
    label = _label_column(options, columns, [row for _, row in rows])
    kind = options.kind or _kind(label, [(place, nested(row, label)) for place, row in rows])
    texts = _text_columns(options, columns, label, kind, [row for _, row in rows])
    # others are left out as they are read
    rows = [(p, row) for p, row in rows if all(nested(row, n) not in (None, "", []) for n in texts)]
    if not rows:
        raise UserError(f"{options.train}: no row has a text in {' and '.join(texts)}")
    values = [(place, nested(row, label)) for place, row in rows]
    if kind != "reading" and (empty := [place for place, value in values if is_missing(value)]):
        raise UserError(
            f"{_listed(empty)}: no value in column {label!r}; fill it in or remove the row"
        )
    metrics = [metric.__name__ for metric in _KINDS[kind][1]] or ["f1"]
    if options.metric not in (None, *metrics):
        raise UserError(
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
        "labels": _labels(kind, label, texts, values, [row for _, row in rows]),
        "value_range": _range(label, values) if kind == "regression" else [0.0, 1.0],
        "headline": options.metric or metrics[0],
    }
    if kind == "reading":
        if label != "answers" or len(texts) < 2:
            raise UserError(
                f"{options.train}: reading has the columns context, question and answers, as SQuAD "
                f"on the hub; here are {', '.join((*texts, label))}"
            )
        settled["scorer"] = _scorer(options, rows)
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
        raise UserError(f"{record!r:.200} describes no task ({error!r})") from None
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
        types = {label[2:] for label in task.labels if label != OUTSIDE}
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
    if not path.is_file():
        raise UserError(f"{options.task_name}: no file {path}; give one that is there")
    file = read_own(path)
    for number, row in file.rows:
        if not isinstance(row, Mapping):
            raise UserError(f"{path} row {number}: {row!r:.80} is not an object")
    if not file.rows:
        raise UserError(f"{path} has no rows")
    for note in file.notes:
        log(f"{path}: {note}")
    return file.rows


def _listed(places: Sequence[str]) -> str:
    """The first place, and how many more, with the numbers of some."""
    if len(places) == 1:
        return places[0]
    numbers = listed([place.rpartition(" ")[2] for place in places[1:]], ", ")
    return f"{places[0]} and {len(places) - 1:,} more ({numbers})"


# Columns.


def _label_column(options: OwnTask, columns: Sequence[str], rows: Sequence[Row]) -> str:
    """The column of the gold values; `ValueError` for a column that is not there, too."""
    for given in (options.text, options.second_text, options.label):
        if given is not None and given not in columns and nested(rows[0], given) is None:
            raise UserError(
                f"{options.train}: no column {given!r}{nearest(given, columns)} (there are: "
                f"{', '.join(columns)})"
            )
    if options.label:
        return options.label
    if known := _known(_LABELS, columns):
        if len(known) > 1:
            raise _which(options, "label", columns)
        return known[0]
    texts = _text_columns(options, columns, None, None, rows)
    left = [c for c in columns if c not in texts and c.lower() not in _IDS]
    if not left:
        raise UserError(
            f"{options.train}: no column is left for the label beside {', '.join(columns)}; "
            'add one, or name the text\'s: text = "COLUMN"'
        )
    if len(left) != 1:
        raise _which(options, "label", columns)
    return left[0]


def _text_columns(
    options: OwnTask,
    columns: Sequence[str],
    label: str | None,
    kind: str | None,
    rows: Sequence[Row],
) -> tuple[str, ...]:
    """A pair or a text by its usual name, else the column of the longest texts; of tagging a column
    of lists."""
    if given := tuple(name for name in (options.text, options.second_text) if name):
        return given
    free = [column for column in columns if column != label]
    if kind == "tagging":
        of_lists = [c for c in free if any(isinstance(row.get(c), list) for row in rows)]
        free = of_lists or free
    for pair in _PAIRS:
        found = [_known([name], free) for name in pair]
        if all(found):
            return tuple(names[0] for names in found)
    if known := _known(_TEXTS, free):
        if len(known) > 1:
            raise _which(options, "text", columns)
        return (known[0],)
    lengths = {
        column: sum(len(v) for row in rows if isinstance(v := row.get(column), str | list))
        for column in free
        if column.lower() not in _IDS
    }
    longest = max(lengths, key=lengths.__getitem__, default=None)
    if longest is None or not lengths[longest]:
        raise _which(options, "text", columns)
    return (longest,)


def _known(names: Sequence[str], columns: Sequence[str]) -> list[str]:
    """The columns of the first of the names that is there, in whatever letters."""
    found = ([column for column in columns if column.lower() == name] for name in names)
    return next(filter(None, found), [])


def _which(options: OwnTask, what: str, columns: Sequence[str]) -> UserError:
    said = options.model_dump(exclude_none=True) | {what: "COLUMN"}
    return UserError(
        f"{options.train}: which column is the {what}? There are {', '.join(columns)}. Name it: "
        f"--set 'evaluate.own_tasks=[{toml_value(said)}]'"
    )


# Gold values.


def _kind(label: str, values: Values) -> str:
    """Lists are answers by their name, else tags, or spans where they hold more than names;
    fractions and many different numbers are amounts; all else are classes.

    `ValueError` for what is no number where most values are numbers.
    """
    given = [value for _, value in values if not is_missing(value)]
    if label == "answers" and any(isinstance(value, list | dict) for value in given):
        return "reading"
    if lists := [value for value in given if isinstance(value, list)]:
        holds_spans = any(isinstance(entry, dict | list) for value in lists for entry in value)
        return "entities" if holds_spans else "tagging"
    odd = [(p, v) for p, v in values if math.isnan(number_of(v)) and not is_missing(v)]
    if odd and all(_LIKE_NUMBER.fullmatch(str(value)) for value in given):
        raise UserError(
            f"{_listed([place for place, _ in odd])}: {odd[0][1]!r:.80} in column {label!r} is no "
            'number: write it as 1234.5, without commas and units (or say kind = "classification")'
        )
    numbers = Counter(number for v in given if not math.isnan(number := number_of(v)))
    are_ids = len(numbers) <= _MAX_CLASSES and all(number.is_integer() for number in numbers)
    are_not_given = all(is_missing(value, among_numbers=True) for _, value in odd)
    if odd and numbers and (are_not_given or numbers.total() > len(odd)):
        raise UserError(
            f"{_listed([place for place, _ in odd])}: {odd[0][1]!r:.80} in column {label!r} is no "
            f"number, {numbers.total():,} others are; correct it or remove the row (if it is a "
            'label, say kind = "classification")'
        )
    return "classification" if odd or are_ids else "regression"


def _scorer(options: OwnTask, rows: Sequence[tuple[str, Row]]) -> str:
    """SQuAD 2.0's where questions are without an answer."""
    moved: list[str] = []
    answers = [placed_answers(row, place, moved) for place, row in rows]
    if not any(answers):
        raise UserError(f"{options.train}: no question has an answer: nothing to learn")
    if moved:
        warn(
            f"{_listed(moved)}: answer_start is missing or wrong; the only place of the answer in "
            "its context is taken"
        )
    return "squad-1.1" if all(answers) else "squad-2.0"


def _range(label: str, values: Values) -> list[float]:
    if bad := [(place, value) for place, value in values if math.isnan(number_of(value))]:
        place = _listed([place for place, _ in bad])
        raise UserError(f"{place}: {bad[0][1]!r:.80} in column {label!r} is no number")
    numbers = [number_of(value) for _, value in values]
    if min(numbers) == max(numbers):
        raise UserError(f"column {label!r} is {numbers[0]:g} in every row: nothing to learn")
    return [min(numbers), max(numbers)]


def _labels(
    kind: str, label: str, texts: Sequence[str], values: Values, rows: Sequence[Row]
) -> list[str]:
    match kind:
        case "regression" | "reading":
            return []
        case "tagging":
            return _tags(label, texts[0], values, rows)
        case "entities":
            return _types(label, texts[0], values, rows)
    return _classes(label, values)


def _types(label: str, text: str, values: Values, rows: Sequence[Row]) -> list[str]:
    """B- and I- of each type in the order of letters, then O."""
    moved: list[str] = []
    spans = [
        entity_spans(row, label, str(nested(row, text)), place, moved)
        for (place, _), row in zip(values, rows, strict=True)
    ]
    kinds = sorted({kind for of_row in spans for *_, kind in of_row})
    if not kinds:
        raise UserError(f"column {label!r} has no span in any row: nothing to learn")
    if moved:
        warn(f"{_listed(moved)}: a span does not hold its text; it is put where that stands")
    return [*(f"{mark}-{kind}" for kind in kinds for mark in "BI"), OUTSIDE]


def _classes(label: str, values: Values) -> list[str]:
    """In the order of numbers, or of letters."""
    names: dict[str, set[str]] = {}  # as they are written
    for place, value in values:
        if not isinstance(value, str | int | float):
            raise UserError(f"{place}: {value!r:.80} in column {label!r} is no label")
        names.setdefault(class_name(value), set()).add(str(value).strip())
    if len(names) == 1:
        raise UserError(f"column {label!r} is {min(names)!r} in every row: nothing to learn")
    if all(name[:1] in ("[", "{") and name[-1:] in ("]", "}") for name in names):
        raise UserError(
            f"column {label!r} has lists or objects written as text; save the rows as JSON lines"
        )
    if OUTSIDE in names and all(map(mark_and_type, names)):
        raise UserError(
            f"column {label!r} has tags of single words: write lists of words and of tags, a row a "
            "sentence (JSON lines), or CoNLL: a word and its tag a line, no header, an empty line "
            "between sentences"
        )
    if len(names) > max(_MAX_CLASSES, len(values) / 2):
        raise UserError(
            f"column {label!r} has {len(names):,} different values in {len(values):,} rows: it is "
            'no label; name the column (label = "..."), or say kind = "regression"'
        )
    _warn_of_spellings(label, names)
    are_numbers = not any(math.isnan(number_of(name)) for name in names)
    return sorted(names, key=lambda name: (number_of(name) if are_numbers else 0.0, name))


def _warn_of_spellings(label: str, names: Mapping[str, set[str]]) -> None:
    """Labels that are read as one, and such as look like one and are not."""
    texts = {name: written for name, written in names.items() if math.isnan(number_of(name))}
    if merged := [name for name, written in texts.items() if len(written) > 1]:
        warn(
            f"column {label!r}: {listed(merged, ', ')} is written in several ways that look alike "
            "(Unicode form, width, blanks, invisible characters), each read as one label"
        )
    if none := [name for name in texts if name in _LIKE_NONE]:
        warn(f"column {label!r}: {listed(none, ', ')} is a label as others are; is it meant so?")
    parts = {name: set(re.split(r"\s*[,;|/]\s*", name)) - {name} for name in texts}
    if several := [name for name, of in parts.items() if of and names.keys() >= of]:
        warn(
            f"column {label!r}: {listed(several, ', ')} is read as one label; several labels a "
            "text are not supported"
        )
    groups: dict[str, list[str]] = {}
    for name in sorted(names):
        groups.setdefault(alike(name), []).append(name)
    if near := [" and ".join(map(repr, group)) for group in groups.values() if len(group) > 1]:
        warn(
            f"column {label!r}: {listed(near)} differ in case or blanks alone: are they one label?"
        )


def _tags(label: str, words: str, values: Values, rows: Sequence[Row]) -> list[str]:
    """O, then the others in the order of letters, as `iob2` reads them."""
    read: dict[tuple[str, str], None] = {}  # as they are written, and as they are read
    for (place, value), row in zip(values, rows, strict=True):
        what = f"{place}: {value!r:.80} in column {label!r}"
        if not isinstance(value, list):
            raise UserError(f"{what} is no list with a tag for each word")
        if not isinstance(nested(row, words), list):
            raise UserError(
                f"{what} is a list, and {words!r} is no list of words. Several labels a text are "
                "not supported: make a task of each label, with yes or no. Tags need the words as "
                "a list"
            )
        if any(isinstance(tag, int) for tag in value):
            raise UserError(
                f"{what} has numbers of tags without their names. Write the names: "
                f"dataset.features[{label!r}].feature.int2str(NUMBER); dataset.to_parquet(FILE) "
                "keeps them"
            )
        try:
            read |= dict.fromkeys(zip(value, iob2(value), strict=True))
        except ValueError as error:
            raise UserError(
                f"{place}, column {label!r}: {error} of an entity; write B-TYPE, I-TYPE or O for "
                "each word (BIOES, BILOU, BMES and TYPE_B are read, too; other tags, such as parts "
                "of speech, are not)"
            ) from None
    names = {name for _, name in read}
    if names <= {OUTSIDE}:
        raise UserError(f"column {label!r} has no entity in any row: nothing to learn")
    if other := [f"{written} as {name}" for written, name in read if folded(written) != name]:
        log(f"column {label!r}: tags are read as B-TYPE and I-TYPE: {listed(other, ', ')}")
    return [OUTSIDE, *sorted(names - {OUTSIDE})]
