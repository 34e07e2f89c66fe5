"""Tasks of the user's own: a file of texts with a label, a number, tags, spans or answers.

What the user does not say is guessed from the rows; `describe` says what was guessed. A record
(`record_of`) holds all that was settled, so that predictions are scored again without the file.
A data set of the hub is read as files too: its splits in the cache.
"""

import importlib
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from glob import escape, glob
from itertools import chain, combinations
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from benchmarks.metrics import METRICS
from benchmarks.metrics.tags import OUTSIDE
from benchmarks.tasks.files import SUFFIXES, TABLES, own_rows
from benchmarks.tasks.labels import Classification, MultiLabelClassification, Regression
from benchmarks.tasks.rows import Row, is_missing, nested, number_of, placed_answers
from benchmarks.tasks.spans import OwnReading, Scorer
from benchmarks.tasks.tags import OwnEntityTagging, OwnWordTagging, WordLabels
from benchmarks.tasks.task import OWN, Example, Task
from electrify.config.evaluate import OwnKind, OwnTask, task_name_of
from electrify.config.load import toml_value
from electrify.stage.folder import digest_of, whole_file
from electrify.storage.files import read_toml
from electrify.storage.hub import hub_failure, load_splits
from electrify.system.bundled import bundled_name
from electrify.system.outcome import UserError, first_line, nearest
from electrify.system.progress import log, warn

OWN_KINDS: Mapping[OwnKind, type[Task]] = {
    "classification": Classification,
    "multi-label": MultiLabelClassification,
    "regression": Regression,
    "tagging": OwnWordTagging,
    "word-labels": WordLabels,
    "entities": OwnEntityTagging,
    "reading": OwnReading,
}
_RECORDS = {kind: TypeAdapter(strategy) for kind, strategy in OWN_KINDS.items()}
_TABLES = read_toml(Path(__file__).with_suffix(".toml"))
_COLUMNS = _TABLES["columns"]
_CHOICE = re.compile(r"(choice|option|ending|alternative|선택지|보기)[ _-]?[0-9a-h]", re.IGNORECASE)
_MAX_NAMES = 8  # in a message
_CODE = re.compile(r"\s*0\d")  # 001 is no amount
_MAX_CLASSES = 20  # more different numbers than this are amounts
_FEW_ROWS = 10  # of which a column may have as many values as there are rows
_TRAIN_FRACTION = 0.8  # of the texts, where there is a training file alone

# what is settled of a task, as a result states it
_RECORDED = (
    *("name", "version", "files", "reported", "also_reported", "text_fields"),
    *("label_field", "labels", "value_range", "scorer", "note"),
)
_UNSETTLED = ("version", "files", "note")  # the version is a digest of all else
_SHARED: Mapping[str, Any] = {
    "suite": OWN,
    "version": "",
    "files": {},
    "id_field": "",  # a column of the user's may be named so and hold anything
    "unlabelled": (),
    "skip_empty": True,
    "train_fraction": _TRAIN_FRACTION,
    "head": "joint",  # of reading
}

Placed = Sequence[tuple[str, Row]]  # rows with their locations
Values = Sequence[tuple[str, Any]]  # gold values with the locations of their rows


def task_of_record(record: Mapping[str, Any]) -> Task:
    """The task that a record describes; `ValueError` if it describes none."""
    try:
        kind, headline = record["kind"], record["headline"]
        names = sorted(_TABLES["metrics"][kind], key=lambda name: name != headline)
        settings = {name: record[name] for name in _RECORDED if name in record}
        settings["metrics"] = [METRICS[name] for name in names]
        return _RECORDS[kind].validate_python({**_SHARED, **settings})
    except (KeyError, TypeError, ValidationError) as error:
        raise UserError(f"{record!r:.200} describes no task ({first_line(error)})") from None


def record_of(task: Task) -> dict[str, Any] | None:
    """What `task_of_record` makes a task of the user's own from; None for other tasks."""
    if task.suite != OWN:
        return None
    values = {name: getattr(task, name, None) for name in _RECORDED}
    settings = {name: value for name, value in values.items() if value not in (None, False)}
    return {"kind": _kind_of(task), "headline": task.headline, **settings}


