"""The rows of a task as checked examples: from official files below a data folder, from a folder
that `save_to_disk` wrote, or from the hub.

Files are found by their official name at any depth. Nothing is normalised or skipped; nothing but
the hub is downloaded.
"""

import hashlib
import json
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import numpy as np

from benchmarks.tasks.hub import (
    HUB,
    UnreadableError,
    hub_rows,
    is_read_by_datasets,
    try_hub,
    versioned,
    whence,
)
from benchmarks.tasks.own import describe, files_of, without_texts_of
from benchmarks.tasks.registry import SUITES, TASKS, official_tasks, tasks_of
from benchmarks.tasks.task import OWN, Example, Task
from electrify.config.evaluate import EvaluateConfig
from electrify.system.outcome import UserError
from electrify.system.progress import log, warn

# ends of the names of reported rows that are not those of the official split
SPLIT_EVAL, PART, ENLARGED = "-split-eval", "-part", "-enlarged"


@dataclass(frozen=True)
class TaskData:
    """The rows of a task.

    `split` names the reported rows: "dev" where they are those of the official split, "dev-part"
    where there are fewer, "dev-enlarged" where there are more, and "dev-split-eval" where the dev
    rows had to serve as training data too. `further` are splits that are scored beside it or only
    predicted. `parts` has, of each split of another size than the official one, both numbers of
    rows. `sha256` maps the splits that the headline comes from to a digest of their rows: equal
    rows have equal digests, whether they come from files, a saved folder or the hub. `commits` has
    the commit of each data set of the hub that rows are of.
    """

    train: tuple[Example, ...]
    reported: tuple[Example, ...]
    split: str
    sha256: dict[str, str]
    further: Mapping[str, tuple[Example, ...]] = field(default_factory=dict)
    parts: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # here, officially
    commits: Mapping[str, str] = field(default_factory=dict)

    @property
    def predicted(self) -> dict[str, tuple[Example, ...]]:
        """The rows of every split to predict, the reported one first."""
        return {self.split: self.reported, **self.further}


def data_dirs(options: EvaluateConfig, tasks: Sequence[Task]) -> tuple[Path, ...]:
    """`evaluate.data_dir`; `ValueError` names the files that it should hold if it is not given.

    The user's own tasks need none.
    """
    tasks = [task for task in tasks if task.suite != OWN]
    if not options.data_dirs and tasks:
        names = [" or ".join(task.files[task.reported]) for task in tasks]
        raise UserError(
            'no data: give --data-dir FOLDER (or set evaluate.data_dir; "hub" reads the tasks by '
            "`datasets`) with the official "
            f"files of {', '.join(task.name for task in tasks)}: {', '.join(names)}, and the "
            "training files beside them"
        )
    return options.data_dirs or (Path(),)


def dir_of(task: Task, data_dirs: Sequence[Path]) -> Path:
    """The first of the folders, or the hub, that has the task. The last is not looked through: what
    none has is looked for there, and its lack named."""
    return next((place for place in data_dirs[:-1] if has_data(task, place)), data_dirs[-1])


def check_data(options: EvaluateConfig) -> list[Task]:
    """The tasks of the config that have data. Of a suite, others are left out with a warning.

    `ValueError` names all without data, and where to get each: tasks that the config names, and
    those of a suite that has none with data.
    """
    official = official_tasks(options)
    dirs = data_dirs(options, official)
    lacking = [task for task in official if not has_data(task, dir_of(task, dirs))]
    there = [task for task in official if task not in lacking]
    needed = {*options.tasks} | {
        task.name
        for suite in options.task_suites
        if not any(task in there for task in SUITES[suite])
        for task in SUITES[suite]
    }
    missing = [whence(task) for task in lacking if task.name in needed]
    problems = [
        f"{own.task_name}: no file {path}"
        for own in options.own_tasks
        for path in files_of(own).values()
        if not path.is_file()
    ]
    shown = " and ".join(repr(str(place)) for place in dirs)
    if missing and shown == repr(HUB):
        problems.append(
            "these tasks are not on the hub in a form that `datasets` reads without running code: "
            f"{'; '.join(missing)}. Leave them out, or give --data-dir a folder with the official "
            "files of all tasks"
        )
    elif missing:
        problems.append(f"evaluate.data_dir = {shown} has no data of {'; '.join(missing)}")
    if problems:
        raise UserError("\n".join(problems))
    if lacking:
        lacks = "; ".join(map(whence, lacking))
        warn(f"evaluate.data_dir = {shown} has no data of {lacks}: left out of the suite")
    return [task for task in tasks_of(options) if task not in lacking]


