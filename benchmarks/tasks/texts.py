"""The texts of the benchmarks' evaluation rows, for the corpus stage to look for.

All splits but the training one: what a model may train on later does no harm in the corpus. A text
is every text of a row, whatever its gold value. Files are all of the official names at any depth of
the data folder; a task that has only some of its files is dumped from those.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.tasks.data import files_below, files_named, official_names
from benchmarks.tasks.hub import HUB, hub_rows, is_read_by_datasets
from benchmarks.tasks.registry import SUITES, TASKS
from benchmarks.tasks.rows import Row, json_lines, json_value, parquet_rows, table_cells
from benchmarks.tasks.task import Task
from electrify.config.run import RunConfig
from electrify.config.tasks import TEXT_NAMES, unknown_texts
from electrify.stage.folder import write_text
from electrify.system.progress import log, warn

SplitText = tuple[str, str]


def dump_benchmarks(config: RunConfig) -> Path | None:
    """Dump what `clean.decontaminate_against` names into `<output_dir>/benchmark-texts`.

    The folder, or None if it names nothing.
    """
    names = config.clean.decontaminate_against
    if not names:
        return None
    given = config.clean.decontaminate_data_dir
    dirs = (Path(given).expanduser(),) if given else config.evaluate.data_dirs
    folder = Path(config.output_dir) / "benchmark-texts"
    paths = dump_texts(names, dirs, folder)
    log(f"decontaminate: {len(paths)} task(s) in {folder}")
    return folder


def dump_texts(names: Sequence[str], data_dirs: Sequence[Path], folder: Path) -> list[Path]:
    """Write one `<task>.jsonl` of {task, split, text} for each task found; their paths.

    `names` are suites, tasks or files; each task is read from the first of `data_dirs` that has
    it. Raises `ValueError` for a name that is none of them and for
    a suite or task of which there is no file.
    """
    texts: dict[str, dict[SplitText, None]] = {}  # in order, each once
    for name in names:
        for task, found in texts_of_name(name, data_dirs).items():
            texts.setdefault(task, {}).update(dict.fromkeys(found))
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.jsonl"):  # of an earlier config
        old.unlink()
    paths = []
    for task, rows in texts.items():
        paths.append(folder / f"{task}.jsonl")
        lines = (
            json.dumps({"task": task, "split": split, "text": text}, ensure_ascii=False)
            for split, text in rows
        )
        write_text(paths[-1], "".join(f"{line}\n" for line in lines))
    return paths


def texts_of_name(name: str, data_dirs: Sequence[Path]) -> dict[str, list[SplitText]]:
    """(split, text) pairs by task of a suite, a task or a file; as `dump_texts`."""
    if name not in TEXT_NAMES:
        path = Path(name).expanduser()
        if not path.is_file():
            raise unknown_texts(name)
        return {path.stem: [("file", text) for text in _any_texts(path)]}
    if not data_dirs:
        raise ValueError(
            f"no data folder for {name!r} of clean.decontaminate_against: set "
            "clean.decontaminate_data_dir or evaluate.data_dir to the folder of the official "
            'files, or to "hub"'
        )
    tasks = SUITES.get(name) or (TASKS[name],)
    found: dict[str, list[SplitText]] = {}
    for data_dir in data_dirs:
        if str(data_dir) != HUB and not data_dir.is_dir():
            raise ValueError(f"no data folder {data_dir}; set clean.decontaminate_data_dir")
        below = [] if str(data_dir) == HUB else files_below(data_dir)
        for task in tasks:
            found[task.name] = found.get(task.name) or list(_task_texts(task, below, data_dir))
    missing = [task for task, texts in found.items() if not texts]
    if len(missing) == len(tasks):
        raise ValueError("\n".join(_no_files(name, tasks, data_dir) for data_dir in data_dirs))
    if missing:
        places = ("on the hub" if str(d) == HUB else f"below {d}" for d in data_dirs)
        warn(
            f"decontaminate: no rows of {', '.join(missing)} {' or '.join(places)}, so their texts "
            "stay in the corpus"
        )
    return {task: texts for task, texts in found.items() if texts}


def _task_texts(task: Task, below: Sequence[Path], data_dir: Path) -> Iterator[SplitText]:
    """By `datasets` where the task is there, else of all its files."""
    splits = [split for split in task.all_splits if split != "train"]
    found: Iterable[tuple[str, str, Iterable[tuple[int, Row]]]] = ()
    if not is_read_by_datasets(task, data_dir):
        found = (
            (split, str(path), task.rows(split, path))
            for split in splits
            for name in (*official_names(task, split), *task.other_texts.get(split, ()))
            for path in files_named(name, below)
        )
    elif task.hub is not None:
        of_hub = hub_rows(task, data_dir, splits)
        found = ((s, f"{of_hub.where} {s}", enumerate(r, 1)) for s, r in of_hub.splits.items())
    for split, where, rows in found:
        for number, row in rows:
            for text in task.texts(row, f"{where} {task.row_name} {number}"):
                if text.strip():
                    yield split, text.strip()


def _any_texts(path: Path) -> Iterator[str]:
    """Every text of a file of a user: values of JSON and Parquet, cells of tables, lines of
    anything else."""
    if path.suffix == ".json":
        yield from _values(json_value(path))
    elif path.suffix == ".jsonl":
        for _, value in json_lines(path):
            yield from _values(value)
    elif path.suffix == ".parquet":
        yield from _values(parquet_rows(path))
    else:
        for cells in table_cells(path):
            yield from cells


def _values(value: Any) -> Iterator[str]:
    """Texts at any depth, keys left out."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for entry in value.values() if isinstance(value, dict) else value:
            yield from _values(entry)


def _no_files(name: str, tasks: Sequence[Task], data_dir: Path) -> str:
    if str(data_dir) == HUB:
        return (
            f"clean.decontaminate_against: no task of {name!r} is read from the hub; set "
            "clean.decontaminate_data_dir to a folder of the official files"
        )
    wanted = (n for task in tasks for split in task.reported_splits for n in task.files[split])
    there = [path.relative_to(data_dir).as_posix() for path in files_below(data_dir)]
    shown = ", ".join(there[:20]) + (f" and {len(there) - 20} more" if len(there) > 20 else "")
    return (
        f"clean.decontaminate_against: no evaluation file of {name!r} below {data_dir.absolute()} "
        f"(looked for {', '.join(dict.fromkeys(wanted))}; there is: {shown or 'nothing'})"
    )
