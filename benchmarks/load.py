"""Official files below a data folder to checked examples.

Files are found by their official name at any depth. Nothing is downloaded, normalised or skipped:
a row that does not fit stops the run with its place.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from benchmarks.tagging import read_sentences
from benchmarks.task import Task
from electrify.artifacts import fingerprint

# Share of the groups that becomes training data where a task comes with a dev file alone.
DEV_SPLIT_TRAIN_FRACTION = 0.7


@dataclass(frozen=True)
class Example:
    """One row: its id, one text or two, and the position of its label in the task's labels.

    Of a tagging task `tags` holds those of the characters' labels, and `label` says nothing.
    """

    id: str
    texts: tuple[str, ...]
    label: int
    tags: tuple[int, ...] = ()


@dataclass(frozen=True)
class TaskData:
    """The rows of a task, and where they come from.

    `split` names the reported rows: "dev", or "dev-split-eval" where the dev file had to serve as
    training data too. `sha256` maps each file, relative to the data folder, to its hash.
    """

    train: tuple[Example, ...]
    reported: tuple[Example, ...]
    split: str
    files: tuple[Path, ...]
    sha256: dict[str, str]


def load_task(task: Task, data_dir: Path) -> TaskData:
    """Find, read and check a task's files below `data_dir`.

    Raises `ValueError` naming the file looked for, the two files of one name, or the bad row.
    """
    if not data_dir.is_dir():
        raise ValueError(f"no data folder {data_dir}; give --data-dir a folder that exists")
    dev_path = find_file(task, "dev", data_dir)
    if dev_path is None:
        names = " or ".join(name for split in ("train", "dev") for name in task.files[split])
        raise ValueError(
            f"{task.name}: no {' or '.join(task.files['dev'])} below {data_dir.absolute()}; "
            f"put the official files of the task there ({names})"
        )
    train_path = find_file(task, "train", data_dir)
    dev = tuple(read_examples(task, "dev", dev_path))
    if train_path is None:
        train, reported = split_by_group(task, dev)
        split = "dev-split-eval"
    else:
        train, reported = tuple(read_examples(task, "train", train_path)), dev
        split = "dev"
    paths = tuple(path for path in (train_path, dev_path) if path is not None)
    if not train or not reported:
        raise ValueError(
            f"{task.name}: {len(train)} training and {len(reported)} reported rows in "
            f"{', '.join(map(str, paths))}; both need at least one"
        )
    sha256 = {path.relative_to(data_dir).as_posix(): fingerprint(str(path)) for path in paths}
    return TaskData(train, reported, split, paths, sha256)


def find_file(task: Task, split: str, data_dir: Path) -> Path | None:
    """The split's file under its first name that is there; two files of that name are an error."""
    for name in task.files[split]:
        wanted = PurePosixPath(name).parts
        found = [
            path
            for path in _files_named(data_dir, wanted[-1])
            # absolute: a data folder may itself be the named one, .../CoLA
            if path.absolute().parts[-len(wanted) :] == wanted
        ]
        if len(found) > 1:
            raise ValueError(
                f"{task.name}: more than one {name}: {found[0]} and {found[1]}; "
                "give --data-dir a folder with one of them"
            )
        if found:
            return found[0]
    return None


def _files_named(data_dir: Path, name: str) -> list[Path]:
    found, seen = [], set()
    for folder, inner, names in os.walk(data_dir, followlinks=True):
        real = os.path.realpath(folder)
        if real in seen:  # a link back up, or a second way to the same folder
            inner.clear()
            continue
        seen.add(real)
        if name in names:
            found.append(Path(folder, name))
    return sorted(found)