def hub_paths(options: EvaluateConfig) -> dict[str, str]:
    """The data set on the hub of each task that is read from there."""
    official = official_tasks(options)
    dirs = data_dirs(options, official)
    return {
        task.name: task.hub.path
        for task in official
        if task.hub is not None and str(dir_of(task, dirs)) == HUB
    }


def load_tasks(options: EvaluateConfig) -> tuple[list[Task], dict[str, TaskData]]:
    """The tasks of the config, and the data of each by its name.

    Raises `ValueError` as `check_data` before anything is read, as `load_data`, and for all tasks
    that `datasets` cannot read.
    """
    tasks = check_data(options)
    dirs = data_dirs(options, tasks)
    places = {task.name: dir_of(task, dirs) for task in tasks}
    if of_hub := [n for n, place in places.items() if str(place) == HUB and n in TASKS]:
        log(f"read from the hub: {', '.join(of_hub)}")
        try_hub()
    tasks = [versioned(task, places[task.name]) for task in tasks]
    data: dict[str, TaskData] = {}
    unreadable = []
    for task in tasks:
        try:
            data[task.name] = load_data(task, places[task.name])
        except UnreadableError as error:
            unreadable.append(str(error))
    if unreadable:
        raise UserError("\n".join(unreadable))
    return tasks, data


def has_data(task: Task, data_dir: Path) -> bool:
    """Whether `data_dir` holds the reported split, in files or saved; of the hub, whether the task
    is there."""
    if is_read_by_datasets(task, data_dir):
        return task.hub is not None
    return bool(find_files(task, task.reported, data_dir))


def load_data(task: Task, data_dir: Path) -> TaskData:
    """The rows of all splits as a task's data; without "train" the reported rows are divided.

    Raises `ValueError` as `read_splits`, and where nothing is left to learn from or to report.
    """
    rows, commits = _read(task, data_dir, None)
    further = {name: examples for name, examples in rows.items() if examples or name == "train"}
    for name in rows.keys() - {*further, task.reported}:
        warn(f"{task.name} {name}: the file has no rows, and nothing is predicted for it")
    further[task.reported] = rows[task.reported]
    reported, split = further.pop(task.reported), task.reported
    counts = {name: task.count_rows(examples) for name, examples in rows.items()}
    parts = {
        name: (count, task.num_rows[name])
        for name, count in counts.items()
        if count != task.num_rows.get(name, count)
    }
    if "train" in further:
        train = further.pop("train")
        if split in parts:
            here, officially = parts[split]
            split += PART if here < officially else ENLARGED
    else:
        train, reported = split_by_group(task, reported)
        split += SPLIT_EVAL
    hashed = ["train", task.reported]
    if task.suite == OWN:
        hashed += task.also_reported  # they decide which training rows are left
        num_all = len(train)
        for of_split in (reported, *further.values()):
            train = without_texts_of(train, of_split)
        log(describe(task, train, reported, num_all - len(train)))
    if not train or not reported:
        raise UserError(
            f"{task.name}: {len(train)} training and {len(reported)} reported rows in the data; "
            "both need at least one"
        )
    sha256 = {name: rows_digest(rows[name]) for name in hashed if name in rows}
    return TaskData(train, reported, split, sha256, further, parts, commits)


def rows_digest(examples: Sequence[Example]) -> str:
    """SHA-256 of texts and gold values in their order; ids differ between files and the hub.

    Numbers count in single precision: the hub has no more of STS-B.
    """
    digest = hashlib.sha256()
    for example in examples:
        values = [
            float(np.float32(value)) if isinstance(value, float) else value
            for name, value in vars(example).items()
            if name != "id"
        ]
        line = json.dumps(values, ensure_ascii=False, separators=(",", ":"), default=vars)
        digest.update(f"{line}\n".encode())
    return digest.hexdigest()


