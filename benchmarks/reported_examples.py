"""The examples that predictions are of, read again from the data files for a report."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.hub import read_splits
from benchmarks.kind import Example, Line
from benchmarks.load import SPLIT_EVAL, rows_digest, split_by_group
from benchmarks.registry import TASKS
from benchmarks.results import Result


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
    rows = read_splits(task, data_dir, (task.reported,))[task.reported]
    if rows_digest(rows) != result.data_sha256.get(task.reported):
        raise ValueError(
            f"{result.task}: the {task.reported} rows below {data_dir} are not those that it was "
            "scored on; they have changed since, or another version of electrify scored it"
        )
    if result.split.endswith(SPLIT_EVAL):  # a part of it was learnt from
        rows = split_by_group(task, rows)[1]
    return {example.id: example for example in rows}
