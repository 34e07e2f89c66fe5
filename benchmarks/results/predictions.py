"""Files of predictions: what they are of in the first line, then one line an example."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.results.results import Result
from benchmarks.results.run_folder import sound_file
from benchmarks.tasks.task import Line, Task
from electrify.stage.folder import write_text
from electrify.storage.files import parse_json
from electrify.system.outcome import UserError

Header = Mapping[str, Any]
PREDICTIONS = "predictions"  # in a folder of results
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
    return folder / PREDICTIONS / f"{result.predictions}{suffix}.jsonl"


def write_lines(folder: Path, result: Result, lines: Mapping[str, Sequence[Line]]) -> None:
    about = {name: getattr(result, name) for name in _HEADER}
    for split, of_split in lines.items():
        path = prediction_path(folder, result, split)
        write_predictions(path, about | {"split": split}, of_split)


def write_predictions(path: Path, header: Header, lines: Sequence[Line]) -> None:
    """Write `header` with the schema and the number of lines, then the lines."""
    first = {"header": {"schema": _SCHEMA, **header, "num_examples": len(lines)}}
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [json.dumps(line, ensure_ascii=False) for line in (first, *lines)]
    write_text(path, "\n".join(rows) + "\n")


def read_predictions(path: Path) -> tuple[Header, list[Line]]:
    """Header and lines of a file; `UserError` for a file without a header or with fewer lines than
    it says, and for a line that is no JSON."""
    first, *rows = path.read_bytes().removesuffix(b"\n").split(b"\n")
    row = parse_json(first, f"{path} line 1 is damaged: it")
    header = row.get("header") if isinstance(row, dict) else None
    if not isinstance(header, dict):
        raise UserError(f"{path} does not begin with a header; it is no file of predictions")
    if header.get("num_examples") != len(rows):
        raise UserError(
            f"{path} has {len(rows)} lines, its header says {header.get('num_examples')}: evaluate "
            "again with --overwrite"
        )
    return header, [parse_json(line, str(path)) for line in rows]


def lines_of_result(folder: Path, result: Result, split: str = "") -> list[Line] | None:
    """The predicted rows of a split, by default the reported one; None where there is no file.
    Raises `ValueError` for a file that is damaged or of another result."""
    path = prediction_path(folder, result, split)
    if not path.is_file():
        return None
    sound_file(folder, path.relative_to(folder).as_posix())
    header, lines = read_predictions(path)
    for name in _IDENTITY:
        if header.get(name) != (value := getattr(result, name)):
            raise UserError(f"{path} has {name} {header.get(name)!r}, its result has {value!r}")
    return lines