def split_by_group(
    task: Task,
    examples: Sequence[Example],
    fraction: float | None = None,
    salt: str = "",
) -> tuple[tuple[Example, ...], tuple[Example, ...]]:
    """Divide rows by a hash of their first text; the first side gets `fraction` of the groups, by
    default the task's, and then each side one group at least.

    Rows that share it (one premise, several hypotheses) stay together, and a row's side depends on
    nothing but that text, the task's data and `salt`: not on the order, the seed or the other rows.
    """
    places = []
    for example in examples:
        digest = hashlib.sha256(f"{salt}{task.original}\n{example.texts[0]}".encode()).digest()
        places.append(int.from_bytes(digest[:8], "big"))
    limit = int((task.train_fraction if fraction is None else fraction) * 2**64)
    if fraction is None and places:
        limit = min(max(limit, min(places) + 1), max(places))
    rows = list(zip(examples, places, strict=True))
    return tuple(e for e, n in rows if n < limit), tuple(e for e, n in rows if n >= limit)


def read_splits(
    task: Task, data_dir: Path, splits: Collection[str] | None = None
) -> dict[str, tuple[Example, ...]]:
    """The rows of a task by split, of `splits` or of all there are.

    Raises `ValueError` that names the file looked for, the two files of one name, what the hub has
    not, or the bad row.
    """
    return _read(task, data_dir, splits)[0]


def _read(
    task: Task, data_dir: Path, splits: Collection[str] | None
) -> tuple[dict[str, tuple[Example, ...]], Mapping[str, str]]:
    """The rows by split, and the commits of those that `datasets` reads."""
    wanted = [split for split in task.all_splits if splits is None or split in splits]
    if is_read_by_datasets(task, data_dir):
        of_hub = hub_rows(task, data_dir, wanted)
        rows = {
            split: tuple(task.from_rows(split, enumerate(found, 1), f"{of_hub.where} {split}"))
            for split, found in of_hub.splits.items()
        }
        return rows, of_hub.commits
    if task.suite != OWN and not data_dir.is_dir():
        raise UserError(f"no data folder {data_dir}; give --data-dir a folder that exists")
    paths = {split: find_files(task, split, data_dir) for split in wanted if split in task.files}
    if task.reported in paths and not paths[task.reported]:
        if task.suite == OWN:
            raise UserError(f"{task.name}: no file {task.files[task.reported][0]}; put it back")
        names = (n for s in ("train", task.reported) for n in official_names(task, s))
        where = f", from {task.homepage}" if task.homepage else ""
        raise UserError(
            f"{task.name}: no {' or '.join(task.files[task.reported])} below "
            f"{data_dir.absolute()}; put the official files of the task there "
            f"({' or '.join(names)}){where}"
        )
    rows = {
        split: tuple(example for path in found for example in task.read(split, path))
        for split, found in paths.items()
        if found
    }
    return rows, {}


def official_names(task: Task, split: str) -> tuple[str, ...]:
    """Every name that a file of a split may have."""
    return (*task.files.get(split, ()), *task.parts.get(split, ()))


def find_files(task: Task, split: str, data_dir: Path) -> list[Path]:
    """The split's file under its first name that is there, else those of its parts.

    Two files of one name are an error.
    """
    if task.suite == OWN:
        return [path for name in task.files[split] if (path := Path(name)).is_file()]
    below, parts = files_below(data_dir), list[Path]()
    for name in official_names(task, split):
        found = files_named(name, below)
        if len(found) > 1:
            raise UserError(
                f"{task.name}: more than one {name}: {found[0]} and {found[1]}; "
                "give --data-dir a folder with one of them"
            )
        if found and name in task.files[split] and not parts:
            return found
        parts += found
    return parts


def files_named(name: str, paths: Sequence[Path]) -> list[Path]:
    """Those of the paths that end in a name, which may hold folders."""
    wanted = PurePosixPath(name).parts
    # absolute: a data folder may itself be the named one, .../CoLA
    return [path for path in paths if path.absolute().parts[-len(wanted) :] == wanted]


def files_below(data_dir: Path) -> list[Path]:
    """Every file at any depth, sorted; a folder that is linked to twice is walked once."""
    found, seen = [], set()
    for folder, inner, names in os.walk(data_dir, followlinks=True):
        real = os.path.realpath(folder)
        if real in seen:  # a link back up, or a second way to the same folder
            inner.clear()
            continue
        seen.add(real)
        found += [Path(folder, name) for name in names]
    return sorted(found)
