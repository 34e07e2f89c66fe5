"""Predictions in the form of GLUE's leaderboard, from the lines of predictions alone."""

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.results.predictions import lines_of_result
from benchmarks.results.results import current_results, largest_part
from benchmarks.tasks.labels import Regression
from benchmarks.tasks.registry import TASKS
from benchmarks.tasks.task import Line, Task
from electrify.storage.files import read_toml
from electrify.system.progress import log, warn

FOLDER = "submission"
_GLUE_FILES = read_toml(Path(__file__).with_suffix(".toml"))["glue"]
_ZIP_DATE = (1980, 1, 1, 0, 0, 0)  # the same predictions are the same bytes


def write_submissions(folder: Path) -> list[Path]:
    """Write `submission/pretrained-<seed>/glue.zip` into a folder of results, of its tasks of GLUE
    with unlabelled splits; what was written."""
    by_seed: dict[int, dict[tuple[str, str], list[Line]]] = {}
    for result in largest_part(current_results(folder)):
        task = TASKS.get(result.task)
        if result.role != "pretrained" or task is None or task.suite != "glue":
            continue
        for split in task.unlabelled:
            lines = lines_of_result(folder, result, split)
            if lines and all(line["prediction"] is not None for line in lines):
                by_seed.setdefault(result.seed, {})[task.name, split] = lines
            elif lines:
                warn(f"{task.name} {split}: its training failed, so nothing is written")
    written = [
        write_glue_zip(folder / FOLDER / f"pretrained-{seed}" / "glue.zip", lines)
        for seed, lines in by_seed.items()
    ]
    for path in written:
        log(f"wrote {path}")
    return written


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