def _kind_of(task: Task) -> OwnKind:
    return next(kind for kind, strategy in OWN_KINDS.items() if type(task) is strategy)


def files_of(options: OwnTask) -> dict[str, Path]:
    """The files of a task by split; `UserError` where the hub does not give them."""
    on_hub = files_on_hub(options.train) if is_on_hub(options.train) else {}
    given = {"train": None if on_hub else options.train, "dev": options.dev, "test": options.test}
    given |= _further_files(options)
    files = {split: Path(name).expanduser().absolute() for split, name in given.items() if name}
    return on_hub | files


def _further_files(options: OwnTask) -> Mapping[str, str]:
    """By name; of a pattern by what its `*` stands for, without the task's own files."""
    if not isinstance(options.further, str):
        return options.further
    before, after = str(Path(options.further).expanduser()).split("*")
    names = (options.train, options.dev, options.test)
    own = {Path(name).expanduser().resolve() for name in names if name}
    further = {
        file[len(before) : len(file) - len(after)]: file
        for file in sorted(glob(f"{escape(before)}*{escape(after)}"))
        if Path(file).resolve() not in own
    }
    if not further:
        raise UserError(f"{options.task_name}: further: {options.further} finds no other file")
    options.check_names(further)
    return further


def own_task(options: OwnTask) -> Task:
    """The task of a file of the user's.

    Raises `ValueError` for a file that cannot be read or has no rows, a column that is not there or
    cannot be guessed, and gold values that are none of the kind.
    """
    paths = files_of(options)
    splits = {split: _read(options, path) for split, path in paths.items()}
    _check_names(paths, splits)
    rows = [row for placed in splits.values() for _, row in placed]
    columns = list(dict.fromkeys(str(column) for row in rows for column in row))
    label = _label_column(options, columns, rows)
    for split in ("dev", "test"):  # of the hub: a hidden one has null or -1 in every row
        if split not in splits or getattr(options, split):
            continue
        gold = [value for _, value in _values(label, splits[split])]
        if all(is_missing(value) or number_of(value) == -1 for value in gold):
            log(f"own task {options.train}: its {split} split has no labels and is left out")
            del splits[split], paths[split]
    placed = [*chain.from_iterable(splits.values())]
    kind = options.kind or _kind(
        label, _values(label, placed), _has_words([c for c in columns if c != label], rows)
    )
    texts = _text_columns(options, columns, label, kind, rows)
    # others are left out as they are read
    placed = [
        (p, row) for p, row in placed if all(nested(row, n) not in (None, "", []) for n in texts)
    ]
    if not placed:
        raise UserError(f"{options.train}: no row has a text in {' and '.join(texts)}")
    values = _values(label, placed)
    if options.gold is None and _are_row_numbers(_values(label, splits["train"])):
        raise UserError(
            f"{options.train}: column {label!r} holds the numbers of the rows, which is no label; "
            'name the column: label = "COLUMN"'
        )
    if kind != "reading" and (
        empty := [location for location, value in values if is_missing(value)]
    ):
        raise UserError(
            f"{_join_locations(empty)}: no value in column {label!r}; fill it in or remove the row"
        )
    metrics = _metrics(kind)
    if options.metric not in (None, *metrics):
        raise UserError(
            f"{options.task_name}: unknown metric {options.metric!r}"
            f"{nearest(str(options.metric), metrics)} ({kind} has {', '.join(metrics)})"
        )
    if kind == "entities" and len(texts) > 1:
        raise UserError(
            f"{options.train}: entities are of one text, here of {' and '.join(texts)}: name its "
            'column, text = "COLUMN"'
        )
    if kind == "reading" and (label != "answers" or texts != ("context", "question")):
        raise UserError(
            f"{options.train}: reading has the columns context, question and answers, in this "
            f"order, as SQuAD on the hub; here are {', '.join((*texts, label))}"
        )
    reported = next(split for split in ("test", "dev", "train") if split in paths)
    task = task_of_record(
        {
            "kind": kind,
            "headline": options.metric or metrics[0],
            "name": options.task_name,
            "reported": reported,
            "also_reported": tuple(split for split in paths if split not in ("train", reported)),
            "text_fields": texts,
            "label_field": label,
            "value_range": _range(options, label, values) if kind == "regression" else (0.0, 1.0),
            "scorer": _scorer(options, placed) if kind == "reading" else None,
        }
    )
    task = replace(task, labels=_labels(task, kind, placed))
    settled = {n: v for n, v in (record_of(task) or {}).items() if n not in _UNSETTLED}
    version = digest_of(settled)[:8]
    files = {split: (str(path),) for split, path in paths.items()}
    return replace(task, version=version, files=files, note=options.note or "")


