"""Official files below a data folder to checked examples.

Files are found by their official name at any depth. Nothing is downloaded, normalised or skipped.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from benchmarks.kind import Example
from benchmarks.task import Task
from electrify.artifacts import fingerprint

# Share of the groups that becomes training data where a task comes with a reported file alone.
DEV_SPLIT_TRAIN_FRACTION = 0.7


@dataclass(frozen=True)
class TaskData:
    """The rows of a task, and where they come from.

    `split` names the reported rows: "dev", or "dev-split-eval" where the dev file had to serve as
    training data too. `further` are splits that are scored beside it or only predicted. `sha256`
    maps each file, relative to the data folder, to its hash.
    """

    train: tuple[Example, ...]
    reported: tuple[Example, ...]
    split: str
    files: tuple[Path, ...]
    sha256: dict[str, str]
    further: Mapping[str, tuple[Example, ...]] = field(default_factory=dict)

    @property
    def predicted(self) -> dict[str, tuple[Example, ...]]:
        """The rows of every split to predict, the reported one first."""
        return {self.split: self.reported, **self.further}


def load_task(task: Task, data_dir: Path) -> TaskData:
    """Find, read and check a task's files below `data_dir`.

    Raises `ValueError` naming the file looked for, the two files of one name, or the bad row.
    """
    if not data_dir.is_dir():
        raise ValueError(f"no data folder {data_dir}; give --data-dir a folder that exists")
    splits = dict.fromkeys((task.reported, *task.files))  # what cannot be done without comes first
    paths = {split: find_files(task, split, data_dir) for split in splits}
    if not paths[task.reported]:
        names = " or ".join(n for s in ("train", task.reported) for n in task.files.get(s, ()))
        where = f", from {task.homepage}" if task.homepage else ""
        raise ValueError(
            f"{task.name}: no {' or '.join(task.files[task.reported])} below "
            f"{data_dir.absolute()}; put the official files of the task there ({names}){where}"
        )
    rows = {
        split: tuple(example for path in found for example in read_examples(task, split, path))
        for split, found in paths.items()
        if found and (split == "train" or split in (*task.reported_splits, *task.unlabelled))
    }
    files = tuple(path for found in paths.values() for path in found)
    sha256 = {path.relative_to(data_dir).as_posix(): fingerprint(str(path)) for path in files}
    return split_when_untrained(task, rows, files, sha256)


def split_when_untrained(
    task: Task,
    rows: Mapping[str, tuple[Example, ...]],
    files: tuple[Path, ...],
    sha256: dict[str, str],
) -> TaskData:
    """The rows of all splits as a task's data; without "train" the reported rows are divided.

    Raises `ValueError` where nothing is left to learn from or to report.
    """
    further = dict(rows)
    reported, split = further.pop(task.reported), task.reported
    if "train" in further:
        train = further.pop("train")
    else:
        train, reported = split_by_group(task, reported)
        split = f"{split}-split-eval"
    if not train or not reported:
        raise ValueError(
            f"{task.name}: {len(train)} training and {len(reported)} reported rows in "
            f"{', '.join(map(str, files))}; both need at least one"
        )
    return TaskData(train, reported, split, files, sha256, further)


def find_files(task: Task, split: str, data_dir: Path) -> list[Path]:
    """The split's file under its first name that is there, else those of its parts.

    Two files of one name are an error.
    """
    for name in task.files[split]:
        if found := _find(task, name, data_dir):
            return [found]
    parts = (_find(task, name, data_dir) for name in task.parts.get(split, ()))
    return [path for path in parts if path is not None]


def _find(task: Task, name: str, data_dir: Path) -> Path | None:
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
    return found[0] if found else None


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
    return task.kind.read(task, split, path)


def split_by_group(
    task: Task,
    examples: Sequence[Example],
    fraction: float = DEV_SPLIT_TRAIN_FRACTION,
    salt: str = "",
) -> tuple[tuple[Example, ...], tuple[Example, ...]]:
    """Divide rows by a hash of their first text; the first side gets `fraction` of the groups.

    Rows that share it (one premise, several hypotheses) stay together, and a row's side depends on
    nothing but that text, the task's data and `salt`: not on the order, the seed or the other rows.
    """
    limit = int(fraction * 2**64)
    first: list[Example] = []
    second: list[Example] = []
    for example in examples:
        digest = hashlib.sha256(f"{salt}{task.original}\n{example.texts[0]}".encode()).digest()
        side = first if int.from_bytes(digest[:8], "big") < limit else second
        side.append(example)
    return tuple(first), tuple(second)
