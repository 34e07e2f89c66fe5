"""The rows of a task as checked examples: from official files below a data folder, or from the hub,
each data set at one commit.

Files are found by their official name at any depth. Nothing is normalised or skipped; nothing but
the hub is downloaded.
"""

import functools
import hashlib
import importlib
import json
import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from benchmarks.tasks.files import named_value
from benchmarks.tasks.own import describe, files_of
from benchmarks.tasks.registry import SUITES, official_tasks, tasks_of
from benchmarks.tasks.rows import Row, nested
from benchmarks.tasks.task import OWN, Example, HubSource, Task
from electrify.config.evaluate import EvaluateConfig
from electrify.storage.files import read_toml
from electrify.storage.hub import hub_failure, load_splits, try_hub
from electrify.system.outcome import UserError
from electrify.system.progress import log, warn

HUB = "hub"  # in place of a data folder
UNKNOWN = "unknown"  # the commit of rows that do not say theirs
# ends of the names of reported rows that are not those of the official split
SPLIT_EVAL, PART, ENLARGED = "-split-eval", "-part", "-enlarged"
# by data set of the hub the commit that is read, or a name that is resolved
REVISIONS: Mapping[str, str] = read_toml(Path(__file__).with_name("suites") / "hub.toml")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_IN_ADDRESS = re.compile(rf"[@/]({_COMMIT.pattern})/")


@dataclass(frozen=True)
class TaskData:
    """The rows of a task.

    `split` names the reported rows: "dev" where they are those of the official split, "dev-part"
    where there are fewer, "dev-enlarged" where there are more, and "dev-split-eval" where the dev
    rows had to serve as training data too.
    """

    train: tuple[Example, ...]
    reported: tuple[Example, ...]
    split: str
    # digests of the rows of the splits that the headline comes from; equal rows have equal ones,
    # whether they come from files or the hub
    sha256: dict[str, str]
    # splits that are scored beside it or only predicted
    further: Mapping[str, tuple[Example, ...]] = field(default_factory=dict)
    # of each split of another size than the official one: rows here, officially
    parts: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    commits: Mapping[str, str] = field(default_factory=dict)  # of each data set of the hub

    @property
    def predicted(self) -> dict[str, tuple[Example, ...]]:
        """The rows of every split to predict, the reported one first."""
        return {self.split: self.reported, **self.further}


def data_dirs(options: EvaluateConfig, tasks: Sequence[Task]) -> tuple[Path, ...]:
    """`evaluate.data_dir`; `ValueError` names the files that it should hold if it is not given. The
    user's own tasks need none."""
    tasks = [task for task in tasks if task.suite != OWN]
    if not options.data_dirs and tasks:
        names = [" or ".join(names) for task in tasks if (names := task.files.get(task.reported))]
        raise UserError(
            'no data: give `evaluate.data_dir` a folder ("hub" reads the tasks by `datasets`) with '
            f"the official files of {', '.join(task.name for task in tasks)}: {', '.join(names)}, "
            "and the training files beside them"
        )
    return options.data_dirs or (Path(),)


def dir_of(task: Task, data_dirs: Sequence[Path]) -> Path:
    """The first of the folders, or the hub, that has the task, else the last."""
    return next((folder for folder in data_dirs[:-1] if has_data(task, folder)), data_dirs[-1])


def check_data(options: EvaluateConfig) -> list[tuple[Task, Path]]:
    """The tasks of the config that have data, with its folder. Of a suite others are left out, with
    a warning. `ValueError` names all that the config names, and all of a suite without any data."""
    official = official_tasks(options)
    dirs = data_dirs(options, official)
    lacking = [task for task in official if not has_data(task, dir_of(task, dirs))]
    needed = {*options.tasks}
    for suite in options.task_suites:
        if all(task in lacking for task in SUITES[suite]):
            needed |= {task.name for task in SUITES[suite]}
    missing = "; ".join(_whence(task) for task in lacking if task.name in needed)
    problems = [
        f"own task {own.task_name}: no file {path}"
        for own in options.own_tasks
        for path in files_of(own).values()
        if not path.is_file()
    ]
    shown = " and ".join(repr(str(folder)) for folder in dirs)
    if missing and shown == repr(HUB):
        problems.append(
            "these tasks are not on the hub in a form that `datasets` reads without running code: "
            f"{missing}. Leave them out, or give `evaluate.data_dir` a folder with the official "
            "files of all tasks"
        )
    elif missing:
        problems.append(f"evaluate.data_dir = {shown} has no data of {missing}")
    if problems:
        raise UserError("\n".join(problems))
    if lacking:
        lacks = "; ".join(map(_whence, lacking))
        warn(f"evaluate.data_dir = {shown} has no data of {lacks}: left out of the suite")
    return [(task, dir_of(task, dirs)) for task in tasks_of(options) if task not in lacking]