def describe(
    task: Task,
    train: Sequence[Example],
    reported: Sequence[Example],
    further: Mapping[str, Sequence[Example]],
    num_dropped: int,
) -> str:
    """What was guessed, and how many rows there are on each side."""
    kind, rows = _kind_of(task), (*train, *reported, *chain.from_iterable(further.values()))
    match kind:
        case "regression":
            what = "{:g} to {:g}".format(*task.value_range)
        case "reading":
            num_without = sum(getattr(example, "answers", ()) == () for example in rows)
            what = f"{num_without:,} questions without one"
        case "tagging" | "entities":
            types = {label[2:] for label in task.labels if label != OUTSIDE}
            what = f"{len(types)} types of entities: {_join_names(sorted(types))}"
        case "classification" | "multi-label" | "word-labels":
            what = f"{len(task.labels)} labels: {_join_names(task.labels)}"
    text = (
        f"{task.name}: {kind} of column {task.label_field!r} ({what}), text in "
        f"{' and '.join(map(repr, task.text_fields))}, {len(rows) + num_dropped:,} rows"
    )
    if task.reported == "train":
        share = len(reported) / max(1, len(train) + len(reported))
        text += f"; no dev file: {100 * share:.0f} % of the rows are held out"
    text += f"; {len(train):,} rows to learn from, {len(reported):,} of {task.reported} reported"
    if further:
        text += ", beside them " + ", ".join(
            f"{len(split):,} of {n}" for n, split in further.items()
        )
    if num_dropped:
        text += f"; {num_dropped:,} training rows are left out: their texts are reported too"
    if {*further} - {"dev"}:
        return f'{text}\nfor other columns: give the task text = "COLUMN" and label = "COLUMN"'
    override: dict[str, Any] = {n: bundled_name(file) for n, (file,) in task.files.items()}
    override |= {"kind": kind} if kind == "word-labels" else {}
    override |= {"text": "COLUMN", "label": "COLUMN"}
    if task.name != task_name_of(override["train"]):
        override["name"] = task.name
    if task.headline != _metrics(kind)[0]:
        override["metric"] = task.headline
    return f"{text}\nfor other columns: {_option(override)}"


def _read(options: OwnTask, path: Path) -> Placed:
    if not path.is_file():
        what = "a folder: give one of its files" if path.is_dir() else "there is no such file"
        raise UserError(f"{options.task_name}: {path}: {what}")
    numbered, notes = own_rows(path)
    if not (rows := [*numbered]):
        raise UserError(f"{path} has no rows")
    if len(rows[0][1]) == 1 and path.suffix.lower() in TABLES:
        (only,) = rows[0][1]
        raise UserError(
            f"{path}: one column, {only!r:.80}; a task has two or more, text and gold value, "
            "with one of , ; | or a tab between them, and texts that hold it in quotation marks; "
            "remove lines above the names of the columns"
        )
    for note in notes:
        log(f"{path}: {note}")
    return [(f"{path} row {number}", row) for number, row in rows]


def _check_names(paths: Mapping[str, Path], splits: Mapping[str, Placed]) -> None:
    """`ValueError` for a column that another file has in other letters, `Text` beside `text`."""
    names = {
        split: {str(name) for _, row in rows for name in row} for split, rows in splits.items()
    }
    for (file, own), (other, others) in combinations(names.items(), 2):
        for name in sorted(own - others):
            if alike := next((n for n in others - own if n.lower() == name.lower()), None):
                raise UserError(
                    f"{paths[other]} has the column {alike!r}, {paths[file].name} {name!r}: give "
                    "them one name"
                )


def _values(column: str, rows: Placed) -> Values:
    return [(location, nested(row, column)) for location, row in rows]


