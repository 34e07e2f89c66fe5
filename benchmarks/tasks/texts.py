"""The texts of the benchmarks' evaluation rows, for the corpus stage to look for.

All splits but the training one, every text of a row, from all files of the official names at any
depth of the data folder. Of a file of the user's a text may be a value of JSON or Parquet, a cell
of a table, a line, a list of words, or a column of words with their tags (CoNLL).
"""

import functools
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from glob import glob
from itertools import zip_longest
from pathlib import Path
from typing import Any

from benchmarks.tasks.files import JSON_SUFFIXES, json_values, parquet_rows, tagged_sentences
from benchmarks.tasks.load import (
    HUB,
    check_data,
    files_below,
    files_named,
    hub_rows,
    is_read_by_datasets,
    load_tasks,
    official_names,
)
from benchmarks.tasks.registry import SUITES, TASKS, tasks_of
from benchmarks.tasks.rows import mark_and_type
from benchmarks.tasks.task import Task
from electrify.config.fields import TEXT_NAMES, unknown_texts
from electrify.config.run import RunConfig
from electrify.stage.folder import MANIFEST, write_text
from electrify.stage.plan import compared_tasks, output_dir
from electrify.storage.encodings import decode_file
from electrify.storage.tables import has_header, read_table
from electrify.system.outcome import UserError
from electrify.system.progress import log, warn

SplitText = tuple[str, str]
_ENDING = ".jsonl"
_OPTION = "clean.decontaminate_against"
_SET_FOLDER = (
    "set clean.decontaminate_data_dir or evaluate.data_dir to the folder of the official files"
)
_WORD_CHARACTERS = 11  # what is longer may be a sentence of a language without spaces


def dump_benchmarks(config: RunConfig, overwrite: bool = False) -> Path | None:
    """Dump what `clean.decontaminate_against` names into `<output_dir>/benchmark-texts`; where it
    is left out, the rows that `[evaluate]` scores, unless the corpus is finished and stays (see
    `warn_of_uncompared`). The folder, or None if there is nothing to dump."""
    names, folder = config.clean.decontaminate_against, Path(config.output_dir) / "benchmark-texts"
    is_finished = (folder.with_name("clean") / MANIFEST).exists()
    if config.removes_scored_rows and (overwrite or not is_finished):
        texts = _scored_texts(config)
        why = ", which are scored (`clean.decontaminate_against=[]` keeps them)"
    elif names:
        texts, why = named_texts(names, _data_dirs(config)), ""
    else:
        warn_of_uncompared(config)
        return None
    tasks = ", ".join(path.name.removesuffix(_ENDING) for path in write_texts(texts, folder))
    log(f"decontaminate: the texts of {tasks}, in {folder}{why}")
    return folder


def warn_of_uncompared(config: RunConfig) -> None:
    """Warn of the tasks whose scored rows a finished corpus may hold, as they were named later."""
    compared = compared_tasks(config)
    if compared is None or not config.removes_scored_rows:
        return
    with suppress(UserError):  # who scores says what is missing
        if {task.name for task in tasks_of(config.evaluate)} <= {*compared}:
            return
        names = [task.name for task, _ in check_data(config.evaluate)]
        if left := [name for name in names if name not in compared]:
            _warn_once(
                f"{output_dir(config) / 'clean'} was not compared with {', '.join(left)}, and may "
                "hold their rows: remove it and run again to have them removed"
            )


@functools.cache
def _warn_once(text: str) -> None:
    """Of a run `clean` and `evaluate` both say it."""
    warn(text)


def _scored_texts(config: RunConfig) -> dict[str, dict[SplitText, None]]:
    """Of official tasks all rows but those of training; of own tasks those that are scored."""
    own = config.evaluate.model_copy(update={"tasks": (), "suites": ()})
    try:
        found = check_data(config.evaluate)
        data = load_tasks(own)[1] if own.own_tasks else {}
    except UserError as error:
        raise UserError(
            f"{error}\nclean removes the texts of the tasks that are scored: "
            "`clean.decontaminate_against=[]` leaves that out"
        ) from None
    texts = {
        task.name: dict.fromkeys(_task_texts(task, folder))
        for task, folder in found
        if task.name not in data
    }
    for name, of_task in data.items():
        rows = [(split, row) for split, rows in of_task.predicted.items() for row in rows]
        texts[name] = dict.fromkeys((split, text) for split, row in rows for text in row.texts)
    return texts


