"""Predictions in the forms that others read: GLUE's leaderboard, SQuAD's scripts.

Both are made from the lines of predictions alone.
"""

import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.results.predictions import lines_of_result
from benchmarks.results.results import Result, current_results, evaluation_folders, largest_part
from benchmarks.tasks.labels import Regression
from benchmarks.tasks.registry import TASKS
from benchmarks.tasks.spans import Scorer, Spans
from benchmarks.tasks.task import Line, Task
from electrify.stage.folder import write_text
from electrify.storage.files import read_toml
from electrify.system.progress import log, warn

FOLDER = "submission"
_GLUE_FILES = read_toml(Path(__file__).with_suffix(".toml"))["glue"]
_ZIP_DATE = (1980, 1, 1, 0, 0, 0)  # the same predictions are the same bytes


def write_submissions(place: Path) -> list[Path]:
    """Write `submission/pretrained-<seed>/` into each folder of results; what was written. Raises
    `ValueError` for a folder without results, and for damaged predictions."""
    written: list[Path] = []
    for folder in evaluation_folders(place):
        by_seed: dict[int, list[Result]] = {}
        for result in largest_part(current_results(folder)):
            if result.task in TASKS and result.role == "pretrained":
                by_seed.setdefault(result.seed, []).append(result)
        for seed, results in by_seed.items():
            written += _write_run(folder, folder / FOLDER / f"pretrained-{seed}", results)
    for path in written:
        log(f"wrote {path}")
    return written


def _write_run(folder: Path, target: Path, results: Sequence[Result]) -> list[Path]:
    written: list[Path] = []
    glue: dict[tuple[str, str], list[Line]] = {}
    for result in results:
        task = TASKS[result.task]
        for split in (result.split, *task.also_reported, *task.unlabelled):
            lines = lines_of_result(folder, result, split)
            if lines is None:
                continue
            if any(line["prediction"] is None for line in lines):
                warn(f"{task.name} {split}: its training failed, so nothing is written")
            elif isinstance(task, Spans):
                written += _write_squad(lines, target / f"{task.name}.{split}", task.scorer)
            elif task.suite == "glue" and split in task.unlabelled:
                glue[task.name, split] = lines
    if glue:
        written.append(write_glue_zip(target / "glue.zip", glue))
    return written


def _write_squad(lines: Sequence[Line], folder: Path, scorer: Scorer) -> list[Path]:
    """Write `predictions.json` by question id, "" where there is no answer; give the paths.

    For SQuAD 2.0 the predictions are texts throughout and `null_odds.json` stands beside them:
    `--na-prob-file null_odds.json --na-prob-thresh T`.
    """
    fields = {"predictions.json": "prediction"}
    if scorer == "squad-2.0":
        fields = {"predictions.json": "answer", "null_odds.json": "null_odds"}
    folder.mkdir(parents=True, exist_ok=True)
    for name, key in fields.items():
        content = {line["id"]: line[key] for line in lines}
        write_text(folder / name, json.dumps(content, ensure_ascii=False, indent=1) + "\n")
    return [folder / name for name in fields]


def write_glue_zip(path: Path, lines: Mapping[tuple[str, str], Sequence[Line]]) -> Path:
    """The leaderboard's zip of the tasks and splits there are; says which of its files lack."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, (task, split) in _GLUE_FILES.items():
            if (task, split) in lines:
                text = glue_table(TASKS[task], lines[task, split])
                archive.writestr(zipfile.ZipInfo(name, _ZIP_DATE), text, zipfile.ZIP_DEFLATED)
    if lacking := [name for name, key in _GLUE_FILES.items() if tuple(key) not in lines]:
        warn(
            f"{path} lacks {', '.join(lacking)}; the leaderboard wants all "
            f"{len(_GLUE_FILES)} (test files of GLUE below the data folder are predicted, those "
            "of the hub too; AX is predicted with MNLI)"
        )
    return path


def glue_table(task: Task, lines: Sequence[Line]) -> str:
    """`index<TAB>prediction`, the index from 0 in each file, labels as in the data's files, STS-B
    within 0..5 and with three decimals."""
    low, high = task.value_range
    rows = ["index\tprediction"]
    for index, line in enumerate(lines):
        value = line["prediction"]
        if isinstance(task, Regression):
            value = f"{min(max(value, low), high):.3f}"
        rows.append(f"{index}\t{value}")
    return "\n".join(rows) + "\n"
