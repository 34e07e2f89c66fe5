"""Official files below a data folder to checked examples.

Files are found by their official name at any depth. Nothing is downloaded, normalised or skipped.
"""

import hashlib
import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import numpy as np

from benchmarks.tasks.kind import Example
from benchmarks.tasks.task import Task

# Share of the groups that becomes training data where a task comes with a reported file alone.
DEV_SPLIT_TRAIN_FRACTION = 0.7
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
    rows have equal digests, whether they come from files, a saved folder or the hub.
    """

    train: tuple[Example, ...]
    reported: tuple[Example, ...]
    split: str
    sha256: dict[str, str]
    further: Mapping[str, tuple[Example, ...]] = field(default_factory=dict)
    parts: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # here, officially

    @property
    def predicted(self) -> dict[str, tuple[Example, ...]]:
        """The rows of every split to predict, the reported one first."""
        return {self.split: self.reported, **self.further}


def load_task(task: Task, data_dir: Path) -> TaskData:
    """The rows of a task's official files below `data_dir`; `ValueError` as `read_files`."""
    return task_data(task, read_files(task, data_dir))


def read_files(
    task: Task, data_dir: Path, splits: Collection[str] | None = None
) -> dict[str, tuple[Example, ...]]:
    """Find, read and check a task's files below `data_dir`: of `splits`, or of all that are there.

    Raises `ValueError` naming the file looked for, the two files of one name, or the bad row.
    """
    if not data_dir.is_dir():
        raise ValueError(f"no data folder {data_dir}; give --data-dir a folder that exists")
    # what cannot be done without comes first
    wanted = [s for s in task.all_splits if splits is None or s in splits]
    paths = {split: find_files(task, split, data_dir) for split in wanted if split in task.files}
    if task.reported in paths and not paths[task.reported]:
        names = " or ".join(n for s in ("train", task.reported) for n in task.files.get(s, ()))
        where = f", from {task.homepage}" if task.homepage else ""
        raise ValueError(
            f"{task.name}: no {' or '.join(task.files[task.reported])} below "
            f"{data_dir.absolute()}; put the official files of the task there ({names}){where}"
        )
    return {
        split: tuple(example for path in found for example in read_examples(task, split, path))
        for split, found in paths.items()
        if found
    }


def task_data(task: Task, rows: Mapping[str, tuple[Example, ...]]) -> TaskData:
    """The rows of all splits as a task's data; without "train" the reported rows are divided.

    Raises `ValueError` where nothing is left to learn from or to report.
    """
    further = dict(rows)
    reported, split = further.pop(task.reported), task.reported
    counts = {name: task.kind.num_rows(examples) for name, examples in rows.items()}
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
    if not train or not reported:
        raise ValueError(
            f"{task.name}: {len(train)} training and {len(reported)} reported rows in the data; "
            "both need at least one"
        )
    sha256 = {name: rows_digest(rows[name]) for name in ("train", task.reported) if name in rows}
    return TaskData(train, reported, split, sha256, further, parts)


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
