"""Files of predictions: what they are of in the first line, then one line an example. The files
of GLUE's leaderboard are made of them."""

import json
import math
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from benchmarks.results.results import Result, current_results, largest_part
from benchmarks.results.run_folder import sound_file
from benchmarks.tasks.labels import Regression
from benchmarks.tasks.registry import TASKS
from benchmarks.tasks.task import Example, Prediction, Predictions, Task
from electrify.stage.folder import write_text
from electrify.storage.files import parse_json, read_toml
from electrify.system.outcome import UserError
from electrify.system.progress import log, warn

Header = Mapping[str, Any]
SplitPredictions = Mapping[str, Predictions]  # by split
PREDICTIONS = "predictions"  # in a folder of results
_SCHEMA = 2
_GLUE_FILES = read_toml(Path(__file__).with_name("glue.toml"))["glue"]
# what a header says of its result, and what of it is compared
_IDENTITY = ("task", "task_version", "role", "seed", "data_sha256")
_HEADER = ("suite", *_IDENTITY, "model_path", "train_fraction")


def plain(predictions: Predictions) -> list[Prediction]:
    """The predictions as they read back from a file."""
    read: list[Prediction] = json.loads(json.dumps(predictions))
    return read


def score_predictions(task: Task, predictions: Predictions) -> dict[str, float]:
    """Every metric of the task; nan in all where the model gave no numbers."""
    if any(p["prediction"] is None for p in predictions):
        return dict.fromkeys(task.score([]), math.nan)
    return task.score(predictions)


def score_splits(task: Task, reported: str, predictions: SplitPredictions) -> dict[str, float]:
    """Metrics of the reported split, and of further labelled ones as "<split>_<metric>"."""
    metrics = score_predictions(task, predictions[reported])
    for split in task.also_reported:
        if split in predictions:
            scores = score_predictions(task, predictions[split])
            metrics |= {f"{split}_{name}": value for name, value in scores.items()}
    return metrics


def undefined(predictions: Predictions) -> list[Prediction]:
    """The predictions of a model that gave no numbers: what it was asked and gold values alone."""
    kept = ("id", "group", "text", "gold")
    return [{key: p[key] if key in kept else None for key in p} for p in predictions]


def with_groups(examples: Sequence[Example], predictions: Sequence[Prediction]) -> list[Prediction]:
    """The predictions, with a "group" where several examples share their first text."""
    counts = Counter(example.texts[0] for example in examples)
    return [
        {**p, "group": sha256(e.texts[0].encode()).hexdigest()[:12]}
        if counts[e.texts[0]] > 1
        else p
        for e, p in zip(examples, predictions, strict=True)
    ]


def prediction_path(folder: Path, result: Result, split: str = "") -> Path:
    """Where the predictions of one result stand, by default those of the reported split."""
    suffix = f".{split}" if split and split != result.split else ""
    return folder / PREDICTIONS / f"{result.predictions}{suffix}.jsonl"


def write_predictions(folder: Path, result: Result, predictions: SplitPredictions) -> None:
    about = {name: getattr(result, name) for name in _HEADER}
    for split, of_split in predictions.items():
        path = prediction_path(folder, result, split)
        write_prediction_file(path, about | {"split": split}, of_split)


def write_prediction_file(path: Path, header: Header, predictions: Predictions) -> None:
    """Write `header` with the schema and the number of lines, then the lines."""
    first = {"header": {"schema": _SCHEMA, **header, "num_examples": len(predictions)}}
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [json.dumps(p, ensure_ascii=False) for p in (first, *predictions)]
    write_text(path, "\n".join(rows) + "\n")


def read_predictions(path: Path) -> tuple[Header, list[Prediction]]:
    """Header and predictions of a file; `UserError` for one without a header, or with fewer lines
    than it says, or with a line that is no JSON."""
    first, *rows = path.read_bytes().removesuffix(b"\n").split(b"\n")
    row = parse_json(first, f"{path} line 1 is damaged: it")
    header = row.get("header") if isinstance(row, dict) else None
    if not isinstance(header, dict):
        raise UserError(f"{path} does not begin with a header; it is no file of predictions")
    if header.get("num_examples") != len(rows):
        raise UserError(
            f"{path} has {len(rows)} lines, its header says {header.get('num_examples')}: evaluate "
            "again with `overwrite`"
        )
    return header, [parse_json(p, str(path)) for p in rows]


def predictions_of_result(folder: Path, result: Result, split: str = "") -> list[Prediction] | None:
    """The predicted rows of a split, by default the reported one; None where there is no file.
    Raises `ValueError` for a file that is damaged or of another result."""
    path = prediction_path(folder, result, split)
    if not path.is_file():
        return None
    sound_file(folder, path.relative_to(folder).as_posix())
    header, predictions = read_predictions(path)
    for name in _IDENTITY:
        if header.get(name) != (value := getattr(result, name)):
            raise UserError(f"{path} has {name} {header.get(name)!r}, its result has {value!r}")
    return predictions


# GLUE's leaderboard.


def write_submissions(folder: Path) -> list[Path]:
    """Write the files of GLUE's leaderboard below `submission/` of a folder of results, by seed, of
    the splits without labels that are there. Those written before are removed."""
    submissions, written = folder / "submission", list[Path]()
    if submissions.exists():
        shutil.rmtree(submissions)
    for result in largest_part(current_results(folder)):
        for name, (task, split) in _GLUE_FILES.items():
            if result.role != "pretrained" or result.task != task:
                continue
            predictions = predictions_of_result(folder, result, split) or []
            if any(p["prediction"] is None for p in predictions):
                warn(f"{task} {split}: its training failed, so nothing is written")
            elif predictions:
                written.append(submissions / f"pretrained-{result.seed}" / name)
                written[-1].parent.mkdir(parents=True, exist_ok=True)
                write_text(written[-1], glue_table(TASKS[task], predictions))
    if written:
        log(
            f"wrote {submissions.name}/: GLUE's leaderboard takes a zip of all {len(_GLUE_FILES)} "
            "files of one seed"
        )
    return written


def glue_table(task: Task, predictions: Predictions) -> str:
    """`index<TAB>prediction`, the index from 0 in each file, labels as in the data's files, STS-B
    within 0..5 and with three decimals."""
    low, high = task.value_range
    rows = ["index\tprediction"]
    for index, prediction in enumerate(predictions):
        value = prediction["prediction"]
        if isinstance(task, Regression):
            value = f"{min(max(value, low), high):.3f}"
        rows.append(f"{index}\t{value}")
    return "\n".join(rows) + "\n"