def _join_names(names: Sequence[str]) -> str:
    """The first names and how many more; a dash of none."""
    more = [f"and {len(names) - _MAX_NAMES} more"] if len(names) > _MAX_NAMES else []
    return ", ".join([*names[:_MAX_NAMES], *more]) or "–"


def _join_locations(locations: Sequence[str]) -> str:
    """The first location, and how many more, with the numbers of some."""
    if len(locations) == 1:
        return locations[0]
    numbers = _join_names([location.rpartition(" ")[2] for location in locations[1:]])
    return f"{locations[0]} and {len(locations) - 1:,} more ({numbers})"


# Columns.


def _label_column(options: OwnTask, columns: Sequence[str], rows: Sequence[Row]) -> str:
    """The column of the gold values; `ValueError` for a column that is not there, too."""
    for given in (*options.texts, options.gold):
        if given is None or given in columns:
            continue
        if all(nested(row, given) is None for row in rows):
            raise UserError(
                f"{options.train}: no column {given!r}{nearest(given, columns)} (there are: "
                f"{', '.join(columns)})"
            )
    if options.gold:
        return options.gold
    free = [column for column in columns if column not in options.texts]
    if not (candidates := _known(_COLUMNS["labels"], free)):
        texts = _text_columns(options, columns, None, None, rows)
        candidates = [c for c in columns if c not in texts and c.lower() not in _COLUMNS["ids"]]
    if not candidates:
        raise UserError(
            f"{options.train}: no column is left for the label beside {', '.join(columns)}; "
            'add one, or name the text\'s: text = "COLUMN"'
        )
    if len(candidates) > 1:
        raise _which(options, "label", columns, rows)
    return candidates[0]


def _text_columns(
    options: OwnTask,
    columns: Sequence[str],
    label: str | None,
    kind: str | None,
    rows: Sequence[Row],
) -> tuple[str, ...]:
    """A pair or a text by its usual name, else the column of the longest texts; of tagging a column
    of lists."""
    if options.texts:
        return options.texts
    if len(choices := [column for column in columns if _CHOICE.fullmatch(column)]) > 1:
        raise UserError(
            f"{options.train}: {', '.join(choices)}: tasks of several choices are not scored; "
            "write a row for each choice, text and choice as a pair and whether it is right as "
            "label, or name the column of the text"
        )
    free = [column for column in columns if column != label]
    if kind in ("tagging", "word-labels"):
        free = [c for c in free if any(isinstance(row.get(c), list) for row in rows)] or free
    for pair in _COLUMNS["pairs"]:
        first, second = (_known([name], free) for name in pair)
        if first and second:
            return first[0], second[0]
    known = known_texts(free)
    if not known:
        lengths = {
            column: sum(len(v) for row in rows if isinstance(v := row.get(column), str | list))
            for column in free
            if column.lower() not in _COLUMNS["ids"]
        }
        longest = max(lengths, key=lengths.__getitem__, default="")
        known = [longest] if lengths.get(longest) else []
    if len(known) != 1:
        raise _which(options, "text", columns, rows)
    return (known[0],)


def known_texts(columns: Sequence[str]) -> list[str]:
    """The columns of a text by its usual name."""
    return _known(_COLUMNS["texts"], columns)


def _known(names: Sequence[str], columns: Sequence[str]) -> list[str]:
    """The columns of the first of the names that is there, in whatever letters."""
    matches = ([column for column in columns if column.lower() == name] for name in names)
    return next(filter(None, matches), [])


def _which(options: OwnTask, what: str, columns: Sequence[str], rows: Sequence[Row]) -> UserError:
    override = options.model_dump(exclude_defaults=True)
    override[what] = "COLUMN"
    inner = {c: value for c in columns if isinstance(value := rows[0].get(c), dict)}
    columns = [*columns, *(f"{column}.{name}" for column in inner for name in inner[column])]
    return UserError(
        f"{options.train}: which column is the {what}? There are {', '.join(columns)}. Name it: "
        f"{_option(override)}"
    )


def _option(override: Mapping[str, Any]) -> str:
    """The option of a task, as an override."""
    return f"`evaluate.own_tasks=[{toml_value(override)}]`"


