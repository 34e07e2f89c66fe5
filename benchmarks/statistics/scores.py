"""Scores of several seeds, with their scores on other examples, and overall scores of a suite."""

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from benchmarks.metrics.labels import (
    Scores,
    electra_dev_8_tasks,
    glue_8_tasks_without_wnli,
    glue_9_tasks,
)
from benchmarks.results.predictions import predictions_of_result
from benchmarks.results.results import BASELINES, Result, differing, percent, task_of
from benchmarks.results.run_folder import RunFolder
from benchmarks.statistics.uncertainty import Draws, Interval, estimate, resample, score_bounds
from benchmarks.tasks.task import Predictions
from electrify.system.outcome import UserError


@dataclass(frozen=True)
class Sample:
    """The headline metric of one task and encoder by seed. `draws` are the scores on resampled
    examples; None where the predictions are not at hand."""

    values: Mapping[int, float]
    draws: Draws | None = None
    metric: str = ""
    num_degenerate: int = 0

    @property
    def num_seeds(self) -> int:
        return len(self.values)

    @property
    def mean(self) -> float:
        """Over seeds; nan of none, and where a seed's score is."""
        return statistics.fmean(self.values.values()) if self.values else math.nan

    @property
    def sd(self) -> float | None:
        """The sample standard deviation over seeds; None of fewer than two."""
        if len(self.values) < 2:
            return None
        return statistics.stdev(self.values.values()) if math.isfinite(self.mean) else math.nan

    @property
    def range(self) -> tuple[float, float]:
        if not self.values or not all(map(math.isfinite, self.values.values())):
            return math.nan, math.nan
        return min(self.values.values()), max(self.values.values())

    @cached_property
    def estimate(self) -> Interval:
        return estimate(self.values, self.draws, score_bounds(self.metric))

    def text(self, digits: int = 2) -> str:
        """'81.23 ± 0.45' in percent, the value alone of one seed, a dash of none."""
        if not self.values:
            return "–"
        spread = "" if self.sd is None else f" ± {percent(self.sd, digits)}"
        return f"{percent(self.mean, digits)}{spread}"


@dataclass(frozen=True)
class TaskScore:
    """All results of one task and one encoder, with those of its baselines. `note` says why there
    are no scores on resampled examples, where there are none."""

    stage: str
    results: tuple[Result, ...]
    by_role: Mapping[str, Sample]  # the encoder as it was given, and its baselines
    note: str = ""

    @property
    def pretrained(self) -> Sample:
        return self.by_role["pretrained"]

    @property
    def first(self) -> Result:
        """Any one record: task, metric, split and protocol are the same in all."""
        return self.results[0]

    @property
    def samples(self) -> dict[str, Sample]:
        """Of the encoder and its baselines, by their names, those that are there."""
        names = {result.role: result.encoder for result in self.results}
        return {names[role]: sample for role, sample in self.by_role.items() if role in names}

    @property
    def encoder(self) -> str:
        return encoder_name(self.stage)

    @property
    def label(self) -> str:
        title = self.first.title
        return f"{title} ({self.encoder})" if self.encoder else title


def encoder_name(stage: str) -> str:
    """Of a stage folder `evaluate-<name>` the name; empty of `evaluate`, the run's own export."""
    return stage.removeprefix("evaluate").removeprefix("-")


def sample_of(results: Sequence[Result], draws: Draws | None = None) -> Sample:
    values = {result.seed: result.value for result in results}
    num_degenerate = sum(result.degenerate is not None for result in results)
    return Sample(values, draws, results[0].metric if results else "", num_degenerate)


def task_scores(
    stage: str, results: Sequence[Result], folder: Path | None = None
) -> list[TaskScore]:
    """Group one evaluation's results by task, in order of first appearance.

    `folder` is the folder that holds its predictions. Raises `ValueError` for a file of predictions
    that is damaged or of another result, and for records of a task that are not of one protocol.
    """
    _check_records(stage, results)
    tasks = dict.fromkeys(result.task for result in results)
    return [_task_score(stage, [r for r in results if r.task == task], folder) for task in tasks]