def check_benchmarks(config: RunConfig) -> None:
    """`ValueError` as `dump_benchmarks` raises it where files are missing; no text is read."""
    for name in config.clean.decontaminate_against or ():
        _find_tasks(name, _data_dirs(config))


def _data_dirs(config: RunConfig) -> tuple[Path, ...]:
    data_dir = config.clean.decontaminate_data_dir
    return (Path(data_dir).expanduser(),) if data_dir else config.evaluate.data_dirs


def named_texts(
    names: Sequence[str], data_dirs: Sequence[Path]
) -> dict[str, dict[SplitText, None]]:
    """The texts of suites, tasks and files; each task is read from the first of `data_dirs` that
    has it. Raises `ValueError` for a name that is none of them and a task without its files."""
    texts: dict[str, dict[SplitText, None]] = {}  # in order, each once
    for name in names:
        for task, pairs in _read_texts(name, data_dirs).items():
            texts.setdefault(task, {}).update(dict.fromkeys(pairs))
    return texts


def write_texts(texts: Mapping[str, Mapping[SplitText, None]], folder: Path) -> list[Path]:
    """One `<task>.jsonl` of {task, split, text} for each; `UserError` for one without text."""
    if empty := [task for task, pairs in texts.items() if not pairs]:
        raise UserError(f"{_OPTION}: there is no text in {', '.join(empty)}")
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob(f"*{_ENDING}"):  # of an earlier config
        old.unlink()
    paths = []
    for task, rows in texts.items():
        paths.append(folder / f"{task}{_ENDING}")
        records = (
            json.dumps({"task": task, "split": split, "text": text}, ensure_ascii=False)
            for split, text in rows
        )
        write_text(paths[-1], "".join(f"{record}\n" for record in records))
    return paths


def _read_texts(name: str, data_dirs: Sequence[Path]) -> dict[str, list[SplitText]]:
    if tasks := _find_tasks(name, data_dirs):
        return {task: list(_task_texts(TASKS[task], folder)) for task, folder in tasks.items()}
    paths = _files(name)
    root = Path(os.path.commonpath([path.parent for path in paths]))
    return {
        "-".join(path.relative_to(root).parts): [
            ("file", text.strip()) for text in file_texts(path) if text.strip()
        ]
        for path in paths
    }


def _files(name: str) -> list[Path]:
    """The files that a path or a glob names."""
    paths = map(Path, sorted(glob(str(Path(name).expanduser()))))
    return [path for path in paths if path.is_file()]


def _find_tasks(name: str, data_dirs: Sequence[Path]) -> dict[str, Path]:
    """The tasks of a suite, or one, with the data folder that has each; none of a file. What the
    hub does not have is left out with a warning. Raises `ValueError` as `named_texts`."""
    if name not in TEXT_NAMES:
        if not _files(name):
            raise UserError(f"{_OPTION}: {unknown_texts(name)}")
        return {}
    if not data_dirs:
        raise UserError(f'no data folder for {name!r} of {_OPTION}: {_SET_FOLDER}, or to "hub"')
    folders = [data_dir for data_dir in data_dirs if str(data_dir) != HUB]
    for folder in folders:
        if not folder.is_dir():
            raise UserError(f"no data folder {folder}; {_SET_FOLDER}")
    tasks = SUITES.get(name) or (TASKS[name],)
    present = {
        task.name: data_dir
        for task in tasks
        for data_dir in reversed(data_dirs)  # of several the first
        if _has_texts(task, data_dir)
    }
    missing = [task for task in tasks if task.name not in present]
    if missing and folders:
        files = dict.fromkeys(
            file
            for task in missing
            for split in task.reported_splits
            for file in task.files.get(split, ())
        )
        others = f", or name the tasks that are there: {json.dumps([*present])}" if present else ""
        raise UserError(
            f"{_OPTION}: no evaluation file of {', '.join(repr(task.name) for task in missing)} "
            f"below {' or '.join(str(folder.absolute()) for folder in folders)}; put "
            f"{', '.join(files)} there{others}. If you do not score {name!r}, leave it out of "
            f"{_OPTION}"
        )
    if not present:
        raise UserError(f"{_OPTION}: no task of {name!r} is read from the hub; {_SET_FOLDER}")
    if missing:
        warn(
            f"{_OPTION}: of {name!r} the hub does not have "
            f"{', '.join(task.name for task in missing)}, whose texts are left out; those of "
            f"{', '.join(present)} are read"
        )
    return present