# Gold values.


def _metrics(kind: OwnKind) -> Sequence[str]:
    """Names of the metrics of a kind, the default headline first."""
    return _TABLES["metrics"][kind] or ["f1"]


def _kind(label: str, values: Values, has_words: bool) -> OwnKind:
    """Lists are answers by their name, else tags of a list of words, labels of a text, or spans
    where they hold more than names; fractions and many different numbers are amounts; all else are
    classes, also 001.

    `ValueError` for what is no number where most values are numbers, and for as many whole numbers,
    without a gap and often the same, as may be classes or amounts.
    """
    given = [(location, value) for location, value in values if not is_missing(value)]
    if label == "answers" and any(isinstance(value, list | dict) for _, value in given):
        return "reading"
    if lists := [value for _, value in given if isinstance(value, list)]:
        holds_spans = any(isinstance(entry, dict | list) for value in lists for entry in value)
        return "entities" if holds_spans else "tagging" if has_words else "multi-label"
    if any(isinstance(value, str) and _CODE.match(value) for _, value in given):
        return "classification"
    odd = _no_numbers(given)
    numbers = Counter(number_of(value) for _, value in given if not math.isnan(number_of(value)))
    if odd and numbers.total() > len(odd):
        where = _join_locations([location for location, _ in odd])
        raise UserError(
            f"{where}: {odd[0][1]!r:.80} in column {label!r} is no "
            f"number, {numbers.total():,} others are; correct it or remove the row (if it is a "
            'label, say kind = "classification")'
        )
    if odd or not all(number.is_integer() for number in numbers):
        return "classification" if odd else "regression"
    if len(numbers) <= _MAX_CLASSES:
        return "classification"
    first, last = min(numbers), max(numbers)
    if first in (0, 1) and last - first < len(numbers) and numbers.total() > 2 * len(numbers):
        raise UserError(
            f"{given[0][0]} and on: column {label!r} has the whole numbers {first:g} to {last:g}: "
            'say kind = "classification" if they are classes, or kind = "regression"'
        )
    return "regression"


def _has_words(columns: Sequence[str], rows: Sequence[Row]) -> bool:
    """Whether a column of lists is that of the words: by its name, or without a text beside it."""
    lists = [c for c in columns if any(isinstance(row.get(c), list) and row[c] for row in rows)]
    others = [c for c in columns if c not in lists]
    return bool(known_texts(lists) or (lists and not known_texts(others)))


def _are_row_numbers(values: Values) -> bool:
    numbers = [number_of(value) for _, value in values]
    counted = [[*range(start, start + len(numbers))] for start in (0, 1)]
    return len(numbers) >= _FEW_ROWS and numbers in counted


def _no_numbers(values: Values) -> Values:
    return [(location, value) for location, value in values if math.isnan(number_of(value))]


def _scorer(options: OwnTask, rows: Placed) -> Scorer:
    """SQuAD 2.0's where questions are without an answer."""
    answers = [placed_answers(row, location) for location, row in rows]
    if not any(answers):
        raise UserError(f"{options.train}: no question has an answer: nothing to learn")
    return "squad-1.1" if all(answers) else "squad-2.0"


def _range(options: OwnTask, label: str, values: Values) -> tuple[float, float]:
    if odd := _no_numbers(values):
        location = _join_locations([location for location, _ in odd])
        raise UserError(
            f"{location}: {odd[0][1]!r:.80} in column {label!r} is no number; correct it (a "
            "fraction has a point, 3.5) or remove the row"
        )
    numbers = [number_of(value) for _, value in values]
    if min(numbers) == max(numbers):
        raise UserError(
            f"{options.train}: column {label!r} is {numbers[0]:g} in every row: nothing to learn"
        )
    return min(numbers), max(numbers)


