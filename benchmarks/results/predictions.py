"""Files of predictions: what they are of in the first line, then one line an example.

All that scores are made of stands there, so that a file can be scored again (`rescore`).
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.results.results import RESULTS, Result, evaluation_folders, read_results, task_of
from benchmarks.tasks.task import Line, Task
from electrify.stage.folder import write_text
from electrify.storage.files import parse_json
from electrify.system.outcome import UserError

Header = Mapping[str, Any]
PREDICTIONS = "predictions"  # in a folder of results
AGAIN = "evaluate again with --overwrite"
_SCHEMA = 2
# what a header says of its result, and what of it is compared
_IDENTITY = ("task", "task_version", "role", "seed", "data_sha256")
_HEADER = ("suite", *_IDENTITY, "model_path", "train_fraction")


def plain(lines: Sequence[Line]) -> list[Line]:
    """The lines as they read back from a file."""
    read: list[Line] = json.loads(json.dumps(lines))
    return read


def score_lines(task: Task, lines: Sequence[Line]) -> dict[str, float]:
    """Every metric of the task; nan in all where the model gave no numbers."""
    if any(line["prediction"] is None for line in lines):
        return dict.fromkeys(task.score([]), math.nan)
    return task.score(lines)


def score_splits(
    task: Task, reported: str, lines: Mapping[str, Sequence[Line]]
) -> dict[str, float]:
    """Metrics of the reported split, and of further labelled ones as "<split>_<metric>"."""
    metrics = score_lines(task, lines[reported])
    for split in task.also_reported:
        if split in lines:
            scores = score_lines(task, lines[split])
            metrics |= {f"{split}_{name}": value for name, value in scores.items()}
    return metrics


def undefined(lines: Sequence[Line]) -> list[Line]:
    """The lines of a model that gave no numbers: what it was asked and gold values alone."""
    kept = ("id", "text", "gold")
    return [{key: line[key] if key in kept else None for key in line} for line in lines]


def prediction_path(folder: Path, result: Result, split: str = "") -> Path:
    """Where the predictions of one result stand, by default those of the reported split."""
    suffix = f".{split}" if split and split != result.split else ""
    return folder / PREDICTIONS / f"{result.predictions or result.slot}{suffix}.jsonl"


def write_lines(folder: Path, result: Result, lines: Mapping[str, Sequence[Line]]) -> None:
    about = {name: getattr(result, name) for name in _HEADER}
    for split, of_split in lines.items():
        path = prediction_path(folder, result, split)
        write_predictions(path, about | {"split": split}, of_split)


def write_predictions(path: Path, header: Header, lines: Sequence[Line]) -> None:
    """Write `header` with the schema, the number of lines and digests of their ids and of
    themselves, then the lines."""
    rows = [json.dumps(line, ensure_ascii=False) for line in lines]
    first = {
        "schema": _SCHEMA,
        **header,
        "num_examples": len(lines),
        "ids": _digest("\n".join(str(line["id"]) for line in lines).encode()),
        "sha256": _digest("\n".join(rows).encode()),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, "\n".join([json.dumps({"header": first}, ensure_ascii=False), *rows]) + "\n")


def read_predictions(path: Path) -> tuple[Header, list[Line]]:
    """Header and lines of a whole file; `ValueError` for a file without a header, and for lines
    that are not, byte for byte, as they were written."""
    first, _, body = path.read_bytes().removesuffix(b"\n").partition(b"\n")
    row = parse_json(first, f"{path} line 1 is damaged: it")
    header = row.get("header") if isinstance(row, dict) else None
    if not isinstance(header, dict) or "sha256" not in header:
        raise UserError(f"{path} does not begin with a header; it is no file of predictions")
    if header["sha256"] != _digest(body):
        raise UserError(
            f"{path} has changed since it was written: its checksum differs, and examples may be "
            f"missing; {AGAIN}"
        )
    return header, [parse_json(line, str(path)) for line in body.split(b"\n") if line]


def lines_of_result(folder: Path, result: Result, split: str = "") -> list[Line] | None:
    """The predicted rows of a split, by default the reported one; None where there is no file.
    Raises `ValueError` for a file that is damaged or of another result."""
    path = prediction_path(folder, result, split)
    if not path.is_file():
        return None
    header, lines = read_predictions(path)
    for name in _IDENTITY:
        if header.get(name) != (value := getattr(result, name)):
            raise UserError(f"{path} has {name} {header.get(name)!r}, its result has {value!r}")
    return lines


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def rescore(place: Path) -> int:
    """Compute every metric of every result from its prediction lines; the exit code.

    Prints `N agree, M differ` and each difference. Raises `ValueError` for a file of predictions
    that is missing, damaged or lacks examples, and for an unknown task.
    """
    num_agree = num_differ = 0
    for folder in evaluation_folders(place):
        for result in read_results(folder / RESULTS):
            scores = _scores(folder, result)
            for name in dict.fromkeys((*result.metrics, *scores)):
                written, computed = result.metrics.get(name), scores.get(name)
                if _equal(written, computed):
                    num_agree += 1
                    continue
                num_differ += 1
                label = f"{result.task}, {result.encoder}, seed {result.seed}"
                print(f"{folder}: {label}: {name} {written} written, {computed} computed")
    print(f"{num_agree} agree, {num_differ} differ")
    return 1 if num_differ else 0


def _scores(folder: Path, result: Result) -> dict[str, float]:
    if (task := task_of(result)) is None:
        raise UserError(f"unknown task {result.task!r} in {RESULTS}; it was made by other code")
    lines = {
        split: of_split
        for split in (result.split, *task.also_reported)
        if (of_split := lines_of_result(folder, result, split)) is not None
    }
    if result.split not in lines:
        path = prediction_path(folder, result)
        raise UserError(f"no {path}: the predictions of a result are missing; {AGAIN}")
    return checked_scores(task, result.split, lines, folder)


def check_value(folder: Path, result: Result) -> None:
    """`ValueError` if the predictions of a record, where they are there, give another score."""
    if task_of(result) is None or not prediction_path(folder, result).is_file():
        return
    computed = _scores(folder, result).get(result.metric)
    if not _equal(result.value, computed):
        raise UserError(
            f"{folder / RESULTS}: {result.task}, {result.encoder}, seed {result.seed}: "
            f"{result.metric} {result.value} written, {computed} computed from "
            f"{prediction_path(folder, result)}; put the right files back, or remove the record"
        )


def checked_scores(
    task: Task, reported: str, lines: Mapping[str, Sequence[Line]], where: Path
) -> dict[str, float]:
    """`score_splits` of lines as a file has them; `ValueError` if they are none of the task's."""
    try:
        return score_splits(task, reported, lines)
    except (KeyError, TypeError, IndexError, AttributeError, ValueError, OverflowError) as error:
        raise UserError(
            f"{where}: its predictions do not fit {task.name} ({error!r}); {AGAIN}"
        ) from None


def _equal(written: float | None, computed: float | None) -> bool:
    if written is None or computed is None:
        return False
    return bool(np.isclose(written, computed, rtol=1e-9, atol=1e-12, equal_nan=True))