@functools.cache
def _log_once(text: str) -> None:
    """A run reads the rows of a task for its corpus, its scores and those of its start."""
    log(text)


def load_tasks(options: EvaluateConfig) -> tuple[list[Task], dict[str, TaskData]]:
    """The tasks of the config, and the data of each; `ValueError` names all that is missing."""
    found = check_data(options)
    if on_hub := [task.name for task, folder in found if str(folder) == HUB and task.hub]:
        log(f"read from the hub: {', '.join(on_hub)}")
        try_hub()
    found = [(versioned(task, folder), folder) for task, folder in found]
    data: dict[str, TaskData] = {}
    problems = []
    unread = set[str]()  # data sets of the hub: one that fails is asked for once, which takes 26 s
    for task, folder in found:
        path = task.hub.path if task.hub and str(folder) == HUB else ""
        if path in unread:
            continue
        try:
            data[task.name] = load_data(task, folder)
        except UserError as error:
            problems.append(str(error))
            if isinstance(error, _UnreadError) and path:
                unread.add(path)
    if problems:
        raise UserError("\n".join(problems))
    return [task for task, _ in found], data


def has_data(task: Task, data_dir: Path) -> bool:
    """Whether `data_dir` holds the reported split; of the hub, whether the task is there."""
    if is_read_by_datasets(task, data_dir):
        return task.hub is not None
    return bool(find_files(task, task.reported, data_dir))


def load_data(task: Task, data_dir: Path) -> TaskData:
    """The rows of all splits as a task's data; without "train" the reported rows are divided.
    Raises `ValueError` as `read_splits`, and where nothing is left to learn from or to report."""
    rows, commits = _read(task, data_dir, None)
    reported, split = rows[task.reported], task.reported
    further = {n: r for n, r in rows.items() if r and n not in (task.reported, "train")}
    for name in rows.keys() - {*further, task.reported, "train"}:
        warn(f"{task.name} {name}: the file has no rows, and nothing is predicted for it")
    counts = {name: task.count_rows(examples) for name, examples in rows.items()}
    parts = {
        name: (count, task.num_rows[name])
        for name, count in counts.items()
        if count != task.num_rows.get(name, count)
    }
    if "train" in rows and split != "train":
        train = rows["train"]
        if split in parts:
            count, official = parts[split]
            split += PART if count < official else ENLARGED
    else:
        train, reported = split_by_group(task, reported)
        split += SPLIT_EVAL
    hashed = ["train", task.reported]
    if task.suite == OWN:
        hashed += task.also_reported  # they decide which training rows are left
        # training rows whose texts are those of a row to predict, in either order, are left out
        seen = {_texts_of(e) for split in (reported, *further.values()) for e in split}
        kept = tuple(example for example in train if _texts_of(example) not in seen)
        _log_once(describe(task, kept, reported, further, len(train) - len(kept)))
        train = kept
    if not train or not reported:
        is_one = len({example.texts[0] for example in (*train, *reported)}) == 1
        why = "; they have one first text, and rows of one text stay together" if is_one else ""
        raise UserError(
            f"{task.name}: {len(train)} training and {len(reported)} reported rows in the data; "
            f"both need at least one{why}"
        )
    sha256 = {name: rows_digest(rows[name]) for name in hashed if name in rows}
    return TaskData(train, reported, split, sha256, further, parts, commits)


def _texts_of(example: Example) -> frozenset[str]:
    """Texts that differ in blanks alone have the same tokens."""
    return frozenset(" ".join(text.split()) for text in example.texts)


