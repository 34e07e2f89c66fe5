"""Tasks out of `datasets`: from the hub, or from a folder that `save_to_disk` wrote."""

import importlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.kind import Example
from benchmarks.load import TaskData, load_task, split_when_untrained
from benchmarks.task import HubSource, Task
from electrify.artifacts import fingerprint
from electrify.config_evaluate import EvaluateConfig
from electrify.error_text import first_line

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


def load_data(task: Task, data_dir: Path) -> TaskData:
    """A task's rows: from its official files, a `save_to_disk` folder, or the hub (`HUB`).

    Raises `ValueError` as `load_task` and `load_hub_task` do.
    """
    if str(data_dir) == HUB:
        return load_hub_task(task, None)
    saved = saved_folder(task, data_dir)
    return load_task(task, data_dir) if saved is None else load_hub_task(task, saved)


def saved_folder(task: Task, data_dir: Path) -> Path | None:
    """The task's `save_to_disk` folder below `data_dir`, named as the task; None without one."""
    folder = data_dir / task.name
    return folder if (folder / _SAVED).is_file() else None


def load_hub_task(task: Task, folder: Path | None) -> TaskData:
    """The task's rows from `folder`, or from the hub where it is None.

    Raises `ValueError` for a task that is not there, a split or a field that is missing, and class
    labels that are not the task's.
    """
    if task.hub is None:
        raise ValueError(
            f"{task.name} is not read by `datasets`: give --data-dir a folder with its official "
            f"files ({task.homepage})"
        )
    found = _read(task, task.hub, folder)
    where = str(folder) if folder else f"{task.hub.path} {task.hub.name or ''}".strip()
    wanted = task.hub.splits[task.reported]
    if wanted not in found:
        raise ValueError(f"{task.name}: {where} has no split {wanted} (has: {', '.join(found)})")
    present = {ours: theirs for ours, theirs in task.hub.splits.items() if theirs in found}
    rows: dict[str, tuple[Example, ...]] = {}
    files: list[Path] = []
    sha256: dict[str, str] = {}
    for ours, theirs in present.items():
        dataset = found[theirs]
        check_labels(task, task.hub, dataset.features, where)
        rows[ours] = tuple(task.kind.from_hub(task, ours, named_rows(task.hub, dataset)))
        for entry in dataset.cache_files:
            path = Path(entry["filename"])
            files.append(path)
            sha256[f"{where} {theirs}/{path.name}"] = fingerprint(str(path))
    return split_when_untrained(task, rows, tuple(files), sha256)


def _read(task: Task, hub: HubSource, folder: Path | None) -> Mapping[str, Any]:
    datasets: Any = importlib.import_module("datasets")  # slow to import, and seldom wanted
    try:
        if folder is not None:
            return dict(datasets.load_from_disk(str(folder)))
        return dict(datasets.load_dataset(hub.path, hub.name))
    except (OSError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"{task.name}: `datasets` cannot read {folder or hub.path}: "
            f"{first_line(error)}; or give --data-dir a folder with the official files "
            f"({task.homepage})"
        ) from error


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
