"""Rows of tasks by `datasets`: from the hub, each data set at one commit, or from a folder that
`save_to_disk` wrote."""

import importlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.tasks.rows import Row, nested
from benchmarks.tasks.task import OWN, HubSource, Task
from electrify.storage.files import read_toml
from electrify.system.outcome import UserError, first_line
from electrify.system.progress import warn

HUB = "hub"  # in place of a data folder
UNKNOWN = "unknown"  # the commit of rows that do not say theirs
_SAVED = "dataset_dict.json"  # of `DatasetDict.save_to_disk`
# by data set the commit that is read, or a name that is resolved
REVISIONS: Mapping[str, str] = read_toml(Path(__file__).with_suffix(".toml"))
_TIMEOUT = 10.0  # seconds
_COMMIT = re.compile(r"[0-9a-f]{40}")
_IN_ADDRESS = re.compile(rf"[@/]({_COMMIT.pattern})/")


class UnreadableError(ValueError):
    """`datasets` cannot read a task."""


@dataclass(frozen=True)
class HubRows:
    """The rows of those of our splits that are there, with our names; `commits` by data set."""

    where: str
    splits: Mapping[str, Iterator[Row]]
    commits: Mapping[str, str] = field(default_factory=dict)


def is_read_by_datasets(task: Task, data_dir: Path) -> bool:
    """Whether the data are the hub, or hold the task's `save_to_disk` folder, named as the task;
    the user's own tasks are never read so."""
    is_there = str(data_dir) == HUB or (data_dir / task.name / _SAVED).is_file()
    return is_there and task.suite != OWN


def versioned(task: Task, data_dir: Path) -> Task:
    """The task with the version that its rows have there."""
    if task.hub is None or task.hub.version is None or not is_read_by_datasets(task, data_dir):
        return task
    return replace(task, version=task.hub.version)


def try_hub() -> None:
    """One request to the hub; where it fails, the cache alone is read from then on.

    `datasets` would try six times for each task, 26 s in all.
    """
    hub: Any = importlib.import_module("huggingface_hub")
    constants: Any = importlib.import_module("huggingface_hub.constants")
    if constants.HF_HUB_OFFLINE:
        return
    try:
        hub.get_session().head(constants.ENDPOINT, timeout=constants.HF_HUB_ETAG_TIMEOUT)
    except Exception as error:  # of httpx or requests, by version
        warn(
            f"{constants.ENDPOINT} cannot be reached ({first_line(error)}): only data that "
            "`datasets` has in its cache are read"
        )
        constants.HF_HUB_OFFLINE = True


def hub_rows(task: Task, data_dir: Path, splits: Sequence[str]) -> HubRows:
    """The rows of our `splits`.

    Raises `ValueError` for a task or a reported split that is not there, and class labels that are
    not the task's.
    """
    hub, folder = task.hub, None if str(data_dir) == HUB else data_dir / task.name
    if hub is None:
        raise UserError(
            f"{task.name} is not on the hub in a form that `datasets` reads without running code: "
            f"give --data-dir a folder with the official files of {whence(task)}"
        )
    found, commits = _datasets(task, hub, folder, splits)
    where = str(folder) if folder else f"{hub.path} {hub.name or ''}".strip()
    if task.reported in splits and task.reported not in found:
        theirs = hub.splits.get(task.reported, task.reported)
        raise UserError(
            f"{task.name}: {where} has no split {theirs} (of its splits there are: "
            f"{', '.join(found) or 'none'})"
        )
    for dataset in found.values():
        _check_labels(task, hub, dataset.features, where)
    rows = {split: _named_rows(hub, dataset) for split, dataset in found.items()}
    return HubRows(where, rows, commits)


def whence(task: Task) -> str:
    """A task with its files and where to get them."""
    names = [" or ".join(task.files[s]) for s in ("train", task.reported) if s in task.files]
    return f"{task.name} ({', '.join(names)}{f', from {task.homepage}' if task.homepage else ''})"


