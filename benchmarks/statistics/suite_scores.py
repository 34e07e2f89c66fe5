"""Overall scores of a suite from the results of its tasks."""

import statistics
from collections.abc import Callable, Iterable, Mapping

from benchmarks.metrics.glue import (
    Scores,
    electra_dev_8_tasks,
    glue_8_tasks_without_wnli,
    glue_9_tasks,
)
from benchmarks.results.results import Result

ELECTRA_AVERAGE = "GLUE, 8 tasks as the ELECTRA paper"
_MEANS: Mapping[str, Callable[[Scores], float]] = {
    ELECTRA_AVERAGE: electra_dev_8_tasks,
    "GLUE, 9 tasks": glue_9_tasks,
    "GLUE, 8 tasks without WNLI": glue_8_tasks_without_wnli,
}
_MISMATCHED = "dev_mismatched_"


def overall(results: Iterable[Result]) -> dict[tuple[str, str], float]:
    """By (name, model): the overall scores whose tasks are all there, of means over seeds.

    Where a task is not scored on the official rows, the name says so.
    """
    scores: dict[str, dict[str, dict[str, list[float]]]] = {}
    endings: dict[str, str] = {}
    for result in results:
        if result.suite != "glue":
            continue
        of_model = scores.setdefault(result.model, {})
        if result.split != "dev" or "dev_mismatched" in result.parts:
            endings[result.model] = ", not on the official rows"
        for task, metrics in _parts(result).items():
            for metric, value in metrics.items():
                of_model.setdefault(task, {}).setdefault(metric, []).append(value)
    found = {}
    for model, tasks in scores.items():
        means = {
            task: {name: statistics.fmean(values) for name, values in metrics.items()}
            for task, metrics in tasks.items()
        }
        for name, mean in _MEANS.items():
            try:
                found[name + endings.get(model, ""), model] = mean(means)
            except ValueError:  # a task is missing
                continue
    return found


def _parts(result: Result) -> dict[str, dict[str, float]]:
    """A result's metrics under the names of `metrics.glue`, where MNLI's two sets are two tasks."""
    name = result.task.removeprefix("glue-")
    if name != "mnli":
        return {name: result.metrics}
    mismatched = {
        metric.removeprefix(_MISMATCHED): value
        for metric, value in result.metrics.items()
        if metric.startswith(_MISMATCHED)
    }
    return {"mnli_matched": result.metrics, "mnli_mismatched": mismatched}
