"""Scores again, from files of predictions alone: a check of `results.jsonl`."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.results.predictions import AGAIN, lines_of_result, prediction_path, score_splits
from benchmarks.results.results import RESULTS, Result, read_results, task_of
from benchmarks.tasks.task import Line, Task
from electrify.system.outcome import UserError

RELATIVE_TOLERANCE = 1e-9


def evaluation_folders(place: Path) -> list[Path]:
    """The folders of results that `place` is or holds; `ValueError` if there are none."""
    folders = (
        [place]
        if (place / RESULTS).is_file()
        else sorted(folder for folder in place.glob("evaluate*") if (folder / RESULTS).is_file())
    )
    if not folders:
        raise UserError(
            f"no {RESULTS} in {place} or its evaluate folders; give a run's folder, such as "
            "out/demo, or one of its evaluate folders"
        )
    return folders


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
    lines = dict[str, Sequence[Line]]()
    for split in (result.split, *task.also_reported):
        if (of_split := lines_of_result(folder, result, split)) is not None:
            lines[split] = of_split
    if result.split not in lines:
        path = prediction_path(folder, result)
        raise UserError(f"no {path}: the predictions of a result are missing; {AGAIN}")
    return scores_of(task, result.split, lines, folder)


def scores_of(
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
    if math.isnan(written) or math.isnan(computed):
        return math.isnan(written) and math.isnan(computed)
    return math.isclose(written, computed, rel_tol=RELATIVE_TOLERANCE, abs_tol=1e-12)