@cache
def scores_of(run: RunFolder) -> tuple[TaskScore, ...]:
    """The scores of the run's own export first, then those of other encoders."""
    return tuple(
        score
        for stage, records in run.evaluations.items()
        for score in task_scores(stage, records, run.stage_folder(stage))
    )


def scores_by_task(run: RunFolder) -> dict[tuple[str, str], TaskScore]:
    """A run's scores by task, as runs are compared, and by encoder where it has scored several."""
    scores = scores_of(run)
    several = len({score.stage for score in scores}) > 1
    return {(s.first.task, s.encoder if several else ""): s for s in scores}


def _check_records(stage: str, results: Sequence[Result]) -> None:
    first: dict[str, Result] = {}
    for result in results:
        expected = first.setdefault(result.task, result)
        if other := differing(result, expected):
            field = other.replace(" ", "_")
            raise UserError(
                f"{stage}: results of {result.task} with {field} {getattr(expected, field)!r} and "
                f"{getattr(result, field)!r} cannot be averaged: evaluate again with `overwrite`, "
                "or remove the lines of one"
            )


def _task_score(stage: str, results: Sequence[Result], folder: Path | None) -> TaskScore:
    predictions, note = predictions_by_result(results, folder)
    # those of earlier versions have no groups: they are of the same examples
    groups = {p["id"]: p["group"] for run in predictions.values() for p in run if "group" in p}
    by_role = {}
    for role in ("pretrained", *BASELINES):
        records = [result for result in results if result.role == role]
        draws, task = None, task_of(results[0])
        if records and predictions and task:
            runs = {r.seed: _grouped(predictions[role, r.seed], groups) for r in records}
            draws = resample(task, runs)
        by_role[role] = sample_of(records, draws)
    return TaskScore(stage, tuple(results), by_role, note)


def _grouped(predictions: Predictions, groups: Mapping[str, str]) -> Predictions:
    return [{**p, "group": groups[p["id"]]} if p["id"] in groups else p for p in predictions]


def predictions_by_result(
    results: Sequence[Result], folder: Path | None
) -> tuple[dict[tuple[str, int], Predictions], str]:
    if folder is None:
        return {}, "without predictions"
    if task_of(results[0]) is None:
        return {}, "the task is not known here"
    by_result: dict[tuple[str, int], Predictions] = {}
    for result in results:
        predictions = predictions_of_result(folder, result)
        if predictions is None:
            return {}, f"no predictions of {result.encoder}, seed {result.seed}"
        by_result[result.role, result.seed] = predictions
    return by_result, ""


ELECTRA_AVERAGE = "GLUE, 8 tasks as the ELECTRA paper"
_MEANS: Mapping[str, Callable[[Scores], float]] = {
    ELECTRA_AVERAGE: electra_dev_8_tasks,
    "GLUE, 9 tasks": glue_9_tasks,
    "GLUE, 8 tasks without WNLI": glue_8_tasks_without_wnli,
}
_MISMATCHED = "dev_mismatched_"


def overall(results: Iterable[Result]) -> dict[tuple[str, str], float]:
    """By (name, role): the overall scores whose tasks are all there, of means over seeds. Where a
    task is not scored on the official rows, the name says so."""
    scores: dict[tuple[str, str], float] = {}
    results = [result for result in results if result.suite == "glue"]
    for role in dict.fromkeys(result.role for result in results):
        records = [result for result in results if result.role == role]
        by_task: dict[str, list[Mapping[str, float]]] = {}
        for result in records:
            for task, metrics in _parts(result).items():
                by_task.setdefault(task, []).append(metrics)
        means = {
            task: {name: statistics.fmean(s[name] for s in seeds) for name in seeds[0]}
            for task, seeds in by_task.items()
        }
        is_official = all(r.split == "dev" and "dev_mismatched" not in r.parts for r in records)
        for name, mean in _MEANS.items():
            with suppress(KeyError):  # a task is missing
                ending = "" if is_official else ", not on the official rows"
                scores[name + ending, role] = mean(means)
    return scores


def _parts(result: Result) -> dict[str, Mapping[str, float]]:
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
