"""How a fine-tuned task's score changes when its rows are perturbed.

The perturbed rows are a further split of the task: one fine-tuning predicts them next to the clean
ones. `KINDS` says which perturbations there are.
"""

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.noise.effects import Effect, Evaluated
from benchmarks.noise.perturb import KINDS, perturbed
from benchmarks.results.predictions import predictions_of_result
from benchmarks.results.results import Result
from benchmarks.statistics.uncertainty import estimate, scored
from benchmarks.tasks.labels import Classification, Regression, RelationExtraction
from benchmarks.tasks.load import TaskData, rows_digest
from benchmarks.tasks.task import Prediction, Task

DEFAULT_TASKS = ("klue-ynat", "korean-hate-speech")
NUM_ROWS = 400  # reported rows of a task that are perturbed by every kind and strength
SPLIT = "perturbed"
_SEPARATOR = "|"  # in ids of this split: kind|strength|id


def accepts(task: Task) -> bool:
    """Whether a row of the task is a text, or two, with a label or a number that no place in the
    text carries."""
    is_of_rows = isinstance(task, Classification | Regression)
    return is_of_rows and not isinstance(task, RelationExtraction)


def add_rows(task: Task, data: TaskData) -> TaskData:
    """The data with `NUM_ROWS` of the reported rows, and these perturbed as a further split."""
    # the same rows in whatever order they come
    rows = sorted(data.reported, key=lambda row: hashlib.sha256(repr(row.texts).encode()).digest())
    rows = rows[:NUM_ROWS]
    further = tuple(
        replace(row, id=_SEPARATOR.join((kind, f"{strength:g}", row.id)), texts=texts)
        for kind, strengths in KINDS.items()
        for strength, row in product(strengths, rows)
        if (texts := perturbed(kind, row.texts, strength, row.id)) != row.texts
    )
    changes: dict[str, Any] = {"further": {SPLIT: further}, "reported": tuple(rows)}
    changes |= {"sha256": data.sha256 | {SPLIT: rows_digest(further)}}
    if len(rows) < len(data.reported):
        parts = {**data.parts, data.split: (len(rows), len(data.reported))}
        changes |= {"split": f"{data.split}-sample", "parts": parts}
    return replace(data, **changes)


def effects(of: Evaluated) -> Iterator[Effect]:
    for encoder, task in product(dict.fromkeys(result.role for result in of.results), of.tasks):
        if own := [r for r in of.results if (r.role, r.task) == (encoder, task.name)]:
            yield from _effects(of.folder, task, own)


def _effects(folder: Path, task: Task, results: Sequence[Result]) -> Iterator[Effect]:
    """Those of one task and encoder, a kind and strength each."""
    clean = {r.seed: predictions_of_result(folder, r) or [] for r in results}
    # by kind and strength: by seed, then by the id of the clean row
    changed_rows: dict[tuple[str, str], dict[int, dict[str, Prediction]]] = {}
    for result in results:
        for p in predictions_of_result(folder, result, SPLIT) or ():
            kind, strength, row = str(p["id"]).split(_SEPARATOR, 2)
            rows = changed_rows.setdefault((kind, strength), {}).setdefault(result.seed, {})
            rows[row] = {**p, "id": row}
    values, draws = scored(task, clean)
    for (kind, strength), changed in changed_rows.items():
        mixed = {
            seed: [changed[seed].get(str(p["id"]), p) for p in predictions]
            for seed, predictions in clean.items()
        }
        now, draws_now = scored(task, mixed)
        # paired by seed (one fine-tuning has predicted both) and by row
        scores = {seed: draws.scores[seed] - draws_now.scores[seed] for seed in clean}
        lost = {seed: values[seed] - now[seed] for seed in clean}
        flipped = [
            p["prediction"] != changed[seed][str(p["id"])]["prediction"]
            for seed, predictions in clean.items()
            for p in predictions
            if str(p["id"]) in changed[seed]
        ]
        yield Effect.of(
            estimate(lost, replace(draws, scores=scores)),
            float(np.mean(list(values.values()))),
            float(np.mean(list(now.values()))),
            measure=results[0].metric,
            task=task.name,
            encoder=results[0].role,
            axis=kind,
            group=strength,
            against="perturbed rows",
            items=len(changed[results[0].seed]),
            seeds=len(results),
            flips=float(np.mean(flipped)) if isinstance(task, Classification) else math.nan,
        )