def rows_digest(examples: Sequence[Example]) -> str:
    """SHA-256 of texts and gold values in their order; ids differ between files and the hub.
    Numbers count in single precision: the hub has no more of STS-B."""
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
    task: Task, examples: Sequence[Example], fraction: float | None = None, salt: str = ""
) -> tuple[tuple[Example, ...], tuple[Example, ...]]:
    """Divide rows by a hash of their first text; the first side gets `fraction` of the groups, by
    default the task's, and then each side one group at least.

    Rows that share it (one premise, several hypotheses) stay together, and a row's side depends on
    nothing but that text, the task's data and `salt`: not on the order, the seed or the other rows.
    """
    hashes = []
    for example in examples:
        digest = hashlib.sha256(f"{salt}{task.name}\n{example.texts[0]}".encode()).digest()
        hashes.append(int.from_bytes(digest[:8], "big"))
    limit = int((task.train_fraction if fraction is None else fraction) * 2**64)
    if fraction is None and hashes:
        limit = min(max(limit, min(hashes) + 1), max(hashes))
    rows = list(zip(examples, hashes, strict=True))
    return tuple(e for e, n in rows if n < limit), tuple(e for e, n in rows if n >= limit)


def read_splits(
    task: Task, data_dir: Path, splits: Collection[str] | None = None
) -> dict[str, tuple[Example, ...]]:
    return _read(task, data_dir, splits)[0]


def _read(
    task: Task, data_dir: Path, splits: Collection[str] | None
) -> tuple[dict[str, tuple[Example, ...]], Mapping[str, str]]:
    """The rows by split, and the commits of those that `datasets` reads."""
    wanted = [split for split in task.all_splits if splits is None or split in splits]
    if is_read_by_datasets(task, data_dir):
        splits_on_hub, commits = hub_rows(task, wanted)
        rows = {
            split: tuple(task.from_rows(split, numbered, where))
            for split, (where, numbered) in splits_on_hub.items()
        }
        return rows, commits
    if task.suite != OWN and not data_dir.is_dir():
        raise UserError(f"no data folder {data_dir}; give `evaluate.data_dir` a folder that exists")
    paths = {split: find_files(task, split, data_dir) for split in wanted if split in task.files}
    if task.reported in wanted and not paths.get(task.reported):
        if task.suite == OWN:
            raise UserError(f"{task.name}: no file {task.files[task.reported][0]}; put it back")
        if not task.files:
            raise UserError(f"{task.name} is read from the hub alone: give `evaluate.data_dir=hub`")
        raise UserError(
            f"{task.name}: no {' or '.join(task.files[task.reported])} below "
            f"{data_dir.absolute()}; put the official files there of {_whence(task)}"
        )
    rows = {
        split: tuple(example for path in files for example in task.read(split, path))
        for split, files in paths.items()
        if files
    }
    return rows, {}


def official_names(task: Task, split: str) -> tuple[str, ...]:
    return (*task.files.get(split, ()), *task.parts.get(split, ()))


def find_files(task: Task, split: str, data_dir: Path) -> list[Path]:
    """The split's file under its first name that is there, else those of its parts. Two files of
    one name are an error."""
    if task.suite == OWN:
        return [path for name in task.files[split] if (path := Path(name)).is_file()]
    below, parts = files_below(data_dir), list[Path]()
    for name in official_names(task, split):
        paths = files_named(name, below)
        if len(paths) > 1:
            raise UserError(
                f"{task.name}: more than one {name}: {paths[0]} and {paths[1]}; "
                "give `evaluate.data_dir` a folder with one of them"
            )
        if paths and name in task.files[split] and not parts:
            return paths
        parts += paths
    return parts


def files_named(name: str, paths: Sequence[Path]) -> list[Path]:
    """Those of the paths that end in a name, which may hold folders."""
    wanted = PurePosixPath(name).parts
    # absolute: a data folder may itself be the named one, .../CoLA
    return [path for path in paths if path.absolute().parts[-len(wanted) :] == wanted]


def files_below(data_dir: Path) -> list[Path]:
    """Every file at any depth, sorted; a folder that is linked to twice is walked once."""
    files, seen = [], set()
    for folder, inner, names in os.walk(data_dir, followlinks=True):
        real = os.path.realpath(folder)
        if real in seen:  # a link back up, or a second way to the same folder
            inner.clear()
            continue
        seen.add(real)
        files += [Path(folder, name) for name in names]
    return sorted(files)


# By `datasets`, from the hub.


def is_read_by_datasets(task: Task, data_dir: Path) -> bool:
    """Whether the data are the hub; the user's own tasks are never read so."""
    return str(data_dir) == HUB and task.suite != OWN


def versioned(task: Task, data_dir: Path) -> Task:
    """The task with the version that its rows have there."""
    if task.hub is None or task.hub.version is None or not is_read_by_datasets(task, data_dir):
        return task
    return replace(task, version=task.hub.version)


