"""Files of predictions: what they are of in the first line, then one line an example.

All that scores are made of stands there, so that a file can be scored again.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.kind import Line
from benchmarks.task import Task
from electrify.artifacts import write_text

Header = Mapping[str, Any]
_SCHEMA = 1


def plain(lines: Sequence[Line]) -> list[Line]:
    """The lines as they read back from a file."""
    found: list[Line] = json.loads(json.dumps(lines))
    return found


def score_lines(task: Task, lines: Sequence[Line]) -> dict[str, float]:
    """Every metric of the task; nan in all where the model gave no numbers."""
    if any(line["prediction"] is None for line in lines):
        return dict.fromkeys(task.kind.score(task, []), math.nan)
    return task.kind.score(task, lines)


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


def prediction_path(
    folder: Path, task: str, variant: str, seed: int, split: str = "", train_fraction: float = 1.0
) -> Path:
    """Where the predictions of one job stand; `split` is empty for the reported one.

    Those of models that learnt from a part of the training split have a folder for each part.
    """
    suffix = f".{split}" if split else ""
    place = folder / "predictions" / task
    if train_fraction != 1.0:
        place /= f"train-{train_fraction:g}"
    return place / f"{variant}-{seed}{suffix}.jsonl"


def write_predictions(path: Path, header: Header, lines: Sequence[Line]) -> None:
    """Write `header` with the schema, the number of lines and a digest of their ids, then the
    lines."""
    first = {"schema": _SCHEMA, **header, "num_examples": len(lines), "ids": _ids_digest(lines)}
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [json.dumps(row, ensure_ascii=False) for row in ({"header": first}, *lines)]
    write_text(path, "\n".join(rows) + "\n")


def read_predictions(path: Path) -> tuple[Header, list[Line]]:
    """Header and lines of a whole file.

    Raises `ValueError` for a file without a header, a damaged line, and lines that are missing,
    doubled or of other ids than the header counts.
    """
    rows = []
    text = path.read_text(encoding="utf-8").removesuffix("\n")
    for number, line in enumerate(text.split("\n"), start=1):
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError as error:
            raise ValueError(f"{path} line {number} is damaged: {error}") from None
    if not rows or not isinstance(rows[0], dict) or "header" not in rows[0]:
        raise ValueError(f"{path} does not begin with a header; it is no file of predictions")
    header, lines = rows[0]["header"], rows[1:]
    ids = [line["id"] for line in lines]
    if len(lines) != header["num_examples"] or len(set(ids)) != len(ids):
        raise ValueError(
            f"{path} has {len(set(ids))} predictions for {header['num_examples']} examples; a "
            "score over some of them is none: do the job again"
        )
    if _ids_digest(lines) != header["ids"]:
        raise ValueError(f"{path} holds other ids than it was written with; do the job again")
    return header, lines


def _ids_digest(lines: Sequence[Line]) -> str:
    return hashlib.sha256("\n".join(str(line["id"]) for line in lines).encode()).hexdigest()