def _has_texts(task: Task, data_dir: Path) -> bool:
    if is_read_by_datasets(task, data_dir):
        return task.hub is not None
    return bool(_evaluation_files(task, data_dir))


def _evaluation_files(task: Task, data_dir: Path) -> list[tuple[str, Path]]:
    files = files_below(data_dir)
    return [
        (split, path)
        for split in task.all_splits
        if split != "train"
        for name in (*official_names(task, split), *task.other_texts.get(split, ()))
        for path in files_named(name, files)
    ]


def _task_texts(task: Task, data_dir: Path) -> Iterator[SplitText]:
    if is_read_by_datasets(task, data_dir):
        splits = [split for split in task.all_splits if split != "train"]
        sources = [(split, *rows) for split, rows in hub_rows(task, splits)[0].items()]
    else:
        files = _evaluation_files(task, data_dir)
        sources = [(split, str(path), task.rows(split, path)) for split, path in files]
    for split, where, rows in sources:
        for number, row in rows:
            for text in task.texts(row, f"{where} {task.row_name} {number}"):
                if text.strip():
                    yield split, text.strip()


# Files of the user's own.


def file_texts(path: Path) -> Iterator[str]:
    """The texts of a file; `ValueError` names the file and what is wrong in it."""
    ending = path.suffix.lower()
    if ending == ".parquet":
        yield from _values([*parquet_rows(path)[1]])
        return
    text, _ = decode_file(path.read_bytes(), path)
    if ending in JSON_SUFFIXES:
        rows = json_values(text, path)
        yield from _values([value for _, value in rows] if isinstance(rows, list) else rows)
    elif ending != ".csv" and not isinstance(tagged := tagged_sentences(text), int):
        for sentence in tagged.sentences:
            yield from _joined([cells[tagged.word] for _, cells in sentence])
    elif ending in (".csv", ".tsv"):
        rows = read_table(path)
        for column in zip_longest(*rows[1 if rows and has_header(rows) else 0 :], fillvalue=""):
            if not _are_labels(column):
                yield from column
    else:
        yield from re.split("[\n\t]", text)


_MANY_ROWS, _ROWS_A_LABEL, _LABEL_CHARACTERS = 20, 10, 40


def _are_labels(values: Sequence[Any]) -> bool:
    """Whether a column says the same few short things of many rows: it names classes, no text."""
    if len(values) < _MANY_ROWS or not all(isinstance(value, str) for value in values):
        return False
    few = len({*values}) * _ROWS_A_LABEL <= len(values)
    return few and max(map(len, values)) <= _LABEL_CHARACTERS


def _values(value: Any) -> Iterator[str]:
    """Texts at any depth, keys and labels left out; words of one list together, and nothing of
    tags."""
    if isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
        labels = {key for key in value[0] if _are_labels([row.get(key) for row in value])}
        value = [{key: row[key] for key in row if key not in labels} for row in value]
    if isinstance(value, str):
        yield value
    elif isinstance(value, list) and value and all(map(_is_word, value)):
        if not all(map(mark_and_type, value)):
            yield from _joined(value)
    elif isinstance(value, list | dict):
        for entry in value if isinstance(value, list) else value.values():
            yield from _values(entry)


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and len(value.split()) < 2


def _joined(words: Sequence[str]) -> Iterator[str]:
    """The sentence of some words, and the words that may be one."""
    yield " ".join(words)
    yield from (word for word in words if len(word) > _WORD_CHARACTERS)