def hub_rows(
    task: Task, splits: Sequence[str]
) -> tuple[Mapping[str, tuple[str, Iterable[tuple[int, Row]]]], dict[str, str]]:
    """Of those of our `splits` that are there, where they are in words and the numbered rows with
    our names of fields; and the commit of each data set.

    Raises `ValueError` for a task or a reported split that is not there, and class labels that are
    not the task's.
    """
    hub = task.hub
    if hub is None:
        raise UserError(
            f"{task.name} is not on the hub in a form that `datasets` reads without running code: "
            f"give `evaluate.data_dir` a folder with the official files of {_whence(task)}"
        )
    where = f"{hub.path} {hub.name or ''}".strip()
    sources = {ours: (hub.path, hub.name, theirs) for ours, theirs in hub.splits.items()}
    for ours, (other_path, other_name, theirs) in hub.elsewhere.items():
        sources[ours] = other_path, other_name or None, theirs
    sets: dict[tuple[str, str | None], Any] = {}
    rows, commits = {}, {}
    for split in (split for split in splits if split in sources):
        path, name, theirs = sources[split]
        if (path, name) not in sets:
            sets[path, name] = _load(task, path, name)
            commits[path] = _commit(path, sets[path, name])
        if theirs in sets[path, name]:
            _check_labels(task, hub, sets[path, name][theirs].features, where)
            numbered = enumerate(_named_rows(hub, sets[path, name][theirs]), start=1)
            rows[split] = f"{where} {split}", numbered
    if task.reported in splits and task.reported not in rows:
        raise UserError(
            f"{task.name}: {where} has no split {sources[task.reported][2]} (of its splits there "
            f"are: {', '.join(rows) or 'none'})"
        )
    return rows, commits


def _whence(task: Task) -> str:
    """A task with its files and where to get them."""
    names = [" or ".join(task.files[s]) for s in ("train", task.reported) if s in task.files]
    whence = [*names, *([f"from {task.homepage}"] if task.homepage else [])]
    return f"{task.name} ({', '.join(whence)})"


class _UnreadError(UserError):
    """`datasets` does not read a data set."""


def _load(task: Task, path: str, name: str | None) -> Any:
    datasets: Any = importlib.import_module("datasets")  # slow to import, and seldom wanted
    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
    try:
        return load_splits(path, name, REVISIONS[path])
    except Exception as error:  # of HTTP, Arrow or `datasets`, which has classes of its own
        raise _UnreadError(
            f"{task.name}: `datasets` cannot read {path}: {hub_failure(error)}; or "
            f"give `evaluate.data_dir` a folder with the official files of {_whence(task)}"
        ) from error


def _commit(path: str, sets: Any) -> str:
    """The commit that data sets say they are of: where the hub does not answer, `datasets` takes
    what its cache has, whatever was asked for."""
    commits = set()
    for dataset in dict(sets).values():
        addresses = [*(dataset.info.download_checksums or ()), *map(str, dataset.cache_files)]
        commits |= set(_IN_ADDRESS.findall(" ".join(addresses)))
    if len(commits) != 1:
        return UNKNOWN
    (commit,), asked = commits, REVISIONS[path]
    if _COMMIT.fullmatch(asked) and commit != asked:
        warn(f"{path}: the cache of `datasets` has commit {commit}, which is read for {asked}")
    return str(commit)


def _check_labels(task: Task, hub: HubSource, features: Mapping[str, Any], where: str) -> None:
    """Class labels must be the task's as a set; ids are never taken by their position."""
    column = hub.fields.get(task.label_field, task.label_field).split(".")[0]
    feature = features.get(column)
    names = getattr(getattr(feature, "feature", feature), "names", None) or ()
    if names and task.labels and {hub.labels.get(n, n) for n in names} != {*task.labels}:
        raise UserError(
            f"{task.name}: {where} has the labels {', '.join(names)} in {column!r}, the task has "
            f"{', '.join(task.labels)}"
        )


def _named_rows(hub: HubSource, dataset: Any) -> Iterator[Row]:
    """The rows by our names of fields, class ids as the task's names for them and -1 as None."""
    for row in dataset:
        named = named_value(dataset.features, row, hub.labels)
        yield named | {ours: nested(named, theirs) for ours, theirs in hub.fields.items()}