def _datasets(
    task: Task, hub: HubSource, folder: Path | None, splits: Sequence[str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """The data sets of those of our `splits` that are there, and the commit of each path."""
    places = {ours: (hub.path, hub.name, theirs) for ours, theirs in hub.splits.items()}
    for ours, place in hub.elsewhere.items():
        places[ours] = place if folder is None else (hub.path, hub.name, ours)
    sets: dict[tuple[str, str | None], Any] = {}
    found, commits = {}, {}
    for split in (split for split in splits if split in places):
        path, name, theirs = places[split]
        if (path, name) not in sets:
            sets[path, name] = _load(task, path, name, folder)
            if commit := _commit(path, sets[path, name], folder is None):
                commits[path] = commit
        if theirs in sets[path, name]:
            found[split] = sets[path, name][theirs]
    return found, commits


def _load(task: Task, path: str, name: str | None, folder: Path | None) -> Any:
    """A `DatasetDict`; `UnreadableError` where there is none."""
    datasets: Any = importlib.import_module("datasets")  # slow to import, and seldom wanted
    try:
        if folder:
            return datasets.load_from_disk(str(folder))
        return datasets.load_dataset(path, name, revision=_revision(path))
    except Exception as error:  # of HTTP, Arrow or `datasets`, which has classes of its own
        raise UnreadableError(
            f"{task.name}: `datasets` cannot read {folder or path}: {first_line(error)}; or "
            f"give --data-dir a folder with the official files of {whence(task)}"
        ) from error


@cache
def _revision(path: str) -> str:
    """The commit of a data set to read, the same for all tasks of this process; the name that is to
    be resolved where the hub does not answer."""
    name = REVISIONS[path]
    if _COMMIT.fullmatch(name):
        return name
    hub: Any = importlib.import_module("huggingface_hub")
    try:
        return str(hub.HfApi().dataset_info(path, revision=name, timeout=_TIMEOUT).sha)
    except Exception:  # `datasets` tries, and says what is wrong
        return name


def _commit(path: str, sets: Any, is_of_hub: bool) -> str | None:
    """The commit that data sets say they are of: where the hub does not answer, `datasets` takes
    what its cache has, whatever was asked for."""
    said = set()
    for dataset in dict(sets).values():
        addresses = [*(dataset.info.download_checksums or ()), *map(str, dataset.cache_files)]
        said |= set(_IN_ADDRESS.findall(" ".join(addresses)))
    if len(said) != 1:
        return UNKNOWN if is_of_hub else None
    (commit,) = said
    asked = _revision(path) if is_of_hub else commit
    if _COMMIT.fullmatch(asked) and commit != asked:
        warn(f"{path}: the cache of `datasets` has commit {commit}, which is read for {asked}")
    return str(commit)


def _check_labels(task: Task, hub: HubSource, features: Mapping[str, Any], where: str) -> None:
    """Class labels must be the task's as a set; ids are never taken by their position."""
    column = hub.fields.get(task.label_field, task.label_field).split(".")[0]
    feature = features.get(column)
    names = getattr(getattr(feature, "feature", feature), "names", None)
    if names is None or not task.labels:
        return
    if {hub.labels.get(name, name) for name in names} != set(task.labels):
        raise UserError(
            f"{task.name}: {where} has the labels {', '.join(names)} in {column!r}, the task has "
            f"{', '.join(task.labels)}"
        )


def _named_rows(hub: HubSource, dataset: Any) -> Iterator[Row]:
    """The rows by our names of fields, class ids as the task's names for them and -1 as None."""
    features = dataset.features
    for row in dataset:
        found = {name: _named(features[name], value, hub.labels) for name, value in row.items()}
        yield found | {ours: nested(found, theirs) for ours, theirs in hub.fields.items()}


def _named(feature: Any, value: Any, labels: Mapping[str, str]) -> Any:
    if value is None:
        return None
    if isinstance(feature, Mapping):
        return {name: _named(feature[name], entry, labels) for name, entry in value.items()}
    if isinstance(value, list):
        return [_named(feature.feature, entry, labels) for entry in value]
    if not hasattr(feature, "int2str"):
        return value
    if value < 0:
        return None
    name = feature.int2str(value)
    return labels.get(name, name)
