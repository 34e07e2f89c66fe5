"""The examples that predictions are of, read again from the data files for a report."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.hub import load_hub_task, saved_folder
from benchmarks.kind import Example, Line
from benchmarks.load import find_files, read_examples, split_by_group
from benchmarks.registry import TASKS
from benchmarks.results import Result
from electrify.artifacts import fingerprint


def examples_of(result: Result, lines: Sequence[Line], data_dir: Path) -> list[Example]:
    """The example of each line, from the files of `data_dir` that the result was made from.

    Raises `ValueError` where these are not there, have changed since, or lack an id.
    """
    examples = _examples(result, data_dir)
    if missing := [line["id"] for line in lines if str(line["id"]) not in examples]:
        raise ValueError(
            f"{result.task}: {len(missing)} of {len(lines)} predicted rows, {missing[0]!r} the "
            f"first, are not in the data below {data_dir}"
        )
    return [examples[str(line["id"])] for line in lines]


def _examples(result: Result, data_dir: Path) -> Mapping[str, Example]:
    task = TASKS[result.task]
    saved = saved_folder(task, data_dir)
    if saved is not None:
        return {example.id: example for example in load_hub_task(task, saved).reported}
    if not data_dir.is_dir():
        raise ValueError(f"no data folder {data_dir}; give --data-dir a folder that exists")
    paths = find_files(task, task.reported, data_dir)
    if not paths:
        names = " or ".join(task.files[task.reported])
        raise ValueError(f"{task.name}: no {names} below {data_dir}")
    for path in paths:
        if fingerprint(str(path)) not in result.data_sha256.values():
            raise ValueError(
                f"{path} is not the file that {task.name} was scored on; it has changed since"
            )
    rows = [example for path in paths for example in read_examples(task, task.reported, path)]
    if result.split != task.reported:  # a part of it was learnt from
        rows = list(split_by_group(task, rows)[1])
    return {example.id: example for example in rows}
