"""Tasks out of `datasets`: from the hub, or from a folder that `save_to_disk` wrote."""

import importlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.tasks.data.load import TaskData, find_files, read_files, task_data
from benchmarks.tasks.kind import Example
from benchmarks.tasks.registry import resolve_tasks
from benchmarks.tasks.task import HubSource, Task
from electrify.config.evaluate import EvaluateConfig
from electrify.system.outcome import first_line

HUB = "hub"  # in place of a data folder
_SAVED = "dataset_dict.json"  # of `DatasetDict.save_to_disk`


def data_folder(options: EvaluateConfig, tasks: Sequence[Task]) -> Path:
    """`evaluate.data_dir`; `ValueError` names the files that it should hold if it is not given."""
    if options.data_dir is None:
        names = [" or ".join(task.files[task.reported]) for task in tasks]
        raise ValueError(
            'no data: give --data-dir FOLDER (or set evaluate.data_dir; "hub" reads the tasks by '
            "`datasets`) with the official "
            f"files of {', '.join(task.name for task in tasks)}: {', '.join(names)}, and the "
            "training files beside them"
        )
    return Path(options.data_dir).expanduser()


def check_data(options: EvaluateConfig) -> None:
    """`ValueError` names all tasks of the config without data, and the files that they need."""
    if not options.suites and not options.tasks:
        return
    tasks = resolve_tasks(options.suites, options.tasks)
    folder = data_folder(options, tasks)
    if missing := [task for task in tasks if not has_data(task, folder)]:
        needs = [f"{task.name} ({' or '.join(task.files[task.reported])})" for task in missing]
        raise ValueError(f"evaluate.data_dir = {str(folder)!r} has no data of {', '.join(needs)}")


def load_data(task: Task, data_dir: Path) -> TaskData:
    """A task's rows, read by `read_splits`; `ValueError` as there and in `task_data`."""
    return task_data(task, read_splits(task, data_dir))


def read_splits(
    task: Task, data_dir: Path, splits: Collection[str] | None = None
) -> dict[str, tuple[Example, ...]]:
    """The rows of a task by split, of `splits` or of all there are: from its official files, a
    `save_to_disk` folder, or the hub (`HUB`).

    Raises `ValueError` as `read_files` and `read_hub` do.
    """
    if str(data_dir) == HUB:
        return read_hub(task, None, splits)
    saved = saved_folder(task, data_dir)
    return read_files(task, data_dir, splits) if saved is None else read_hub(task, saved, splits)


def has_data(task: Task, data_dir: Path) -> bool:
    """Whether `data_dir` holds the reported split, in files or saved; of the hub, whether the task
    is there."""
    if str(data_dir) == HUB:
        return task.hub is not None
    return saved_folder(task, data_dir) is not None or bool(
        find_files(task, task.reported, data_dir)
    )


def saved_folder(task: Task, data_dir: Path) -> Path | None:
    """The task's `save_to_disk` folder below `data_dir`, named as the task; None without one."""
    folder = data_dir / task.name
    return folder if (folder / _SAVED).is_file() else None


def read_hub(
    task: Task, folder: Path | None, splits: Collection[str] | None = None
) -> dict[str, tuple[Example, ...]]:
    """The task's rows from `folder`, or from the hub where it is None.

    Raises `ValueError` for a task that is not there, a split or a field that is missing, and class
    labels that are not the task's.
    """
    if task.hub is None:
        raise ValueError(
            f"{task.name} is not read by `datasets`: give --data-dir a folder with its official "
            f"files ({task.homepage})"
        )
    wanted = [split for split in task.all_splits if splits is None or split in splits]
    found = _read(task, task.hub, folder, wanted)
    where = str(folder) if folder else f"{task.hub.path} {task.hub.name or ''}".strip()
    if task.reported in wanted and task.reported not in found:
        theirs = task.hub.splits[task.reported]
        raise ValueError(
            f"{task.name}: {where} has no split {theirs} (of its splits there are: "
            f"{', '.join(found) or 'none'})"
        )
    for dataset in found.values():
        check_labels(task, task.hub, dataset.features, where)
    return {
        split: tuple(task.kind.from_hub(task, split, named_rows(task.hub, dataset)))
        for split, dataset in found.items()
    }


def _read(task: Task, hub: HubSource, folder: Path | None, splits: Sequence[str]) -> dict[str, Any]:
    """The data sets of those of our `splits` that are there."""
    datasets: Any = importlib.import_module("datasets")  # slow to import, and seldom wanted
    places = {ours: (hub.name, theirs) for ours, theirs in hub.splits.items()}
    for ours, place in hub.elsewhere.items():
        places[ours] = place if folder is None else (hub.name, ours)
    sets: dict[str | None, Any] = {}
    found = {}
    try:
        for split in (split for split in splits if split in places):
            name, theirs = places[split]
            if name not in sets:
                sets[name] = (
                    datasets.load_dataset(hub.path, name)
                    if folder is None
                    else datasets.load_from_disk(str(folder))
                )
            if theirs in sets[name]:
                found[split] = sets[name][theirs]
    except (OSError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"{task.name}: `datasets` cannot read {folder or hub.path}: "
            f"{first_line(error)}; or give --data-dir a folder with the official files "
            f"({task.homepage})"
        ) from error
    return found


def check_labels(task: Task, hub: HubSource, features: Mapping[str, Any], where: str) -> None:
    """Class labels must be the task's as a set; ids are never taken by their position."""
    column = hub.fields.get(task.label_field, task.label_field).split(".")[0]
    if column not in features or not task.labels:
        return
    feature = features[column]
    names = getattr(getattr(feature, "feature", feature), "names", None)
    if names is None:
        return
    ours = {hub.labels.get(name, name) for name in names}
    if ours != set(task.labels):
        raise ValueError(
            f"{task.name}: {where} has the labels {', '.join(names)} in {column!r}, the task has "
            f"{', '.join(task.labels)}"
        )


def named_rows(hub: HubSource, dataset: Any) -> Iterator[dict[str, Any]]:
    """The rows, class ids as the task's names for them and -1 (no label) as None."""
    features = dataset.features
    for row in dataset:
        yield {name: _named(features[name], value, hub.labels) for name, value in row.items()}


def _named(feature: Any, value: Any, labels: Mapping[str, str]) -> Any:
    if value is None:
        return None
    if isinstance(feature, Mapping):
        return {name: _named(feature[name], entry, labels) for name, entry in value.items()}
    if hasattr(feature, "feature"):  # a list of one kind of value
        if isinstance(value, Mapping):  # lists of fields
            return {
                name: [_named(feature.feature[name], entry, labels) for entry in entries]
                for name, entries in value.items()
            }
        return [_named(feature.feature, entry, labels) for entry in value]
    if hasattr(feature, "int2str"):
        if value < 0:
            return None
        name = feature.int2str(value)
        return labels.get(name, name)
    return value