def read_examples(task: Task, split: str, path: Path) -> Iterator[Example]:
    """Yield the rows of one official file in file order; `ValueError` names file and row."""
    try:
        text = path.read_text(encoding="utf-8-sig")  # MRPC's files begin with a byte order mark
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8: {error}") from None
    if task.head == "tagging":
        yield from _tagged_examples(task, path, text)
        return
    rows = _json_rows if task.file_format == "json" else _tsv_rows
    label_ids = {label: index for index, label in enumerate(task.labels)}
    seen: dict[str, int] = {}
    for number, row in rows(task, path, text):
        identity = row[task.id_field] if task.id_field else f"{split}-{number}"
        if identity in seen:
            raise ValueError(
                f"{path} row {number}: {task.id_field} {identity!r} is that of row {seen[identity]}"
            )
        seen[identity] = number
        label = row[task.label_field]
        if label not in label_ids:
            raise ValueError(
                f"{path} row {number}: unknown {task.label_field} {label!r} "
                f"(allowed: {', '.join(task.labels)})"
            )
        yield Example(identity, tuple(row[field] for field in task.text_fields), label_ids[label])


def _tagged_examples(task: Task, path: Path, text: str) -> Iterator[Example]:
    label_ids = {label: index for index, label in enumerate(task.labels)}
    seen: dict[str, int] = {}
    for number, sentence in read_sentences(path, text):
        if sentence.id in seen:
            raise ValueError(
                f"{path} line {number}: id {sentence.id!r} is that of line {seen[sentence.id]}"
            )
        seen[sentence.id] = number
        if unknown := sorted(set(sentence.labels) - label_ids.keys()):
            raise ValueError(
                f"{path} line {number}: unknown label {unknown[0]!r} in sentence {sentence.id} "
                f"(allowed: {', '.join(task.labels)})"
            )
        yield Example(
            sentence.id, (sentence.text,), 0, tuple(label_ids[n] for n in sentence.labels)
        )


def _json_rows(task: Task, path: Path, text: str) -> Iterator[tuple[int, dict[str, str]]]:
    try:
        rows = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is not valid JSON: {error}") from None
    if not isinstance(rows, list):
        raise ValueError(f"{path} holds one {type(rows).__name__}; {task.name} is a list of rows")
    needed = [*task.text_fields, task.label_field, *([task.id_field] if task.id_field else [])]
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, dict):
            raise ValueError(f"{path} row {number}: {row!r} is not an object")
        for field in needed:
            if not isinstance(row.get(field), str):
                raise ValueError(
                    f"{path} row {number}: field {field!r} is "
                    f"{repr(row[field]) if field in row else 'missing'}, not text"
                )
        yield number, row


def _tsv_rows(task: Task, path: Path, text: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Rows by column name; numbers count from 1 and leave the header out.

    Lines end at \\n only: a form feed or U+2028 inside a sentence does not end it. A quotation
    mark is a character like any other.
    """
    lines = text.removesuffix("\n").split("\n") if text else []
    cells = [line.removesuffix("\r").split("\t") for line in lines]
    if task.has_header:
        if not cells or tuple(cells[0]) != task.columns:
            raise ValueError(
                f"{path}: header is {cells[0] if cells else []}, {task.name} has "
                f"{list(task.columns)}; a file without labels (a test set) cannot be scored"
            )
        cells = cells[1:]
    for number, values in enumerate(cells, start=1):
        if len(values) != len(task.columns):
            raise ValueError(
                f"{path} row {number}: {len(values)} columns, not {len(task.columns)} "
                f"({', '.join(task.columns)})"
            )
        yield number, dict(zip(task.columns, values, strict=True))


def split_by_group(
    task: Task, examples: Sequence[Example]
) -> tuple[tuple[Example, ...], tuple[Example, ...]]:
    """Divide rows into training and reported ones by a hash of their first text.

    Rows that share it (one premise, several hypotheses) stay together, and a row's side depends on
    nothing but that text: not on the order, the seed or the other rows.
    """
    limit = int(DEV_SPLIT_TRAIN_FRACTION * 2**64)
    train: list[Example] = []
    reported: list[Example] = []
    for example in examples:
        digest = hashlib.sha256(f"{task.name}\n{example.texts[0]}".encode()).digest()
        side = train if int.from_bytes(digest[:8], "big") < limit else reported
        side.append(example)
    return tuple(train), tuple(reported)
