"""The texts of the benchmarks' evaluation rows, for the corpus stage to look for.

All splits but the training one, every text of a row, from all files of the official names at any
depth of the data folder. Of a file of the user's a text may be a value of JSON or Parquet, a cell
of a table, a line, a list of words, or a column of words with their tags (CoNLL).
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.tasks.files import JSON_SUFFIXES, json_values, parquet_table, tagged_sentences
from benchmarks.tasks.load import (
    HUB,
    files_below,
    files_named,
    hub_rows,
    is_read_by_datasets,
    official_names,
)
from benchmarks.tasks.registry import SUITES, TASKS
from benchmarks.tasks.rows import Row, mark_and_type
from benchmarks.tasks.task import Task
from electrify.config.fields import TEXT_NAMES, unknown_texts
from electrify.config.run import RunConfig
from electrify.stage.folder import write_text
from electrify.storage.encodings import decode_file
from electrify.storage.tables import read_table
from electrify.system.outcome import UserError
from electrify.system.progress import log, warn

SplitText = tuple[str, str]
_ENDING = ".jsonl"
# the options that name texts and the folder of official files, as errors call them
_OPTIONS = "clean.decontaminate_against", "clean.decontaminate_data_dir or evaluate.data_dir"
_WORD_CHARACTERS = 11  # what is longer may be a sentence of a language without spaces


def dump_benchmarks(config: RunConfig) -> Path | None:
    """Dump what `clean.decontaminate_against` names into `<output_dir>/benchmark-texts`. The
    folder, or None if it names nothing."""
    names = config.clean.decontaminate_against
    if not names:
        return None
    folder = Path(config.output_dir) / "benchmark-texts"
    paths = dump_texts(names, _data_dirs(config), folder)
    read = ", ".join(path.name.removesuffix(_ENDING) for path in paths)
    log(f"decontaminate: the texts of {read}, in {folder}")
    return folder


def check_benchmarks(config: RunConfig) -> None:
    """`ValueError` as `dump_benchmarks` raises it where files are missing; no text is read."""
    for name in config.clean.decontaminate_against:
        _tasks_of_name(name, _data_dirs(config))


def _data_dirs(config: RunConfig) -> tuple[Path, ...]:
    given = config.clean.decontaminate_data_dir
    return (Path(given).expanduser(),) if given else config.evaluate.data_dirs


def dump_texts(names: Sequence[str], data_dirs: Sequence[Path], folder: Path) -> list[Path]:
    """Write one `<task>.jsonl` of {task, split, text} for each task or file; their paths.

    `names` are suites, tasks or files; each task is read from the first of `data_dirs` that has
    it. Raises `ValueError` for a name that is none of them, for a task without its files, and for
    a file without text.
    """
    texts: dict[str, dict[SplitText, None]] = {}  # in order, each once
    for name in names:
        for task, of_task in texts_of_name(name, data_dirs).items():
            texts.setdefault(task, {}).update(dict.fromkeys(of_task))
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob(f"*{_ENDING}"):  # of an earlier config
        old.unlink()
    paths = []
    for task, rows in texts.items():
        paths.append(folder / f"{task}{_ENDING}")
        lines = (
            json.dumps({"task": task, "split": split, "text": text}, ensure_ascii=False)
            for split, text in rows
        )
        write_text(paths[-1], "".join(f"{line}\n" for line in lines))
    return paths


def texts_of_name(
    name: str, data_dirs: Sequence[Path], options: tuple[str, str] = _OPTIONS
) -> dict[str, list[SplitText]]:
    """(split, text) pairs by task of a suite or task, or by the name of a file. `options` are those
    that name texts and the folder of official files, for errors."""
    tasks = _tasks_of_name(name, data_dirs, options)
    if not tasks:
        path = Path(name).expanduser()
        texts_of = {
            path.name: [("file", text.strip()) for text in file_texts(path) if text.strip()]
        }
    else:
        texts_of = {task: list(_task_texts(TASKS[task], place)) for task, place in tasks.items()}
    if empty := [task for task, texts in texts_of.items() if not texts]:
        raise UserError(f"{options[0]}: there is no text in {', '.join(empty)}")
    return texts_of


def _tasks_of_name(
    name: str, data_dirs: Sequence[Path], options: tuple[str, str] = _OPTIONS
) -> dict[str, Path]:
    """The tasks of a suite, or one, with the data folder that has each; none of a file. What the
    hub does not have is left out with a warning. Raises `ValueError` as `dump_texts`."""
    option, dir_option = options
    if name not in TEXT_NAMES:
        if not Path(name).expanduser().is_file():
            raise UserError(f"{option}: {unknown_texts(name)}")
        return {}
    to_folder = f"set {dir_option} to the folder of the official files"
    if not data_dirs:
        raise UserError(f'no data folder for {name!r} of {option}: {to_folder}, or to "hub"')
    for data_dir in data_dirs:
        if str(data_dir) != HUB and not data_dir.is_dir():
            raise UserError(f"no data folder {data_dir}; {to_folder}")
    tasks = SUITES.get(name) or (TASKS[name],)
    below = {data_dir: files_below(data_dir) for data_dir in data_dirs}
    texts_of = {
        task.name: data_dir
        for task in tasks
        for data_dir in reversed(data_dirs)  # of several the first
        if _has_texts(task, below[data_dir], data_dir)
    }
    missing = [task for task in tasks if task.name not in texts_of]
    are_of_hub = all(str(data_dir) == HUB for data_dir in data_dirs)
    if missing and not are_of_hub:
        raise UserError(f"{option}: {_no_files(missing, [*texts_of], data_dirs)}")
    if not texts_of:
        raise UserError(f"{option}: no task of {name!r} is read from the hub; {to_folder}")
    if missing:
        warn(
            f"{option}: of {name!r} the hub does not have "
            f"{', '.join(task.name for task in missing)}, whose texts are left out; those of "
            f"{', '.join(texts_of)} are read"
        )
    return texts_of


def _has_texts(task: Task, below: Sequence[Path], data_dir: Path) -> bool:
    if is_read_by_datasets(task, data_dir):
        return task.hub is not None
    return bool(_evaluation_files(task, below))


def _evaluation_files(task: Task, below: Sequence[Path]) -> list[tuple[str, Path]]:
    """(split, path) of every file of evaluation rows."""
    return [
        (split, path)
        for split in task.all_splits
        if split != "train"
        for name in (*official_names(task, split), *task.other_texts.get(split, ()))
        for path in files_named(name, below)
    ]


def _task_texts(task: Task, data_dir: Path) -> Iterator[SplitText]:
    """By `datasets` where the task is there, else of all its files."""
    of_splits: Iterable[tuple[str, tuple[str, Iterable[tuple[int, Row]]]]]
    if is_read_by_datasets(task, data_dir):
        splits = [split for split in task.all_splits if split != "train"]
        of_splits = hub_rows(task, data_dir, splits)[0].items()
    else:
        files = _evaluation_files(task, files_below(data_dir))
        of_splits = ((split, (str(path), task.rows(split, path))) for split, path in files)
    for split, (where, rows) in of_splits:
        for number, row in rows:
            for text in task.texts(row, f"{where} {task.row_name} {number}"):
                if text.strip():
                    yield split, text.strip()


def _no_files(missing: Sequence[Task], present: Sequence[str], data_dirs: Sequence[Path]) -> str:
    wanted = dict.fromkeys(
        name for task in missing for split in task.reported_splits for name in task.files[split]
    )
    folders = [str(data_dir.absolute()) for data_dir in data_dirs if str(data_dir) != HUB]
    others = f", or name the tasks that are there: {json.dumps(present)}" if present else ""
    return (
        f"no evaluation file of {', '.join(repr(task.name) for task in missing)} below "
        f"{' or '.join(folders)}; put {', '.join(wanted)} there{others}"
    )


# Files of the user's own.


def file_texts(path: Path) -> Iterator[str]:
    """The texts of a file; `ValueError` names the file and what is wrong in it."""
    ending = path.suffix.lower()
    if ending == ".parquet":
        yield from _values(parquet_table(path).to_pylist())
        return
    text, _ = decode_file(path.read_bytes(), path)
    if ending in JSON_SUFFIXES:
        rows = json_values(text, path)
        yield from _values([value for _, value in rows] if isinstance(rows, list) else rows)
    elif ending != ".csv" and (tagged := tagged_sentences(text)):
        for sentence in tagged[0]:
            yield from _joined([word for _, word, _ in sentence])
    elif ending in (".csv", ".tsv"):
        for cells in read_table(path):
            yield from cells
    else:
        yield from re.split("[\n\t]", text)


def _values(value: Any) -> Iterator[str]:
    """Texts at any depth, keys left out; words of one list together, and nothing of tags."""
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