def _labels(task: Task, kind: OwnKind, rows: Placed) -> tuple[str, ...]:
    """Those that occur, in the order of numbers or of letters; of tags O first. Of entities B- and
    I- of each type, then O."""
    if kind in ("regression", "reading"):
        return ()
    column = task.label_field
    values = [(location, name) for location, row in rows for name in task.gold_names(row, location)]
    for location, value in values:
        if not isinstance(value, str):
            fields = [f"{column}.{name}" for name in value] if isinstance(value, dict) else []
            hint = f"; name a field of it: {', '.join(fields)}" if fields else ""
            raise UserError(f"{location}: {value!r:.80} in column {column!r} is no label{hint}")
    names = {name for _, name in values}
    if kind in ("tagging", "entities"):
        if names <= {OUTSIDE}:
            raise UserError(
                f"{task.name}: column {column!r} has no entity in any row: nothing to learn"
            )
        types = sorted({name[2:] for name in names - {OUTSIDE}})
        if kind == "entities":
            return (*(f"{mark}-{name}" for name in types for mark in "BI"), OUTSIDE)
        return (OUTSIDE, *sorted(names - {OUTSIDE}))
    if len(names) < 2 and (not names or len(values) >= len(rows)):  # a set may be without the label
        only = f"is {min(names)!r} in every row" if names else "has no label in any row"
        raise UserError(f"{task.name}: column {column!r} {only}: nothing to learn")
    num_alone = sum(number == 1 for number in Counter(name for _, name in values).values())
    if len(values) >= _FEW_ROWS and max(len(names) - _MAX_CLASSES, num_alone) > len(values) / 2:
        raise UserError(
            f"{task.name}: column {column!r} has {len(names):,} different values in "
            f'{len(values):,} rows: it is no label; name the column (label = "..."), or say '
            'kind = "regression"'
        )
    are_numbers = not any(math.isnan(number_of(name)) for name in names)
    return tuple(sorted(names, key=lambda name: (number_of(name) if are_numbers else 0.0, name)))


_NAME = re.compile(r"[\w-][\w.-]*/[\w.-]+(:[\w.-]+)?")
_SPLITS = {"train": "train", "validation": "dev", "valid": "dev", "dev": "dev", "test": "test"}


def is_on_hub(name: str) -> bool:
    """Whether this is `ORG/NAME` or `ORG/NAME:CONFIG` of the hub, and no file here."""
    path = Path(name)
    has_suffix = path.suffix in SUFFIXES or path.suffix[1:].isalpha()
    is_file = path.exists() or (has_suffix and ":" not in name)
    return bool(_NAME.fullmatch(name)) and not is_file


@cache  # of one commit in all of a run
def files_on_hub(name: str) -> dict[str, Path]:
    """The file of each split, at the commit that is there now; where the hub does not answer, those
    that were read last.

    `UserError` where the data set cannot be read, or has no split to learn from.
    """
    path, _, config = name.partition(":")
    datasets: Any = importlib.import_module("datasets")  # slow to import, and seldom wanted
    hub: Any = importlib.import_module("huggingface_hub")
    cache = Path(datasets.config.HF_DATASETS_CACHE) / "electrify"
    label = name.replace("/", "--").replace(":", "--")
    try:
        commit = hub.HfApi().dataset_info(path, revision="main").sha
        splits = load_splits(path, config or None, commit)
    except Exception as error:  # of HTTP, Arrow or `datasets`, which has classes of its own
        failure = hub_failure(error)
        if "Config name is missing" in failure:
            failure = f"{' '.join(str(error).split())} Here: {name}:CONFIG"
        earlier = sorted(cache.glob(f"{label}@*"), key=lambda folder: folder.stat().st_mtime)
        if not earlier:
            raise UserError(f"own task {name}: `datasets` cannot read it: {failure}") from error
        warn(f"own task {name}: {failure}; what was read last is taken, {earlier[-1]}")
        return {path.stem: path for path in earlier[-1].glob("*.parquet")}
    log(f"own task {name}: commit {commit}")
    ours = {_SPLITS[split]: rows for split, rows in splits.items() if split in _SPLITS}
    if "train" not in ours:
        raise UserError(
            f"own task {name}: it has the splits {', '.join(splits)}, and none is called train; "
            "save the rows as files and give those"
        )
    folder, files = cache / f"{label}@{commit[:12]}", {}
    for split, rows in ours.items():
        files[split] = folder / f"{split}.parquet"
        if not files[split].exists():
            folder.mkdir(parents=True, exist_ok=True)
            with whole_file(files[split]) as temporary:
                rows.to_parquet(str(temporary))
    return files
